//! Parameters are rejected by name, or accepted unchanged, before a resource is created.

use std::{collections::BTreeMap, fs, process::Command};

use serde_json::Value;
use toolkit::repository;

use crate::bed::{ToolkitHost, wanted};

const HOSTILE: [&str; 9] =
    [" ", "a b", "'", "\"; reboot; \"", "$(reboot)", "`reboot`", "$(vars.project_id)", "a\nb: c", "-leading"];

/// Every parameter of deploy.yaml, with valid values.
pub fn valid() -> BTreeMap<String, String> {
    let config = repository("workflows/a3-mega/deploy.yaml");
    let document = workflow::YamlDocument::read(&config).unwrap_or_else(|problems| panic!("{problems}"));
    let config: Value = document.read_as().unwrap_or_else(|problems| panic!("{problems}"));
    let declared = config["substitutions"].as_object().unwrap().iter();
    let mut values: BTreeMap<_, _> =
        declared.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    values.extend(wanted());
    for (name, value) in [
        ("_CLUSTER", "nightly-1a2b-cluster-1"),
        ("_RUN", "nightly-1a2b"),
        ("_EXPIRES", "1900000000"),
        ("_STATE", "/state of/it's own"),
        ("_CONTAINER", "registry.example#nvidia/pytorch:24.04-py3"),
    ] {
        values.insert(name.to_owned(), value.to_owned());
    }
    values
}

/// Runs parameters.py: returns the parameters it wrote, or the problems it printed.
fn parameters(values: &BTreeMap<String, String>, arguments: &[&str]) -> Result<Value, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.arg(repository("workflows/a3-mega/parameters.py")).args(arguments).current_dir(folder.path());
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").envs(values).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => Ok(serde_json::from_slice(&fs::read(folder.path().join("asked.json")).unwrap()).unwrap()),
        Some(64) => {
            assert!(!folder.path().join("asked.json").exists());
            Err(text)
        }
        other => panic!("{other:?}: {text}"),
    }
}

#[test]
fn valid_parameters_are_accepted() {
    let values = valid();
    let taken = parameters(&values, &[]).unwrap();
    assert_eq!(taken["state"], "/state of/it's own");
    assert_eq!(taken["short"].as_str().map(str::len), Some(9), "Slurm allows ten characters");
    assert_eq!(taken["nodes"], 2);
    let others = parameters(
        &BTreeMap::from([("_CLUSTER".to_owned(), "nightly-1a2b-cluster-2".to_owned())])
            .into_iter()
            .chain(values.into_iter().filter(|(name, _)| name != "_CLUSTER"))
            .collect(),
        &[],
    )
    .unwrap();
    assert_ne!(others["short"], taken["short"]);
}

#[test]
fn every_hostile_value_is_rejected_by_name() {
    let values = valid();
    for storage in ["filestore", "lustre"] {
        let mut values = values.clone();
        values.insert("_STORAGE".to_owned(), storage.to_owned());
        if storage == "lustre" {
            values.insert("_SOURCE_IMAGE".to_owned(), "ubuntu-2204-jammy-v20240904".to_owned());
        }
        let taken = parameters(&values, &[]).unwrap();
        assert_eq!(taken["storage"], storage);
        // All parameters are invalid: each problem is reported, and no problem hides another.
        for hostile in HOSTILE {
            let mut all: BTreeMap<_, _> =
                values.keys().map(|name| (name.clone(), hostile.to_owned())).collect();
            all.insert("_STORAGE".to_owned(), storage.to_owned());
            let text = parameters(&all, &[]).unwrap_err();
            let other = if storage == "lustre" { "_FILESTORE_" } else { "_LUSTRE_" };
            for name in values.keys().filter(|name| !name.starts_with(other)) {
                // parameters.py does not read these values for this storage.
                let unread = name == "_TOOLS"
                    || name == "_STORAGE"
                    || (storage == "filestore" && name.starts_with("_GCS_"));
                assert!(
                    unread || text.contains(&format!("{name}: expected ")),
                    "{hostile:?} is not reported for {name}: {text}"
                );
            }
        }
    }
}

#[test]
fn conflicting_parameters_are_rejected() {
    let cases = [
        ("_ZONE", "europe-west4-b", "_ZONE: expected a zone of us-central1"),
        ("_RESERVATION", "", "_RESERVATION: expected a reservation's name"),
        ("_PROVISIONING", "spot", "_RESERVATION: expected no value"),
        ("_FILESTORE_GB", "2048", "_FILESTORE_GB: expected 10240 or more with HIGH_SCALE_SSD"),
        ("_GPU_RANGE", "172.16.0.0/12", "_GPU_RANGE: expected a range that does not overlap"),
        ("_STORAGE", "lustre", "_SOURCE_IMAGE: expected an Ubuntu 22.04 image"),
        ("_HEADERS_FROM", "", "_HEADERS_FROM: expected the archive"),
        ("_SYSTEM_RANGE", "172.16.0.1/16", "_SYSTEM_RANGE: expected an IPv4 range"),
        ("_NODES", "1", "_NODES: expected a number from 2"),
        ("_CLUSTER", "", "_CLUSTER: expected a label's value"),
    ];
    for (name, value, expected) in cases {
        let mut values = valid();
        values.insert(name.to_owned(), value.to_owned());
        let text = parameters(&values, &[]).unwrap_err();
        assert!(text.contains(expected), "{name}={value}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_value_creates_nothing() {
    let hostile = "x\"; touch /tmp/hurt\n$(touch /tmp/hurt)";
    let bed = ToolkitHost::new("a3-mega-slurm.yaml", &[("_PARTITION", hostile)]);
    bed.create().await;
    let why = bed.broken().await;
    assert!(why.contains("_PARTITION: expected a name of a-z and 0-9"), "{why}");
    let deleted = bed.delete().await.unwrap();
    assert!(deleted.evidence.contains("no asked.json in "), "{deleted:?}");
    assert_eq!(bed.cloud.calls(), "");
}
