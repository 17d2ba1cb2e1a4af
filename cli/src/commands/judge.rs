//! `burnin judge` and `compare`: verdicts on logs outside a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use ::judge::{CombinedLogs, LogReader};

use model::{
    Criteria, Verdict,
    measurement::{LogEnd, Reading, Table},
};
use report::{
    ReportInput, ReportedLog,
    comparison::{self, RunPair},
};
use verdict::{
    Baseline, Clues, Fingerprint, Judgement, RunEvidence, Standard, compare::compare as differences,
    directed, locate::Suspect,
};
use workflow::YamlDocument;

use crate::{
    args::{ComparisonForm, ReportForm},
    commands::{
        logs::{RowLimit, files, read_log, started},
        note,
        parse::ReadFormat,
        print, print_json, screen,
    },
    documents::{LogVerdict, Totals, VerdictDocument},
    exit::{CliError, Exit},
};

/// Relation between several logs: separate runs, a history, or nodes of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRelation {
    /// A series if every log contains its start time, otherwise separate runs.
    Unknown,
    Series,
    /// One run, with a log for each node.
    NodesOfOneRun,
}

/// A parsed log and its verdict.
struct JudgedLog {
    name: String,
    reading: Reading,
    clues: Clues,
    judgement: Option<Judgement>,
    /// Nodes of the run whose logs have no measurement.
    missing_nodes: Vec<String>,
}

/// Judges each log separately; the most severe verdict is the combined verdict. In a series, each log is judged with the earlier logs as
/// history.
pub fn judge(
    logs: &[PathBuf],
    format: &ReadFormat,
    criteria: Option<&Path>,
    baseline: Option<&Path>,
    relation: LogRelation,
    output: ReportForm,
) -> Result<Exit, CliError> {
    let criteria: Option<Criteria> = criteria.map(document).transpose()?;
    let baseline: Option<Baseline> = baseline.map(document).transpose()?;
    let baseline = baseline.map(Baseline::with_fleets);
    let logs = files(logs)?;
    let mut room = RowLimit::default();
    let mut judged = Vec::new();
    for log in &logs {
        let (reading, clues) = read_log(log, format, logs.len() > 1)?;
        room.take(log, &reading)?;
        let name = log.display().to_string();
        judged.push(JudgedLog { name, reading, clues, judgement: None, missing_nodes: Vec::new() });
    }
    if relation == LogRelation::NodesOfOneRun {
        judged = vec![combined(judged, &format.reader())?];
    }
    let series = baseline.is_some() && sort_series(&mut judged, relation == LogRelation::Series);
    let (mut earlier, mut earlier_metrics) = (Vec::new(), Vec::new());
    for log in &mut judged {
        let with_units = |criteria| measure::with_units(criteria, log.reading.format.as_deref());
        let criteria = criteria.as_ref().map(with_units);
        let standard = Standard {
            criteria: criteria.as_deref(),
            baseline: baseline.as_ref(),
            earlier: &earlier,
            earlier_metrics: &earlier_metrics,
            ..Standard::default()
        };
        let evidence =
            RunEvidence { missing_nodes: &log.missing_nodes, ..RunEvidence::of(&log.reading, &log.clues) };
        log.judgement = Some(verdict::judge(&evidence, &standard));
        let Some(baseline) = baseline.as_ref().filter(|_| series) else { continue };
        if let [table] = log.reading.tables.as_slice() {
            earlier.extend(baseline.level(table));
        }
        let reading = criteria.as_deref().map(|criteria| directed(&log.reading, criteria));
        let metrics = reading.as_ref().map_or(&log.reading.metrics, |reading| &reading.metrics);
        earlier_metrics.extend(baseline.fleet_levels([&metrics[..]]));
    }
    let Some(whole) = combined_judgement(&judged) else {
        return Err(CliError::usage("no log given; name log files or folders"));
    };
    let input = ReportInput {
        run: None,
        parts: Vec::new(),
        logs: judged.iter().map(source).collect(),
        judgement: Some(&whole),
        standard: Standard {
            criteria: criteria.as_ref(),
            baseline: baseline.as_ref(),
            ..Standard::default()
        },
        series,
    };
    match output {
        ReportForm::Json => {
            print_json(&VerdictDocument {
                judgement: &whole,
                logs: input.logs.iter().filter_map(|log| LogVerdict::of(&input, log)).collect(),
                series,
                totals: Totals::of(&input),
                sentence: report::sentence(&input),
                next: report::next(&input),
            });
        }
        ReportForm::Human => print(&report::terminal(&input, screen())),
        ReportForm::Csv => print(&report::csv(&input)),
        ReportForm::Markdown => print(&report::markdown(&input)),
        ReportForm::Junit => print(&report::junit(&input)),
        ReportForm::Html => print(&report::html(&input)),
    }
    Ok(match whole.verdict {
        Verdict::Pass => Exit::Pass,
        Verdict::Fail => Exit::Fail,
        Verdict::Inconclusive => Exit::Inconclusive,
    })
}

