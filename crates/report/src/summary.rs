//! One sentence about a verdict, and the next step.

use model::{Reason, Verdict};
use verdict::baseline::Region;

use crate::{
    ReportInput, ReportedLog, findings,
    measured::{self, MeasuredSize, MeasuredTable, measured},
    reasons, text,
};

/// Reason codes that concern the level of a curve.
const OF_LEVEL: [&str; 8] = [
    "BELOW_BASELINE",
    "BELOW_REFERENCE",
    "BELOW_FLOOR",
    "AS_BASELINE",
    "AS_REFERENCE",
    "ABOVE_FLOOR",
    "SANE",
    "EFFICIENCY",
];
/// Maximum length of a reason as a sentence, characters.
const LONGEST: usize = 200;

/// The verdict in one sentence: level, distance from its standard, and affected sizes; or the most severe reason. For
/// several logs, the totals.
#[must_use]
pub fn sentence(input: &ReportInput<'_>) -> Option<String> {
    input.verdict()?;
    if input.run.is_none() && input.logs.len() > 1 {
        return Some(totals(input));
    }
    let reasons = findings::reasons(input);
    let first = reasons.first()?;
    let level = |code: &str| the_only_table(input).and_then(|table| level(&table, code));
    if OF_LEVEL.contains(&first.code.as_str()) {
        return Some(level(&first.code).unwrap_or_else(|| text::shortened(&first.text, LONGEST)));
    }
    let sentence = text::shortened(&first.text, LONGEST);
    // The cause comes first, then its effect on the bandwidth.
    let slow = reasons.iter().find(|reason| reason.code.starts_with("BELOW_"));
    Some(match slow.and_then(|reason| level(&reason.code)) {
        Some(level) => format!("{sentence}; {level}"),
        None => sentence,
    })
}

/// `120 logs: 97 pass, 20 fail, 3 inconclusive`.
pub fn totals(input: &ReportInput<'_>) -> String {
    let of = |wanted: Verdict| input.logs.iter().filter(|log| verdict_of(log) == wanted).count();
    let all = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive].map(|verdict| (of(verdict), verdict));
    let all: Vec<_> = all
        .into_iter()
        .filter(|(count, verdict)| *count > 0 || *verdict != Verdict::Inconclusive)
        .map(|(count, verdict)| format!("{count} {verdict}"))
        .collect();
    format!("{}: {}", text::count(input.logs.len() as u64, "log"), all.join(", "))
}

/// Verdict on a log; inconclusive if it was not judged.
pub fn verdict_of(log: &ReportedLog<'_>) -> Verdict {
    log.judgement.map_or(Verdict::Inconclusive, |judgement| judgement.verdict)
}

/// The folder of all logs, with a slash at its end; empty if the logs have no common folder.
pub fn common_folder<'a>(input: &ReportInput<'a>) -> &'a str {
    let mut names = input.logs.iter().map(|log| log.name);
    let first = names.next().map_or("", |name| &name[..name.rfind('/').map_or(0, |at| at + 1)]);
    names.fold(first, |common, name| {
        let same = common.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        // A byte that differs may be inside a character; a slash never is.
        common.as_bytes()[..same].iter().rposition(|byte| *byte == b'/').map_or("", |at| &common[..=at])
    })
}

/// One-line summary of one of several logs.
pub struct LogSummary<'a> {
    pub log: ReportedLog<'a>,
    pub verdict: Verdict,
    /// Code of the most severe reason; empty without a reason.
    pub code: &'a str,
    /// Level and its standard, `151 of 356 GB/s, 57 % lower`, or else the most severe reason.
    pub text: String,
    /// Ratio of the measured level to the standard; 1 if unknown.
    part: f64,
}

impl<'a> LogSummary<'a> {
    pub fn of(input: &ReportInput<'a>, log: &ReportedLog<'a>) -> Self {
        let reason = log.judgement.and_then(|judgement| judgement.reasons.first());
        let code = reason.map_or("", |reason| &reason.code);
        let mut tables = measured::tables(input, log);
        let table = tables.next().filter(|_| log.reading.tables.len() == 1);
        let level = table.filter(|_| OF_LEVEL.contains(&code)).and_then(|table| Level::of(&table, code));
        let part = level.as_ref().map_or(1.0, |level| level.measured / level.standard);
        let text = match (level, reason) {
            (Some(level), _) => level.short(),
            (None, Some(reason)) => text::shortened(&reason.text, LONGEST),
            (None, None) => "not judged".to_owned(),
        };
        Self { log: *log, verdict: verdict_of(log), code, text, part }
    }

