//! Judges the performance of a sane table.

use model::{
    Criteria, Floor, Reason, Verdict,
    measurement::{Table, size},
};

use crate::{
    baseline::document::{Baseline, BaselinePoint, Region},
    bounds::{Bounds, JudgedTable, same_size},
    evidence::RunEvidence,
    fingerprint::Fingerprint,
    history::{Change, DRIFT, LevelChange, change},
    one_rank, reference, repeat,
    standard::Standard,
    table::halves,
};

/// Reason code for a baseline whose healthy runs differ by more than the maximum distance.
pub const UNSTABLE: &str = "UNSTABLE_BASELINE";

pub fn reasons(
    evidence: &RunEvidence<'_>,
    fingerprint: &Fingerprint,
    standard: &Standard<'_>,
) -> Vec<Reason> {
    let [table] = evidence.reading.tables.as_slice() else { return Vec::new() };
    if one_rank(table) {
        return vec![one_rank::one_rank_reason(table, evidence, standard)];
    }
    let mut reasons = Vec::new();
    if let Some(criteria) = standard.criteria {
        reasons.extend(bounded(table, evidence, criteria));
    }
    reasons.extend_from_slice(standard.learned);
    if let Some(baseline) = standard.baseline {
        let against = baseline_reasons(table, fingerprint, baseline, standard);
        // If the comparison gives reasons, state the pin as well; the pin does not affect the verdict.
        if let (Some(pin), false) = (standard.pin, against.is_empty()) {
            reasons.push(Reason::new(Verdict::Pass, "PINNED", format!("the baseline is {pin}")));
        }
        reasons.extend(against);
    }
    reasons
}

/// Compares the table with the criteria's floors and reference.
fn bounded(table: &Table, evidence: &RunEvidence<'_>, criteria: &Criteria) -> Vec<Reason> {
    let subject = JudgedTable::of(table, (evidence.workload, evidence.cluster));
    let bounds = Bounds::of(&subject, criteria);
    let mut reasons: Vec<_> = bounds.floors.iter().map(|at| floor(table, at)).collect();
    if let Some(reference) = &bounds.reference {
        reasons.extend(reference::reasons(table, reference, criteria.tolerance));
    }
    if bounds.inapplicable {
        let text = format!("the criteria have no reference for {}", subject.name());
        reasons.push(Reason::new(Verdict::Inconclusive, "NO_REFERENCE", text));
    }
    reasons.extend(bounds.limit.and_then(|limit| efficiency(table, limit)));
    reasons
}

fn floor(table: &Table, floor: &Floor) -> Reason {
    let at_size = || halves(table).filter(|(bytes, _)| same_size(*bytes, floor.size_bytes));
    let slowest = at_size().map(|(_, half)| half.busbw).fold(f64::INFINITY, f64::min);
    let at = format!("at {}", size(floor.size_bytes));
    if at_size().next().is_none() {
        let text = format!("{at} nothing was measured, so the floor cannot be checked");
        Reason::new(Verdict::Inconclusive, "NOT_MEASURED", text)
    } else if slowest < floor.busbw {
        let text = format!("{at} bus bandwidth is {slowest} GB/s, below the floor of {} GB/s", floor.busbw);
        Reason::new(Verdict::Fail, "BELOW_FLOOR", text)
    } else {
        let text = format!("{at} bus bandwidth is {slowest} GB/s, the floor is {} GB/s", floor.busbw);
        Reason::new(Verdict::Pass, "ABOVE_FLOOR", text)
    }
}

/// Best bus bandwidth relative to the highest that the network permits. Information only, without an effect on the
/// verdict.
fn efficiency(table: &Table, limit: f64) -> Option<Reason> {
    let (bytes, best) = halves(table)
        .map(|(bytes, half)| (bytes, half.busbw))
        .filter(|(_, busbw)| busbw.is_finite())
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let text = format!(
        "efficiency {:.0} %: the best bus bandwidth is {best} GB/s at {}, the network permits {limit:.0} GB/s",
        100.0 * best / limit,
        size(bytes)
    );
    Some(Reason::new(Verdict::Pass, "EFFICIENCY", text))
}

