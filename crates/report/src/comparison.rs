//! Comparison of two logs.

use serde::Serialize;
use verdict::{
    baseline::Region,
    compare::{Comparison, PointChange},
};

use crate::{
    findings::Tone,
    history::percent,
    markdown::{code, escaped},
    plot::{Canvas, slower},
    render::{self, Drawing},
    terminal::{Paint, Paper, Screen},
    text::{self, figure},
};

/// Maximum points on a terminal: those with the largest change.
const MOST_CHANGED: usize = 5;
/// Maximum points and fields in the other forms.
const POINTS: usize = 200;
const FIELDS: usize = 40;
/// Maximum length of a name or a value, characters.
const VALUE: usize = 100;

/// Two logs and their differences.
#[derive(Clone, Copy, Debug)]
pub struct RunPair<'a> {
    /// Name of the earlier log.
    pub a: &'a str,
    /// Name of the later log.
    pub b: &'a str,
    /// Differences of the later log from the earlier one.
    pub found: &'a Comparison,
}

/// Summary of the result.
fn headline(found: &Comparison) -> (Tone, &'static str) {
    match (found.points.is_empty(), found.comparable(), found.slower_where_it_counts()) {
        (true, _, _) => (Tone::Unsure, "No common measurements"),
        (_, false, _) => (Tone::Unsure, "Not comparable"),
        (_, true, true) => (Tone::Bad, "B is slower on the plateau"),
        (_, true, false) => (Tone::Good, "B is not slower on the plateau"),
    }
}

/// Text for a terminal: fields and regions, and the sizes with the largest change.
#[must_use]
pub fn terminal(pair: RunPair<'_>, screen: impl Into<Screen>) -> String {
    let mut paper = Paper::new(screen.into());
    let found = pair.found;
    let (tone, words) = headline(found);
    for (name, log) in [("A", pair.a), ("B", pair.b)] {
        paper.line(&[(Paint::Bold, &format!("{name} ")), (Paint::Dim, &text::shortened(log, VALUE))]);
    }
    paper.line(&[(tone.into(), words)]);
    for changed in found.fingerprint.iter().take(FIELDS / 2) {
        let [field, a, b] = [&changed.field, &changed.a, &changed.b].map(|it| text::shortened(it, 40));
        let what = if changed.identity { " (not comparable)" } else { "" };
        paper.line(&[(Paint::None, &format!("  {field:<12} {a} -> {b}{what}"))]);
    }
    for region in &found.regions {
        let [low, high] = region.quartiles.map(percent);
        let (name, slower) = (region.region.words(), percent(region.slower));
        let points = text::count(region.points as u64, "point");
        let line = format!("  {name:<22} {slower} time, half of {points} between {low} and {high}");
        paper.line(&[(Paint::None, &line)]);
    }
    for point in most_changed(found) {
        let busbw = format!("busbw {} -> {} GB/s", figure(point.a_busbw), figure(point.b_busbw));
        let line = format!(
            "    {:>9} {:<12} {busbw}, {} time",
            text::size(point.key.size_bytes),
            placement(point),
            percent(point.slower)
        );
        paper.line(&[(Paint::Dim, &line)]);
    }
    if let Some(rest) = unmatched(found) {
        paper.line(&[(Paint::Dim, &format!("  {rest}"))]);
    }
    paper.finish()
}

fn most_changed(found: &Comparison) -> Vec<&PointChange> {
    let mut points: Vec<_> = found.points.iter().collect();
    points.sort_by(|a, b| b.slower.abs().total_cmp(&a.slower.abs()));
    points.truncate(MOST_CHANGED);
    points
}

fn placement(point: &PointChange) -> &'static str {
    if point.key.in_place { "in place" } else { "out of place" }
}

fn unmatched(found: &Comparison) -> Option<String> {
    match (found.points.is_empty(), found.unmatched) {
        (true, _) => Some("no size was measured in both logs".to_owned()),
        (false, 0) => None,
        (false, some) => Some(format!("{} measured in only one log", text::count(some as u64, "point"))),
    }
}

