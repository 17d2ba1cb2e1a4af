//! The page has all content, escapes external text, and keeps its limits of size and time.

#![expect(clippy::disallowed_methods, reason = "a test may read the clock")]

use std::time::{Duration, Instant};

use crate::support::{RecordedRun, cancelled, good, reading, slow, unbuilt, whole, workflow};
use model::*;
use report::html;

/// Maximum size and time of a page. The page of a quickstart run needs a tenth of each limit.
const BYTES: usize = 300_000;
const TIME: Duration = Duration::from_millis(50);

#[test]
fn the_page_of_a_successful_run_is_complete() {
    let page = html(&good().input());
    for expected in [
        "<title>PASS · quickstart-1</title>",
        "Content-Security-Policy",
        "default-src &#x27;none&#x27;",
        "role=\"img\"",
        "all_reduce_perf -b 1024 -e 16777216 -f 4 -n 20 -w 5 -c 1",
        "sha256:9f86d081884c7d65",
        "no process remains",
        "Not used for the verdict",
        "SANE",
        "run.requested",
        "<polyline",
        "16 MiB",
    ] {
        // The policy is the template's own text and not escaped.
        let expected = expected.replace("&#x27;", "'");
        assert!(page.contains(&expected), "{expected}");
    }
    balanced(&page);
}

#[test]
fn every_kind_of_run_has_a_page() {
    let mut without = RecordedRun::open(Workflow { cluster: None, benchmark: None, ..workflow() });
    without.built();
    let mut running = RecordedRun::open(workflow());
    running.built();
    for (run, word) in [
        (slow(), "FAIL"),
        (unbuilt(), "NO VERDICT"),
        (cancelled(), "CANCELLED"),
        (without, "DONE"),
        (running, "RUNNING"),
        (RecordedRun::open(workflow()), "RUNNING"),
    ] {
        let page = html(&run.input());
        assert!(page.contains(&format!("<title>{word} · ")), "{word}");
        balanced(&page);
    }
}

#[test]
fn external_text_is_escaped_on_the_page() {
    let hostile = "<script>alert(1)</script>\"'><img src=x onerror=y>\u{1b}[31m\0\u{202e}&\u{2066}";
    let mut workflow = workflow();
    workflow.name = hostile.into();
    workflow.description = hostile.into();
    let mut reading = reading(&workflow);
    reading.tables[0].collective = Some(hostile.into());
    reading.tables[0].nccl_version = Some(hostile.into());
    reading.first_error = Some(hostile.into());
    let mut run = whole(workflow, reading);
    for place in [&mut run.locations.ledger, &mut run.locations.artefacts, &mut run.locations.warehouse] {
        *place = format!("javascript:{hostile}");
    }
    let failure = Failure::new(Class::Workload, hostile, hostile);
    run.state.settled = Some((
        Conclusion::Failed { stage: Stage::Results, check: Default::default(), failure },
        run.state.recorded_at,
    ));
    let page = html(&run.input());

    assert!(page.contains("&lt;script&gt;alert(1)"), "the text itself is still shown");
    let tags: Vec<_> = page.match_indices("<script").chain(page.match_indices("<img")).collect();
    assert_eq!(tags, []);
    let is_control = |c: &char| {
        (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert_eq!(page.chars().find(is_control), None);
    for asks in ["http://", "https://", "src=\"", "href=", "url(", "@import"] {
        assert!(!page.contains(asks), "{asks}");
    }
    balanced(&page);
}

#[test]
fn a_page_keeps_its_limits_of_size_and_time() {
    for (name, run) in [("quickstart", good()), ("8 B to 16 GiB", crate::support::long())] {
        drop(html(&run.input()));
        let start = Instant::now();
        let page = html(&run.input());
        let took = start.elapsed();
        println!("{name}: {} bytes in {took:?}", page.len());
        assert!(page.len() < BYTES, "{name}: {} bytes", page.len());
        // The limit is generous, because other tests share the machine.
        assert!(took < TIME * 10, "{name}: {took:?}");
    }
}

#[test]
fn the_page_of_an_endless_log_is_bounded() {
    let workflow = workflow();
    let mut reading = reading(&workflow);
    let row = reading.tables[0].rows[0].clone();
    reading.tables[0].rows.resize(20_000, row);
    let table = reading.tables[0].clone();
    reading.tables.resize(20, table);
    let page = html(&whole(workflow, reading).input());
    assert!(page.contains("19900 more rows") && page.contains("17 more tables"));
    println!("{} bytes", page.len());
    assert!(page.len() < BYTES, "{} bytes", page.len());
}

/// Every element that is opened is closed, in order.
fn balanced(page: &str) {
    const EMPTY: [&str; 5] = ["!doctype", "meta", "br", "rect", "line"];
    let mut open = Vec::new();
    for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed)),
            None if tag.ends_with('/') || EMPTY.contains(&name) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}
