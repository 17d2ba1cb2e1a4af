//! Compares a run with published results of the same kind of system.

use model::{
    CurvePoint, Reason, Reference, Tolerance, Verdict,
    measurement::{Table, size},
};

use crate::{
    baseline::document::{Region, regions},
    bounds::same_size,
    statistics::median,
};

/// Multiple of the region's tolerance by which both placements may miss the reference at one size.
const DIP: f64 = 2.0;

/// Region of each point of a reference.
pub fn regions_of(reference: &Reference) -> Vec<Region> {
    let curve: Vec<_> =
        reference.points.iter().map(|at| (at.size_bytes, at.size_bytes as f64 / at.busbw)).collect();
    regions(&curve).collect()
}

/// A point of the reference with its measurements.
struct Compared {
    at: CurvePoint,
    region: Region,
    /// Shortfall from the reference's bandwidth as a fraction, for each measured placement. Negative if
    /// faster.
    missing: Vec<f64>,
}

pub(crate) fn reasons(table: &Table, reference: &Reference, tolerance: Tolerance) -> Vec<Reason> {
    let compared: Vec<_> = (reference.points.iter().zip(regions_of(reference)))
        .map(|(at, region)| Compared { at: *at, region, missing: missing(table, at) })
        .collect();
    let mut reasons = Vec::new();
    let unmeasured: Vec<_> = compared.iter().filter(|point| point.missing.is_empty()).collect();
    if let Some(first) = unmeasured.first() {
        let text = format!(
            "{} of the reference's {} sizes {} not measured; the first is {}",
            unmeasured.len(),
            compared.len(),
            if unmeasured.len() == 1 { "was" } else { "were" },
            size(first.at.size_bytes)
        );
        reasons.push(Reason::new(Verdict::Inconclusive, "NOT_MEASURED", text));
    }
    for region in Region::ALL {
        let here = compared.iter().filter(|point| point.region == region);
        let missing: Vec<_> = here.flat_map(|point| point.missing.iter().copied()).collect();
        let (below, most) = (median(missing), tolerated(tolerance, region));
        if below > most {
            let text = format!(
                "{} is {:.0} % below the reference ({}); {:.0} % would be tolerated",
                region.words(),
                100.0 * below,
                reference.source,
                100.0 * most
            );
            reasons.push(Reason::new(Verdict::Fail, "BELOW_REFERENCE", text));
        }
    }
    let dips = compared.iter().filter(|point| {
        let most = DIP * tolerated(tolerance, point.region);
        point.missing.len() == 2 && point.missing.iter().all(|missing| *missing > most)
    });
    reasons.extend(dips.map(|point| {
        let text = format!(
            "at {} both placements are at least {:.0} % below the reference's {} GB/s",
            size(point.at.size_bytes),
            100.0 * point.missing.iter().copied().fold(f64::INFINITY, f64::min),
            point.at.busbw
        );
        Reason::new(Verdict::Fail, "DIP", text)
    }));
    if reasons.is_empty() {
        let plateau = compared.iter().filter(|point| point.region == Region::Plateau);
        let below = median(plateau.flat_map(|point| point.missing.iter().copied()).collect());
        let text =
            format!("the plateau's bus bandwidth {} the reference ({})", relation(below), reference.source);
        reasons.push(Reason::new(Verdict::Pass, "AS_REFERENCE", text));
    }
    reasons
}

/// Permitted shortfall of a region from a reference, as a fraction.
pub const fn tolerated(tolerance: Tolerance, region: Region) -> f64 {
    match region {
        Region::Plateau => tolerance.plateau,
        Region::Slope => tolerance.slope,
        Region::Latency => tolerance.latency,
    }
}

fn missing(table: &Table, at: &CurvePoint) -> Vec<f64> {
    let row = table.rows.iter().find(|row| same_size(row.size_bytes, at.size_bytes));
    let halves = row.into_iter().flat_map(|row| [&row.out_of_place, &row.in_place]).flatten();
    halves.map(|half| 1.0 - half.busbw / at.busbw).collect()
}

/// Compares a bandwidth with a reference in words; `below` is the shortfall as a fraction, negative above the reference.
fn relation(below: f64) -> String {
    let percent = format!("{:.1}", 100.0 * below.abs());
    match percent.as_str() {
        "0.0" => "equals".to_owned(),
        percent if below > 0.0 => format!("is {percent} % below"),
        percent => format!("is {percent} % above"),
    }
}
