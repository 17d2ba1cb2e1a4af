//! Metrics and findings of several nodes, in every form.

use std::sync::Arc;

use crate::support::logs::JudgedCheck;
use model::{
    Criteria, MetricCriterion, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Scope, Severity, Subject},
};
use report::{ReportInput, Style, csv, html, junit, markdown, metrics, terminal};
use verdict::{Clues, Judgement, RunEvidence, Standard, judge};

const H100: &[u8] = include_bytes!("../../../measure/tests/samples/nvbandwidth/0.9-h100.json");
const BURNED: &[u8] = include_bytes!("../../../measure/tests/samples/gpu-burn/8-a100.txt");
const FAULTY: &[u8] = include_bytes!("../../../measure/tests/samples/gpu-burn/faulty.txt");
const SKIPPED: &[u8] =
    include_bytes!("../../../measure/tests/samples/dcgm-diag/4.2.3-gb10-level2-partial-skip.json");

/// The log of a node, with the node in each subject as the judge adds it.
fn of_node(node: &str, log: &[u8]) -> (String, Reading) {
    let mut reading = measure::read(log).expect("memory can be read");
    let name = |subject: &mut Subject| subject.node = Some(node.into());
    reading.metrics.iter_mut().for_each(|metric| name(&mut metric.subject));
    reading.findings.iter_mut().for_each(|finding| name(&mut finding.subject));
    reading.gpus.iter_mut().for_each(|gpu| name(&mut gpu.subject));
    (format!("c2a1/{node}.log"), reading)
}

/// A check over several logs, judged together.
struct MeasuredCheck {
    logs: Vec<(String, Reading)>,
    whole: Reading,
    judgement: Judgement,
}

impl MeasuredCheck {
    fn of(logs: Vec<(String, Reading)>, criteria: Option<&Criteria>) -> Self {
        let mut whole = logs[0].1.clone();
        for (_, reading) in &logs[1..] {
            whole.metrics.extend(reading.metrics.clone());
            whole.findings.extend(reading.findings.clone());
            whole.gpus.extend(reading.gpus.clone());
        }
        let standard = Standard { criteria, ..Standard::default() };
        let judgement = judge(&RunEvidence::of(&whole, &Clues::default()), &standard);
        Self { logs, whole, judgement }
    }

    fn input(&self) -> ReportInput<'_> {
        ReportInput {
            logs: vec![report::ReportedLog {
                name: "memory",
                reading: &self.whole,
                judgement: Some(&self.judgement),
            }],
            parts: self.logs.iter().map(|(name, reading)| (name.as_str(), reading)).collect(),
            judgement: Some(&self.judgement),
            ..ReportInput::default()
        }
    }
}

fn burned() -> MeasuredCheck {
    MeasuredCheck::of(vec![of_node("a1", BURNED), of_node("a2", FAULTY), of_node("a3", BURNED)], None)
}

fn metric(name: &str, better: Better, node: &str, value: Option<f64>) -> Metric {
    Metric {
        name: name.into(),
        unit: "GB/s".into(),
        better,
        scope: Scope::Node,
        subject: Subject { node: Some(node.into()), ..Subject::default() },
        labels: Default::default(),
        value,
        resolution: None,
        unmeasurable: value.is_none().then(|| "Waived".into()),
        line: 7,
    }
}

fn reading(metrics: Vec<Metric>) -> Reading {
    Reading { format: Some("declared".to_owned()), ended: LogEnd::Complete, metrics, ..Reading::default() }
}

