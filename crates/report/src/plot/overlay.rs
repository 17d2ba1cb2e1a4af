//! Bus bandwidth of two runs over message size, in one chart.

use verdict::compare::PointChange;

use super::{
    Canvas, Plot, PlotMark,
    axis::{AxisFigures, Sizes},
    chart, drawable, ink, plot, series,
};

/// The chart: the faster placement of each size, with open marks for the first run and filled ones for the second. `None` without
/// common measurements.
pub fn overlay(points: &[PointChange], canvas: Canvas) -> Option<Plot> {
    let curve = |busbw: fn(&PointChange) -> f64| {
        let mut curve: Vec<(u64, f64)> = Vec::new();
        for point in points.iter().filter(|point| point.key.size_bytes > 0) {
            let busbw = busbw(point);
            if !drawable(busbw) || busbw < 0.0 {
                continue;
            }
            match curve.iter_mut().find(|(size, _)| *size == point.key.size_bytes) {
                Some((_, best)) => *best = best.max(busbw),
                None => curve.push((point.key.size_bytes, busbw)),
            }
        }
        curve.sort_by_key(|(size, _)| *size);
        curve
    };
    let (a, b) = (curve(|point| point.a_busbw), curve(|point| point.b_busbw));
    let all = || a.iter().chain(&b);
    let (smallest, largest) = (all().map(|(size, _)| *size).min()?, all().map(|(size, _)| *size).max()?);
    let highest = all().map(|(_, busbw)| *busbw).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.08 } else { 1.0 };
    plot(canvas, |area| {
        let axes = (Sizes { smallest, largest }, AxisFigures::new(0.0, top, ""));
        let mut chart = chart(area, canvas, axes, ("message size", "busbw, GB/s"))?;
        let (full, open) = PlotMark::placements(a.len(), canvas);
        series(&mut chart, &a, ink::OUT_OF_PLACE, open)?;
        series(&mut chart, &b, ink::IN_PLACE, full)
    })
}
