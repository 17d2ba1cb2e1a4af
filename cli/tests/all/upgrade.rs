//! Data folders of released versions stay usable.

use std::{fs, path::Path, process::Command};

use crate::support::TestProject;
use serde_json::Value;

/// `tests/data/folders/VERSION.tar.gz`: one run of `workflows/quickstart.yaml` by that version, without the programs of its image. A
/// release that changes a format adds its own folder.
const RUN: &str = "quickstart-1fafc338";

#[test]
fn a_data_folder_of_an_earlier_version_is_read_and_extended() {
    let project = TestProject::new("", "");
    fs::create_dir_all(project.data()).unwrap();
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/folders");
    let archive = folders.join("0.1.0.tar.gz");
    let unpacked =
        Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(project.data()).status().unwrap();
    assert!(unpacked.success());

    let json = |arguments: &[&str]| -> Value {
        let output = project.burnin(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let runs = json(&["runs", "--output", "json"]);
    assert_eq!(
        (&runs["runs"][0]["run"], &runs["runs"][0]["verdict"]),
        (&RUN.into(), &"pass".into()),
        "{runs}"
    );
    let shown = json(&["show", RUN, "--check", "memory", "--output", "json"]);
    assert_eq!(shown["metrics"][0]["subjects"], 4, "{shown}");
    for arguments in [
        &["show", RUN][..],
        &["show", RUN, "--output", "html"],
        &["logs", RUN],
        &["explain", RUN],
        &["replay", RUN],
        &["handover", RUN],
    ] {
        let output = project.burnin(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}: {error}");
    }

    // The warehouse contains the rows of the old and of the new run.
    assert_eq!(project.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let runs = json(&["runs", "--output", "json"]);
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
}
