//! Charts, as the content of an SVG image.
//!
//! All text on the axes is constant: no text from a log is included. Each drawn element has its own colour in
//! `ink`, by which the style sheet selects and repaints it for dark mode.

mod axis;
mod curve;
mod levels;
mod overlay;
mod slower;
mod trend;

use plotters::{
    coord::{
        Shift,
        ranged1d::{Ranged, ValueFormatter},
    },
    prelude::*,
};
use serde::Serialize;

pub use curve::{CurvePlot, curve};
pub use levels::levels;
pub use overlay::overlay;
pub use slower::slower;
pub use trend::{MarkKind, PointTone, Trend, TrendMark, TrendPlot, TrendPoint, trend};

/// Colours of the light theme. Blue and orange are distinguishable with every kind of colour blindness.
mod ink {
    use plotters::style::RGBColor;

    pub const OUT_OF_PLACE: RGBColor = RGBColor(0x1f, 0x5f, 0xaf);
    pub const IN_PLACE: RGBColor = RGBColor(0xc2, 0x57, 0x0c);
    pub const FLOOR: RGBColor = RGBColor(0xb4, 0x23, 0x2f);
    pub const REFERENCE: RGBColor = RGBColor(0x6b, 0x3f, 0xa0);
    pub const BAND: RGBColor = RGBColor(0x1a, 0x7f, 0x4b);
    pub const CHANGE: RGBColor = RGBColor(0x96, 0x65, 0x0a);
    pub const GRID: RGBColor = RGBColor(0xdd, 0xe1, 0xe6);
    pub const LABEL: RGBColor = RGBColor(0x5a, 0x63, 0x70);
}

/// Values above this limit are invalid and not drawn.
const ABSURD: f64 = 1e9;

fn drawable(value: f64) -> bool {
    value.abs() < ABSURD
}

/// Opacity of the band, so that elements behind it remain visible.
const BAND_OPACITY: f64 = 0.2;

/// Size in CSS pixels. At this size the text of the plot has the page's font size.
#[derive(Clone, Copy)]
pub struct Canvas {
    pub width: u32,
    pub height: u32,
}

impl Canvas {
    /// Size for wide screens.
    pub const WIDE: Self = Self { width: 1000, height: 420 };
    /// Size for narrow screens, taller relative to its width.
    pub const NARROW: Self = Self { width: 360, height: 300 };
    /// Size for wide screens and little content.
    pub const LOW: Self = Self { width: 1000, height: 260 };
}

/// An image without its outer `svg` element.
#[derive(Serialize)]
pub struct Plot {
    /// Width and height of the view box.
    view: (u32, u32),
    /// Well-formed elements.
    inside: String,
}

/// Units per pixel: plotters rounds to whole units, and a curve of whole pixels is jagged.
const FINE: u32 = 4;

type PlotArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// Draws a plot; returns `None` if `draw` has no data.
fn plot(canvas: Canvas, draw: impl FnOnce(&PlotArea<'_>) -> Option<()>) -> Option<Plot> {
    let view = (canvas.width * FINE, canvas.height * FINE);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, view).into_drawing_area();
        draw(&area)?;
        area.present().ok()?;
    }
    let start = svg.find("<svg").and_then(|svg_at| Some(svg_at + svg[svg_at..].find('>')? + 1))?;
    let end = svg.rfind("</svg>")?;
    Some(Plot { view, inside: svg[start..end].trim().to_owned() })
}

/// Axes with space for their labels, and a grid.
fn chart<'a, 'b, X, Y>(
    area: &'a PlotArea<'b>,
    canvas: Canvas,
    (x, y): (X, Y),
    named: (&str, &str),
) -> Option<Chart<'a, 'b, X, Y>>
where
    X: Ranged + ValueFormatter<X::ValueType>,
    Y: Ranged + ValueFormatter<Y::ValueType>,
{
    let mut chart = ChartBuilder::on(area)
        .margin_top(10 * FINE)
        .margin_right(12 * FINE)
        .x_label_area_size(46 * FINE)
        .y_label_area_size(72 * FINE)
        .build_cartesian_2d(x, y)
        .ok()?;
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
        .x_desc(named.0)
        .y_desc(named.1)
        .label_style(label.clone())
        .axis_desc_style(label)
        .draw()
        .ok()?;
    Some(chart)
}

/// Marker of a measurement. One placement is filled and the other open, to distinguish them without colour
/// and at coinciding points.
#[derive(Clone, Copy)]
struct PlotMark {
    radius: u32,
    filled: bool,
}

impl PlotMark {
    /// Markers of both placements. Touching points would hide the line.
    fn placements(points: usize, canvas: Canvas) -> (Self, Self) {
        let crowded = points as u32 * 16 > canvas.width;
        let (open, full) = if crowded { (3, 2) } else { (5, 3) };
        (Self { radius: full, filled: true }, Self { radius: open, filled: false })
    }

    fn style(self, colour: RGBColor) -> ShapeStyle {
        if self.filled { colour.filled() } else { colour.stroke_width(2 * FINE) }
    }
}

/// A line with its points.
fn series<X, Y>(
    chart: &mut Chart<'_, '_, X, Y>,
    points: &[(X::ValueType, Y::ValueType)],
    colour: RGBColor,
    mark: PlotMark,
) -> Option<()>
where
    X: Ranged<ValueType: Clone + 'static>,
    Y: Ranged<ValueType: Clone + 'static>,
{
    chart.draw_series(LineSeries::new(points.iter().cloned(), colour.stroke_width(2 * FINE))).ok()?;
    let style = mark.style(colour);
    chart.draw_series(points.iter().map(|at| Circle::new(at.clone(), mark.radius * FINE, style))).ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::ink;

    #[test]
    fn the_style_sheet_selects_every_colour() {
        let css = include_str!("../templates/page.css");
        for ink in [
            ink::OUT_OF_PLACE,
            ink::IN_PLACE,
            ink::FLOOR,
            ink::REFERENCE,
            ink::BAND,
            ink::CHANGE,
            ink::GRID,
            ink::LABEL,
        ] {
            // Upper-case digits, as the crate `plotters` writes them: CSS attribute selectors are case-sensitive.
            let hex = format!("#{:02X}{:02X}{:02X}", ink.0, ink.1, ink.2);
            assert!(css.contains(&format!("=\"{hex}\"]")), "{hex}");
        }
    }
}
