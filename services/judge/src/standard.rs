//! Baseline of a run: the baseline that the workflow names or a person pinned, or else a baseline learned from earlier
//! runs of the cluster.

use std::collections::BTreeSet;

use model::{
    Criteria, Reason, Timestamp, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Subject},
};
use verdict::{
    Baseline, Fingerprint, Pin,
    baseline::{Healthy, Unlearnable, halves, learn, learn_without_outliers, levels},
    directed,
    repeat::{self, RepeatLevel},
};
use warehouse::{Measured, Past, PastQuery, Warehouse};

/// Minimum number of passed runs for a baseline.
const FEWEST: usize = 5;
/// Number of passed runs from which missing repeatability is reported.
const ENOUGH: usize = 10;
/// Maximum number of runs in a baseline. The baseline is then fixed: a moving baseline would hide a drift of its
/// cluster.
const MAX_RUNS: u32 = 20;
/// Maximum number of later runs searched for a change.
const SINCE: u32 = 200;

/// A baseline and the later runs.
#[derive(Debug, Default)]
pub struct Own {
    /// Measurements of the healthy cluster; `None` if no baseline exists.
    pub baseline: Option<Baseline>,
    /// Level of every later run, oldest first.
    pub earlier: Vec<f64>,
    /// Number of the baseline's first runs that define the healthy state; absent if a person chose all its runs.
    pub defining_runs: Option<usize>,
    /// The pin, if a person decided on the baseline.
    pub pin: Option<Pin>,
    /// Reasons that concern the baseline itself: dropped runs, or the reason for its absence.
    pub reasons: Vec<Reason>,
}

/// A baseline from the workflow's file or from a pin, not learned from the history.
#[derive(Debug)]
pub struct Fixed {
    pub baseline: Baseline,
    /// The pin; `None` if the workflow's file names the baseline.
    pub pin: Option<Pin>,
}

/// The baseline for a run with this fingerprint, if the workflow or the history has one.
pub async fn own(
    history: &dyn Warehouse,
    criteria: &Criteria,
    fixed: Option<Fixed>,
    of: (&str, &Fingerprint, Option<Timestamp>),
    reading: &Reading,
) -> Result<Own, warehouse::Error> {
    let (workflow, fingerprint, Some(before)) = of else {
        return Ok(fixed.map_or_else(Own::default, |fixed| fixed.over(&[])));
    };
    if fixed.is_none() && !criteria.history {
        return Ok(Own::default());
    }
    let is_table = reading.metrics.is_empty() || !reading.tables.is_empty();
    let wanted = PastQuery {
        workflow: workflow.to_owned(),
        identity: fingerprint.identity(),
        before,
        oldest: if is_table { MAX_RUNS } else { SINCE },
        newest: SINCE,
        measured: if is_table { Measured::Table } else { Measured::Metrics },
    };
    let mut past = history.past(&wanted).await?;
    if is_table || fixed.is_some() {
        return Ok(fixed.map_or_else(|| learned(&past), |fixed| fixed.over(&past)));
    }
    for metric in past.iter_mut().flat_map(|past| &mut past.metrics) {
        metric.better = criteria.better(metric).unwrap_or(metric.better);
    }
    Ok(learned_of_metrics(&past, &directed(reading, criteria)))
}

impl Fixed {
    fn over(self, past: &[Past]) -> Own {
        let Self { baseline, pin } = self;
        // A pin replaces the earlier history, which starts at the pinned run.
        let at = pin.as_ref().and_then(|pin| past.iter().position(|past| past.run == pin.run.as_str()));
        let since = &past[at.map_or(0, |at| at + 1)..];
        let earlier = since.iter().filter_map(|past| baseline.level(&past.table)).collect();
        Own { baseline: Some(baseline), earlier, pin, ..Own::default() }
    }
}

