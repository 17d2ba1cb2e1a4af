//! References and bounds of a table, by size.

use std::{borrow::Cow, collections::BTreeMap, rc::Rc};

use model::{
    CurvePoint, Floor, Reference, Tolerance,
    measurement::{Half, Row},
};
use verdict::{
    Baseline,
    baseline::{BaselinePoint, Region},
    bounds::{Bounds, JudgedTable, same_size},
    one_rank,
    reference::{regions_of, tolerated},
};

use super::Placed;
use crate::{ReportInput, ReportedLog};

/// The baseline's values for one placement of one size.
pub struct Expected {
    pub region: Region,
    /// Median time of the healthy runs, microseconds.
    pub time_us: f64,
    /// Range of times within the noise.
    pub band_us: [f64; 2],
}

/// Range of the bus bandwidth within the noise, at one point of the baseline's curve, GB/s.
#[derive(Clone, Copy)]
pub struct Band {
    pub size_bytes: u64,
    pub busbw: [f64; 2],
}

/// Key of a row: its size, type and operation, and whether it is in place.
type SizePosition<'a> = (u64, &'a str, Option<&'a str>, bool);

/// All references and bounds of a table.
#[derive(Clone)]
pub struct TableReferences<'a> {
    floors: Vec<Floor>,
    /// The matching reference, with the region of each point.
    reference: Option<(Cow<'a, Reference>, Rc<Vec<Region>>)>,
    tolerance: Tolerance,
    baseline: Option<&'a Baseline>,
    points: Rc<BTreeMap<SizePosition<'a>, &'a BaselinePoint>>,
    noise: [f64; 3],
}

impl<'a> TableReferences<'a> {
    /// References and bounds of a log. If the log has several tables, it is unknown which of them was requested, so no bound applies.
    pub fn of(input: &ReportInput<'a>, log: &ReportedLog<'a>) -> Self {
        let criteria = input.standard.criteria;
        let alone = match log.reading.tables.as_slice() {
            // One rank has no bus bandwidth to compare.
            [table] => Some(table).filter(|table| !one_rank(table)),
            _ => None,
        };
        let bounds =
            alone.zip(criteria).map(|(table, it)| Bounds::of(&JudgedTable::of(table, input.requested()), it));
        let Bounds { floors, reference, .. } = bounds.unwrap_or_default();
        let baseline = alone.and_then(|_| input.baseline(log));
        let points = baseline.map_or(&[][..], |baseline| &baseline.points);
        let key = |point: &'a BaselinePoint| {
            let key = &point.key;
            ((key.size_bytes, key.dtype.as_str(), key.redop.as_deref(), key.in_place), point)
        };
        let regions = reference.as_deref().map(|reference| Rc::new(regions_of(reference)));
        Self {
            floors: floors.into_iter().filter(|floor| floor.busbw.is_finite()).collect(),
            reference: reference.zip(regions),
            tolerance: criteria.map(|criteria| criteria.tolerance).unwrap_or_default(),
            baseline,
            points: Rc::new(points.iter().map(key).collect()),
            noise: Region::ALL.map(|region| baseline.map_or(0.0, |baseline| baseline.tolerated(region))),
        }
    }

    pub fn floors(&self) -> &[Floor] {
        &self.floors
    }

    pub fn reference(&self) -> Option<&Reference> {
        self.reference.as_ref().map(|(reference, _)| reference.as_ref())
    }

    pub const fn baseline(&self) -> Option<&'a Baseline> {
        self.baseline
    }

    /// The highest floor of a size.
    pub fn floor_at(&self, size_bytes: u64) -> Option<f64> {
        let here = self.floors.iter().filter(|floor| same_size(size_bytes, floor.size_bytes));
        here.map(|floor| floor.busbw).reduce(f64::max)
    }

    /// The reference's bandwidth at a size, and its region.
    pub fn reference_at(&self, size_bytes: u64) -> Option<(f64, Region)> {
        let (reference, regions) = self.reference.as_ref()?;
        let same = |at: &CurvePoint| same_size(size_bytes, at.size_bytes);
        let found = reference.points.iter().zip(regions.iter()).find(|(at, _)| same(at));
        found.map(|(at, region)| (at.busbw, *region))
    }

    /// A measurement with its references and bounds.
    pub fn placed<'m>(&self, row: &'m Row, half: &'m Half, in_place: bool) -> Placed<'m>
    where
        'a: 'm,
    {
        let key = (row.size_bytes, row.dtype.as_str(), row.redop.as_deref(), in_place);
        let expected = self.points.get(&key).map(|point| {
            let noise = 1.0 + self.noise(point.region);
            let band_us = [point.time_us / noise, point.time_us * noise];
            Expected { region: point.region, time_us: point.time_us, band_us }
        });
        let least = self.reference_at(row.size_bytes);
        let least = least.map(|(busbw, region)| busbw * (1.0 - tolerated(self.tolerance, region)));
        let below = [
            ("floor", self.floor_at(row.size_bytes).is_some_and(|floor| half.busbw < floor)),
            ("reference", least.is_some_and(|least| half.busbw < least)),
            ("baseline", expected.as_ref().is_some_and(|it| half.time_us > it.band_us[1])),
        ];
        let below = below.into_iter().filter(|(_, below)| *below).map(|(what, _)| what).collect();
        Placed { half, expected, below }
    }

    /// The baseline's curve, wide enough for both placements. If the tolerance of a small size is large, the bound of that size is limited
    /// to the bound of larger sizes.
    pub fn band(&self) -> Vec<Band> {
        let mut band: Vec<Band> = Vec::new();
        let mut medians: Vec<f64> = Vec::new();
        for point in self.baseline.map_or(&[][..], |baseline| &baseline.points) {
            let noise = 1.0 + self.noise(point.region);
            let [low, high] = [point.busbw / noise, point.busbw * noise];
            match band.last_mut().filter(|last| last.size_bytes == point.key.size_bytes) {
                Some(last) => last.busbw = [last.busbw[0].min(low), last.busbw[1].max(high)],
                None => {
                    band.push(Band { size_bytes: point.key.size_bytes, busbw: [low, high] });
                    medians.push(point.busbw);
                }
            }
        }
        let mut above = f64::INFINITY;
        for (at, median) in band.iter_mut().zip(medians).rev() {
            above = at.busbw[1].min(above).max(median);
            at.busbw[1] = above;
        }
        band
    }

    fn noise(&self, of: Region) -> f64 {
        Region::ALL.iter().position(|region| *region == of).map_or(0.0, |at| self.noise[at])
    }
}
