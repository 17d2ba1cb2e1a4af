//! A metric of a system over dates: one point per run, its levels, and marks where something changed.

use model::metric::Better;
use serde::Serialize;
use verdict::{
    baseline::LEAST_SPREAD,
    history::{Segment, segments},
};

pub use crate::plot::{MarkKind, PointTone, Trend, TrendMark, TrendPoint};
use crate::{
    plot::{Canvas, TrendPlot, trend},
    render::{self, Drawing},
    text,
};

/// Minimum number of runs for a search of levels.
const LEAST_RUNS: usize = 4;
/// Minimum change of level that is reported, relative.
const REPORTED: f64 = 0.005;

#[derive(Serialize)]
struct TrendPage {
    levels: Option<String>,
    tone: &'static str,
    fails: bool,
    unsure: bool,
    stepped: bool,
    setups: bool,
    verdicts: bool,
    drawing: Option<Drawing>,
}

impl Trend {
    /// Levels of the series; empty for fewer than [`LEAST_RUNS`] runs.
    pub(crate) fn levels(&self) -> Vec<Segment> {
        let mut values: Vec<_> = self.points.iter().map(|point| point.value).collect();
        let usual = median(&mut values.clone());
        if self.points.len() < LEAST_RUNS || usual <= 0.0 {
            return Vec::new();
        }
        for value in &mut values {
            *value = *value / usual - 1.0;
        }
        let mut found = segments(&values, LEAST_SPREAD);
        for segment in &mut found {
            // The level search returns only values of a grid: the median of the runs is more precise.
            let runs = &self.points[segment.first..segment.end];
            segment.level = median(&mut runs.iter().map(|point| point.value).collect::<Vec<_>>());
        }
        found
    }

    /// The last change of level in words, and whether the change is an improvement.
    fn last_change(&self, levels: &[Segment]) -> Option<(String, &'static str)> {
        let [.., before, now] = levels else { return None };
        let change = now.level / before.level - 1.0;
        if !change.is_finite() || change.abs() < REPORTED {
            return None;
        }
        let tone = match (self.better, change > 0.0) {
            (Better::Higher, true) | (Better::Lower, false) => "good",
            (Better::Higher, false) | (Better::Lower, true) => "bad",
            _ => "unsure",
        };
        let first = self.points.get(now.first)?;
        let (was, is, unit) = (number(before.level), number(now.level), text::shortened(&self.unit, 16));
        let date: String = first.at.to_string().chars().take(10).collect();
        let text = format!("{is} {unit} since {date}, {:+.1} %; {was} {unit} before", 100.0 * change);
        Some((text, tone))
    }
}

/// The chart as HTML, for embedding in a page with the style [`CSS`](crate::CSS); empty without points.
#[must_use]
pub fn part(of: &Trend) -> String {
    let levels = of.levels();
    let has = |tone| of.points.iter().any(|point| point.tone == tone);
    let marked = |kind| of.marks.iter().any(|mark| mark.kind == kind);
    let change = of.last_change(&levels);
    let described = format!(
        "{}. {}The table of runs below has every value.",
        text::count(of.points.len() as u64, "run"),
        change.as_ref().map_or_else(String::new, |(text, _)| format!("{text}. "))
    );
    let draw = |canvas| trend(&TrendPlot { of, levels: &levels }, canvas);
    let data = TrendPage {
        stepped: levels.len() > 1,
        tone: change.as_ref().map_or("", |(_, tone)| tone),
        levels: change.map(|(text, _)| text),
        fails: has(PointTone::Fail),
        unsure: has(PointTone::Inconclusive),
        setups: marked(MarkKind::Setup),
        verdicts: marked(MarkKind::Verdict),
        drawing: Drawing::of("Value of each run by date (UTC)", described, Canvas::LOW, draw),
    };
    if data.drawing.is_none() {
        return String::new();
    }
    let template =
        concat!(include_str!("../templates/drawing.html.j2"), include_str!("../templates/trend.html.j2"));
    render::body(template, data).unwrap_or_else(|error| render::template_error(&error))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A value with three or four significant digits: `351`, `48.2`, `0.871`.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e7 => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        size if size < 1e-3 => format!("{value:.1e}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    const DAY: i64 = 86_400_000;

    fn of(values: &[f64]) -> Trend {
        let point = |(day, value): (usize, &f64)| TrendPoint {
            run: format!("r-{day}"),
            at: Timestamp::from_millis(20_000 * DAY + day as i64 * DAY),
            value: *value,
            tone: if day == 3 { PointTone::Fail } else { PointTone::Pass },
            described: format!("<b>{day}</b>"),
        };
        let points: Vec<_> = values.iter().enumerate().map(point).collect();
        let range = (points[0].at, points[points.len() - 1].at);
        Trend {
            metric: "all_reduce plateau".to_owned(),
            unit: "GB/s".to_owned(),
            better: Better::Higher,
            points,
            marks: vec![TrendMark {
                at: range.0,
                label: "A".to_owned(),
                text: "driver 2, was 1 <i>".to_owned(),
                kind: MarkKind::Setup,
            }],
            range,
        }
    }

    #[test]
    fn a_change_of_level_is_stated_with_its_date_and_size() {
        let mut values = vec![350.0; 8];
        values.extend([336.0; 8]);
        let page = part(&of(&values)).replace("&#x2f;", "/");
        assert!(page.contains("336 GB/s since 2024-10-12, -4.0 %; 350 GB/s before"), "{page}");
        assert!(page.contains("class=\"levels bad\""), "{page}");
    }

    #[test]
    fn points_have_shapes_and_escaped_descriptions() {
        let page = part(&of(&[350.0, 351.0, 349.0, 300.0])).replace("&#x2f;", "/");
        assert!(page.contains("&lt;b&gt;3&lt;/b&gt;") && !page.contains("<b>3"), "{page}");
        assert!(page.contains("class=\"p fail\"") && page.contains("data-run=\"r-3\""), "{page}");
        assert!(page.contains("driver 2, was 1 &lt;i&gt;"), "{page}");
        assert!(!page.contains("style="), "{page}");
    }

    #[test]
    fn values_are_rounded_for_reading() {
        let shown = [351.23, 48.214, 8.7, 0.8712, 0.0, 123_456.0, 0.000_04].map(number);
        assert_eq!(shown, ["351", "48.2", "8.70", "0.871", "0", "123456", "4.0e-5"]);
    }
}
