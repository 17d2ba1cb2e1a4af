//! Context of the page template.

use model::Reason;
use serde::Serialize;

use super::{
    figures::{TableFigures, figures},
    multiples::Multiples,
};
use crate::{
    ReportInput, ReportedLog, ReportedRun,
    checks::{self, CheckLine},
    evidence::{self, DiagnosisText},
    fact_texts,
    facts::{self, NamedValue},
    findings::{self, ReportNote, Tone},
    fingerprint::{self, Field},
    history::{LevelHistory, PointKind},
    measured,
    metrics::MetricsSection,
    plot::{Canvas, levels},
    render::Drawing,
    rounds::{self, RoundsSection},
    summary::{self, LogSummary},
    text,
    timeline::timeline,
};

/// Maximum number of reasons visible initially.
const FIRST: usize = 10;
/// Maximum number of reasons.
const REASONS: usize = 100;
/// Maximum number of diagnoses.
const DIAGNOSES: usize = 20;
/// Maximum number of lines of evidence.
const LINES: usize = 3;
/// Maximum number of suspects.
const SUSPECTS: usize = 30;
/// Maximum number of metrics.
const METRICS: usize = 200;
/// Maximum number of findings.
const FINDINGS: usize = 100;
/// Maximum number of logs.
const LOGS: usize = 1000;
/// Maximum number of logs without a table whose reason is shown.
const NOTHING: usize = 50;
/// Maximum number of ledger records.
const RECORDS: usize = 400;
/// Maximum length of a record's text, characters. The ledger has the full text.
const DETAIL: usize = 300;

/// All content of the page, unescaped: the page cleans and escapes it.
#[derive(Serialize)]
pub struct PageData<'a> {
    title: String,
    about: String,
    /// Time of the request in machine-readable form and as text, and the rest of the subtitle after the time.
    requested: Option<(String, String, String)>,
    tone: Tone,
    word: &'static str,
    sentence: Option<String>,
    next: Option<String>,
    /// Checks of a run, worst first; empty for a single benchmark.
    checks: Vec<CheckLine>,
    /// Duration and end of a soak.
    soak: Option<String>,
    rounds: Option<RoundsSection>,
    reasons: Vec<ReasonLine>,
    /// Reasons that are collapsed initially.
    other_reasons: Vec<ReasonLine>,
    more_reasons: usize,
    notes: Vec<ReportNote>,
    diagnoses: Vec<DiagnosisText>,
    more_diagnoses: usize,
    suspects: Vec<(String, String)>,
    more_suspects: usize,
    logs: Vec<LogLine<'a>>,
    more_logs: usize,
    /// Common folder of the logs, which their names do not repeat.
    folder: &'a str,
    /// Curves of several logs.
    multiples: Option<Multiples>,
    /// Metrics and findings of all logs; absent if no log has metrics or findings.
    metrics: Option<MetricsSection>,
    nothing: Vec<String>,
    tables: Vec<TableFigures>,
    more_tables: usize,
    history: Option<Levels>,
    fingerprint: Vec<Field<'a>>,
    changed: bool,
    stages: Vec<Bar>,
    unreached: Option<String>,
    costs: Vec<NamedValue>,
    details: Vec<NamedValue>,
    /// Sizes over earlier runs: already rendered and escaped.
    sizes: String,
    places: Vec<(&'static str, &'a str)>,
    ledger: Vec<TimelineRow>,
    records: usize,
}

#[derive(Serialize)]
struct ReasonLine {
    tone: Tone,
    code: String,
    text: String,
}

/// A line in the list of several logs.
#[derive(Serialize)]
struct LogLine<'a> {
    tone: Tone,
    mark: &'static str,
    name: &'a str,
    verdict: String,
    /// Code of the most severe reason.
    code: &'a str,
    /// Level of the log and the standard that it is compared with, or the most severe reason.
    text: String,
}

/// The history and its chart.
#[derive(Serialize)]
struct Levels {
    text: String,
    changes: usize,
    off_scale: bool,
    earlier: bool,
    drawing: Option<Drawing>,
}

