//! Each message size over a workflow's runs: slowdowns and their start.

use std::fmt::Write;

use model::measurement::Table;
use serde::Serialize;
use verdict::{
    Baseline,
    baseline::{LEAST_SPREAD, Region, regions},
    history::{Segment, segments},
};

use crate::{
    history::percent,
    render,
    text::{self, figure},
};

/// Maximum number of sizes; only the largest sizes are shown.
const SIZES: usize = 64;
/// Upper limit of a valid ratio.
const ABSURD: f64 = 1e6;
/// Minimum reported change, as a fraction of the time.
const MIN_REPORTED_CHANGE: f64 = 0.005;
/// View box of the chart.
const WIDE: f64 = 240.0;
const HIGH: f64 = 40.0;
/// Margin around the points.
const ROOM: f64 = 3.0;

/// A run in the series.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    pub run: &'a str,
    /// Time of the request, for display.
    pub at: &'a str,
    /// Measurements of the run.
    pub table: &'a Table,
}

/// Comparable runs, oldest first; the last one is reported.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Runs of the series; with fewer than two the section is omitted.
    pub runs: &'a [Earlier<'a>],
    /// Baseline of the last run, if any.
    pub baseline: Option<&'a Baseline>,
}

#[derive(Serialize)]
struct SizePage {
    runs: usize,
    first: String,
    baseline: bool,
    rows: Vec<SizeRow>,
    more: usize,
    /// Whether the level of any size changed.
    changes: bool,
}

#[derive(Serialize)]
struct SizeRow {
    size: String,
    busbw: String,
    /// Difference from the usual time of this size.
    slower: String,
    bad: bool,
    /// Last change, as text.
    last_change: String,
    view: String,
    /// The tolerance band, top and bottom, in view box units.
    band: Option<(String, String)>,
    level: String,
    points: String,
    changes: Vec<String>,
    last: (String, String),
    described: String,
}

/// The section, for embedding in a page with the style [`CSS`](crate::CSS); empty for fewer than two runs.
#[must_use]
pub fn part(series: Series<'_>) -> String {
    let Some(data) = SizePage::of(series) else { return String::new() };
    render::body(include_str!("../templates/sizes.html.j2"), data)
        .unwrap_or_else(|error| render::template_error(&error))
}

impl SizePage {
    fn of(series: Series<'_>) -> Option<Self> {
        let (last, before) = series.runs.split_last()?;
        let first = before.first()?;
        let curve: Vec<_> =
            sizes(last.table).into_iter().filter_map(|size| Some((size, last.time(size)?))).collect();
        let parts: Vec<_> = regions(&curve).collect();
        let of_size = |((size, _), region): (&(u64, f64), Region)| row(series, *size, region);
        let mut rows: Vec<_> = curve.iter().zip(parts).filter_map(of_size).collect();
        let more = rows.len().saturating_sub(SIZES);
        rows.drain(..more);
        (!rows.is_empty()).then(|| Self {
            runs: series.runs.len(),
            first: first.at.to_owned(),
            baseline: series.baseline.is_some(),
            changes: rows.iter().any(|row| !row.changes.is_empty()),
            rows,
            more,
        })
    }
}

