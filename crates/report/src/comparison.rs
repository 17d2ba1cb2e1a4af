//! Compares two logs, in the forms of a report.

use serde::Serialize;
use verdict::{
    baseline::Region,
    compare::{Comparison, PointChange, RegionChange},
};

use crate::{
    findings::Tone,
    history::percent,
    markdown::{code, escaped},
    plot::{Canvas, overlay, slower},
    reasons,
    render::{self, Drawing},
    terminal::{Paint, Screen, TextReport},
    text::{self, figure},
};

/// Maximum points on a terminal: those with the largest change.
const MOST_CHANGED: usize = 5;
/// Maximum number of points and fields in Markdown and HTML.
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

/// The result in one sentence.
fn headline(found: &Comparison) -> (Tone, String) {
    if found.points.is_empty() {
        return (Tone::Unsure, "No common measurements".to_owned());
    }
    if !found.comparable() {
        return (Tone::Unsure, "Not comparable".to_owned());
    }
    let slower = found.slower_where_it_counts();
    let tone = if slower { Tone::Bad } else { Tone::Good };
    let plateau = found.regions.iter().find(|region| region.region == Region::Plateau);
    let Some((plateau, point)) = plateau.and_then(|plateau| Some((plateau, typical(found, plateau)?))) else {
        return (tone, "B is not slower on the plateau".to_owned());
    };
    let (size, a, b) = (text::size(point.key.size_bytes), point.a_busbw, point.b_busbw);
    // Below 10 GB/s one decimal is too coarse for a difference, so print two decimals, as nccl-tests does.
    let digits = if a.min(b) < 10.0 { 2 } else { 1 };
    let faster = plateau.slower < -EQUAL;
    let words = if a <= 0.0 || b <= 0.0 || !(a / b).is_finite() {
        // One rank measures no link: only its times can be compared.
        format!("B takes {} time at {size}", percent(point.slower))
    } else if faster {
        format!("B is {:.digits$} GB/s ({:.1} %) faster at {size}", b - a, 100.0 * (b / a - 1.0))
    } else if slower {
        format!(
            "B is slower: {b:.digits$} of {a:.digits$} GB/s at {size}, {:.1} % lower",
            100.0 * (1.0 - b / a)
        )
    } else {
        format!("B is as fast as A on the plateau: {b:.digits$} and {a:.digits$} GB/s at {size}")
    };
    (tone, words)
}

/// Maximum relative difference of the plateau that is reported as equal.
const EQUAL: f64 = 0.005;

/// The point that represents the plateau: the largest size, unless the plateau as a whole changed in the other
/// direction.
fn typical<'a>(found: &'a Comparison, plateau: &RegionChange) -> Option<&'a PointChange> {
    let points = || found.points.iter().filter(|point| point.region == Region::Plateau);
    let largest = points().max_by_key(|point| point.key.size_bytes);
    let same = |point: &&PointChange| point.slower * plateau.slower > 0.0 || plateau.slower.abs() <= EQUAL;
    let distance = |point: &PointChange| (point.slower - plateau.slower).abs();
    largest.filter(same).or_else(|| points().min_by(|a, b| distance(a).total_cmp(&distance(b))))
}

/// Change of the time as text, such as `4.1 % more time`.
fn change(slower: f64) -> String {
    match slower * 100.0 {
        percent if percent >= 0.05 => format!("{percent:.1} % more time"),
        percent if percent <= -0.05 => format!("{:.1} % less time", -percent),
        _ => "equal".to_owned(),
    }
}