/// Learns from the oldest passed runs that repeat, or from later, faster ones: slow first runs must neither define the healthy
/// state nor prevent a baseline permanently.
fn learned(past: &[Past]) -> Own {
    let passed = |past: &&Past| past.verdict == Some(Verdict::Pass);
    let Some(first) = past.iter().find(passed) else { return Own::default() };
    let fingerprint = Fingerprint(first.fingerprint.clone());
    let points = |past: &Past| halves(&past.table).map(|(key, _)| key).collect::<BTreeSet<_>>();
    let wanted = points(first);
    let same = |past: &Past| {
        let other = Fingerprint(past.fingerprint.clone());
        fingerprint.differences(&other).next().is_none() && points(past) == wanted
    };
    let healthy: Vec<_> = past.iter().enumerate().filter(|(_, past)| passed(past) && same(past)).collect();
    let readings: Vec<_> = healthy.iter().map(|(_, past)| reading(past)).collect();
    let runs: Vec<_> =
        readings.iter().map(|reading| Healthy { reading, fingerprint: fingerprint.clone() }).collect();
    // Runs with one rank have no level.
    let Ok(levels) = levels(&runs) else { return Own::default() };
    let stretch = repeat::stretch(&levels, FEWEST, MAX_RUNS as usize);
    let Some((range, (baseline, out))) =
        stretch.and_then(|range| Some((range.clone(), learn_without_outliers(&runs[range]).ok()?)))
    else {
        return Own { reasons: unrepeated(&runs).into_iter().collect(), ..Own::default() };
    };
    let (last, _) = healthy[range.end - 1];
    let earlier = past[last + 1..].iter().filter_map(|past| baseline.level(&past.table)).collect();
    let reasons = left_out(&healthy[range.clone()], &out);
    let reasons = reasons.into_iter().collect();
    // The later runs of the baseline passed before its level was known: a change among them is still one.
    Own { baseline: Some(baseline), earlier, defining_runs: Some(FEWEST), pin: None, reasons }
}

/// Learns from the oldest passed runs that measured the same values of the same subjects as this one: a scheduler may choose
/// other nodes for each run.
fn learned_of_metrics(past: &[Past], reading: &Reading) -> Own {
    let keys = |metrics: &[Metric]| -> BTreeSet<_> {
        let judged = metrics.iter().filter(|metric| metric.value.is_some() && metric.better != Better::None);
        let place = |subject: &Subject| Subject { serial: None, bus_id: None, ..subject.clone() };
        judged.map(|it| (it.name.clone(), it.unit.clone(), it.labels.clone(), place(&it.subject))).collect()
    };
    let wanted = keys(&reading.metrics);
    let same = |past: &&Past| past.verdict == Some(Verdict::Pass) && keys(&past.metrics) == wanted;
    let healthy: Vec<_> = past.iter().filter(same).take(MAX_RUNS as usize).collect();
    if healthy.len() < FEWEST {
        return Own::default();
    }
    let readings: Vec<_> = healthy
        .iter()
        .map(|past| Reading {
            ended: LogEnd::Complete,
            format: reading.format.clone(),
            metrics: past.metrics.clone(),
            ..Reading::default()
        })
        .collect();
    let of = |(past, reading): (&&Past, _)| Healthy {
        reading,
        fingerprint: Fingerprint(past.fingerprint.clone()),
    };
    let runs: Vec<_> = healthy.iter().zip(&readings).map(of).collect();
    Own { baseline: learn(&runs).ok(), ..Own::default() }
}

/// Names the runs dropped from the baseline.
fn left_out(healthy: &[(usize, &Past)], out: &[RepeatLevel]) -> Option<Reason> {
    let named = out.iter().map(|level| format!("{} ({:.0} GB/s)", healthy[level.run].1.run, level.busbw));
    let named = named.collect::<Vec<_>>().join(", ");
    let text = format!(
        "{} of {} earlier runs are on another level and not in the baseline: {named}",
        out.len(),
        healthy.len()
    );
    (!out.is_empty()).then(|| Reason { code: "OUTLIERS_LEFT_OUT".to_owned(), weighs: Verdict::Pass, text })
}

/// Reason for runs that do not repeat; `None` for fewer than [`ENOUGH`] passed runs.
fn unrepeated(runs: &[Healthy<'_>]) -> Option<Reason> {
    let runs = &runs[..runs.len().min(MAX_RUNS as usize)];
    let Err(Unlearnable::Unrepeated { groups, .. }) = learn(runs) else { return None };
    let groups: Vec<_> =
        groups.iter().map(|group| format!("{} at {:.1} GB/s", group.runs.len(), group.busbw)).collect();
    let text = format!(
        "the {} oldest passed runs do not repeat, so they cannot be a baseline: {}; pin a good run with `burnin baseline pin`, or \
         set `history: false` in the criteria",
        runs.len(),
        groups.join(", ")
    );
    (runs.len() >= ENOUGH).then(|| Reason {
        code: "UNSTABLE_BASELINE".to_owned(),
        weighs: Verdict::Inconclusive,
        text,
    })
}

fn reading(past: &Past) -> Reading {
    Reading {
        ended: past.table.ended,
        first_error: None,
        tables: vec![past.table.clone()],
        ..Reading::default()
    }
}
