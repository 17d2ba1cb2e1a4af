//! Changes of a metric over all its subjects and many runs, found like changes of the plateau of nccl-tests ([`history`](crate::history)).

use std::collections::{BTreeMap, BTreeSet};

use model::{Criteria, Reason, Settled, Verdict, metric::Better};

use crate::{
    baseline::document::{Baseline, FleetKey, MetricFleet},
    history::{Change, DRIFT, LevelChange, change_among},
    standard::Standard,
    statistics::median,
};

use super::listed;

/// The level of a run: the median excess over the healthy values in the worse direction. `differences`: the relative differences of all
/// subjects.
pub(super) fn level(better: Better, differences: Vec<f64>) -> Option<f64> {
    let sign = match better {
        Better::Higher => -1.0,
        Better::Lower => 1.0,
        Better::Exact | Better::None => return None,
    };
    (!differences.is_empty()).then(|| sign * median(differences))
}

/// Name, unit and labels of a searched series: a metric, or all values of a metric in its settled window.
type SeriesName<'a> = (&'a str, &'a str, BTreeMap<&'a str, &'a str>);

/// The last changes of the metrics, over the runs of the baseline, all later ones and this one. `current`: the levels of this run;
/// `is_searched`: whether a change of a metric is reported.
pub(super) fn changes(
    baseline: &Baseline,
    criteria: &Criteria,
    standard: &Standard<'_>,
    (current, is_searched): (Vec<Option<f64>>, impl Fn(&MetricFleet) -> bool),
    reasons: &mut Vec<Reason>,
) {
    let runs = baseline.fleets.iter().map(|fleet| fleet.levels.len()).max().unwrap_or(0);
    let mut series: BTreeMap<SeriesName<'_>, Vec<usize>> = BTreeMap::new();
    for (at, fleet) in baseline.fleets.iter().enumerate() {
        let FleetKey { name, unit, labels, .. } = &fleet.key;
        let window = criteria.metrics.iter().filter(|it| it.selects(name, labels));
        let window: Option<&Settled> = window.filter_map(|it| it.settled.as_ref()).next();
        if window.is_some_and(|window| !window.contains(labels)) {
            continue;
        }
        let by = window.map(|window| window.by.as_str());
        let labels = labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let labels = labels.filter(|(name, _)| Some(*name) != by).collect();
        series.entry((name, unit, labels)).or_default().push(at);
    }
    let count = series.len();
    let (mut drifted, mut shifted) = (Vec::new(), Vec::new());
    for ((name, _, labels), fleets) in &series {
        if !fleets.iter().all(|at| is_searched(&baseline.fleets[*at])) {
            continue;
        }
        let of_run = |levels: &dyn Fn(usize) -> Option<f64>| -> Option<f64> {
            let levels: Vec<f64> = fleets.iter().filter_map(|at| levels(*at)).collect();
            (!levels.is_empty()).then(|| median(levels))
        };
        let healthy: Vec<f64> = (0..runs)
            .filter_map(|run| of_run(&|at| baseline.fleets[at].levels.get(run).copied().flatten()))
            .collect();
        let earlier = standard.earlier_metrics.iter();
        let earlier = earlier.filter_map(|levels| of_run(&|at| levels.get(at).copied().flatten()));
        let Some(own) = of_run(&|at| current.get(at).copied().flatten()) else { continue };
        let defining = standard.defining_runs.unwrap_or(healthy.len());
        let levels: Vec<f64> = healthy.into_iter().chain(earlier).chain([own]).collect();
        let step = resolution(baseline, name, labels);
        let labels: String = labels.iter().map(|(name, value)| format!(" {name} {value}")).collect();
        match change_among(&levels, defining, count) {
            Some(Change::Drifted(LevelChange { runs, level, by })) if level > step => {
                let (level, by) = (100.0 * level, 100.0 * by);
                let text = format!(
                    "in the last {runs} runs {name}{labels} is {level:.1} % worse than the baseline, and {by:.1} % worse than in the \
                     earlier runs"
                );
                drifted.push((level, text));
            }
            Some(Change::Shifted(LevelChange { runs, by, .. })) if by.abs() > step => {
                let better = if by > 0.0 { "worse" } else { "better" };
                let by = 100.0 * by.abs();
                shifted.push((by, format!("in the last {runs} runs {name}{labels} is {by:.2} % {better} than in the earlier runs")));
            }
            _ => {}
        }
    }
    let joined = |mut texts: Vec<(f64, String)>| {
        texts.sort_by(|a, b| b.0.total_cmp(&a.0));
        listed(texts.into_iter().map(|(_, text)| text).collect())
    };
    if !drifted.is_empty() {
        reasons.push(Reason::new(Verdict::Fail, "DRIFTED", joined(drifted)));
    }
    if !shifted.is_empty() {
        let text = format!(
            "{}; a change fails if it is certain and {:.1} % or more over the baseline",
            joined(shifted),
            100.0 * DRIFT
        );
        reasons.push(Reason::new(Verdict::Pass, "SHIFTED", text));
    }
}

/// The median printed step of a metric, relative: smaller changes may be rounding errors.
fn resolution(baseline: &Baseline, name: &str, labels: &BTreeMap<&str, &str>) -> f64 {
    let wanted: BTreeSet<_> = labels.iter().map(|(name, value)| (*name, *value)).collect();
    let of_series = baseline.metrics.iter().filter(|it| {
        it.key.name == name
            && it.value != 0.0
            && wanted.iter().all(|(name, value)| it.key.labels.get(*name).is_some_and(|own| own == value))
    });
    median(of_series.map(|it| it.resolution.unwrap_or(0.0) / it.value.abs()).collect())
}