    /// Name of the log without the common folder of all logs.
    pub fn name(&self, folder: &str) -> &'a str {
        self.log.name.strip_prefix(folder).unwrap_or(self.log.name)
    }
}

/// Logs with the same verdict and most severe reason, worst first.
pub struct LogGroup<'a> {
    pub verdict: Verdict,
    /// Code of the most severe reason; empty for passed logs, which form a single group.
    pub code: &'a str,
    pub logs: Vec<LogSummary<'a>>,
}

/// All logs by verdict and reason: failures first, then the most frequent reason, then the largest distance.
pub fn groups<'a>(input: &ReportInput<'a>) -> Vec<LogGroup<'a>> {
    let mut groups: Vec<LogGroup<'a>> = Vec::new();
    for log in &input.logs {
        let summary = LogSummary::of(input, log);
        let code = if summary.verdict == Verdict::Pass { "" } else { summary.code };
        match groups.iter_mut().find(|group| group.verdict == summary.verdict && group.code == code) {
            Some(group) => group.logs.push(summary),
            None => groups.push(LogGroup { verdict: summary.verdict, code, logs: vec![summary] }),
        }
    }
    let severity = |verdict| match verdict {
        Verdict::Fail => 0,
        Verdict::Inconclusive => 1,
        Verdict::Pass => 2,
    };
    groups.sort_by_key(|group| (severity(group.verdict), std::cmp::Reverse(group.logs.len())));
    for group in &mut groups {
        group.logs.sort_by(|a, b| a.part.total_cmp(&b.part));
    }
    groups
}

/// Next step, from the documentation of the most severe reason that has one. A pass needs no next step.
#[must_use]
pub fn next(input: &ReportInput<'_>) -> Option<String> {
    let verdict = input.verdict().filter(|verdict| *verdict != Verdict::Pass)?;
    let decides = |reason: &&Reason| reason.weighs == verdict;
    findings::reasons(input).iter().filter(decides).find_map(|reason| action(input, &reason.code))
}

/// Next step of a code; `None` if the code needs no action.
pub fn action(input: &ReportInput<'_>, code: &str) -> Option<String> {
    // If both kinds of benchmarks use the code, select the entry of this kind.
    let metrics = input.logs.iter().all(|log| log.reading.tables.is_empty());
    let entries = reasons::entries(code);
    let entry = entries.iter().find(|entry| entry.metrics == metrics).or(entries.first())?;
    (!entry.action.is_empty()).then(|| entry.action.clone())
}

fn the_only_table<'a>(input: &ReportInput<'a>) -> Option<MeasuredTable<'a>> {
    let mut all = measured(input);
    let table = all.next()?;
    all.next().is_none().then_some(table)
}

/// A measured level and the standard that it is compared with.
struct Level {
    /// `all_reduce plateau`, or `all_reduce` for the level at one size.
    subject: String,
    /// ` at 1 GiB`, or empty for the plateau.
    at: String,
    measured: f64,
    /// Name of the standard: `baseline`, `reference` or `floor`.
    what: &'static str,
    standard: f64,
    affected: String,
}

impl Level {
    /// Plateau level that a reason of this code concerns.
    fn of(table: &MeasuredTable<'_>, code: &str) -> Option<Self> {
        let rows = || table.rows.iter().filter(|row| is_plateau(row));
        let measured = plateau(table)?;
        let collective = collective(table);
        let baseline = || {
            let points = table.references.baseline()?.points.iter();
            median(points.filter(|point| point.region == Region::Plateau).map(|point| point.busbw))
        };
        let reference = || median(rows().filter_map(|row| row.reference));
        if code.ends_with("FLOOR") {
            return at_floor(table, collective);
        }
        let candidates = [("BASELINE", "baseline", baseline()), ("REFERENCE", "reference", reference())];
        // Select the standard that the reason names, or else the strictest one.
        let named = candidates.iter().find(|(part, _, value)| code.ends_with(part) && value.is_some());
        let chosen = named.or_else(|| candidates.iter().find(|(.., value)| value.is_some()));
        let Some((_, what, Some(standard))) = chosen else { return at_floor(table, collective) };
        Some(Self {
            subject: format!("{collective} plateau"),
            at: String::new(),
            measured,
            what,
            standard: *standard,
            affected: affected(table, what),
        })
    }