/// Text for a pull request or an issue.
#[must_use]
pub fn markdown(pair: RunPair<'_>) -> String {
    let found = pair.found;
    let (tone, words) = headline(found);
    let name = |name: &str| code(&text::shortened(name, VALUE));
    let mut out = format!("## {} {words}\n\nA is {}, B is {}.\n", tone.mark(), name(pair.a), name(pair.b));
    if !found.fingerprint.is_empty() {
        out += "\n| field | A | B | |\n|---|---|---|---|\n";
    }
    for changed in found.fingerprint.iter().take(FIELDS) {
        let [field, a, b] =
            [&changed.field, &changed.a, &changed.b].map(|it| escaped(&text::shortened(it, VALUE)));
        let what = if changed.identity { "not comparable" } else { "" };
        out += &format!("| {field} | {a} | {b} | {what} |\n");
    }
    if !found.regions.is_empty() {
        out += "\n| region | more time in B | half of the points | points |\n|---|---:|---:|---:|\n";
    }
    for region in &found.regions {
        let [low, high] = region.quartiles.map(percent);
        let (name, slower) = (region.region.words(), percent(region.slower));
        out += &format!("| {name} | {slower} | {low} to {high} | {} |\n", region.points);
    }
    if !found.points.is_empty() {
        out += "\n| size | placement | A busbw GB/s | B busbw GB/s | more time in B |\n|---:|---|---:|---:|---:|\n";
    }
    // The largest sizes are the most significant.
    let skipped = found.points.len().saturating_sub(POINTS);
    for point in &found.points[skipped..] {
        let (a, b) = (figure(point.a_busbw), figure(point.b_busbw));
        let (size, slower) = (text::size(point.key.size_bytes), percent(point.slower));
        out += &format!("| {size} | {} | {a} | {b} | {slower} |\n", placement(point));
    }
    if skipped > 0 {
        out += &format!("\n{} more of smaller sizes.\n", text::count(skipped as u64, "point"));
    }
    if let Some(rest) = unmatched(found) {
        out += &format!("\n{rest}.\n");
    }
    out
}

/// Context of the page's template. All text is unescaped.
#[derive(Serialize)]
struct ComparisonPage<'a> {
    a: &'a str,
    b: &'a str,
    tone: Tone,
    word: &'static str,
    fields: Vec<(&'a str, &'a str, &'a str, bool)>,
    regions: Vec<(&'static str, String, String, usize)>,
    drawing: Option<Drawing>,
    points: Vec<(String, &'static str, String, String, String, bool)>,
    skipped: usize,
    rest: Option<String>,
}

/// A self-contained page without external requests.
#[must_use]
pub fn html(pair: RunPair<'_>) -> String {
    let (_, word) = headline(pair.found);
    render::page(&format!("{word} · {}", text::shortened(pair.b, VALUE)), TEMPLATE, view(pair))
}

/// The content of that page, for embedding in a page with the style [`crate::CSS`].
#[must_use]
pub fn part(pair: RunPair<'_>) -> String {
    render::body(TEMPLATE, view(pair)).unwrap_or_else(|error| render::unmade(&error))
}

const TEMPLATE: &str =
    concat!(include_str!("../templates/drawing.html.j2"), include_str!("../templates/comparison.html.j2"));

fn view(pair: RunPair<'_>) -> ComparisonPage<'_> {
    let found = pair.found;
    let (tone, word) = headline(found);
    let skipped = found.points.len().saturating_sub(POINTS);
    let points = found.points[skipped..].iter().map(|point| {
        let bad = point.region == Region::Plateau && point.slower > 0.02;
        let figures = (figure(point.a_busbw), figure(point.b_busbw), percent(point.slower));
        (text::size(point.key.size_bytes), placement(point), figures.0, figures.1, figures.2, bad)
    });
    let regions = found.regions.iter().map(|region| {
        let [low, high] = region.quartiles.map(percent);
        (region.region.words(), percent(region.slower), format!("{low} to {high}"), region.points)
    });
    let fields = found.fingerprint.iter().take(FIELDS);
    let described = "Above zero the second log took longer. The table below has every figure.".to_owned();
    let draw = |canvas| slower(&found.points[skipped..], canvas);
    ComparisonPage {
        a: pair.a,
        b: pair.b,
        tone,
        word,
        fields: fields.map(|it| (it.field.as_str(), it.a.as_str(), it.b.as_str(), it.identity)).collect(),
        regions: regions.collect(),
        drawing: Drawing::of("More time in B by message size", described, Canvas::WIDE, draw),
        points: points.collect(),
        skipped,
        rest: unmatched(found),
    }
}
