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
    /// Least shortfall of the placements of a row, in the worst row that has both.
    of_both: Option<f64>,
}

pub(crate) fn reasons(table: &Table, reference: &Reference, tolerance: Tolerance) -> Vec<Reason> {
    let compared: Vec<_> = (reference.points.iter().zip(regions_of(reference)))
        .map(|(at, region)| compared(table, *at, region))
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
        point.of_both.is_some_and(|missing| missing > most)
    });
    reasons.extend(dips.map(|point| {
        let text = format!(
            "at {} both placements are at least {:.0} % below the reference's {} GB/s",
            size(point.at.size_bytes),
            100.0 * point.of_both.unwrap_or_default(),
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

/// Compares a point with all rows of its size: a log may contain several cycles over the sizes. Of several data types or operations only the
/// first one is compared.
fn compared(table: &Table, at: CurvePoint, region: Region) -> Compared {
    let mut of_size = table.rows.iter().filter(|row| same_size(row.size_bytes, at.size_bytes)).peekable();
    let kind = of_size.peek().map(|row| (&row.dtype, &row.redop));
    let rows = of_size.filter(|row| Some((&row.dtype, &row.redop)) == kind);
    let (mut missing, mut of_both) = (Vec::new(), None);
    for row in rows {
        let placements =
            [&row.out_of_place, &row.in_place].map(|half| Some(1.0 - half.as_ref()?.busbw / at.busbw));
        if let [Some(one), Some(other)] = placements {
            of_both = Some(one.min(other).max(of_both.unwrap_or(f64::NEG_INFINITY)));
        }
        missing.extend(placements.into_iter().flatten());
    }
    Compared { at, region, missing, of_both }
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
