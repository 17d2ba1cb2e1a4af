//! The HTML page of a run or of logs: a single file without external requests and without scripts.

mod figures;
mod multiples;
mod page_data;

use crate::{
    ReportInput, render,
    sizes::{self, Earlier, Series},
};
use page_data::PageData;

/// The page of a run or of logs: complete, without scripts or external requests.
#[must_use]
pub fn html(input: &ReportInput<'_>) -> String {
    let data = PageData::of(input);
    let title = format!("{} · {}", data.word(), input.title());
    render::page(&title, STORY, data)
}

/// The page's content, for embedding in a page with the style [`CSS`](crate::CSS). `runs` are comparable runs, oldest first, the reported
/// run last; if given, the page also has each size over these runs.
#[must_use]
pub fn part(input: &ReportInput<'_>, runs: &[Earlier<'_>]) -> String {
    let baseline = input.logs.first().and_then(|log| input.baseline(log));
    let sizes = sizes::part(Series { runs, baseline });
    render::body(STORY, PageData::of(input).with_sizes(sizes))
        .unwrap_or_else(|error| render::template_error(&error))
}

const STORY: &str =
    concat!(include_str!("../templates/drawing.html.j2"), include_str!("../templates/page.html.j2"));
