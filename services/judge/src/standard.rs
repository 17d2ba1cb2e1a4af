//! What a run is held against besides its criteria: the baseline that its workflow names or a person pinned, or else its
//! cluster's own past.

use terms::{Criteria, Timestamp, Verdict, measurement::Reading};
use verdict::{
    Baseline, Fingerprint, Pin,
    baseline::{Healthy, learn},
};
use warehouse::{Past, Wanted};

use crate::port::{History, HistoryError};

/// So many passed runs make a baseline,
const FEWEST: usize = 5;
/// and more than so many do not make a better one. It stays where it is: a baseline that moved along with its cluster
/// would never see it drift.
const MOST: u32 = 20;
/// Runs since then in which a change is looked for.
const SINCE: u32 = 200;

/// A baseline and what came after it.
#[derive(Debug, Default)]
pub struct Own {
    /// What the cluster does when it is healthy.
    pub baseline: Option<Baseline>,
    /// The level of every run since, oldest first.
    pub earlier: Vec<f64>,
    /// Who decided on the baseline, where a person did.
    pub pin: Option<Pin>,
}

/// A baseline that is not learned here.
#[derive(Debug)]
pub struct Fixed {
    /// The baseline.
    pub baseline: Baseline,
    /// Who decided on it; none where the workflow's file names it.
    pub pin: Option<Pin>,
}

/// The baseline for a run that was measured on this, as far as the workflow or the past knows one.
pub async fn own(
    history: &dyn History,
    criteria: &Criteria,
    fixed: Option<Fixed>,
    of: (&str, &Fingerprint, Option<Timestamp>),
) -> Result<Own, HistoryError> {
    let (workflow, fingerprint, Some(before)) = of else {
        return Ok(fixed.map_or_else(Own::default, |fixed| fixed.over(&[])));
    };
    if fixed.is_none() && !criteria.history {
        return Ok(Own::default());
    }
    let wanted = Wanted {
        workflow: workflow.to_owned(),
        identity: fingerprint.identity(),
        before,
        oldest: MOST,
        newest: SINCE,
    };
    let past = history.past(&wanted).await?;
    Ok(match fixed {
        Some(fixed) => fixed.over(&past),
        None => learned(&past),
    })
}

impl Fixed {
    fn over(self, past: &[Past]) -> Own {
        let Self { baseline, pin } = self;
        // Whoever pins a run takes what was before it for settled: the history begins there.
        let at = pin.as_ref().and_then(|pin| past.iter().position(|past| past.run == pin.run.as_str()));
        let since = &past[at.map_or(0, |at| at + 1)..];
        let earlier = since.iter().filter_map(|past| baseline.level(&past.table)).collect();
        Own { baseline: Some(baseline), earlier, pin }
    }
}

fn learned(past: &[Past]) -> Own {
    let passed = |past: &&Past| past.verdict == Some(Verdict::Pass);
    let Some(first) = past.iter().find(passed).map(|past| Fingerprint(past.fingerprint.clone())) else {
        return Own::default();
    };
    let same = |past: &Past| first.differences(&Fingerprint(past.fingerprint.clone())).next().is_none();
    let healthy: Vec<_> =
        past.iter().enumerate().filter(|(_, past)| passed(past) && same(past)).take(MOST as usize).collect();
    let readings: Vec<_> = healthy.iter().map(|(_, past)| reading(past)).collect();
    let runs: Vec<_> =
        readings.iter().map(|reading| Healthy { reading, fingerprint: first.clone() }).collect();
    let Some(baseline) = (runs.len() >= FEWEST).then(|| learn(&runs).ok()).flatten() else {
        return Own::default();
    };
    let last = healthy.last().map_or(0, |(at, _)| *at);
    let earlier = past[last + 1..].iter().filter_map(|past| baseline.level(&past.table)).collect();
    Own { baseline: Some(baseline), earlier, pin: None }
}

fn reading(past: &Past) -> Reading {
    Reading { ended: past.table.ended, first_error: None, tables: vec![past.table.clone()] }
}
