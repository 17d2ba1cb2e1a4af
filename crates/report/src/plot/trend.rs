//! Values over dates.

use std::fmt::Write;

use minijinja::HtmlEscape;
use model::{Timestamp, metric::Better};
use verdict::history::Segment;

use super::{
    Canvas, FINE, Plot,
    axis::{AxisFigures, Dates},
    chart, drawable, plot,
};
use crate::text;

/// Minimum range of the axis around the values, relative: noise must not look like a change.
const LEAST: f64 = 0.02;

/// Result of a run, as drawn: the shapes differ, because colours are not visible to every reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointTone {
    /// Passed: a filled circle.
    Pass,
    /// Failed: a cross.
    Fail,
    /// Inconclusive: an open circle.
    Inconclusive,
}

/// A run in the chart.
#[derive(Clone, Debug)]
pub struct TrendPoint {
    pub run: String,
    /// Time of the request.
    pub at: Timestamp,
    pub value: f64,
    /// Result of the run.
    pub tone: PointTone,
    /// Tooltip of the point.
    pub described: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The fingerprint of the environment changed.
    Setup,
    /// The verdict reported a change.
    Verdict,
}

/// Mark of a change: the environment's fingerprint changed, or the verdict reported a change.
#[derive(Clone, Debug)]
pub struct TrendMark {
    /// Time of the first run after the change.
    pub at: Timestamp,
    /// Short label at the mark, repeated in the list below the chart.
    pub label: String,
    /// Description of the change.
    pub text: String,
    pub kind: MarkKind,
}

/// A metric over time.
#[derive(Clone, Debug)]
pub struct Trend {
    pub metric: String,
    pub unit: String,
    /// Direction of improvement.
    pub better: Better,
    /// Runs, oldest first.
    pub points: Vec<TrendPoint>,
    /// Marks, oldest first.
    pub marks: Vec<TrendMark>,
    /// Start and end of the time axis.
    pub range: (Timestamp, Timestamp),
}

/// Input of the chart.
#[derive(Clone, Copy)]
pub struct TrendPlot<'a> {
    pub of: &'a Trend,
    pub levels: &'a [Segment],
}

/// The chart: every point with its description, for the pointer. `None` without points.
pub fn trend(TrendPlot { of, levels }: &TrendPlot<'_>, canvas: Canvas) -> Option<Plot> {
    let shown: Vec<_> = of.points.iter().filter(|point| drawable(point.value)).collect();
    let values = || shown.iter().map(|point| point.value);
    let (least, most) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
    let room = (0.12 * (most - least)).max(LEAST * most.abs()).max(f64::MIN_POSITIVE);
    let (least, most) = (if least >= 0.0 { (least - room).max(0.0) } else { least - room }, most + room);
    let mut drawn = String::new();
    let unit = text::shortened(&of.unit, 16);
    let mut plot = plot(canvas, |area| {
        let (from, to) = (of.range.0.as_millis(), of.range.1.as_millis());
        let axes = (Dates::between(from, to), AxisFigures::new(least, most, ""));
        let chart = chart(area, canvas, axes, ("date (UTC)", &unit))?;
        let place = |at: i64, value: f64| chart.backend_coord(&(at, value));
        for mark in &of.marks {
            let (x, bottom) = place(mark.at.as_millis(), least);
            let (_, top) = place(mark.at.as_millis(), most);
            let kind = match mark.kind {
                MarkKind::Setup => "setup",
                MarkKind::Verdict => "verdict",
            };
            let (label, text) = (HtmlEscape(&mark.label), HtmlEscape(&mark.text));
            // The label is next to the line. The browser shows the description over both.
            let _ = write!(
                drawn,
                "<g class=\"m {kind}\"><title>{text}</title><path d=\"M{x} {top}V{bottom}\"/>\
                 <text x=\"{}\" y=\"{}\">{label}</text></g>",
                x + 4 * FINE as i32,
                top + 14 * FINE as i32,
            );
        }
        for level in levels.iter() {
            let at = |index: usize| of.points.get(index).map(|point| point.at.as_millis());
            let (first, last) = (at(level.first)?, at(level.end - 1)?);
            let ((x, y), (end, _)) = (place(first, level.level), place(last, level.level));
            let _ = write!(drawn, "<path class=\"level\" d=\"M{x} {y}H{}\"/>", end.max(x + 8 * FINE as i32));
        }
        let line: String = shown
            .iter()
            .map(|point| {
                let (x, y) = place(point.at.as_millis(), point.value);
                format!("{x} {y} ")
            })
            .collect();
        let _ = write!(drawn, "<polyline class=\"line\" points=\"{}\"/>", line.trim_end());
        for point in &shown {
            let (x, y) = place(point.at.as_millis(), point.value);
            let (kind, path) = shape(point.tone, x, y);
            let (run, described) = (HtmlEscape(&point.run), HtmlEscape(&point.described));
            let _ = write!(
                drawn,
                "<path class=\"p {kind}\" data-run=\"{run}\" d=\"{path}\"><title>{described}</title></path>"
            );
        }
        Some(())
    })?;
    plot.inside.push_str(&drawn);
    Some(plot)
}

fn shape(tone: PointTone, x: i32, y: i32) -> (&'static str, String) {
    let circle = |r: i32| format!("M{} {y}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0", x - r, 2 * r, 2 * r);
    match tone {
        PointTone::Pass => ("pass", circle(14)),
        PointTone::Inconclusive => ("unsure", circle(15)),
        PointTone::Fail => {
            let r = 16;
            let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
            ("fail", format!("M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}"))
        }
    }
}