#[test]
fn the_worst_value_depends_on_the_direction_of_improvement() {
    let values = [("n1", Some(10.0)), ("n2", Some(30.0)), ("n3", Some(11.0)), ("n4", None)];
    for (better, expected) in [
        (Better::Higher, Some((10.0, "n1"))),
        (Better::Lower, Some((30.0, "n2"))),
        (Better::Exact, Some((30.0, "n2"))),
        (Better::None, None),
    ] {
        let log = |(node, value): &(&str, Option<f64>)| {
            ((*node).to_owned(), reading(vec![metric("copy", better, node, *value)]))
        };
        let check = MeasuredCheck::of(values.iter().map(log).collect(), None);
        let found = metrics(&check.input()).metrics;
        let [summary] = &found[..] else { panic!("expected one metric, found {found:?}") };
        assert_eq!((summary.subjects, summary.measured, summary.unmeasurable), (4, 3, 1));
        assert_eq!((summary.median, summary.reason.as_deref()), (Some(11.0), Some("Waived")));
        let worst = summary.worst.as_ref().map(|worst| (worst.value, worst.subject.node.as_deref().unwrap()));
        assert_eq!(worst, expected, "{better:?}");
    }
}

#[test]
fn values_of_another_unit_or_label_are_separate_rows() {
    let mut others = reading(vec![metric("copy", Better::Higher, "n", Some(1.0)); 4]);
    others.metrics[1].unit = "MB/s".into();
    others.metrics[2].labels.insert("size".into(), "8".into());
    let check = MeasuredCheck::of(vec![("log".to_owned(), others)], None);
    let found = metrics(&check.input()).metrics;
    assert_eq!(found.iter().map(|summary| summary.values).collect::<Vec<_>>(), [2, 1, 1]);
    assert_eq!(found[0].worst.as_ref().unwrap().others, 1, "one other value equals the worst one");
}

