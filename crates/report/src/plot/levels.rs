//! Plateau level of every run: excess time over the baseline.

use plotters::prelude::*;

use super::{
    BAND_OPACITY, Canvas, FINE, Plot, PlotMark,
    axis::{AxisFigures, Runs},
    chart, ink, plot,
};
use crate::history::{LevelHistory, PointKind};

/// The chart: segments of constant level as lines, changes as dashed bars, reported runs as large points.
pub fn levels(history: &LevelHistory, canvas: Canvas) -> Option<Plot> {
    let percent = |slower: f64| slower * 100.0;
    let tolerated = percent(history.tolerated);
    // The tolerance is always within the range: noise must not look like a change.
    let scale = percent(history.scale());
    let drawn = || history.levels.iter().map(|level| percent(level.slower).clamp(-scale, scale));
    let (least, most) = drawn().fold((-tolerated, tolerated), |(a, b), level| (a.min(level), b.max(level)));
    let room = 0.08 * (most - least);
    let count = history.levels.len();
    plot(canvas, |area| {
        let axes = (Runs { count }, AxisFigures::new(least - room, most + room, " %"));
        let mut chart = chart(area, canvas, axes, ("run", "slower than the baseline"))?;
        let (first, last) = (-0.5, count as f64 - 0.5);
        let band =
            Rectangle::new([(first, tolerated), (last, -tolerated)], ink::BAND.mix(BAND_OPACITY).filled());
        chart.draw_series([band]).ok()?;
        chart
            .draw_series([PathElement::new(vec![(first, 0.0), (last, 0.0)], ink::LABEL.stroke_width(FINE))])
            .ok()?;
        let ends = (least - room, most + room);
        for at in history.changes() {
            let bar = vec![(at as f64 - 0.5, ends.0), (at as f64 - 0.5, ends.1)];
            chart.draw_series([PathElement::new(bar, ink::CHANGE.stroke_width(2 * FINE))]).ok()?;
        }
        let segments = history.segments.iter().map(|segment| {
            let level = percent(segment.level);
            let line = vec![(segment.first as f64 - 0.5, level), (segment.end as f64 - 0.5, level)];
            PathElement::new(line, ink::BAND.stroke_width(3 * FINE))
        });
        chart.draw_series(segments).ok()?;
        let crowded = count as u32 * 12 > canvas.width;
        for (kind, colour, mark) in [
            (
                PointKind::Healthy,
                ink::OUT_OF_PLACE,
                PlotMark { radius: if crowded { 2 } else { 4 }, filled: false },
            ),
            (
                PointKind::Earlier,
                ink::OUT_OF_PLACE,
                PlotMark { radius: if crowded { 2 } else { 4 }, filled: true },
            ),
            (PointKind::Reported, ink::IN_PLACE, PlotMark { radius: 6, filled: true }),
        ] {
            let of_kind = history.levels.iter().enumerate().filter(|(_, level)| level.kind == kind);
            for (at, level) in of_kind {
                let (level, size) = (percent(level.slower), mark.radius * FINE);
                let place = (at as f64, level.clamp(-scale, scale));
                // A triangle marks an off-scale value.
                if level.abs() > scale {
                    let size = size.max(4 * FINE);
                    chart.draw_series([TriangleMarker::new(place, size, colour.filled())]).ok()?;
                } else {
                    chart.draw_series([Circle::new(place, size, mark.style(colour))]).ok()?;
                }
            }
        }
        Some(())
    })
}
