//! External text has no effect in any form.

use crate::support::logs::{JudgedCheck, baseline, clues, criteria, history, reading};
use model::Reason;
use quick_junit::Report;
use report::{
    ReportInput, Style,
    comparison::{self, RunPair},
    csv, html, junit, markdown, terminal,
};
use verdict::{
    clues::ClueLine,
    diagnose::{Cause, Diagnosis},
    locate::Suspect,
};

/// Text that a terminal, Markdown or HTML would interpret.
const HOSTILE: &str = "=cmd|'/C calc'!A0 <script>alert(1)</script> ]]> --> \"'><img src=x onerror=y> @everyone \
                       [x](javascript:y) https://evil.example `` | \u{1b}[31m\u{1b}]8;;http://e\u{7}\0\u{1}\u{202e}\
                       \u{2066}\u{feff}\u{fffe}\u{ffff}\u{9b}2J\r\n## heading\n```\n&amp; {{ 7*7 }} {% raw %}";

fn hostile() -> JudgedCheck {
    let mut log = reading(|_| 0.3);
    let table = &mut log.tables[0];
    (table.collective, table.nccl_version) = (Some(HOSTILE.into()), Some(HOSTILE.into()));
    for row in &mut table.rows {
        (row.dtype, row.redop) = (HOSTILE.into(), Some(HOSTILE.into()));
    }
    log.first_error = Some(HOSTILE.into());
    let logs = vec![
        (HOSTILE.to_owned(), log, clues("a:1:2 [0] NCCL INFO Using network Socket\n")),
        (HOSTILE.to_owned(), reading(|_| 0.1), clues("")),
    ];
    let mut logs = JudgedCheck::judged(logs, Some(criteria()), Some(baseline()), history());
    logs.criteria.as_mut().expect("criteria").references[0].source = HOSTILE.into();
    logs.criteria.as_mut().expect("criteria").name = HOSTILE.into();
    let judgements = logs.logs.iter_mut().map(|(_, _, judgement)| judgement);
    for judgement in judgements.chain([&mut logs.whole]) {
        for reason in &mut judgement.reasons {
            (reason.code, reason.text) = (HOSTILE.into(), HOSTILE.into());
        }
        judgement.diagnoses = vec![Diagnosis {
            cause: Cause::GpuFault,
            text: HOSTILE.into(),
            times: u64::MAX,
            evidence: vec![ClueLine { log: Some(HOSTILE.into()), line: 1, text: HOSTILE.into() }],
            hosts: vec![HOSTILE.into(); 20],
        }];
        let host = Some(HOSTILE.to_owned());
        judgement.suspects = vec![Suspect {
            host,
            bus_id: Some(HOSTILE.into()),
            rank: Some(1),
            confidence: f64::NAN,
            ..Suspect::default()
        }];
        judgement.fingerprint.0.insert(HOSTILE.into(), HOSTILE.into());
    }
    let learned = logs.baseline.as_mut().expect("a baseline");
    learned.fingerprint.0.insert(HOSTILE.into(), "was".into());
    logs
}

fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn assert_no_control_characters(form: &str, text: &str) {
    assert_eq!(text.chars().find(|c| is_control(*c)), None, "{form}");
}

#[test]
fn external_text_has_no_effect_on_terminal_and_page() {
    let logs = hostile();
    let (text, page) = (terminal(&logs.input(), Style::Plain), html(&logs.input()));
    assert_no_control_characters("terminal", &text);
    assert_no_control_characters("page", &page);
    for asks in ["<script", "<img", "javascript:y\"", "src=\"", "href=", "url(", "@import"] {
        assert!(!page.contains(asks), "{asks}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"), "the text itself is still shown");
}

#[test]
fn external_text_cannot_end_its_markdown_element() {
    let text = markdown(&hostile().input());
    assert_no_control_characters("markdown", &text);
    // Outside of code no text is markup; inside, the fence is longer than any run of backticks.
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if line == open => fence = None,
            Some(open) => assert!(!line.contains(open), "{line}"),
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                assert!(!line.starts_with("## heading"), "{line}");
                for part in outside(line) {
                    assert!(!part.contains("<script") && !part.contains("<img"), "{line}");
                    assert!(!part.contains("@everyone") && !part.contains("https://"), "{line}");
                    assert!(!part.contains("[x]("), "{line}");
                }
            }
        }
    }
    assert_eq!(fence, None, "every fence is closed");
    // Each line of a table has as many cells as its heading.
    let mut cells = None;
    for line in text.lines() {
        let bars = line.replace("\\|", "").matches('|').count();
        match (line.starts_with('|'), cells) {
            (true, None) => cells = Some(bars),
            (true, Some(wanted)) => assert_eq!(bars, wanted, "{line}"),
            (false, _) => cells = None,
        }
    }
}

