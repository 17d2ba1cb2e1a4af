//! Measurements of a log as data, for JSON: one entry per size and placement, with the columns of the CSV form.

use schemars::JsonSchema;
use serde::Serialize;
use verdict::baseline::Region;

use crate::{
    ReportInput, ReportedLog,
    measured::{self, MeasuredSize, MeasuredTable, Placed},
};

/// One placement of one size, with its references and bounds. The field names are an interface.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlacementMeasurement {
    /// Index of the table in the log, starting at 0.
    pub table: usize,
    /// Collective, such as `all_reduce`.
    pub collective: Option<String>,
    /// Number of ranks.
    pub ranks: Option<u32>,
    /// Message size, bytes.
    pub size_bytes: u64,
    /// Data type as printed.
    pub dtype: String,
    /// Reduction; absent for collectives without a reduction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redop: Option<String>,
    /// Placement of the buffers: `out_of_place` or `in_place`.
    pub placement: &'static str,
    /// Part of the curve to which the size belongs.
    pub region: Option<Region>,
    /// Time, microseconds; null if the log has no number.
    pub time_us: Option<f64>,
    /// Algorithm bandwidth, GB/s.
    pub algbw: Option<f64>,
    /// Bus bandwidth, GB/s.
    pub busbw: Option<f64>,
    /// Elements with wrong values; null if not checked.
    pub wrong: Option<u64>,
    /// Floor of the criteria at this size, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_busbw: Option<f64>,
    /// Reference of the criteria at this size, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_busbw: Option<f64>,
    /// Median time of the baseline, microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_time_us: Option<f64>,
    /// Excess time over the baseline, relative: 0.03 is 3 % more time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// Missed bounds: `floor`, `reference`, `baseline`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<&'static str>,
}

#[must_use]
pub fn placements(input: &ReportInput<'_>, log: &ReportedLog<'_>) -> Vec<PlacementMeasurement> {
    let mut all = Vec::new();
    for table in measured::tables(input, log) {
        for row in &table.rows {
            let placed = [("out_of_place", &row.out_of_place), ("in_place", &row.in_place)];
            let placed = placed.into_iter().filter_map(|(name, placed)| Some((name, placed.as_ref()?)));
            all.extend(placed.map(|(placement, placed)| one(&table, row, placed, placement)));
        }
    }
    all
}

fn one(
    table: &MeasuredTable<'_>,
    row: &MeasuredSize<'_>,
    placed: &Placed<'_>,
    placement: &'static str,
) -> PlacementMeasurement {
    let number = |value: f64| value.is_finite().then_some(value);
    PlacementMeasurement {
        table: table.number,
        collective: table.table.collective.clone(),
        ranks: table.table.ranks,
        size_bytes: row.size_bytes,
        dtype: row.dtype.to_owned(),
        redop: row.redop.map(str::to_owned),
        placement,
        region: row.region,
        time_us: number(placed.half.time_us),
        algbw: number(placed.half.algbw),
        busbw: number(placed.half.busbw),
        wrong: placed.half.wrong,
        floor_busbw: row.floor,
        reference_busbw: row.reference.and_then(number),
        baseline_time_us: placed.expected.as_ref().and_then(|it| number(it.time_us)),
        slowdown: placed.slower(),
        below: placed.below.clone(),
    }
}
