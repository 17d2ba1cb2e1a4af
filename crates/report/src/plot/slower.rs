//! Excess time of the second of two runs, by size.

use plotters::prelude::*;
use verdict::compare::PointChange;

use super::{
    Canvas, FINE, Plot, PlotMark,
    axis::{AxisFigures, Sizes},
    chart, drawable, ink, plot, series,
};

/// Minimum range of the axis in both directions, percent: noise must not look like a change.
const LEAST: f64 = 2.0;

/// The chart. `None` without common measurements.
pub fn slower(points: &[PointChange], canvas: Canvas) -> Option<Plot> {
    let of = |in_place: bool| -> Vec<(u64, f64)> {
        let here = points.iter().filter(|point| point.key.in_place == in_place && point.key.size_bytes > 0);
        let here = here.map(|point| (point.key.size_bytes, 100.0 * point.slower));
        here.filter(|(_, slower)| drawable(*slower)).collect()
    };
    let (out_of_place, in_place) = (of(false), of(true));
    let all = || out_of_place.iter().chain(&in_place);
    let (smallest, largest) = (all().map(|(size, _)| *size).min()?, all().map(|(size, _)| *size).max()?);
    let (least, most) = all().fold((-LEAST, LEAST), |(a, b), (_, at)| (a.min(*at), b.max(*at)));
    let room = 0.08 * (most - least);
    plot(canvas, |area| {
        let axes = (Sizes { smallest, largest }, AxisFigures::new(least - room, most + room, " %"));
        let mut chart = chart(area, canvas, axes, ("message size", "more time in B"))?;
        let zero = vec![(smallest, 0.0), (largest, 0.0)];
        chart.draw_series([PathElement::new(zero, ink::LABEL.stroke_width(FINE))]).ok()?;
        let (full, open) = PlotMark::placements(out_of_place.len().max(in_place.len()), canvas);
        series(&mut chart, &in_place, ink::IN_PLACE, open)?;
        series(&mut chart, &out_of_place, ink::OUT_OF_PLACE, full)
    })
}
