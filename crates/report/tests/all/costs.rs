//! Time and size of every form are bounded.

#![expect(clippy::disallowed_methods, reason = "a test may read the clock")]

use std::time::{Duration, Instant};

use crate::support::logs::{JudgedCheck, bad};
use model::Reason;
use report::{ReportInput, Style, csv, html, junit, markdown, terminal};
use verdict::{
    clues::ClueLine,
    diagnose::{Cause, Diagnosis},
    locate::Suspect,
};

/// Maximum time of a form in a release build.
const TIME: Duration = Duration::from_millis(50);
/// The limit is generous, because the build may be unoptimized and other tests share the machine.
const GENEROUS: u32 = 20;

/// Name, rendering function and maximum size of a form.
type ReportRenderer = (&'static str, fn(&ReportInput<'_>) -> String, usize);

const FORMS: [ReportRenderer; 5] = [
    ("terminal", |input| terminal(input, Style::Plain), 12_000),
    ("markdown", markdown, 60_000),
    ("junit", junit, 1 << 20),
    ("html", html, 1 << 20),
    // The size is proportional to the log, because no rows are omitted.
    ("csv", csv, 64 << 20),
];

fn costs(name: &str, logs: &JudgedCheck) -> Vec<(&'static str, usize)> {
    let input = logs.input();
    let mut sizes = Vec::new();
    for (form, write, most) in FORMS {
        drop(write(&input));
        let start = Instant::now();
        let text = write(&input);
        let took = start.elapsed();
        println!("{name}, {form}: {} bytes in {took:?}", text.len());
        assert!(text.len() < most, "{name}, {form}: {} bytes", text.len());
        assert!(took < TIME * GENEROUS * if name == "usual" { 1 } else { 20 }, "{name}, {form}: {took:?}");
        sizes.push((form, text.len()));
    }
    sizes
}

/// The report has 27 sizes, two placements and 205 runs of history.
#[test]
fn reports_of_a_usual_run_do_not_exceed_their_size_and_time_limits() {
    let sizes = costs("usual", &bad());
    let html = sizes.iter().find(|(form, _)| *form == "html").expect("a page");
    assert!(html.1 < 200_000, "{} bytes", html.1);
}

#[test]
fn reports_of_hostile_logs_are_bounded() {
    let mut rows = bad();
    let table = &mut rows.logs[0].1.tables[0];
    let row = table.rows[20].clone();
    table.rows =
        (0..27_000).map(|at| model::measurement::Row { size_bytes: 1 << 20 | at, ..row.clone() }).collect();
    costs("27,000 rows", &rows);

    let mut tables = bad();
    let table = tables.logs[0].1.tables[0].clone();
    tables.logs[0].1.tables.resize(4096, table);
    costs("4,096 tables", &tables);

    let mut logs = bad();
    for judgement in [&mut logs.logs[0].2, &mut logs.whole].into_iter() {
        let text = "x y ".repeat(2500);
        let line = ClueLine { log: Some(text.clone()), line: 1, text: text.clone() };
        let diagnosis = Diagnosis {
            cause: Cause::Crashed,
            text: text.clone(),
            times: u64::MAX,
            evidence: vec![line; 3],
            hosts: vec!["x y ".repeat(25); 4096],
        };
        judgement.diagnoses = vec![diagnosis; 62];
        judgement.diagnoses[0].hosts = vec![text.clone(); 4096];
        judgement.suspects = vec![Suspect { host: Some(text.clone()), ..Suspect::default() }; 4096];
        let reason = Reason { code: "DIP".into(), weighs: model::Verdict::Fail, text };
        judgement.reasons = vec![reason; 500];
        judgement.fingerprint.0 = (0..500).map(|at| (format!("field {at}"), "v ".repeat(5000))).collect();
    }
    let text = terminal(&logs.input(), Style::Plain);
    assert!(text.lines().count() <= 48, "{} lines of {text}", text.lines().count());
    costs("long texts", &logs);

    let mut history = bad();
    history.earlier = (0..100_000).map(|run| f64::from(run % 977) * 1e-3).collect();
    costs("100,000 runs", &history);
}
