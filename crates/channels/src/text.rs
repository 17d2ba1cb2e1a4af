//! Texts of notices from templates. Every value is escaped for the form of the text, because names, messages and reasons are
//! external.

use minijinja::{
    AutoEscape, Environment, Error, Output, State, Value, context, syntax::SyntaxConfig, value::Serde,
};
use model::Reason;
use serde::Serialize;

/// The values of a notice, for templates. They are shortened, but not escaped.
#[derive(Clone, Debug)]
pub struct NoticeText<'a> {
    /// The outcome in one sentence.
    pub headline: &'a str,
    pub workflow: String,
    pub cluster: Option<String>,
    pub run: &'a str,
    /// Reasons of the verdict, most severe first.
    pub reasons: Vec<Reason>,
    /// Failure outside the benchmark.
    pub failure: Option<FailureText>,
    /// Names of suspected nodes.
    pub suspects: Option<String>,
    /// Start of the failure and its first run, if that is an earlier run.
    pub since: Option<(String, String)>,
    /// Trigger of the run.
    pub cause: String,
    /// Formatted end time; `None` while the run is open.
    pub closed_at: Option<String>,
    /// URL of the run, from the operator's configuration: not escaped.
    pub link: Option<String>,
}

/// A failure outside the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct FailureText {
    pub stage: String,
    /// Machine-readable code of the failure.
    pub code: String,
    pub message: String,
}

impl NoticeText<'_> {
    /// Renders a template. The suffix of the template name selects the escaping: `mrkdwn` for Slack, `md` for Markdown; other texts are
    /// plain.
    ///
    /// # Errors
    /// Returns an error if the template is invalid: a bug of the caller.
    pub fn render(&self, name: &str, template: &str) -> Result<String, Error> {
        let mut environment = environment()?;
        environment.add_template(name, template)?;
        let text = environment.get_template(name)?.render(context! {
            headline => self.headline,
            workflow => self.workflow.as_str(),
            cluster => self.cluster.as_deref(),
            run => self.run,
            reasons => Serde(&self.reasons),
            failure => Serde(&self.failure),
            suspects => self.suspects.as_ref().filter(|names| !names.is_empty()),
            since => self.since.as_ref().map(|(since, _)| since),
            first => self.since.as_ref().map(|(_, first)| first),
            cause => self.cause.as_str(),
            closed_at => self.closed_at.as_deref(),
            link => self.link.clone().map(Value::from_safe_string),
        })?;
        Ok(text.trim().to_owned())
    }
}

fn environment<'a>() -> Result<Environment<'a>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|name| match name.rsplit_once('.') {
        Some((_, "mrkdwn")) => AutoEscape::Custom("mrkdwn".into()),
        Some((_, "md")) => AutoEscape::Custom("markdown".into()),
        _ => AutoEscape::None,
    });
    environment.set_formatter(escape);
    Ok(environment)
}

fn escape(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let text = value.to_string();
    let text = match state.auto_escape() {
        _ if value.is_safe() => text,
        AutoEscape::Custom(form) if form == "mrkdwn" => mrkdwn(&text),
        AutoEscape::Custom(_) => report::escaped(&text),
        _ => text,
    };
    out.write_str(&text).map_err(Error::from)
}

/// Escapes text for Slack and for other receivers of its webhooks that read Markdown: no mentions, no links, no line breaks.
/// `*`, `_` and similar characters may change the font, which is harmless.
fn mrkdwn(raw: &str) -> String {
    const BREAK: char = '\u{200b}';
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if c.is_control() => safe.push(' '),
            // Prevents mentions (`@channel`), links (`[shown](elsewhere)`) and URLs (`https://`).
            '@' | ']' | '`' => safe.extend([c, BREAK]),
            '/' if safe.ends_with(':') => safe.extend([BREAK, c]),
            c => safe.push(c),
        }
    }
    safe
}