fn sizes(table: &Table) -> Vec<u64> {
    let mut sizes: Vec<_> = table.rows.iter().map(|row| row.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

impl Earlier<'_> {
    /// Time of the faster placement at a size, microseconds. A cluster fault slows both.
    fn time(&self, size: u64) -> Option<f64> {
        let rows = self.table.rows.iter().filter(|row| row.size_bytes == size);
        let halves = rows.flat_map(|row| [&row.out_of_place, &row.in_place]).flatten();
        let times = halves.map(|half| half.time_us).filter(|time| time.is_finite() && *time > 0.0);
        times.min_by(f64::total_cmp)
    }

    fn busbw(&self, size: u64) -> Option<f64> {
        let rows = self.table.rows.iter().filter(|row| row.size_bytes == size);
        rows.flat_map(|row| [&row.out_of_place, &row.in_place])
            .flatten()
            .map(|half| half.busbw)
            .max_by(f64::total_cmp)
    }
}

fn row(series: Series<'_>, size: u64, region: Region) -> Option<SizeRow> {
    let measured: Vec<_> = series.runs.iter().filter_map(|run| Some((run, run.time(size)?))).collect();
    let known = series.baseline.and_then(|baseline| {
        let points = baseline.points.iter().filter(|point| point.key.size_bytes == size);
        let fastest = points.min_by(|a, b| a.time_us.total_cmp(&b.time_us))?;
        Some((fastest.time_us, baseline.tolerated(fastest.region)))
    });
    let usual = match known {
        Some((time, _)) => time,
        None => median(measured.iter().map(|(_, time)| *time)),
    };
    let levels: Vec<_> = measured.iter().map(|(run, time)| (*run, time / usual - 1.0)).collect();
    let levels: Vec<_> = levels.into_iter().filter(|(_, level)| level.abs() < ABSURD).collect();
    let (reported, slower) = levels.last().filter(|_| levels.len() > 1)?;
    let values: Vec<_> = levels.iter().map(|(_, level)| *level).collect();
    let mut segments = segments(&values, noise(region));
    for stretch in &mut segments {
        // The level search returns only values of a grid: the median of the runs is more precise.
        stretch.level = median(values[stretch.first..stretch.end].iter().copied());
    }
    let tolerated = known.map(|(_, tolerated)| tolerated);
    let bad = tolerated.is_some_and(|tolerated| *slower > tolerated);
    let change = match segments.as_slice() {
        [.., before, now] if (now.level - before.level).abs() >= MIN_REPORTED_CHANGE => {
            let since = levels[now.first].0;
            format!("{} since {}, {}", percent(now.level - before.level), since.at, since.run)
        }
        _ => String::new(),
    };
    let picture = PlotCoordinates::of(&values, &segments, tolerated);
    let described = match change.as_str() {
        "" => format!("{} on one level", text::count(values.len() as u64, "run")),
        change => format!("{} runs: {change}", values.len()),
    };
    Some(SizeRow {
        size: text::size(size),
        busbw: reported.busbw(size).map_or_else(|| "-".to_owned(), figure),
        slower: percent(*slower),
        bad,
        last_change: change,
        view: format!("0 0 {WIDE} {HIGH}"),
        band: tolerated.map(|tolerated| picture.band(tolerated)),
        level: picture.steps(&segments),
        points: picture.line(&values),
        changes: picture.changes(&segments),
        last: picture.last_point(*slower),
        described,
    })
}

/// Minimum noise assumed for one run.
const fn noise(region: Region) -> f64 {
    match region {
        Region::Plateau => LEAST_SPREAD,
        // Healthy latencies vary by up to 50 % from run to run.
        Region::Slope => 10.0 * LEAST_SPREAD,
        Region::Latency => 50.0 * LEAST_SPREAD,
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(1.0)
}

/// Coordinates in the view box.
struct PlotCoordinates {
    count: usize,
    /// Half of the shown range around the usual value.
    scale: f64,
}

impl PlotCoordinates {
    fn of(values: &[f64], segments: &[Segment], tolerated: Option<f64>) -> Self {
        // An outlier is drawn at the edge, because a range that includes the outlier would make lasting changes too
        // small to read.
        let levels = segments.iter().map(|stretch| stretch.level.abs());
        let mut far: Vec<_> = values.iter().map(|value| value.abs()).collect();
        far.sort_by(f64::total_cmp);
        let most = far.get(far.len() * 9 / 10).copied();
        let scale = levels.chain(tolerated).chain(most).fold(LEAST_SPREAD, f64::max);
        Self { count: values.len(), scale: 1.2 * scale }
    }

    fn x(&self, at: f64) -> f64 {
        let last = (self.count.saturating_sub(1)).max(1) as f64;
        ROOM + (WIDE - 2.0 * ROOM) * (at / last).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let up = (value / self.scale).clamp(-1.0, 1.0);
        HIGH / 2.0 - up * (HIGH / 2.0 - ROOM)
    }

    fn band(&self, tolerated: f64) -> (String, String) {
        let (top, bottom) = (self.y(tolerated), self.y(-tolerated));
        (short(top), short(bottom - top))
    }

    fn line(&self, values: &[f64]) -> String {
        let mut points = String::new();
        for (at, value) in values.iter().enumerate() {
            let _ = write!(points, "{} {} ", short(self.x(at as f64)), short(self.y(*value)));
        }
        points.trim_end().to_owned()
    }

    fn steps(&self, segments: &[Segment]) -> String {
        let mut path = String::new();
        for stretch in segments {
            let y = short(self.y(stretch.level));
            let (from, to) = (stretch.first as f64 - 0.5, stretch.end as f64 - 0.5);
            let _ = write!(path, "M{} {y}H{}", short(self.x(from)), short(self.x(to)));
        }
        path
    }

    fn changes(&self, segments: &[Segment]) -> Vec<String> {
        segments.iter().skip(1).map(|stretch| short(self.x(stretch.first as f64 - 0.5))).collect()
    }

    fn last_point(&self, value: f64) -> (String, String) {
        (short(self.x(self.count as f64)), short(self.y(value)))
    }
}

/// Rounded to a tenth of a unit.
fn short(value: f64) -> String {
    format!("{:.1}", value + 0.0)
}