/// The parts of a line that are not in a code span.
fn outside(line: &str) -> Vec<String> {
    let (mut parts, mut rest) = (Vec::new(), line.replace("\\`", ""));
    while let Some(start) = rest.find('`') {
        let ticks: String = rest[start..].chars().take_while(|c| *c == '`').collect();
        parts.push(rest[..start].to_owned());
        let behind = rest[start + ticks.len()..].to_owned();
        let end = behind.find(&ticks).map_or(behind.len(), |end| end + ticks.len());
        rest = behind[end..].to_owned();
    }
    parts.push(rest);
    parts
}

#[test]
fn the_csv_form_contains_no_formula() {
    let text = csv(&hostile().input());
    assert_no_control_characters("csv", &text.replace('\r', ""));
    let mut lines = ::csv::Reader::from_reader(text.as_bytes());
    let mut count = 0;
    for line in lines.records() {
        for cell in &line.expect("a line") {
            let formula = cell.starts_with(['=', '+', '-', '@']) && cell.parse::<f64>().is_err();
            assert!(!formula, "{cell}");
        }
        count += 1;
    }
    assert_eq!(count, 2 * 27 * 2);
}

#[test]
fn external_text_keeps_the_xml_valid() {
    let text = junit(&hostile().input());
    assert_no_control_characters("junit", &text);
    let legal = |c: char| matches!(c, '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(text.chars().all(legal), "XML 1.0 permits no other characters");
    let report = Report::deserialize_from_str(&text).expect("JUnit XML");
    let output = report.test_suites[0].test_cases.iter().find_map(|case| case.system_out.as_ref());
    assert!(
        output.expect("diagnoses").as_str().contains("]]> --> \"'><img src=x"),
        "the log line is unchanged"
    );
}

#[test]
fn external_text_has_no_effect_in_comparisons() {
    let logs = hostile();
    let fingerprint = |value: &str| verdict::Fingerprint([(HOSTILE.to_owned(), value.to_owned())].into());
    let table = &logs.logs[0].1.tables[0];
    let found = verdict::compare::compare((table, &fingerprint(HOSTILE)), (table, &fingerprint("b")));
    let pair = RunPair { a: HOSTILE, b: HOSTILE, found: &found };
    let page = comparison::html(pair);
    assert_no_control_characters("terminal", &comparison::terminal(pair, Style::Plain));
    assert_no_control_characters("page", &page);
    assert_no_control_characters("markdown", &comparison::markdown(pair));
    assert!(!page.contains("<script") && !page.contains("<img"));
}

#[test]
fn invalid_figures_are_not_shown_as_nan() {
    let mut logs = crate::support::logs::bad();
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 0.0] {
        for row in &mut logs.logs[0].1.tables[0].rows {
            for half in [&mut row.out_of_place, &mut row.in_place].into_iter().flatten() {
                (half.time_us, half.algbw, half.busbw) = (value, value, value);
            }
        }
        logs.earlier = vec![value; 30];
        logs.baseline.as_mut().expect("a baseline").levels = vec![value; 5];
        let input: ReportInput<'_> = logs.input();
        let outputs =
            [csv(&input), markdown(&input), junit(&input), html(&input), terminal(&input, Style::Plain)];
        for text in outputs {
            assert!(!text.contains("NaN") && !text.contains("<!doctype html><title>Burnin"), "{value}");
        }
    }
}

#[test]
fn a_reason_with_an_unknown_code_is_red() {
    let mut logs = crate::support::logs::healthy();
    let reason = Reason { code: "NEW".into(), weighs: model::Verdict::Fail, text: "something".into() };
    let (_, _, judgement) = &mut logs.logs[0];
    judgement.reasons.push(reason);
    judgement.verdict = model::Verdict::Fail;
    let report = Report::deserialize_from_str(&junit(&logs.input())).expect("JUnit XML");
    assert_eq!((report.failures, report.errors), (1, 0));
}
