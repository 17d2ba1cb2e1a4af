//! Every format of `judge`, `compare` and `show`.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::support::{TestProject, json};

/// Text that the output in each format must contain.
const FORMS: [(&str, &str); 6] = [
    ("human", "reference"),
    ("json", "{\"schema\":\"burnin/"),
    ("csv", "source,table,collective,ranks,size_bytes"),
    ("markdown", "### Measurements"),
    ("junit", "<testsuites name="),
    ("html", "<!doctype html>"),
];

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/nccl").join(name).display().to_string()
}

fn criteria() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/criteria/a3-mega.yaml").display().to_string()
}

fn burnin(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_burnin")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn every_format_of_a_verdict_has_its_exit_code() {
    let (log, criteria) = (data("ours/s01-a3-mega-allgather.log"), criteria());
    for (form, expected) in FORMS {
        let judged = burnin(&["judge", "--criteria", &criteria, "--output", form, &log]);
        // The log does not show its network, and its data was not checked.
        assert_eq!(judged.status.code(), Some(2), "{form}");
        assert!(text(&judged).contains(expected), "{form}: {}", text(&judged));
    }
}

#[test]
fn a_degraded_log_fails_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline.json").display().to_string();
    let healthy: Vec<_> = (1..=5).map(|run| data(&format!("h200/healthy-{run}.log"))).collect();
    let mut learn: Vec<&str> = vec!["baseline", "--save", &baseline];
    learn.extend(healthy.iter().map(String::as_str));
    assert_eq!(burnin(&learn).status.code(), Some(0));

    let degraded = data("h200/degraded-proto-ll.log");
    let of = |form: &str, log: &str| burnin(&["judge", "--baseline", &baseline, "--output", form, log]);
    for (form, expected) in [
        ("human", "BELOW_BASELINE"),
        ("json", "\"verdict\":\"fail\""),
        ("csv", ",baseline,"),
        ("markdown", "## ✗ FAIL"),
        ("junit", "<failure message="),
        ("html", "<title>FAIL"),
    ] {
        let judged = of(form, &degraded);
        assert_eq!(judged.status.code(), Some(1), "{form}");
        assert!(text(&judged).contains(expected), "{form}: {}", text(&judged));
    }
    assert!(!text(&of("junit", &healthy[0])).contains("<failure"));
    let mut series: Vec<&str> = vec!["judge", "--baseline", &baseline, "--output", "junit"];
    series.extend([healthy[0].as_str(), degraded.as_str()]);
    let judged = burnin(&series);
    assert_eq!((judged.status.code(), text(&judged).matches("<testsuite ").count()), (Some(1), 2));
}

#[test]
fn every_format_of_a_comparison_has_its_exit_code() {
    let (a, b) = (data("h200/healthy-1.log"), data("h200/degraded-max-nchannels-4.log"));
    for (form, expected) in [
        ("human", "B is slower: "),
        ("json", "burnin/compare/v1"),
        ("markdown", "| size | placement |"),
        ("html", "<!doctype html>"),
    ] {
        let compared = burnin(&["compare", "--output", form, &a, &b]);
        assert_eq!(compared.status.code(), Some(1), "{form}");
        assert!(text(&compared).contains(expected), "{form}: {}", text(&compared));
    }
    assert_eq!(burnin(&["compare", "--output", "csv", &a, &b]).status.code(), Some(64));
}

#[test]
fn every_format_of_a_run_is_written() {
    let project = TestProject::new("", "");
    let ran = json(&project.burnin(&["run", "w.yaml", "--output", "json"]));
    let run = ran["run"].as_str().unwrap();
    for (form, expected) in FORMS {
        let shown = project.burnin(&["show", run, "--output", form]);
        assert_eq!(shown.status.code(), Some(0), "{form}");
        let expected = if form == "human" { "PASS" } else { expected };
        assert!(text(&shown).contains(expected) && text(&shown).contains(run), "{form}: {}", text(&shown));
    }
    let page = text(&project.burnin(&["show", run, "--output", "html"]));
    assert_eq!(page, std::fs::read_to_string(ran["report"].as_str().unwrap()).unwrap());
    project.assert_nothing_left();
}

#[test]
fn a_benchmark_that_did_not_start_is_inconclusive_and_a_started_one_fails() {
    let verdict = |project: &TestProject, more: &[&str]| {
        let mut arguments = vec!["run", "w.yaml", "--output", "json"];
        arguments.extend(more);
        let ran = project.burnin(&arguments);
        let run = json(&ran);
        let shown = json(&project.burnin(&["show", run["run"].as_str().unwrap(), "--output", "json"]));
        project.assert_nothing_left();
        (ran.status.code(), run["verdict"].clone(), shown.to_string())
    };
    // The image lacks this program.
    let missing = TestProject::new("", "");
    let (code, word, shown) = verdict(&missing, &["--set", "benchmark.workload.collective=all_gather"]);
    assert_eq!((code, word), (Some(2), "inconclusive".into()), "{shown}");
    assert!(shown.contains("NOT_STARTED") && !shown.contains("JOB_FAILED"), "{shown}");
    // The program exists, but one of its libraries is missing.
    let library = TestProject::new(
        "echo 'all_reduce_perf: error while loading shared libraries: libnccl.so.2' >&2; exit 127",
        "",
    );
    let (code, word, shown) = verdict(&library, &[]);
    assert_eq!((code, word), (Some(2), "inconclusive".into()), "{shown}");
    let began = TestProject::new("echo '# Using devices'; exit 127", "");
    let (code, word, shown) = verdict(&began, &[]);
    assert_eq!((code, word), (Some(1), "fail".into()), "{shown}");
}
