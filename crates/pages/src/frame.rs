//! Common parts of all pages: frame, content security policy, and error pages.

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
use run_index::RunIndexError;
use serde::Serialize;

/// Content security policy: no external resources, only our script, no embedding in other pages.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A template, preceded by the macros that all templates share.
macro_rules! with_macros {
    ($name:literal) => {
        concat!(include_str!("../templates/macros.html.j2"), include_str!(concat!("../templates/", $name)))
    };
}

/// All templates, parsed once: parsing takes longer than rendering.
static TEMPLATES: LazyLock<Result<Environment<'static>, minijinja::Error>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    for (name, template) in [
        ("frame.html", include_str!("../templates/frame.html.j2")),
        ("overview.html", with_macros!("overview.html.j2")),
        ("system.html", with_macros!("system.html.j2")),
        ("run.html", with_macros!("run.html.j2")),
        ("log.html", include_str!("../templates/log.html.j2")),
        ("nodes.html", with_macros!("nodes.html.j2")),
        ("compare.html", with_macros!("compare.html.j2")),
        ("refusal.html", include_str!("../templates/refusal.html.j2")),
    ] {
        environment.add_template(name, template)?;
    }
    Ok(environment)
});

/// A page: the named template inside the frame, with a link to the gateway's API if it is served at the same origin.
pub fn page(beside_gateway: bool, title: &str, template: &str, data: impl Serialize) -> Response {
    let rendered = TEMPLATES.as_ref().map_err(|error| format!("{error:#}")).and_then(|templates| {
        render(templates, beside_gateway, title, template, data).map_err(|error| format!("{error:#}"))
    });
    match rendered {
        Ok(page) => answer(StatusCode::OK, page),
        // Templates are part of this program, and tests render all of them.
        Err(error) => {
            tracing::error!("cannot render a page: {error}");
            answer(StatusCode::INTERNAL_SERVER_ERROR, "cannot render this page; see the log".to_owned())
        }
    }
}

fn render(
    templates: &Environment<'_>,
    beside_gateway: bool,
    title: &str,
    template: &str,
    data: impl Serialize,
) -> Result<String, minijinja::Error> {
    let body = templates.get_template(template)?.render(Serde(data))?;
    let version = env!("CARGO_PKG_VERSION");
    templates.get_template("frame.html")?.render(context! { title, body, version, beside_gateway })
}

fn answer(status: StatusCode, page: String) -> Response {
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Pages are not cached, because their content changes and depends on the caller.
        (CACHE_CONTROL, "no-store"),
    ];
    (status, headers, Html(page)).into_response()
}

pub struct ErrorPage {
    status: StatusCode,
    why: String,
}

impl ErrorPage {
    /// Error page with status 400.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, why: why.into() }
    }

    /// Error page with status 404.
    pub fn not_found(why: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, why: why.into() }
    }

    pub fn no_run(run: &RunId) -> Self {
        Self::not_found(format!("Run {run} does not exist. The page of all runs lists the existing ones."))
    }
}

impl From<RunIndexError> for ErrorPage {
    fn from(error: RunIndexError) -> Self {
        let why = format!("{}. Retry; if the error persists, see the log.", service::worker::chain(&error));
        Self { status: StatusCode::SERVICE_UNAVAILABLE, why }
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let data = context! { why => self.why };
        let mut response = page(false, "Burnin", "refusal.html", data);
        *response.status_mut() = self.status;
        response
    }
}