    fn sentence(&self) -> String {
        let Self { subject, at, measured, what, standard, affected } = self;
        let distance = distance(*measured, *standard);
        let (measured, standard) = (figure(*measured), figure(*standard));
        format!("{subject} {measured} GB/s{at}, {distance} the {what} of {standard} GB/s; {affected}")
    }

    /// The level and its standard, such as `151 of 356 GB/s, 57 % lower`.
    fn short(&self) -> String {
        let Self { at, measured, standard, .. } = self;
        let distance = match (measured / standard - 1.0) * 100.0 {
            percent if percent <= -0.5 => format!("{:.0} % lower", -percent),
            percent if percent < 0.5 => "equal".to_owned(),
            percent if percent < 200.0 => format!("{percent:.0} % higher"),
            _ => "higher".to_owned(),
        };
        format!("{} of {} GB/s{at}, {distance}", figure(*measured), figure(*standard))
    }
}

fn collective(table: &MeasuredTable<'_>) -> String {
    text::shortened(table.table.collective.as_deref().unwrap_or("the"), 40)
}

/// Median of the plateau; `None` for one rank, which measures no link.
fn plateau(table: &MeasuredTable<'_>) -> Option<f64> {
    let rows = table.rows.iter().filter(|row| is_plateau(row));
    median(rows.flat_map(|row| row.placed().map(|placed| placed.half.busbw))).filter(|busbw| *busbw > 0.0)
}

fn level(table: &MeasuredTable<'_>, code: &str) -> Option<String> {
    let bounded = Level::of(table, code).map(|level| level.sentence());
    bounded.or_else(|| {
        let busbw = figure(plateau(table)?);
        Some(format!("{} plateau {busbw} GB/s; the criteria bound no bandwidth", collective(table)))
    })
}

/// The measurement nearest to its floor, or furthest below it.
fn at_floor(table: &MeasuredTable<'_>, collective: String) -> Option<Level> {
    let placed = table.rows.iter().flat_map(|row| row.placed().map(move |placed| (row, placed.half.busbw)));
    let floor = |(row, busbw): (&MeasuredSize<'_>, f64)| {
        let floor = row.floor.filter(|floor| *floor > 0.0)?;
        busbw.is_finite().then_some((row.size_bytes, busbw, floor))
    };
    let worst = placed.filter_map(floor).min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)));
    let (size, measured, standard) = worst?;
    let at = format!(" at {}", text::size(size));
    let affected = affected(table, "floor");
    Some(Level { subject: collective, at, measured, what: "floor", standard, affected })
}

fn distance(measured: f64, standard: f64) -> String {
    match (measured / standard - 1.0) * 100.0 {
        percent if percent <= -0.5 => format!("{:.0} % below", -percent),
        percent if percent < 0.5 => "equal to".to_owned(),
        percent if percent < 200.0 => format!("{percent:.0} % above"),
        _ => "above".to_owned(),
    }
}

fn affected(table: &MeasuredTable<'_>, what: &str) -> String {
    let bounded = table.rows.iter().filter(|row| match what {
        "baseline" => row.placed().any(|placed| placed.expected.is_some()),
        "reference" => row.reference.is_some(),
        _ => row.floor.is_some(),
    });
    let affected = table.rows.iter().filter(|row| row.is_below(what)).count();
    match (affected, bounded.count()) {
        (0, _) => "no size is affected".to_owned(),
        (affected, all) if affected == all && all > 1 => "every size is affected".to_owned(),
        (affected, all) => format!("{affected} of {} affected", text::count(all as u64, "size")),
    }
}

fn is_plateau(row: &MeasuredSize<'_>) -> bool {
    row.region == Some(Region::Plateau)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Three significant digits, enough for a comparison by a person.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
