//! The terminal's report at the end of a run.

use crate::support::{RecordedRun, cancelled, good, reading, slow, unbuilt, workflow};
use model::*;
use report::{ReportInput, Screen, Style, terminal};

fn plain(input: &ReportInput<'_>) -> String {
    let text = terminal(input, Style::Plain);
    assert!(!text.contains('\u{1b}'), "plain text has no escapes");
    assert!(text.lines().count() <= 44, "{} lines of {text}", text.lines().count());
    text
}

#[test]
fn the_terminal_reports_a_successful_run() {
    insta::assert_snapshot!(plain(&good().input()));
}

#[test]
fn the_terminal_reports_a_failing_verdict() {
    insta::assert_snapshot!(plain(&slow().input()));
}

#[test]
fn the_terminal_reports_a_failed_image() {
    insta::assert_snapshot!(plain(&unbuilt().input()));
}

#[test]
fn the_terminal_reports_a_cancelled_run() {
    insta::assert_snapshot!(plain(&cancelled().input()));
}

#[test]
fn a_job_cancelled_after_its_timeout_has_one_ending() {
    let mut run = RecordedRun::open(workflow());
    run.built().up().fact(28, 1, Fact::JobAccepted(crate::support::handle("job-4411")));
    let limits = workflow().limits;
    let time_out = |run: &mut RecordedRun, limit: Span| {
        for wait in [limit, limits.grace] {
            run.tick(u64::try_from(wait.0.as_millis()).unwrap() + 1);
        }
    };
    time_out(&mut run, limits.job);
    run.fact(300, 1, Fact::JobDone(JobEnd::new("CANCELLED", None))).gone();
    time_out(&mut run, limits.logs);
    let text = plain(&run.input());
    assert!(text.contains("timed out at job") && text.contains("Look up `job-4411`"), "{text}");
    assert!(!text.contains("two different endings"), "{text}");
}

#[test]
fn the_terminal_reports_an_open_run() {
    let mut run = RecordedRun::open(workflow());
    run.built().up();
    insta::assert_snapshot!(plain(&run.input()));
}

#[test]
fn the_terminal_reports_a_second_attempt_with_an_existing_cluster() {
    let mut run = RecordedRun::open(workflow());
    run.built().up().fact(28, 1, Fact::JobAccepted(crate::support::handle("job-4411")));
    let lost = Failure::new(Class::ClusterLost, "NODE_FAIL", "node n1 stopped answering");
    run.fact(2000, 1, Fact::JobFailed(lost)).tick(10);
    run.fact(
        500,
        2,
        Fact::ClusterFailed(Failure::new(Class::Input, "QUOTA", "no node is available; request more quota")),
    );
    insta::assert_snapshot!(plain(&run.input()));
}

#[test]
fn a_run_without_a_benchmark_is_reported_as_done() {
    let mut run = RecordedRun::open(Workflow { cluster: None, benchmark: None, ..workflow() });
    run.built();
    let text = plain(&run.input());
    assert!(text.contains("\nDONE\n"), "{text}");
    assert!(!text.contains("not reached"), "{text}");
}

#[test]
fn a_prebuilt_image_is_reported_as_given() {
    let prebuilt = ImageSpec::Prebuilt(crate::support::image());
    let mut run = RecordedRun::open(Workflow { image: Some(prebuilt), ..workflow() });
    run.up().ran(JobEnd::new("FAILED", Some(3)));
    let text = plain(&run.input());
    assert!(text.contains("given  sha256:9f86d081884c, 1 file"), "{text}");
    assert!(text.contains("✗ job"), "{text}");
}

#[test]
fn a_log_without_a_table_is_reported() {
    let workflow = workflow();
    let mut reading = reading(&workflow);
    reading.tables.clear();
    reading.first_error = Some("NCCL failure common.cu:1017 'unhandled cuda error'".into());
    let text = plain(&crate::support::whole(workflow, reading).input());
    assert!(text.contains("the log has no table; the first error is: NCCL failure"), "{text}");
    assert!(text.contains("\nINCONCLUSIVE  NO_TABLE: the benchmark printed no table"), "{text}");
}

#[test]
fn a_long_table_keeps_its_important_rows() {
    let text = plain(&crate::support::long().input());
    for size in [" 8 B ", " 64 B ", " 1 MiB ", " 16 GiB "] {
        assert!(text.contains(size), "{size} in {text}");
    }
    assert!(text.contains("10 of 32 sizes"), "{text}");
    assert!(text.contains("\nFAIL  WRONG_DATA: "), "{text}");
}

#[test]
fn reports_fit_narrow_and_wide_terminals() {
    let local: fn(Timestamp) -> String = |at| format!("{at} here");
    let mut all = String::new();
    for width in [60, 80, 120] {
        for input in [slow().input(), crate::support::logs::bad().input()] {
            let screen = Screen { width, local: Some(local), stages: width > 60, ..Style::Plain.into() };
            let text = terminal(&input, screen);
            for line in text.lines().filter(|line| !line.contains("/home/ada")) {
                assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
            }
            all += &format!("--- {width} columns\n{text}");
        }
    }
    insta::assert_snapshot!(all);
}

#[test]
fn colours_are_the_only_escapes() {
    let mut run = slow();
    run.state.workflow.name = "\u{1b}[2J\u{202e}evil\nPASS\u{9b}31m".into();
    let text = terminal(&run.input(), Style::Colour);
    assert!(text.contains("\u{1b}[1;31mFAIL  \u{1b}[0m"), "{text}");
    assert!(text.contains("evil PASS, started by ada (manual)"), "{text}");
    let escapes: std::collections::BTreeSet<_> =
        text.split('\u{1b}').skip(1).filter_map(|rest| rest.split_once('m')).map(|(code, _)| code).collect();
    assert_eq!(escapes.into_iter().collect::<Vec<_>>(), ["[0", "[1", "[1;31", "[2", "[32"]);
    let controls = |c: &char| c.is_control() && !matches!(c, '\n' | '\u{1b}');
    assert_eq!(text.chars().find(controls), None);
}
