//! The page: one file that asks nobody for anything and runs nothing.

mod figures;
mod view;

use minijinja::{
    Environment, Error, Output, State, Value, escape_formatter, syntax::SyntaxConfig, value::Serde,
};
use serde::Serialize;

use crate::{
    Story,
    plot::{Canvas, Plot},
    sizes::{self, Earlier, Series},
    text,
};
use view::View;

/// The page of a run or of logs: complete, without scripts, and without a request to anybody.
#[must_use]
pub fn html(story: &Story<'_>) -> String {
    let view = View::of(story);
    let title = format!("{} · {}", view.word(), story.title());
    page(&title, STORY, view)
}

/// What is on that page, to be shown inside of another one whose style is [`CSS`]; with comparable runs, oldest first and
/// the reported one last, also each size through them.
#[must_use]
pub fn part(story: &Story<'_>, runs: &[Earlier<'_>]) -> String {
    let baseline = story.logs.first().and_then(|log| story.baseline(log));
    let sizes = sizes::part(Series { runs, baseline });
    body(STORY, View::of(story).with_sizes(sizes)).unwrap_or_else(|error| unmade(&error))
}

/// How pages look. It needs no inline style.
pub const CSS: &str = include_str!("../templates/page.css");

const STORY: &str =
    concat!(include_str!("../templates/drawing.html.j2"), include_str!("../templates/page.html.j2"));

/// A page: its own template inside the one that all share.
pub fn page(title: &str, template: &'static str, view: impl Serialize) -> String {
    let rendered = environment(template).and_then(|world| {
        let body = body(template, view)?;
        world.get_template("frame.html")?.render(minijinja::context! { title, css => CSS, body })
    });
    rendered.unwrap_or_else(|error| format!("<!doctype html><title>Burnin</title>{}", unmade(&error)))
}

/// A template, filled in.
pub fn body(template: &'static str, view: impl Serialize) -> Result<String, Error> {
    environment(template)?.get_template("body.html")?.render(Serde(view))
}

/// The templates are part of this crate and every test renders them: this is a bug of ours, told without a panic.
pub fn unmade(error: &Error) -> String {
    format!("<pre>{}</pre>", minijinja::HtmlEscape(&format!("{error:?}")))
}

fn environment(template: &'static str) -> Result<Environment<'static>, Error> {
    let mut world = Environment::new();
    world.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    world.set_formatter(cleaned);
    world.add_template("frame.html", include_str!("../templates/frame.html.j2"))?;
    world.add_template("body.html", template)?;
    Ok(world)
}

/// The one place where a value reaches the page: cleaned here, then escaped as its template's kind asks for.
fn cleaned(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str().filter(|_| !value.is_safe()) {
        Some(text) => escape_formatter(out, state, &Value::from(text::block(text))),
        None => escape_formatter(out, state, value),
    }
}

/// A drawing twice, for wide screens and for narrow ones, and in words for those who do not see it.
#[derive(Serialize)]
pub struct Drawing {
    title: &'static str,
    described: String,
    wide: Plot,
    narrow: Option<Plot>,
}

impl Drawing {
    /// None when there is nothing to draw.
    pub fn of(
        title: &'static str,
        described: String,
        wide: Canvas,
        draw: impl Fn(Canvas) -> Option<Plot>,
    ) -> Option<Self> {
        Some(Self { title, described, wide: draw(wide)?, narrow: draw(Canvas::NARROW) })
    }
}