/// Text for a terminal: the result, fields and regions, and the sizes with the largest change.
#[must_use]
pub fn terminal(pair: RunPair<'_>, screen: impl Into<Screen>) -> String {
    let mut text_report = TextReport::new(screen.into());
    let found = pair.found;
    let (tone, words) = headline(found);
    for (name, log) in [("A", pair.a), ("B", pair.b)] {
        let name_of = text::ending(log, text_report.width().saturating_sub(2));
        text_report.line(&[(Paint::Bold, &format!("{name} ")), (Paint::Dim, &name_of)]);
    }
    text_report.gap();
    for changed in found.fingerprint.iter().take(FIELDS / 2) {
        let [field, a, b] = [&changed.field, &changed.a, &changed.b].map(|it| text::shortened(it, 40));
        let what = if changed.identity { " (not comparable)" } else { "" };
        text_report.paragraph((Paint::None, &format!("  {field:<12} ")), &format!("{a} -> {b}{what}"), 3);
    }
    for region in &found.regions {
        let [low, high] = region.quartiles.map(percent);
        let (name, slower) = (region.region.words(), change(region.slower));
        let points = text::count(region.points as u64, "point");
        let line = format!("{slower}, half of {points} between {low} and {high}");
        text_report.paragraph((Paint::None, &format!("  {name:<22} ")), &line, 3);
    }
    for point in most_changed(found) {
        let (a, b) = (figure(point.a_busbw), figure(point.b_busbw));
        let head = format!("    {:>9} {:<12} ", text::size(point.key.size_bytes), placement(point));
        text_report.paragraph((Paint::Dim, &head), &format!("{a} -> {b} GB/s, {}", change(point.slower)), 2);
    }
    if let Some(rest) = unmatched(found) {
        text_report.line(&[(Paint::Dim, &format!("  {rest}"))]);
    }
    text_report.gap();
    text_report.lines_in(tone.into(), &words);
    if let Some(next) = next(found) {
        text_report.paragraph((Paint::Bold, "Next: "), &next, 3);
    }
    text_report.finish()
}

/// Next step after the comparison, taken from the matching reason code in the documentation.
fn next(found: &Comparison) -> Option<String> {
    let code = match (found.points.is_empty(), found.comparable(), found.slower_where_it_counts()) {
        (true, ..) => "NOT_MEASURED",
        (_, false, _) => "OTHER_FINGERPRINT",
        (_, _, true) => "BELOW_BASELINE",
        _ => return None,
    };
    // The documented next step concerns learned baselines; a comparison of two logs has no baseline.
    if code == "OTHER_FINGERPRINT" {
        return Some("compare two logs of the same collective, ranks, nodes, device and system".to_owned());
    }
    reasons::entries(code).into_iter().map(|entry| entry.action).find(|action| !action.is_empty())
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
    let mut out =
        format!("## {} {}\n\nA is {}, B is {}.\n", tone.mark(), escaped(&words), name(pair.a), name(pair.b));
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
        out += &format!("\n{} of smaller sizes omitted.\n", text::count(skipped as u64, "point"));
    }
    if let Some(rest) = unmatched(found) {
        out += &format!("\n{rest}.\n");
    }
    if let Some(next) = next(found) {
        out += &format!("\n**Next:** {}\n", escaped(&next));
    }
    out
}

/// Context of the page's template. All text is unescaped.
#[derive(Serialize)]
struct ComparisonPage<'a> {
    a: &'a str,
    b: &'a str,
    tone: Tone,
    word: String,
    next: Option<String>,
    /// Both curves in one chart.
    overlay: Option<Drawing>,
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
    let data = page(pair);
    let title = format!("{} · {}", data.word, text::shortened(pair.b, VALUE));
    render::page(&title, TEMPLATE, data)
}

/// The page's content, for embedding in a page with the style [`crate::CSS`].
#[must_use]
pub fn part(pair: RunPair<'_>) -> String {
    render::body(TEMPLATE, page(pair)).unwrap_or_else(|error| render::template_error(&error))
}

const TEMPLATE: &str =
    concat!(include_str!("../templates/drawing.html.j2"), include_str!("../templates/comparison.html.j2"));

fn page(pair: RunPair<'_>) -> ComparisonPage<'_> {
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
    let both = "Bus bandwidth of both logs. The table below has every figure.".to_owned();
    let curves = |canvas| overlay(&found.points, canvas);
    ComparisonPage {
        a: pair.a,
        b: pair.b,
        tone,
        word,
        next: next(found),
        overlay: Drawing::of("Bus bandwidth by message size", both, Canvas::WIDE, curves),
        fields: fields.map(|it| (it.field.as_str(), it.a.as_str(), it.b.as_str(), it.identity)).collect(),
        regions: regions.collect(),
        drawing: Drawing::of("More time in B by message size", described, Canvas::WIDE, draw),
        points: points.collect(),
        skipped,
        rest: unmatched(found),
    }
}
