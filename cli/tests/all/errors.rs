//! Messages about invalid files, as a user sees them: the line with a caret, the expectation in words, the correction.

use std::{fmt::Write, fs, process::Command};

/// A valid workflow; each case changes a part of it.
const GOOD: &str = "\
name: good
cluster:
  rent:
    processes: {nodes: 2}
benchmark:
  workload:
    collective: all_reduce
    min_bytes: 8
    max_bytes: 64K
  criteria: criteria.yaml
limits:
  job: 5m
";

/// Names of types and libraries that no message may contain.
const INTERNAL: [&str; 14] = [
    "untagged",
    "serde",
    "expected struct",
    "invalid type",
    "expected string",
    "Some(",
    "None,",
    "regex parse",
    "(?",
    "$ref",
    "additionalProperties",
    "anyOf",
    "Component error",
    "while parsing",
];

fn checked(text: &str) -> String {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("w.yaml", text);
    write("criteria.yaml", "name: any\ndata_only: true\n");
    write("floors.yaml", "name: any\nfloors:\n  - {size_bytes: 7G, busbw: 1}\n  - {busbandwidth: 3}\n");
    write("image.yaml", "steps:\n  - name: bash\n    script: echo\n    waitFor: [absent]\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    let done = command.current_dir(folder.path()).args(["check", "--strict", "w.yaml"]).output().unwrap();
    assert_eq!(done.status.code(), Some(64), "{text}: {}", String::from_utf8_lossy(&done.stdout));
    assert!(done.stdout.is_empty());
    let message = String::from_utf8(done.stderr).unwrap();
    for word in INTERNAL {
        assert!(!message.contains(word), "{word}: {message}");
    }
    assert!(message.starts_with("error: "), "{message}");
    assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
    message
}

/// Messages of all cases, each below the name of its case.
fn messages(cases: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, workflow) in cases {
        _ = writeln!(text, "=== {name}\n{}", checked(workflow));
    }
    text
}

fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replace(from, to)
}

fn and(text: &str) -> String {
    format!("{GOOD}{text}")
}

#[test]
fn errors_of_an_empty_host_list_a_duplicate_and_shell_characters_name_the_field() {
    for (hosts, field) in [
        ("[]", "cluster.existing.system.hosts.hosts"),
        ("[{name: n1}, {name: n1}]", "cluster.existing.system.hosts.hosts[1].name"),
        ("[{name: \"n1;reboot\"}]", "cluster.existing.system.hosts.hosts[0].name"),
    ] {
        let cluster = format!("  existing:\n    name: lab\n    system:\n      hosts: {{hosts: {hosts}}}\n");
        let message = checked(&with("  rent:\n    processes: {nodes: 2}\n", &cluster));
        assert!(message.contains("w.yaml:6:") && message.contains(field), "{message}");
    }
}

#[test]
fn mistakes_of_a_first_user_are_reported() {
    let cases = [
        ("a misspelled field", with("collective:", "colective:")),
        (
            "two clusters",
            with("    processes: {nodes: 2}\n", "    processes: {nodes: 2}\n  existing: {name: x}\n"),
        ),
        ("a time without a unit", with("job: 5m", "job: 30")),
        (
            "a number as a variable",
            with(
                "  rent:\n    processes: {nodes: 2}\n",
                "  existing:\n    name: x\n    system:\n      slurm:\n        nodes: 2\n        shared_folder: /home/x\n        environment: {NCCL_IB_TC: 106}\n",
            ),
        ),
        ("a name with capitals", with("name: good", "name: Lab_H100")),
        ("an hour that does not exist", and("on: {schedule: [{cron: 0 25 * * *, zone: Europe/Zurch}]}\n")),
        ("almost empty", "description: nothing else\n".to_owned()),
        ("a budget without a price", and("cost: {budget: 100}\n")),
    ];
    insta::assert_snapshot!(messages(&cases));
}

#[test]
fn text_that_is_not_yaml_is_reported() {
    let cases = [
        ("a tab", with("  rent:", "\trent:")),
        ("an open bracket", and("parameters: [limits.job\n")),
        ("an open brace", with("{nodes: 2}", "{nodes: 2")),
        ("an open quote", with("name: good", "name: \"good")),
        ("two colons", with("name: good", "name: good: better")),
        ("wrong indentation", with("  criteria: criteria.yaml", "   criteria: criteria.yaml")),
        ("an unknown escape", with("name: good", "name: \"\\good\"")),
        ("an anchor", with("name: good", "name: &x good")),
        ("a field twice", and("name: again\n")),
        ("control characters", "name: \u{7f}\u{202e}x\ncolour: \u{9b}31m\n".to_owned()),
        ("a list instead of fields", "- a\n- b\n".to_owned()),
        ("empty", String::new()),
    ];
    insta::assert_snapshot!(messages(&cases));
}