/// A stage with start and length of its bar, percent of the run.
#[derive(Serialize)]
struct Bar {
    name: String,
    tone: Tone,
    mark: &'static str,
    took: String,
    outcome: String,
    from: String,
    wide: String,
}

#[derive(Serialize)]
struct TimelineRow {
    seq: u64,
    at: String,
    what: String,
    detail: String,
}

impl<'a> PageData<'a> {
    pub fn of(input: &ReportInput<'a>) -> Self {
        let (about, requested) = subtitle(input);
        let headline = findings::headline(input);
        let reasons = findings::merged(findings::reasons(input));
        let judgement = input.reported_judgement();
        let (diagnoses, more_diagnoses) = evidence::diagnoses(judgement, DIAGNOSES, LINES);
        let (suspects, more_suspects) = evidence::suspects(judgement, SUSPECTS);
        let (tables, more_tables) = figures(input);
        let fingerprint = fingerprint::fields(input);
        let run = input.run;
        let (stages, unreached) = run.map_or_else(Default::default, |run| stages(&run));
        let records = run.map_or(&[][..], |run| run.records);
        let several = input.run.is_none() && input.logs.len() > 1;
        let logs = if several { &input.logs[..] } else { &[] };
        // The list of logs already shows the reason of each log.
        let first = if several && !input.series { 0 } else { FIRST };
        let suspects =
            suspects.into_iter().map(|(name, surely)| (name, format!("{:.0} %", 100.0 * surely))).collect();
        let without_table = input.logs.iter().filter(|log| log.reading.format.is_none());
        let nothing = without_table.filter_map(|log| {
            let nothing = measured::text_without_table(log.reading)?;
            Some(if several { format!("{}: {nothing}", log.name) } else { nothing })
        });
        Self {
            title: input.title(),
            about,
            requested,
            tone: headline.tone,
            word: headline.word,
            sentence: summary::sentence(input),
            next: summary::next(input),
            checks: run.map_or_else(Vec::new, |run| checks::checks(&run)),
            soak: run.and_then(|run| rounds::progress(run.state)),
            rounds: run.and_then(|run| RoundsSection::of(&run)),
            reasons: reasons.iter().take(first).map(reason_line).collect(),
            other_reasons: reasons.iter().take(REASONS).skip(first).map(reason_line).collect(),
            more_reasons: reasons.len().saturating_sub(REASONS),
            notes: findings::notes(input),
            diagnoses,
            more_diagnoses,
            suspects,
            more_suspects,
            logs: log_lines(input, logs),
            folder: if several { summary::common_folder(input) } else { "" },
            multiples: Multiples::of(input),
            more_logs: logs.len().saturating_sub(LOGS),
            metrics: MetricsSection::of(input, METRICS, FINDINGS),
            nothing: nothing.take(NOTHING).collect(),
            tables,
            more_tables,
            history: LevelHistory::of(input).map(|history| of_levels(&history)),
            changed: fingerprint.iter().any(|field| field.was.is_some()),
            fingerprint,
            stages,
            unreached,
            costs: facts::costs(input),
            details: facts::details(input),
            sizes: String::new(),
            places: run.map_or_else(Vec::new, |run| fact_texts::locations(run.locations)),
            ledger: records.iter().take(RECORDS).map(timeline_row).collect(),
            records: records.len(),
        }
    }

    /// Adds the sizes over earlier runs.
    pub fn with_sizes(self, sizes: String) -> Self {
        Self { sizes, ..self }
    }

    pub const fn word(&self) -> &'static str {
        self.word
    }
}

/// The parts of the subtitle: the text before the time of the request, this time (machine-readable and as text), and the text after it.
fn subtitle(input: &ReportInput<'_>) -> (String, Option<(String, String, String)>) {
    let about = fact_texts::subtitle(input);
    let Some(at) = input.run.map(|run| run.state.requested_at) else { return (about, None) };
    let shown = text::utc(at);
    match about.split_once(&shown) {
        Some((before, after)) => (before.to_owned(), Some((at.to_string(), shown, after.to_owned()))),
        None => (about, None),
    }
}