/// Permitted slowdown of a region as a whole, and of a single size in both placements: the minimum tolerance,
/// and the number of spreads. Healthy latencies vary by up to 50 % from run to run; a healthy plateau varies by
/// less than 2 %.
struct RegionTolerance {
    region: f64,
    size: f64,
    spreads: f64,
}

/// Number of points below which the median is no better than a single point.
const FEW: usize = 8;

const fn tolerance(region: Region) -> RegionTolerance {
    match region {
        Region::Plateau => RegionTolerance { region: 0.02, size: 0.06, spreads: 5.0 },
        Region::Slope => RegionTolerance { region: 0.25, size: 0.6, spreads: 6.0 },
        Region::Latency => RegionTolerance { region: 1.0, size: 3.0, spreads: 8.0 },
    }
}

fn baseline_reasons(
    table: &Table,
    fingerprint: &Fingerprint,
    baseline: &Baseline,
    standard: &Standard<'_>,
) -> Vec<Reason> {
    if baseline.points.is_empty() {
        let text =
            "the baseline was learned from another program than nccl-tests and has no curve".to_owned();
        return vec![Reason::new(Verdict::Inconclusive, "BASELINE_OF_ANOTHER_PROGRAM", text)];
    }
    let changed: Vec<_> = baseline.fingerprint.differences(fingerprint).collect();
    let identity: Vec<_> = changed.iter().filter(|difference| difference.is_identity()).collect();
    if !identity.is_empty() {
        // Curves with different identities are not compared.
        let of = identity.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let next = match standard.pin {
            Some(_) => "release its pin, or pin a run of the current configuration",
            None => "learn one of the current configuration",
        };
        let text = format!("{of} when the baseline was learned: {next}");
        return vec![Reason::new(Verdict::Inconclusive, "OTHER_FINGERPRINT", text)];
    }
    let apart = baseline.repeatability();
    if apart > repeat::MAX_DISTANCE {
        let text = format!(
            "the {} healthy runs of the baseline do not repeat: their plateaus are up to {:.1} % from the median, at most {:.0} % is permitted; learn a new one from runs that repeat",
            baseline.runs,
            100.0 * apart,
            100.0 * repeat::MAX_DISTANCE
        );
        return vec![Reason::new(Verdict::Inconclusive, UNSTABLE, text)];
    }
    let mut reasons = Vec::new();
    let missing = baseline.points.len() - baseline.slowdowns(table).count();
    if missing > 0 {
        let were = if missing == 1 { "was" } else { "were" };
        let text =
            format!("{missing} of the baseline's {} points {were} not measured", baseline.points.len());
        reasons.push(Reason::new(Verdict::Inconclusive, "NOT_MEASURED", text));
    }
    let slower: Vec<_> =
        Region::ALL.into_iter().filter_map(|region| whole_region(table, baseline, region)).collect();
    let plateau = slower.iter().any(|(region, _)| *region == Region::Plateau);
    reasons.extend(slower.into_iter().map(|(_, reason)| reason));
    reasons.extend(single_sizes(table, baseline));
    let change = last_change(table, baseline, standard).filter(|_| !plateau);
    reasons.extend(change.and_then(drift_reason));
    let as_before = reasons.is_empty();
    reasons.extend(change.and_then(shift_reason));
    if !changed.is_empty() {
        let of = changed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let text = match reasons.iter().any(|reason| reason.weighs == Verdict::Fail) {
            true => format!("also changed since the baseline, a possible cause: {of}"),
            false => format!("{of} when the baseline was learned; the curve is the same"),
        };
        reasons.push(Reason::new(Verdict::Pass, "SETUP_CHANGED", text));
    }
    if as_before {
        let moved = baseline.level(table).unwrap_or(0.0);
        let text =
            format!("the plateau is within {:.1} % of {} healthy runs", 100.0 * moved.abs(), baseline.runs);
        reasons.push(Reason::new(Verdict::Pass, "AS_BASELINE", text));
    }
    reasons
}

