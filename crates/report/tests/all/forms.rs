//! The same results in every form.

use std::collections::BTreeSet;

use crate::support::{
    self, cancelled, good,
    logs::{JudgedCheck, bad, healthy, reading, several},
    slow, unbuilt, whole,
};
use model::{Verdict, Workflow};
use quick_junit::{NonSuccessKind, Report, TestCaseStatus};
use report::{
    ReportInput, Style,
    comparison::{self, RunPair},
    csv, html, junit, markdown, terminal,
};
use verdict::{Fingerprint, compare::Comparison};

/// Maximum number of lines on a terminal.
const LINES: usize = 48;

fn plain(input: &ReportInput<'_>) -> String {
    let text = terminal(input, Style::Plain);
    assert!(text.lines().count() <= LINES, "{} lines of {text}", text.lines().count());
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= 105, "{widest} columns of {text}");
    text
}

#[test]
fn the_terminal_report_has_the_important_facts() {
    insta::assert_snapshot!("terminal_bad", plain(&bad().input()));
    insta::assert_snapshot!("terminal_healthy", plain(&healthy().input()));
    insta::assert_snapshot!("terminal_several", plain(&several().input()));
}

#[test]
fn the_markdown_report_fits_a_comment_on_a_pull_request() {
    insta::assert_snapshot!("markdown_bad", markdown(&bad().input()));
    insta::assert_snapshot!("markdown_several", markdown(&several().input()));
    insta::assert_snapshot!("markdown_run", markdown(&slow().input()));
    insta::assert_snapshot!("markdown_unbuilt", markdown(&unbuilt().input()));
}

#[test]
fn csv_has_one_row_per_size_and_placement() {
    let text = csv(&bad().input());
    assert_eq!(text.matches("\r\n").count(), 1 + 27 * 2);
    insta::assert_snapshot!("csv_bad", text.replace('\r', ""));
    let mut lines = ::csv::Reader::from_reader(text.as_bytes());
    let columns = lines.headers().expect("a heading").len();
    for line in lines.records() {
        assert_eq!(line.expect("a line").len(), columns);
    }
    let nothing = csv(&unbuilt().input());
    assert_eq!((nothing.lines().count(), nothing.starts_with("source,table,")), (1, true));
}

#[test]
fn junit_has_one_case_per_check() {
    insta::assert_snapshot!("junit_bad", junit(&bad().input()));
    insta::assert_snapshot!("junit_several", junit(&several().input()));
    insta::assert_snapshot!("junit_run", junit(&good().input()));
    insta::assert_snapshot!("junit_unbuilt", junit(&unbuilt().input()));
}

/// The report is red exactly if the verdict is not a pass: a failure for a fail, an error for inconclusive.
#[test]
fn junit_agrees_with_the_verdict() {
    let agree = |logs: &JudgedCheck| {
        let parsed = parsed(&junit(&logs.input()));
        assert_eq!(parsed.test_suites.len(), logs.logs.len());
        for (suite, (name, _, judgement)) in parsed.test_suites.iter().zip(&logs.logs) {
            let kinds: Vec<_> =
                suite.test_cases.iter().filter_map(|case| non_success_kind(&case.status)).collect();
            assert_eq!(suite.name.as_str(), name);
            let verdict = match kinds.as_slice() {
                [] => Verdict::Pass,
                kinds if kinds.contains(&NonSuccessKind::Failure) => Verdict::Fail,
                _ => Verdict::Inconclusive,
            };
            assert_eq!(verdict, judgement.verdict, "{name}");
            let names: BTreeSet<_> = suite.test_cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(names.len(), suite.test_cases.len(), "each case exists once");
        }
    };
    for logs in [bad(), healthy(), several()] {
        agree(&logs);
    }
    for (run, errors) in [(good(), 0), (unbuilt(), 1), (cancelled(), 1)] {
        let parsed = parsed(&junit(&run.input()));
        assert_eq!((parsed.errors, parsed.failures), (errors, 0));
    }
}