#[test]
fn subjects_without_a_node_differ_by_log() {
    let mut unnamed = metric("copy", Better::Higher, "n", Some(1.0));
    unnamed.subject = Subject::gpu(0);
    let mut bed = metric("hpl", Better::Higher, "n", Some(1.0));
    (bed.subject, bed.scope) = (Subject::default(), Scope::World);
    let logs = ["1.log", "2.log"].map(|log| (log.to_owned(), reading(vec![unnamed.clone(), bed.clone()])));
    let found = metrics(&MeasuredCheck::of(logs.to_vec(), None).input()).metrics;
    assert_eq!(found.iter().map(|summary| summary.subjects).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn real_logs_of_three_nodes_are_summarized_over_all_of_them() {
    let check = burned();
    let found = metrics(&check.input());
    let rate = found.metrics.iter().find(|summary| summary.name == "gpu_burn.passed").unwrap();
    assert_eq!(
        rate.subjects,
        check.whole.metrics.iter().filter(|it| &*it.name == "gpu_burn.passed").count() as u64
    );
    assert_eq!(rate.worst.as_ref().unwrap().subject.node.as_deref(), Some("a2"), "{rate:?}");
    let severities: Vec<_> = found.findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(
        severities,
        [Severity::Hardware, Severity::WrongData, Severity::Unknown],
        "the most severe finding is first"
    );
    assert!(found.findings.iter().all(|finding| finding.subject.node.as_deref() == Some("a2")));
    let nvbandwidth = MeasuredCheck::of(vec![of_node("h1", H100), of_node("h2", H100)], None);
    let found = metrics(&nvbandwidth.input()).metrics;
    assert!(found.iter().all(|summary| summary.subjects % 2 == 0 && summary.subjects > 0), "{found:?}");
    let skipped = MeasuredCheck::of(vec![of_node("d1", SKIPPED)], None);
    let found = metrics(&skipped.input()).metrics;
    assert!(found.iter().any(|summary| summary.unmeasurable > 0 && summary.reason.is_some()), "{found:?}");
}

#[test]
fn each_form_has_the_section_about_metrics() {
    let check = burned();
    let input = check.input();
    assert_eq!(check.judgement.verdict, Verdict::Fail);
    insta::assert_snapshot!("metrics_terminal", terminal(&input, Style::Plain));
    insta::assert_snapshot!("metrics_markdown", markdown(&input));
    insta::assert_snapshot!("metrics_csv", csv(&input).replace('\r', ""));
    let page = html(&input);
    for text in
        ["<h2>Metrics</h2>", "gpu_burn.passed", "GPU_FAULTY", "hardware", "node a2", "<h2>Suspects</h2>"]
    {
        assert!(page.contains(text), "{text} is missing in {page}");
    }
    assert!(!page.contains("Bus bandwidth"), "no table was measured");
}

#[test]
fn evidence_of_a_suspect_comes_first() {
    let criteria = Criteria {
        metrics: vec![MetricCriterion {
            metric: "copy".into(),
            floor: Some(50.0),
            unit: Some("GB/s".into()),
            ..MetricCriterion::default()
        }],
        ..Criteria::named("floors")
    };
    let log = |node: &str, value| {
        let values = vec![
            metric("other", Better::Higher, node, Some(1.0)),
            metric("copy", Better::Higher, node, Some(value)),
        ];
        (format!("{node}.log"), reading(values))
    };
    let check = MeasuredCheck::of(vec![log("n1", 60.0), log("n2", 40.0)], Some(&criteria));
    let found = metrics(&check.input()).metrics;
    assert_eq!(found.iter().map(|summary| summary.name.as_str()).collect::<Vec<_>>(), ["copy", "other"]);
    let text = terminal(&check.input(), Style::Plain);
    assert!(text.contains("suspect  node n2: copy"), "{text}");
}

#[test]
fn many_and_hostile_metrics_are_bounded() {
    let hostile = "=1+1 <script> | ` \u{1b}[31m\u{202e} @all\n## x ".repeat(40);
    let text: Arc<str> = hostile.as_str().into();
    let mut log = reading(Vec::new());
    for number in 0..4_000 {
        let mut value = metric("x", Better::Lower, &hostile, Some(f64::from(number)));
        value.name = format!("{hostile}{number}").into();
        value.unit = text.clone();
        value.labels.insert(hostile.clone(), hostile.clone());
        log.metrics.push(value);
        log.findings.push(model::metric::Finding {
            code: format!("{hostile}{number}"),
            subject: Subject { node: Some(text.clone()), ..Subject::default() },
            severity: Severity::Hardware,
            text: hostile.clone(),
            line: 1,
        });
    }
    let check = MeasuredCheck {
        judgement: burned().judgement,
        logs: vec![("1".to_owned(), log.clone())],
        whole: log,
    };
    let input = check.input();
    let shown = terminal(&input, Style::Plain);
    assert!(shown.lines().count() <= 48, "{} lines of {shown}", shown.lines().count());
    assert!(shown.contains("more metrics") && !shown.contains('\u{1b}'), "{shown}");
    let shown = markdown(&input);
    assert!(shown.len() < 65_536 && shown.contains("3970 more metrics"), "{} bytes", shown.len());
    let page = html(&input);
    assert!(page.len() < 1 << 20 && page.contains("3800 more metrics"), "{} bytes", page.len());
    assert!(!page.contains("<script>") && !page.contains('\u{202e}'));
    let table = csv(&input);
    let mut lines = ::csv::Reader::from_reader(table.as_bytes());
    let suspects = check.judgement.suspects.len();
    assert_eq!(lines.records().filter(Result::is_ok).count(), 8_000 + suspects);
}

#[test]
fn logs_with_tables_have_no_metrics_section() {
    let logs: JudgedCheck = crate::support::logs::bad();
    assert_eq!(metrics(&logs.input()), report::Metrics::default());
    assert!(!html(&logs.input()).contains("<h2>Metrics</h2>"));
}

#[test]
fn junit_has_each_metric_and_finding_as_a_property() {
    let report = junit(&burned().input());
    let property = |name: &str| {
        let at =
            report.find(&format!("name=\"{name}")).unwrap_or_else(|| panic!("{name} is missing in {report}"));
        report[at..].lines().next().unwrap_or_default().to_owned()
    };
    let throughput = property("metric gpu_burn.throughput");
    assert!(
        throughput.contains("median") && throughput.contains("worst") && throughput.contains("node a"),
        "{throughput}"
    );
    assert!(property("finding ").contains("node a2"), "{report}");
}
