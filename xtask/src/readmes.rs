//! Checks the README of each service against the topics in `infra/rights.json`.

use std::{collections::BTreeSet, fs, path::Path};

use events::{CLUSTER_OFFERED, RUN_ANSWERED, RUN_REQUEST, topic_of};
use model::{Body, Fact};
use serde_json::Value;

/// Maximum number of lines.
const LINES: usize = 40;

/// Event types that other systems publish.
const FROM_OUTSIDE: [&str; 2] = [RUN_REQUEST, CLUSTER_OFFERED];

/// Publishers of each event type, by the noun of the type. Commands are published by the conductor.
fn publishers(event_type: &str) -> &'static [&'static str] {
    if Body::TYPES.contains(&event_type) {
        return &["conductor"];
    }
    if FROM_OUTSIDE.contains(&event_type) {
        return &[];
    }
    let name = event_type.trim_start_matches("dev.burnin.").trim_end_matches(".v1");
    match name.split_once('.').map(|(noun, _)| noun) {
        _ if ["run.closed", "run.used"].contains(&name) => &["conductor"],
        _ if event_type == RUN_ANSWERED => &["gateway", "notifier"],
        _ if ["run.requested", "cancel.requested"].contains(&name) => &["gateway"],
        Some("image") => &["builder"],
        Some("cluster") => &["provisioner"],
        Some("job" | "logs" | "nodes") => &["agent"],
        Some("verdict") => &["judge"],
        Some("results") => &["loader"],
        _ => &[],
    }
}

fn event_types() -> impl Iterator<Item = &'static str> {
    Body::TYPES.iter().chain(Fact::TYPES).copied().chain([RUN_ANSWERED]).chain(FROM_OUTSIDE)
}

/// Event types that a service receives and publishes, by its topics.
fn event_types_of(service: &str, entry: &Value) -> BTreeSet<&'static str> {
    let receives = entry["receives"].as_str();
    let publishes: Vec<_> =
        entry["publishes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let received = event_types().filter(|event_type| {
        receives == Some(topic_of(event_type)) || service == "conductor" && events::is_of_agent(event_type)
    });
    let published = event_types().filter(|event_type| publishers(event_type).contains(&service));
    let published = published.inspect(|event_type| {
        let topic = topic_of(event_type);
        assert!(
            publishes.contains(&topic),
            "{service} publishes {event_type}, but may not publish on {topic}"
        );
    });
    received.chain(published).collect()
}

#[test]
fn each_service_has_a_short_readme_with_its_event_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rights = fs::read_to_string(root.join("infra/rights.json")).unwrap();
    let mut rights: Value = serde_json::from_str(&rights).unwrap();
    // The agent has its own entry, because it may run outside the cloud.
    let mut agent = rights["agent"].take();
    agent["receives"] = "agent".into();
    rights["services"]["agent"] = agent;
    let mut folders = BTreeSet::new();
    for folder in fs::read_dir(root.join("services")).unwrap() {
        let service = folder.unwrap().file_name().into_string().unwrap();
        let readme = fs::read_to_string(root.join("services").join(&service).join("README.md"))
            .unwrap_or_else(|error| panic!("services/{service}/README.md: {error}"));
        let lines = readme.lines().count();
        assert!(
            lines <= LINES,
            "services/{service}/README.md has {lines} lines, at most {LINES} are allowed"
        );
        let entry = &rights["services"][&service];
        assert!(entry.is_object(), "infra/rights.json has no entry for {service}");
        for event_type in event_types_of(&service, entry) {
            assert!(
                readme.contains(&format!("`{event_type}`")),
                "services/{service}/README.md does not name {event_type}"
            );
        }
        folders.insert(service);
    }
    let entries = rights["services"].as_object().unwrap().iter();
    // A service that runs another service's image has no folder.
    let own: BTreeSet<_> =
        entries.filter(|(_, of)| of["image"].is_null()).map(|(name, _)| name.clone()).collect();
    assert_eq!(folders, own, "services/ and infra/rights.json");
}

#[test]
fn every_page_is_in_the_books_table_of_contents() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    for (folder, prefix) in [(docs.clone(), ""), (docs.join("rfd"), "rfd/")] {
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_page = name.ends_with(".md") && name != "SUMMARY.md";
            assert!(
                !is_page || contents.contains(&format!("({prefix}{name})")),
                "docs/SUMMARY.md lacks {prefix}{name}"
            );
        }
    }
}

#[test]
fn each_event_type_has_a_publisher_or_is_external() {
    let without: Vec<_> = event_types().filter(|event_type| publishers(event_type).is_empty()).collect();
    assert_eq!(without, FROM_OUTSIDE);
}

/// Tests that a document quotes exist: a renamed test must not leave a claim without proof.
#[test]
fn quoted_tests_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = std::process::Command::new("git").arg("ls-files").current_dir(&root).output().unwrap();
    let files = String::from_utf8(listed.stdout).unwrap();
    let tests: String = (files.lines().filter(|file| file.ends_with(".rs") || file.ends_with(".py")))
        .filter_map(|file| fs::read_to_string(root.join(file)).ok())
        .collect();
    let document = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    // Names of tests have at least three underscores; other quoted words have fewer.
    let quoted = document.split('`').skip(1).step_by(2).filter(|word| {
        word.matches('_').count() > 2
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    });
    let quoted: Vec<_> = quoted.collect();
    assert!(quoted.len() > 30, "{quoted:?}");
    let absent: Vec<_> = quoted.iter().filter(|name| !tests.contains(&format!("fn {name}("))).collect();
    assert!(absent.is_empty(), "SECURITY.md quotes tests that do not exist: {absent:?}");
}

/// Files that a document quotes exist: a renamed file must not leave a reader without it.
#[test]
fn quoted_paths_exist() {
    const FOLDERS: [&str; 7] = ["crates/", "services/", "cli/", "xtask/", "infra/", "schemas/", ".ci/"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = std::process::Command::new("git").args(["ls-files", "*.md"]).current_dir(&root).output();
    let mut count = 0;
    for page in String::from_utf8(listed.unwrap().stdout).unwrap().lines() {
        let document = fs::read_to_string(root.join(page)).unwrap();
        // Words with placeholders (`NAME`, `{name}`, `*`) are patterns, not paths.
        let paths = document.split('`').filter(|word| {
            FOLDERS.iter().any(|folder| word.starts_with(folder))
                && !word.contains("NAME")
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
        });
        for path in paths {
            count += 1;
            assert!(root.join(path).exists(), "{page} quotes {path}, which does not exist");
        }
    }
    assert!(count > 100, "{count} paths");
}
