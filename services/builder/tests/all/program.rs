//! Errors in the environment are reported when the program starts.

use std::process::Command;

fn output_with(variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let root = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_burnin-builder"));
    program.env_clear().current_dir(root.path());
    program.envs([
        ("BURNIN_AUTH", "platform"),
        ("BURNIN_PROJECT", "val-prod"),
        ("PUBSUB_EMULATOR_HOST", "127.0.0.1:9"),
        ("PORT", "0"),
    ]);
    let output = program.envs(variables.iter().copied()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn all_invalid_variables_are_reported_together() {
    let (code, text) = output_with(&[
        ("BURNIN_ARTEFACTS", "gs://artefacts"),
        ("BURNIN_BUILDS", "cloud-build:val-prod"),
        ("BURNIN_CLOUD_BUILD_ENDPOINT", "127.0.0.1"),
    ]);
    assert_eq!(code, Some(64), "{text}");
    for part in ["BURNIN_BUILDS", "LOCATION is a region", "BURNIN_CLOUD_BUILD_ENDPOINT", "expected a URL"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn cloud_build_requires_a_bucket_and_rejects_secrets_of_this_host() {
    let cloud = ("BURNIN_BUILDS", "cloud-build:val-prod/us-central1");
    let (code, text) = output_with(&[("BURNIN_ARTEFACTS", "/artefacts"), cloud]);
    assert!(code == Some(1) && text.contains("BURNIN_ARTEFACTS") && text.contains("gs://NAME"), "{text}");
    let (code, text) =
        output_with(&[("BURNIN_ARTEFACTS", "gs://artefacts"), cloud, ("BURNIN_SECRETS", "/secrets")]);
    assert!(code == Some(1) && text.contains("BURNIN_SECRETS"), "{text}");
}