/// The last change of the level, over the runs of the baseline, all later ones and this one.
fn last_change(table: &Table, baseline: &Baseline, standard: &Standard<'_>) -> Option<Change> {
    let runs = &baseline.levels;
    let levels: Vec<f64> =
        runs.iter().chain(standard.earlier).copied().chain(baseline.level(table)).collect();
    change(&levels, standard.defining_runs.unwrap_or(runs.len()).min(runs.len()))
}

fn drift_reason(change: Change) -> Option<Reason> {
    let Change::Drifted(LevelChange { runs, level, by }) = change else { return None };
    let text = format!(
        "in the last {runs} runs the plateau takes {:.1} % longer than the baseline, and {:.1} % longer than in the earlier runs",
        100.0 * level,
        100.0 * by
    );
    Some(Reason::new(Verdict::Fail, "DRIFTED", text))
}

fn shift_reason(change: Change) -> Option<Reason> {
    let Change::Shifted(LevelChange { runs, by, .. }) = change else { return None };
    let longer = if by > 0.0 { "longer" } else { "shorter" };
    let text = format!(
        "in the last {runs} runs the plateau takes {:.2} % {longer} than in the earlier runs; a change fails if it is certain and {:.1} % or more over the baseline",
        100.0 * by.abs(),
        100.0 * DRIFT
    );
    Some(Reason::new(Verdict::Pass, "SHIFTED", text))
}

impl Baseline {
    /// Permitted excess time of a region over the healthy runs, relative.
    #[must_use]
    pub fn tolerated(&self, region: Region) -> f64 {
        let spreads_here = || self.points.iter().filter(|point| point.region == region).map(|it| it.spread);
        let RegionTolerance { region: least, size, spreads } = tolerance(region);
        // Off the plateau, a region of two or three sizes is almost as noisy as a single one.
        let few = region != Region::Plateau && spreads_here().count() < FEW;
        let least = if few { size } else { least };
        match region {
            // A level within the spread of the healthy runs is not a failure.
            Region::Plateau => {
                least.max(spreads * self.plateau_spread).max(self.repeats_within.unwrap_or(0.0))
            }
            _ => least.max(spreads * spreads_here().fold(0.0, f64::max)),
        }
    }
}

fn whole_region(table: &Table, baseline: &Baseline, region: Region) -> Option<(Region, Reason)> {
    let slower = match region {
        Region::Plateau => baseline.level(table)?,
        // The region has few and noisy points, so require both placements: a fault of the cluster slows both.
        Region::Slope | Region::Latency => baseline.both_placements(table, region)?,
    };
    let most = baseline.tolerated(region);
    (slower > most).then(|| {
        let text = format!(
            "{} takes {:.1} % longer than in {} healthy runs; up to {:.1} % is noise",
            region.words(),
            100.0 * slower,
            baseline.runs,
            100.0 * most
        );
        (region, Reason::new(Verdict::Fail, "BELOW_BASELINE", text))
    })
}

/// A dip at one size is real if both placements show it.
fn single_sizes(table: &Table, baseline: &Baseline) -> Vec<Reason> {
    let slow: Vec<(&BaselinePoint, f64)> = baseline
        .slowdowns(table)
        .filter(|(point, slower)| {
            let RegionTolerance { size: least, spreads, .. } = tolerance(point.region);
            *slower > least.max(2.0 * spreads * point.spread)
        })
        .collect();
    let both = slow.iter().filter(|(point, _)| {
        let other = !point.key.in_place;
        !point.key.in_place
            && slow
                .iter()
                .any(|(twin, _)| twin.key.in_place == other && twin.key.size_bytes == point.key.size_bytes)
    });
    let dips = both.map(|(point, slower)| {
        let text = format!(
            "at {} both placements take much longer than the baseline, out of place {:.0} %",
            size(point.key.size_bytes),
            100.0 * slower
        );
        Reason::new(Verdict::Fail, "DIP", text)
    });
    dips.collect()
}