/// Merges the logs of the nodes. A node has the name in its log if all logs contain different names, otherwise the name
/// of its file.
fn combined(mut logs: Vec<JudgedLog>, reader: &LogReader) -> Result<JudgedLog, CliError> {
    if let Some(log) = logs.iter().find(|log| !log.reading.tables.is_empty()) {
        return Err(CliError::usage(format!(
            "{}: a table of nccl-tests measures all nodes together; judge it without --one-run",
            log.name
        )));
    }
    let named: Option<BTreeSet<_>> = logs.iter().map(|log| only_node(&log.reading)).collect();
    if named.is_none_or(|named| named.len() < logs.len()) {
        let mut files = BTreeMap::new();
        for log in &mut logs {
            let node = Path::new(&log.name).file_stem().unwrap_or_default().to_string_lossy();
            if let Some(other) = files.insert(node.to_string(), log.name.clone()) {
                return Err(CliError::usage(format!(
                    "{other} and {}: both would be the node `{node}`; give the files different names",
                    log.name
                )));
            }
            log.reading.name_node(&node);
        }
    }
    let (mut whole, mut missing_nodes) = (CombinedLogs::of(reader), Vec::new());
    let name = format!("{} of one run", report::count(logs.len() as u64, "log"));
    for JudgedLog { name, reading, clues, .. } in logs {
        if reading.ended == LogEnd::Empty {
            missing_nodes.push(name.clone());
        }
        whole.add(reader, (&name, String::new()), reading, clues);
    }
    let CombinedLogs { reading, clues, .. } = whole;
    Ok(JudgedLog { name, reading, clues, judgement: None, missing_nodes })
}

/// The node of all metrics of the log; `None` if the metrics name several nodes or none.
fn only_node(reading: &Reading) -> Option<&str> {
    let mut nodes = reading.metrics.iter().map(|metric| metric.subject.node.as_deref());
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

/// Returns whether the logs are a series. Sorts the logs by start time if all start times are present and different;
/// otherwise `--series` keeps the given order.
fn sort_series(judged: &mut [JudgedLog], is_requested: bool) -> bool {
    if judged.len() < 2 {
        return false;
    }
    let times: Option<BTreeSet<_>> = judged.iter().map(|log| started(&log.reading)).collect();
    if times.is_none_or(|times| times.len() < judged.len()) {
        return is_requested;
    }
    judged.sort_by(|a, b| started(&a.reading).cmp(&started(&b.reading)));
    note("series in the order of the times in the logs:");
    for log in judged {
        let at = started(&log.reading).unwrap_or_default();
        note(format_args!("  {at}  {}", log.name));
    }
    true
}

fn source(log: &JudgedLog) -> ReportedLog<'_> {
    ReportedLog { name: &log.name, reading: &log.reading, judgement: log.judgement.as_ref() }
}

impl<'a> LogVerdict<'a> {
    fn of(input: &ReportInput<'a>, log: &ReportedLog<'a>) -> Option<Self> {
        let Judgement { verdict, reasons, .. } = log.judgement?;
        let alone = ReportInput { logs: vec![*log], judgement: log.judgement, ..input.clone() };
        let report::Metrics { metrics, findings } = report::metrics(&alone);
        Some(Self {
            source: log.name,
            verdict: *verdict,
            reasons,
            started_at: started(log.reading),
            measurements: report::placements(input, log),
            metrics,
            findings,
        })
    }
}

impl Totals {
    fn of(input: &ReportInput<'_>) -> Self {
        let of = |wanted| input.logs.iter().filter(|log| report::verdict_of(log) == wanted).count();
        Self {
            logs: input.logs.len(),
            pass: of(Verdict::Pass),
            fail: of(Verdict::Fail),
            inconclusive: of(Verdict::Inconclusive),
        }
    }
}

/// Combined judgement on all logs; with several logs, each reason is prefixed with the log's name.
fn combined_judgement(judged: &[JudgedLog]) -> Option<Judgement> {
    let named = judged.iter().filter_map(|log| {
        let mut judgement = log.judgement.clone()?;
        if judged.len() > 1 {
            for reason in &mut judgement.reasons {
                reason.text = format!("{}: {}", log.name, reason.text);
            }
        }
        Some(judgement)
    });
    named.reduce(Judgement::and)
}

fn document<T: serde::de::DeserializeOwned + schemars::JsonSchema>(path: &Path) -> Result<T, CliError> {
    YamlDocument::read(path).and_then(|document| document.read_as()).map_err(CliError::files)
}

pub fn name(suspect: &Suspect) -> String {
    let parts = [
        suspect.rank.map(|rank| format!("rank {rank}")),
        suspect.bus_id.as_ref().map(|bus_id| format!("GPU {bus_id}")),
        suspect.host.as_ref().map(|host| format!("node {host}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Compares two logs. Exit code 1 if the plateau of the second is slower, 2 if their measurements are not comparable.
pub fn compare(a: &Path, b: &Path, output: ComparisonForm) -> Result<Exit, CliError> {
    let (first, second) =
        (read_log(a, &ReadFormat::Detected, false)?, read_log(b, &ReadFormat::Detected, false)?);
    let ((before, of_before), (after, of_after)) = (table(a, &first)?, table(b, &second)?);
    let found = differences((before, &of_before), (after, &of_after));
    let (a, b) = (a.display().to_string(), b.display().to_string());
    let pair = RunPair { a: &a, b: &b, found: &found };
    match output {
        ComparisonForm::Json => print_json(&found),
        ComparisonForm::Human => print(&comparison::terminal(pair, screen())),
        ComparisonForm::Markdown => print(&comparison::markdown(pair)),
        ComparisonForm::Html => print(&comparison::html(pair)),
    }
    Ok(match (found.comparable(), found.slower_where_it_counts()) {
        (false, _) => Exit::Inconclusive,
        (true, true) => Exit::Fail,
        (true, false) => Exit::Pass,
    })
}

fn table<'a>(
    log: &Path,
    (reading, clues): &'a (Reading, Clues),
) -> Result<(&'a Table, Fingerprint), CliError> {
    let [table] = reading.tables.as_slice() else {
        let tables = reading.tables.len();
        return Err(CliError::usage(format!(
            "{}: expected one table, found {tables}; compare logs with one table each",
            log.display()
        )));
    };
    Ok((table, Fingerprint::of(&RunEvidence::of(reading, clues))))
}
