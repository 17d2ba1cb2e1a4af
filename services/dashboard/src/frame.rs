//! What all pages share: the frame, what they may do in a browser, and how an error looks.

use std::sync::LazyLock;

use axum::{
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
    },
    response::{Html, IntoResponse, Response},
};
use minijinja::{Environment, context, syntax::SyntaxConfig, value::Serde};
use model::RunId;
use run_index::ViewError;
use serde::Serialize;

/// Nothing from anywhere else, no script but ours, and nobody shows a page inside of theirs.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Every template by its name, read once: reading them takes longer than filling one in.
static TEMPLATES: LazyLock<Result<Environment<'static>, minijinja::Error>> = LazyLock::new(|| {
    let mut world = Environment::new();
    world.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    for (name, template) in [
        ("frame.html", include_str!("../templates/frame.html.j2")),
        ("overview.html", include_str!("../templates/overview.html.j2")),
        ("run.html", include_str!("../templates/run.html.j2")),
        ("log.html", include_str!("../templates/log.html.j2")),
        ("compare.html", include_str!("../templates/compare.html.j2")),
        ("refusal.html", include_str!("../templates/refusal.html.j2")),
    ] {
        world.add_template(name, template)?;
    }
    Ok(world)
});

/// A page: the template of this name inside the frame, with a way to the gateway's interface where that lies at the same
/// origin.
pub fn page(beside_gateway: bool, title: &str, template: &str, view: impl Serialize) -> Response {
    let rendered = TEMPLATES.as_ref().map_err(|error| format!("{error:#}")).and_then(|templates| {
        render(templates, beside_gateway, title, template, view).map_err(|error| format!("{error:#}"))
    });
    match rendered {
        Ok(page) => answer(StatusCode::OK, page),
        // The templates are part of this program, and tests render all of them.
        Err(error) => {
            tracing::error!("a page cannot be made: {error}");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "this page cannot be made; see the log".to_owned())
        }
    }
}

fn render(
    templates: &Environment<'_>,
    beside_gateway: bool,
    title: &str,
    template: &str,
    view: impl Serialize,
) -> Result<String, minijinja::Error> {
    let body = templates.get_template(template)?.render(Serde(view))?;
    let version = env!("CARGO_PKG_VERSION");
    templates.get_template("frame.html")?.render(context! { title, body, version, beside_gateway })
}

fn answer(status: StatusCode, page: String) -> Response {
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // What is shown changes, and belongs to whoever asked.
        (CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Html(page)).into_response()
}

/// What a person is told instead of a page.
pub struct Refusal {
    status: StatusCode,
    why: String,
}

impl Refusal {
    /// What was asked for makes no sense.
    pub fn bad(why: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, why: why.into() }
    }

    /// It is not there.
    pub fn none(why: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, why: why.into() }
    }

    /// There is no such run.
    pub fn no_run(run: &RunId) -> Self {
        Self::none(format!("There is no run {run}."))
    }
}

impl From<ViewError> for Refusal {
    fn from(error: ViewError) -> Self {
        let why = format!("{}. Try again; if it stays so, see the log.", service::worker::chain(&error));
        Self { status: StatusCode::SERVICE_UNAVAILABLE, why }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let view = context! { why => self.why };
        let mut response = page(false, "Burnin", "refusal.html", view);
        *response.status_mut() = self.status;
        response
    }
}
