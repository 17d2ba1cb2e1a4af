//! Compares a run with published results of the same kind of system.

use model::{
    Cluster, Criteria, Floor, Reason, Reference, Tolerance, Verdict, Workload,
    measurement::{Table, size},
};

use crate::{
    baseline::{Region, regions},
    evidence::RunEvidence,
    statistics::median,
};

/// Maximum relative difference between a measured size and the reference's: nccl-tests rounds a message so
/// that all ranks have equal parts.
pub const SAME_SIZE: f64 = 1e-3;
/// Bandwidths are printed with two decimals.
const FACTOR: f64 = 2e-3;
/// Multiple of the region's tolerance by which both placements may miss the reference at one size.
const DIP: f64 = 2.0;

pub(crate) fn reasons(table: &Table, evidence: &RunEvidence<'_>, criteria: &Criteria) -> Vec<Reason> {
    if criteria.references.is_empty() {
        return Vec::new();
    }
    let of = MeasuredPoint::of(table, evidence.workload, evidence.cluster);
    let Some(reference) = fitting(table, (evidence.workload, evidence.cluster), criteria) else {
        let collective = of.collective.unwrap_or("an unknown collective");
        let ranks = of.ranks.map_or_else(String::new, |ranks| format!(" over {ranks} ranks"));
        let text = format!("the criteria have no reference for {collective}{ranks}");
        return vec![Reason::new(Verdict::Inconclusive, "NO_REFERENCE", text)];
    };
    against(table, reference, criteria.tolerance)
}

/// The first reference applicable to a table. The requested benchmark and cluster are known only for a run.
#[must_use]
pub fn fitting<'a>(
    table: &Table,
    (workload, cluster): (Option<&Workload>, Option<&Cluster>),
    criteria: &'a Criteria,
) -> Option<&'a Reference> {
    let of = MeasuredPoint::of(table, workload, cluster);
    criteria.references.iter().find(|reference| of.fits(reference))
}

/// Region of each point of a reference.
pub fn regions_of(reference: &Reference) -> Vec<Region> {
    let curve: Vec<_> =
        reference.points.iter().map(|at| (at.size_bytes, at.size_bytes as f64 / at.busbw)).collect();
    regions(&curve).collect()
}

/// Known properties of the measurement.
struct MeasuredPoint<'a> {
    collective: Option<&'a str>,
    ranks: Option<u32>,
    factor: Option<f64>,
}

impl<'a> MeasuredPoint<'a> {
    fn of(table: &'a Table, workload: Option<&'a Workload>, cluster: Option<&Cluster>) -> Self {
        let asked = workload.map(|workload| workload.collective.as_str());
        Self {
            collective: table.collective.as_deref().or(asked),
            ranks: table.ranks.or(cluster.map(Cluster::slots)),
            factor: factor(table),
        }
    }

    /// Old programs do not print collective and ranks: the ratio of bus to algorithm bandwidth identifies
    /// them.
    fn fits(&self, reference: &Reference) -> bool {
        let collective = self.collective.is_none_or(|collective| collective == reference.collective.as_str());
        let ranks = reference.ranks.is_none_or(|ranks| self.ranks.is_none_or(|of| of == ranks));
        let told = self.collective.is_some() && (self.ranks.is_some() || reference.ranks.is_none());
        let factor = || match (self.factor, reference.ranks.or(self.ranks)) {
            (Some(factor), Some(ranks)) => {
                (factor / reference.collective.bus_factor(ranks) - 1.0).abs() < FACTOR
            }
            _ => false,
        };
        collective && ranks && (told || factor())
    }
}

/// Ratio of bus to algorithm bandwidth at the row with most digits.
fn factor(table: &Table) -> Option<f64> {
    let halves = table.rows.iter().flat_map(|row| [&row.out_of_place, &row.in_place]).flatten();
    let fastest = halves.max_by(|a, b| a.algbw.total_cmp(&b.algbw))?;
    (fastest.algbw > 0.0).then(|| fastest.busbw / fastest.algbw)
}

/// A point of the reference with its measurements.
struct Compared {
    at: Floor,
    region: Region,
    /// Shortfall from the reference's bandwidth as a fraction, for each measured placement. Negative if
    /// faster.
    missing: Vec<f64>,
}

fn against(table: &Table, reference: &Reference, tolerance: Tolerance) -> Vec<Reason> {
    let compared: Vec<_> = (reference.points.iter().zip(regions_of(reference)))
        .map(|(at, region)| Compared { at: *at, region, missing: missing(table, at) })
        .collect();
    let mut reasons = Vec::new();
    let unmeasured: Vec<_> = compared.iter().filter(|point| point.missing.is_empty()).collect();
    if let Some(first) = unmeasured.first() {
        let text = format!(
            "{} of the reference's {} sizes were not measured, the first is {}",
            unmeasured.len(),
            compared.len(),
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

fn missing(table: &Table, at: &Floor) -> Vec<f64> {
    let asked = at.size_bytes as f64;
    let row = table.rows.iter().find(|row| (row.size_bytes as f64 - asked).abs() <= SAME_SIZE * asked);
    let halves = row.into_iter().flat_map(|row| [&row.out_of_place, &row.in_place]).flatten();
    halves.map(|half| 1.0 - half.busbw / at.busbw).collect()
}

/// Relation of a bandwidth to a reference that exceeds it by the fraction `below`.
fn relation(below: f64) -> String {
    let percent = format!("{:.1}", 100.0 * below.abs());
    match percent.as_str() {
        "0.0" => "equals".to_owned(),
        percent if below > 0.0 => format!("is {percent} % below"),
        percent => format!("is {percent} % above"),
    }
}