/// A check that the workflow excludes was not measured: no form shows it as a pass.
#[test]
fn an_excluded_check_is_not_a_pass() {
    let excluded = Workflow {
        excluded: [("second-gpu".to_owned(), "no second GPU".to_owned())].into(),
        ..support::workflow()
    };
    let reading = support::reading(&excluded);
    let run = whole(excluded, reading);
    let parsed = parsed(&junit(&run.input()));
    let cases: Vec<_> = parsed.test_suites.iter().flat_map(|suite| &suite.test_cases).collect();
    let case =
        cases.iter().find(|case| case.name.as_str() == "check second-gpu").expect("a case for the check");
    let TestCaseStatus::Skipped { message, .. } = &case.status else { panic!("{:?}", case.status) };
    assert_eq!(message.as_ref().map(|message| message.as_str()), Some("no second GPU"));
    let text = terminal(&run.input(), Style::Colour);
    assert!(text.contains("\x1b[2m  - second-gpu"), "{text}");
    let page = html(&run.input());
    assert!(page.contains(r#"<tr class="excluded"><th scope="row"><code>second-gpu</code>"#), "{page}");
}

fn non_success_kind(status: &TestCaseStatus) -> Option<NonSuccessKind> {
    match status {
        TestCaseStatus::NonSuccess { kind, .. } => Some(*kind),
        _ => None,
    }
}

/// The report is read back as JUnit XML, and its counts equal the numbers of cases.
fn parsed(xml: &str) -> Report {
    let report = Report::deserialize_from_str(xml).expect("JUnit XML");
    let tests: usize = report.test_suites.iter().map(|suite| suite.test_cases.len()).sum();
    assert_eq!(report.tests, tests);
    for suite in &report.test_suites {
        let of = |kind| {
            suite.test_cases.iter().filter(|case| non_success_kind(&case.status) == Some(kind)).count()
        };
        assert_eq!((suite.failures, suite.errors), (of(NonSuccessKind::Failure), of(NonSuccessKind::Error)));
        assert_eq!(suite.tests, suite.test_cases.len());
    }
    report
}

#[test]
fn a_page_has_curve_band_history_and_causes() {
    let page = html(&bad().input());
    for expected in [
        "<title>FAIL · logs&#x2f;degraded.log</title>",
        "reference: two nodes, the guide&#x27;s own table",
        "baseline, with its range of noise",
        "change of level",
        "off the scale",
        "socket_fallback",
        "line 4: a3-1:11:21 [0] NCCL INFO Using network Socket",
        "<p class=\"sentence\">the network used is FasTrak and Socket",
        "<b>Next:</b> read the diagnosis",
        "at 4 sizes from 512 MiB to 4 GiB both placements are at least 21 % below",
        "runs 156 to 206: +1.1 %",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    insta::assert_snapshot!("page_bad", bare(&page));
    insta::assert_snapshot!("page_several", bare(&html(&several().input())));
}

/// The page without its style sheet and its drawings.
fn bare(page: &str) -> String {
    let mut bare = String::new();
    let mut rest = page;
    while let Some((start, end)) = [("<style>", "</style>"), ("</desc>", "</svg>")]
        .into_iter()
        .filter_map(|(start, end)| Some((rest.find(start)?, end)))
        .min()
    {
        bare += &rest[..start];
        let end = start + rest[start..].find(end).expect("an end") + end.len();
        rest = &rest[end..];
    }
    bare += rest;
    let lines = bare.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn compared(slower: f64, identity: &str) -> Comparison {
    let (a, b) = (reading(|_| 0.0), reading(|size| if size > 1 << 26 { slower } else { 0.0 }));
    let of = |nccl: &str, device: &str| {
        let fields =
            [("nccl", nccl), ("device", device)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Fingerprint(fields.into_iter().collect())
    };
    verdict::compare::compare((&a.tables[0], &of("2.27.7", "H100")), (&b.tables[0], &of("2.28.9", identity)))
}

#[test]
fn each_format_reports_two_logs() {
    let found = compared(0.04, "H100");
    let pair = RunPair { a: "logs/a.log", b: "logs/b|`.log", found: &found };
    insta::assert_snapshot!("comparison_terminal", comparison::terminal(pair, Style::Plain));
    insta::assert_snapshot!("comparison_markdown", comparison::markdown(pair));
    let page = comparison::html(pair);
    assert!(page.contains("<title>B is slower: 368.2 of 382.9 GB") && page.contains("<polyline"));
    assert_eq!(page.matches("<h2>Bus bandwidth</h2>").count(), 1, "one chart has both curves");
    insta::assert_snapshot!("comparison_page", bare(&page));
    let faster = compared(-0.04, "H100");
    let faster = comparison::terminal(RunPair { found: &faster, ..pair }, Style::Plain);
    assert!(faster.contains("\nB is 15.9 GB/s (4.2 %) faster at 4 GiB\n"), "{faster}");
    assert!(!faster.contains("Next:"), "{faster}");
    let other = compared(0.0, "H200");
    let pair = RunPair { found: &other, ..pair };
    assert!(comparison::terminal(pair, Style::Plain).contains("Not comparable"));
}