#[test]
fn values_of_the_wrong_kind_are_reported() {
    let cases = [
        ("a misspelled option", with("all_reduce", "all_redcue")),
        ("a size in another spelling", with("64K", "64 KiB")),
        ("a negative size", with("min_bytes: 8", "min_bytes: -8")),
        ("too many nodes", with("nodes: 2", "nodes: 65")),
        ("a number in quotes", with("nodes: 2", "nodes: '2'")),
        ("a word for a switch", with("    collective:", "    check: yes\n    collective:")),
        ("a text instead of a list", and("parameters: limits.job\n")),
        ("no value", with("criteria: criteria.yaml", "criteria:")),
        ("an unknown kind of cluster", with("processes:", "proceses:")),
        ("an unknown channel", and("notify: [email: {to: me}]\n")),
        ("a time in words", with("job: 5m", "job: 5 minutes")),
    ];
    insta::assert_snapshot!(messages(&cases));
}

#[test]
fn absent_files_and_unknown_names_are_reported() {
    let cases = [
        ("a misspelled file", with("criteria.yaml", "critera.yaml")),
        ("criteria with errors in the file", with("criteria.yaml", "floors.yaml")),
        ("a build with an unknown step", with("cluster:", "image: {build: {config: image.yaml}}\ncluster:")),
        (
            "a check that needs a misspelled one",
            GOOD.split("benchmark:").next().unwrap().to_owned()
                + "checks:\n  - {name: smoke, workload: {collective: all_reduce, min_bytes: 8, max_bytes: 64K}, criteria: criteria.yaml}\n  - {name: more, needs: [somke], workload: {collective: all_reduce, min_bytes: 8, max_bytes: 64K}, criteria: criteria.yaml}\n",
        ),
        (
            "an unknown format",
            GOOD.split("benchmark:").next().unwrap().to_owned()
                + "checks:\n  - {name: smoke, command: [nvbandwidth], read: nvbandwith, criteria: criteria.yaml}\n",
        ),
        (
            "an invalid pattern",
            GOOD.split("benchmark:").next().unwrap().to_owned()
                + "checks:\n  - {name: smoke, command: [x], read: {row: '(', name: a, unit: GB/s, better: higher, scope: node}, criteria: criteria.yaml}\n",
        ),
        ("an unknown zone", and("on: {schedule: [{cron: 0 2 * * *, zone: zurich}]}\n")),
    ];
    insta::assert_snapshot!(messages(&cases));
}

#[test]
fn runs_that_cannot_succeed_are_reported() {
    let cases = [
        ("sizes in the wrong order", with("min_bytes: 8", "min_bytes: 1M")),
        ("a lease shorter than its stages", with("job: 5m", "job: 5h\n  lease: 1h")),
        ("a field that requests may not override", and("parameters: [name]\n")),
        (
            "a password in an address",
            with(
                "cluster:",
                "image: {build: {config: image.yaml, repository: {url: 'https://me:hunter2@h/a'}}}\ncluster:",
            ),
        ),
    ];
    let reported = messages(&cases);
    assert!(!reported.contains("hunter2"), "{reported}");
    insta::assert_snapshot!(reported);
}

/// Overrides have no line.
#[test]
fn problems_of_overrides_name_the_option() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::write(folder.path().join("w.yaml"), GOOD).unwrap();
    fs::write(folder.path().join("criteria.yaml"), "name: any\ndata_only: true\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.current_dir(folder.path()).args([
        "plan",
        "w.yaml",
        "--set",
        "limits.job=30",
        "--set",
        "benchmark.workload.colective=x",
    ]);
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(64));
    insta::assert_snapshot!(String::from_utf8(done.stderr).unwrap());
}

#[test]
fn a_reason_code_is_explained() {
    let explain =
        |what: &str| Command::new(env!("CARGO_BIN_EXE_burnin")).args(["explain", what]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let done = explain("UNCHECKED");
    assert!(done.status.success());
    let expected = "UNCHECKED\n  weighs   inconclusive\n  means    the data was not checked although the criteria require it\n  next     set `check: true`\n";
    assert_eq!(text(done.stdout), expected);
    assert_eq!(
        text(explain("below-floor").stdout).matches("BELOW_FLOOR").count(),
        2,
        "nccl-tests and other benchmarks"
    );
    let unknown = explain("UNCHEKED");
    assert_eq!(
        (unknown.status.code(), text(unknown.stderr).trim()),
        (Some(64), "error: `UNCHEKED` is not a reason code; did you mean `UNCHECKED`?")
    );
}
