//! Rendering of HTML: the common frame and style of all pages, and the escaping of values.

use minijinja::{
    Environment, Error, Output, State, Value, escape_formatter, syntax::SyntaxConfig, value::Serde,
};
use serde::Serialize;

use crate::{
    plot::{Canvas, Plot},
    text,
};

/// Style sheet of all pages. No inline styles are needed.
pub const CSS: &str = include_str!("../templates/page.css");

/// A page: its own template inside the common frame.
pub fn page(title: &str, template: &'static str, data: impl Serialize) -> String {
    let rendered = environment(template).and_then(|environment| {
        let body = body(template, data)?;
        environment.get_template("frame.html")?.render(minijinja::context! { title, css => CSS, body })
    });
    rendered.unwrap_or_else(|error| format!("<!doctype html><title>Burnin</title>{}", template_error(&error)))
}

pub fn body(template: &'static str, data: impl Serialize) -> Result<String, Error> {
    environment(template)?.get_template("body.html")?.render(Serde(data))
}

/// Templates are compiled in and rendered by every test: an error is a bug, shown instead of a panic.
pub fn template_error(error: &Error) -> String {
    format!("<pre>{}</pre>", minijinja::HtmlEscape(&format!("{error:?}")))
}

fn environment(template: &'static str) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_formatter(cleaned);
    environment.add_template("frame.html", include_str!("../templates/frame.html.j2"))?;
    environment.add_template("body.html", template)?;
    Ok(environment)
}

/// The single place where values enter the page: cleaned here, then escaped by its template.
fn cleaned(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str().filter(|_| !value.is_safe()) {
        Some(text) => escape_formatter(out, state, &Value::from(text::block(text))),
        None => escape_formatter(out, state, value),
    }
}

/// A drawing in two versions, for wide and narrow screens, with a text alternative.
#[derive(Serialize)]
pub struct Drawing {
    title: &'static str,
    described: String,
    wide: Plot,
    narrow: Option<Plot>,
}

impl Drawing {
    /// `None` without data.
    pub fn of(
        title: &'static str,
        described: String,
        wide: Canvas,
        draw: impl Fn(Canvas) -> Option<Plot>,
    ) -> Option<Self> {
        Some(Self { title, described, wide: draw(wide)?, narrow: draw(Canvas::NARROW) })
    }
}
