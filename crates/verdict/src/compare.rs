//! Compares two runs: their fingerprints, regions of the curve, and points.

use std::collections::BTreeMap;

use model::measurement::Table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    baseline::document::{Region, SizeKey, halves, regions},
    fingerprint::Fingerprint,
    statistics::median,
};

/// Differences between two runs. This is the document `burnin/compare/v1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Schema of the document: always `burnin/compare/v1`.
    pub schema: String,
    /// Fields of the fingerprint that differ.
    pub fingerprint: Vec<ChangedField>,
    /// Each region of the curve as a whole.
    pub regions: Vec<RegionChange>,
    /// Each size, type, operation and placement that both runs measured.
    pub points: Vec<PointChange>,
    /// Points that only one of the runs measured.
    pub unmatched: usize,
}

/// A field of the fingerprint with different values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedField {
    /// Name of the field, such as `nccl`.
    pub field: String,
    /// Value in the first run.
    pub a: String,
    /// Value in the second run.
    pub b: String,
    /// Whether this field makes the two runs incomparable.
    pub identity: bool,
}

/// Change of one region of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RegionChange {
    /// Region in the first run.
    pub region: Region,
    /// Median excess time of the second run over the region's points, relative: 0.03 is 3 % more time.
    pub slower: f64,
    /// Interquartile range of the excess time over the region's points.
    pub quartiles: [f64; 2],
    /// Number of points.
    pub points: usize,
}

/// Change of one point of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointChange {
    /// Measured size, type, operation and placement.
    #[serde(flatten)]
    pub key: SizeKey,
    /// Region in the first run.
    pub region: Region,
    /// Bus bandwidth of the first run, GB/s.
    pub a_busbw: f64,
    /// Bus bandwidth of the second run, GB/s.
    pub b_busbw: f64,
    /// Excess time of the second run, as a fraction of the first run's time.
    pub slower: f64,
}

impl Comparison {
    /// Whether the two runs have common points and are comparable.
    #[must_use]
    pub fn comparable(&self) -> bool {
        !self.points.is_empty() && self.fingerprint.iter().all(|changed| !changed.identity)
    }

    /// Whether the second plateau is slower by more than the maximum difference of two healthy runs.
    #[must_use]
    pub fn slower_where_it_counts(&self) -> bool {
        self.regions.iter().any(|region| region.region == Region::Plateau && region.slower > NOISE)
    }
}

/// Maximum difference of two healthy runs on the plateau.
const NOISE: f64 = 0.02;

/// Compares the second run with the first.
#[must_use]
pub fn compare(a: (&Table, &Fingerprint), b: (&Table, &Fingerprint)) -> Comparison {
    let fingerprint = (a.1.differences(b.1))
        .map(|difference| ChangedField {
            field: difference.name.to_owned(),
            a: difference.before.to_owned(),
            b: difference.after.to_owned(),
            identity: difference.is_identity(),
        })
        .collect();
    let first: BTreeMap<SizeKey, _> = halves(a.0).collect();
    let second: BTreeMap<SizeKey, _> = halves(b.0).collect();
    let curve: Vec<_> = first.iter().map(|(key, half)| (key.size_bytes, half.time_us)).collect();
    let points: Vec<_> = (first.iter().zip(regions(&curve)))
        .filter_map(|((key, before), region)| {
            let after = second.get(key)?;
            Some(PointChange {
                key: key.clone(),
                region,
                a_busbw: before.busbw,
                b_busbw: after.busbw,
                slower: after.time_us / before.time_us - 1.0,
            })
        })
        .collect();
    let unmatched = first.len() + second.len() - 2 * points.len();
    let regions = Region::ALL.into_iter().filter_map(|region| of_region(region, &points)).collect();
    Comparison { schema: "burnin/compare/v1".to_owned(), fingerprint, regions, points, unmatched }
}

fn of_region(region: Region, points: &[PointChange]) -> Option<RegionChange> {
    let mut slower: Vec<f64> =
        points.iter().filter(|point| point.region == region).map(|point| point.slower).collect();
    slower.sort_by(f64::total_cmp);
    let at = |part: f64| slower[((slower.len() - 1) as f64 * part).round() as usize];
    let quartiles = if slower.is_empty() { return None } else { [at(0.25), at(0.75)] };
    Some(RegionChange { region, quartiles, points: slower.len(), slower: median(slower) })
}