fn reason_line(reason: &Reason) -> ReasonLine {
    ReasonLine { tone: reason.weighs.into(), code: reason.code.clone(), text: reason.text.clone() }
}

/// The logs, worst first; the logs of a series in time order.
fn log_lines<'a>(input: &ReportInput<'a>, logs: &[ReportedLog<'a>]) -> Vec<LogLine<'a>> {
    let summaries: Vec<_> = match input.series {
        _ if logs.is_empty() => Vec::new(),
        true => logs.iter().map(|log| LogSummary::of(input, log)).collect(),
        false => summary::groups(input).into_iter().flat_map(|group| group.logs).collect(),
    };
    let folder = summary::common_folder(input);
    let line = |log: LogSummary<'a>| {
        let (tone, name) = (Tone::from(log.verdict), log.name(folder));
        let LogSummary { verdict, code, text, .. } = log;
        LogLine { tone, mark: tone.mark(), name, verdict: verdict.to_string(), code, text }
    };
    summaries.into_iter().take(LOGS).map(line).collect()
}

fn of_levels(history: &LevelHistory) -> Levels {
    let text = history.text();
    let draw = |canvas| levels(history, canvas);
    let drawing = Drawing::of("Slower than the baseline, run by run", text.clone(), Canvas::LOW, draw);
    Levels {
        text,
        changes: history.changes().count(),
        off_scale: history.off_scale(),
        earlier: history.levels.iter().any(|level| level.kind == PointKind::Earlier),
        drawing,
    }
}

fn stages(run: &ReportedRun<'_>) -> (Vec<Bar>, Option<String>) {
    let lines = timeline(run.records);
    let unreached = findings::unreached(run.state, &lines);
    let head = if run.state.settled.is_some() { "not reached" } else { "to come" };
    let unreached = (!unreached.is_empty()).then(|| format!("{head}: {}", unreached.join(", ")));
    (bars(run, &lines), unreached)
}

fn bars(run: &ReportedRun<'_>, lines: &[crate::StageLine]) -> Vec<Bar> {
    let state = run.state;
    let whole = state.recorded_at.since(state.requested_at).0.as_secs_f64().max(1e-3);
    let percent = |at: model::Timestamp| at.since(state.requested_at).0.as_secs_f64() / whole * 100.0;
    let prebuilt = findings::prebuilt_image(state).map(|outcome| Bar {
        name: "image".to_owned(),
        tone: Tone::Good,
        mark: Tone::Good.mark(),
        took: "given".to_owned(),
        outcome,
        from: "0".to_owned(),
        wide: "0".to_owned(),
    });
    // A soak has thousands of stages, so only the stages of the cluster and of the last check are shown.
    let last = state.checks().last().filter(|_| state.soak.is_some());
    let is_shown =
        |line: &&crate::StageLine| last.is_none_or(|last| line.check.is_none() || line.step().check == last);
    let bars = lines.iter().filter(is_shown).map(|line| {
        let tone = findings::tone_of(state, line);
        let (from, to) = (percent(line.began), percent(line.ended.unwrap_or(state.recorded_at)));
        Bar {
            name: line.title(),
            tone,
            mark: tone.mark(),
            took: line.ended.map_or_else(String::new, |ended| text::duration(ended.since(line.began))),
            outcome: line.outcome.clone(),
            from: format!("{from:.2}"),
            wide: format!("{:.2}", to - from),
        }
    });
    prebuilt.into_iter().chain(bars).collect()
}

fn timeline_row(record: &model::Record) -> TimelineRow {
    let (what, detail) = fact_texts::entry(&record.entry);
    TimelineRow {
        seq: record.seq,
        at: record.recorded_at.to_string(),
        what,
        detail: text::shortened(&detail, DETAIL),
    }
}
