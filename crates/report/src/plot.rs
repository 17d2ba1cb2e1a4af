//! Bus bandwidth over message size, as the inside of an SVG image.
//!
//! The text on the axes is ours alone: nothing that a log says gets in here. Each thing drawn has a colour of its own in
//! `ink`, by which the page's style sheet finds and repaints it for a dark screen.

mod axis;

use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
};
use serde::Serialize;
use terms::measurement::Half;

use crate::measured::Row;
use axis::Sizes;

/// The colours of a light screen. Blue and orange stay apart for every kind of colour blindness.
mod ink {
    use plotters::style::RGBColor;

    pub const OUT_OF_PLACE: RGBColor = RGBColor(0x1f, 0x5f, 0xaf);
    pub const IN_PLACE: RGBColor = RGBColor(0xc2, 0x57, 0x0c);
    pub const FLOOR: RGBColor = RGBColor(0xb4, 0x23, 0x2f);
    pub const GRID: RGBColor = RGBColor(0xdd, 0xe1, 0xe6);
    pub const LABEL: RGBColor = RGBColor(0x5a, 0x63, 0x70);
}

/// How large, in CSS pixels at which its text has the size of the page's.
#[derive(Clone, Copy)]
pub struct Canvas {
    pub width: u32,
    pub height: u32,
}

/// An image, less the `svg` element around it.
#[derive(Serialize)]
pub struct Plot {
    /// Width and height of the view box.
    view: (u32, u32),
    /// Well-formed elements.
    inside: String,
}

/// Units a pixel: plotters rounds to whole units, and a curve of whole pixels is jagged.
const FINE: u32 = 4;

/// None when there is nothing to draw.
pub fn plot(rows: &[Row<'_>], floors: &[(u64, f64)], canvas: Canvas) -> Option<Plot> {
    let view = (canvas.width * FINE, canvas.height * FINE);
    let mut svg = String::new();
    draw(SVGBackend::with_string(&mut svg, view).into_drawing_area(), rows, floors, canvas)?;
    let start = svg.find("<svg").and_then(|svg_at| Some(svg_at + svg[svg_at..].find('>')? + 1))?;
    let end = svg.rfind("</svg>")?;
    Some(Plot { view, inside: svg[start..end].trim().to_owned() })
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Sizes, RangedCoordf64>>;

fn draw(
    area: DrawingArea<SVGBackend<'_>, Shift>,
    rows: &[Row<'_>],
    floors: &[(u64, f64)],
    canvas: Canvas,
) -> Option<()> {
    let sizes = Sizes::of(rows.iter().map(|row| row.size_bytes))?;
    let out_of_place = points(rows, |row| row.out_of_place);
    let in_place = points(rows, |row| row.in_place);
    let highest =
        out_of_place.iter().chain(&in_place).chain(floors).map(|(_, busbw)| *busbw).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.08 } else { 1.0 };

    let mut chart = ChartBuilder::on(&area)
        .margin_top(10 * FINE)
        .margin_right(12 * FINE)
        .x_label_area_size(46 * FINE)
        .y_label_area_size(58 * FINE)
        .build_cartesian_2d(sizes, 0.0..top)
        .ok()?;
    mesh(&mut chart, canvas, top)?;
    for (size, busbw) in floors {
        floor(&mut chart, *size, *busbw)?;
    }
    // Points that touch each other hide the line.
    let crowded = rows.len() as u32 * 16 > canvas.width;
    let (open, full) = if crowded { (3, 2) } else { (5, 3) };
    series(&mut chart, &in_place, ink::IN_PLACE, Point { radius: open, filled: false })?;
    series(&mut chart, &out_of_place, ink::OUT_OF_PLACE, Point { radius: full, filled: true })?;
    area.present().ok()
}

fn points<'a>(rows: &'a [Row<'_>], half: impl Fn(&'a Row<'_>) -> Option<&'a Half>) -> Vec<(u64, f64)> {
    let points = rows.iter().filter_map(|row| Some((row.size_bytes, half(row)?.busbw)));
    points.filter(|(size, busbw)| *size > 0 && busbw.is_finite() && *busbw >= 0.0).collect()
}

fn mesh(chart: &mut Chart<'_, '_>, canvas: Canvas, top: f64) -> Option<()> {
    let decimals = if top >= 10.0 {
        0
    } else if top >= 1.0 {
        1
    } else {
        3
    };
    let label = ("sans-serif", 15 * FINE).into_font().color(&ink::LABEL);
    let line = ink::GRID.stroke_width(FINE);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(1)
        .light_line_style(TRANSPARENT)
        .bold_line_style(line)
        .axis_style(line)
        .set_all_tick_mark_size(4 * FINE)
        .x_labels((canvas.width / 72) as usize)
        .y_labels((canvas.height / 45) as usize)
        .y_label_formatter(&|busbw| format!("{busbw:.decimals$}"))
        .x_desc("message size")
        .y_desc("busbw, GB/s")
        .label_style(label.clone())
        .axis_desc_style(label)
        .draw()
        .ok()
}

/// How a measurement is marked. One placement is filled and the other open, so that they are told apart without colour
/// and where they coincide.
struct Point {
    radius: u32,
    filled: bool,
}

fn series(chart: &mut Chart<'_, '_>, points: &[(u64, f64)], colour: RGBColor, point: Point) -> Option<()> {
    let line = colour.stroke_width(2 * FINE);
    chart.draw_series(LineSeries::new(points.iter().copied(), line)).ok()?;
    let style = if point.filled { colour.filled() } else { line };
    chart.draw_series(points.iter().map(|at| Circle::new(*at, point.radius * FINE, style))).ok()?;
    Some(())
}

/// A short bar at its size: both placements have to be above it.
fn floor(chart: &mut Chart<'_, '_>, size: u64, busbw: f64) -> Option<()> {
    let half = 11 * FINE as i32;
    let style = ink::FLOOR.stroke_width(3 * FINE);
    let bar = EmptyElement::at((size, busbw)) + PathElement::new(vec![(-half, 0), (half, 0)], style);
    chart.draw_series(std::iter::once(bar)).ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::ink;

    #[test]
    fn the_style_sheet_repaints_every_colour() {
        let css = include_str!("../templates/run.css");
        for ink in [ink::OUT_OF_PLACE, ink::IN_PLACE, ink::FLOOR, ink::GRID, ink::LABEL] {
            // Spelt as plotters writes it: attribute selectors mind the case.
            let hex = format!("#{:02X}{:02X}{:02X}", ink.0, ink.1, ink.2);
            assert!(css.contains(&format!("=\"{hex}\"]")), "{hex}");
        }
    }
}
