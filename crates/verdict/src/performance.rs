//! Is it as fast as it should be? Only asked of a sane table.

use terms::{
    Criteria, Reason, Verdict,
    measurement::{Table, size},
};

use crate::{
    baseline::{Baseline, Point, Region, difference, fingerprint},
    judge::{Evidence, reason},
    sanity::halves,
};

pub fn reasons(
    evidence: &Evidence<'_>,
    criteria: Option<&Criteria>,
    baseline: Option<&Baseline>,
) -> Vec<Reason> {
    let [table] = evidence.reading.tables.as_slice() else { return Vec::new() };
    let mut reasons = criteria.map(|criteria| floors(table, criteria)).unwrap_or_default();
    if let Some(baseline) = baseline {
        reasons.extend(against(table, baseline));
    }
    reasons
}

fn floors(table: &Table, criteria: &Criteria) -> Vec<Reason> {
    let judged = criteria.floors.iter().map(|floor| {
        let at_size =
            || halves(table).filter(|(bytes, _)| *bytes == floor.size_bytes).map(|(_, half)| half.busbw);
        let slowest = at_size().fold(f64::INFINITY, f64::min);
        let at = format!("at {}", size(floor.size_bytes));
        if at_size().next().is_none() {
            let text = format!("{at} nothing was measured, so the floor cannot be checked");
            reason(Verdict::Inconclusive, "NOT_MEASURED", text)
        } else if slowest < floor.busbw {
            let text =
                format!("{at} bus bandwidth is {slowest} GB/s, below the floor of {} GB/s", floor.busbw);
            reason(Verdict::Fail, "BELOW_FLOOR", text)
        } else {
            let text = format!("{at} bus bandwidth is {slowest} GB/s, the floor is {} GB/s", floor.busbw);
            reason(Verdict::Pass, "ABOVE_FLOOR", text)
        }
    });
    judged.collect()
}

/// How much slower a region as a whole may be, and how much a single size in both placements: the least tolerance, and
/// the number of spreads. Healthy latencies move by half from run to run; a healthy plateau does not move by 2 %.
struct Tolerance {
    region: f64,
    size: f64,
    spreads: f64,
}

const fn tolerance(region: Region) -> Tolerance {
    match region {
        Region::Plateau => Tolerance { region: 0.02, size: 0.06, spreads: 5.0 },
        Region::Slope => Tolerance { region: 0.25, size: 0.6, spreads: 6.0 },
        Region::Latency => Tolerance { region: 1.0, size: 3.0, spreads: 8.0 },
    }
}

fn against(table: &Table, baseline: &Baseline) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let changed = difference(&baseline.fingerprint, &fingerprint(table));
    let missing = baseline.points.len() - baseline.slowdowns(table).count();
    if missing > 0 {
        let text = format!("{missing} of the baseline's {} points were not measured", baseline.points.len());
        reasons.push(reason(Verdict::Inconclusive, "NOT_MEASURED", text));
    }
    for region in [Region::Plateau, Region::Slope, Region::Latency] {
        reasons.extend(whole_region(table, baseline, region));
    }
    reasons.extend(single_sizes(table, baseline));
    if let Some(field) = changed {
        let of = |fields: &std::collections::BTreeMap<String, String>| {
            fields.get(&field).cloned().unwrap_or_else(|| "unknown".to_owned())
        };
        let text = format!(
            "{field} is {} and was {} when the baseline was learned: learn a new one",
            of(&fingerprint(table)),
            of(&baseline.fingerprint)
        );
        reasons.push(reason(Verdict::Inconclusive, "OTHER_FINGERPRINT", text));
    }
    if reasons.is_empty() {
        let moved = baseline.offset(table, Region::Plateau).unwrap_or(0.0);
        let text =
            format!("the plateau is within {:.1} % of {} healthy runs", 100.0 * moved.abs(), baseline.runs);
        reasons.push(reason(Verdict::Pass, "AS_BASELINE", text));
    }
    reasons
}

fn whole_region(table: &Table, baseline: &Baseline, region: Region) -> Option<Reason> {
    let slower = baseline.offset(table, region)?;
    let Tolerance { region: least, spreads, .. } = tolerance(region);
    let spread = match region {
        Region::Plateau => baseline.plateau_spread,
        _ => baseline
            .points
            .iter()
            .filter(|point| point.region == region)
            .map(|point| point.spread)
            .fold(0.0, f64::max),
    };
    let most = least.max(spreads * spread);
    (slower > most).then(|| {
        let name = match region {
            Region::Plateau => "the plateau",
            Region::Slope => "the slope of the curve",
            Region::Latency => "latency",
        };
        let text = format!(
            "{name} takes {:.1} % longer than in {} healthy runs; {:.1} % would still be noise",
            100.0 * slower,
            baseline.runs,
            100.0 * most
        );
        reason(Verdict::Fail, "BELOW_BASELINE", text)
    })
}

/// A dip at one size is real when both placements show it.
fn single_sizes(table: &Table, baseline: &Baseline) -> Vec<Reason> {
    let slow: Vec<(&Point, f64)> = baseline
        .slowdowns(table)
        .filter(|(point, slower)| {
            let Tolerance { size: least, spreads, .. } = tolerance(point.region);
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
        reason(Verdict::Fail, "DIP", text)
    });
    dips.collect()
}
