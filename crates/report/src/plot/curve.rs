//! Bus bandwidth over message size, with references and bounds.

use model::measurement::Half;
use plotters::prelude::*;

use super::{
    BAND_OPACITY, Canvas, FINE, Plot, PlotMark,
    axis::{AxisFigures, Sizes},
    chart, drawable, ink, plot, series,
};
use crate::measured::{MeasuredSize, Placed, TableReferences};

/// Input of the chart.
#[derive(Clone, Copy)]
pub struct CurvePlot<'a> {
    pub rows: &'a [MeasuredSize<'a>],
    pub references: &'a TableReferences<'a>,
}

/// The chart. `None` without measurements.
pub fn curve(of: CurvePlot<'_>, canvas: Canvas) -> Option<Plot> {
    let sizes = of.rows.iter().map(|row| row.size_bytes).filter(|size| *size > 0);
    let (smallest, largest) = (sizes.clone().min()?, sizes.max()?);
    let inside = |size: &u64| (smallest..=largest).contains(size);
    let out_of_place = points(of.rows, |row| row.out_of_place.as_ref());
    let in_place = points(of.rows, |row| row.in_place.as_ref());
    let shown = |(size, busbw): &(u64, f64)| inside(size) && drawable(*busbw);
    let floors = of.references.floors().iter().map(|at| (at.size_bytes, at.busbw));
    let floors: Vec<_> = floors.filter(shown).collect();
    let reference = of.references.reference().map_or(&[][..], |reference| &reference.points);
    let reference = reference.iter().map(|at| (at.size_bytes, at.busbw));
    let reference: Vec<_> = reference.filter(shown).collect();
    let mut band = of.references.band();
    band.retain(|at| inside(&at.size_bytes) && at.busbw.iter().all(|busbw| drawable(*busbw)));

    let lines = [&out_of_place, &in_place, &floors, &reference];
    let drawn = lines.into_iter().flatten().map(|(_, busbw)| *busbw);
    let highest = drawn.chain(band.iter().map(|at| at.busbw[1])).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.08 } else { 1.0 };
    plot(canvas, |area| {
        let axes = (Sizes { smallest, largest }, AxisFigures::new(0.0, top, ""));
        let mut chart = chart(area, canvas, axes, ("message size", "busbw, GB/s"))?;
        if band.len() > 1 {
            let upper = band.iter().map(|at| (at.size_bytes, at.busbw[1]));
            let lower = band.iter().rev().map(|at| (at.size_bytes, at.busbw[0]));
            let corners: Vec<_> = upper.chain(lower).collect();
            chart.draw_series([Polygon::new(corners, ink::BAND.mix(BAND_OPACITY))]).ok()?;
        }
        let (full, open) = PlotMark::placements(of.rows.len(), canvas);
        if !reference.is_empty() {
            series(&mut chart, &reference, ink::REFERENCE, PlotMark { radius: 2, filled: true })?;
        }
        series(&mut chart, &in_place, ink::IN_PLACE, open)?;
        series(&mut chart, &out_of_place, ink::OUT_OF_PLACE, full)?;
        // Each floor is a short bar at its message size; both placements must be above the bar.
        let (half, style) = (11 * FINE as i32, ink::FLOOR.stroke_width(3 * FINE));
        let bars = floors
            .iter()
            .map(|at| EmptyElement::at(*at) + PathElement::new(vec![(-half, 0), (half, 0)], style));
        chart.draw_series(bars).ok()?;
        Some(())
    })
}

fn points<'a>(
    rows: &'a [MeasuredSize<'_>],
    placed: impl Fn(&'a MeasuredSize<'_>) -> Option<&'a Placed<'a>>,
) -> Vec<(u64, f64)> {
    let sound = |half: &Half| drawable(half.busbw) && half.busbw >= 0.0;
    let points = rows.iter().filter_map(|row| Some((row.size_bytes, placed(row)?.half)));
    points.filter(|(size, half)| *size > 0 && sound(half)).map(|(size, half)| (size, half.busbw)).collect()
}
