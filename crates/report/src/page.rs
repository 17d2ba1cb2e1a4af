//! The page: one file that asks nobody for anything and runs nothing.

mod view;

use minijinja::{
    Environment, Error, Output, State, Value, escape_formatter, syntax::SyntaxConfig, value::Serde,
};

use crate::{Story, text};
use view::View;

/// The page of a run: complete, without scripts, and without a request to anybody.
#[must_use]
pub fn html(story: &Story<'_>) -> String {
    let rendered =
        environment().and_then(|world| world.get_template("run.html")?.render(Serde(View::of(story))));
    // The template is part of this crate and every test renders it: this is a bug of ours, told without a panic.
    rendered.unwrap_or_else(|error| format!("<!doctype html><title>Burnin</title><pre>{error:?}</pre>"))
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut world = Environment::new();
    world.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    world.set_formatter(cleaned);
    world.add_template("run.html", include_str!("../templates/run.html.j2"))?;
    Ok(world)
}

/// The one place where a value reaches the page: cleaned here, then escaped as its template's kind asks for.
fn cleaned(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_str().filter(|_| !value.is_safe()) {
        Some(text) => escape_formatter(out, state, &Value::from(text::block(text))),
        None => escape_formatter(out, state, value),
    }
}
