//! Style sheet and script, embedded in the program.

use axum::{
    extract::Path,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};

/// Cached without an expiry, because the URL contains the program's version.
const KEPT: &str = "public, max-age=31536000, immutable";

/// Handler of `GET /assets/{name}`.
pub async fn asset(Path(name): Path<String>) -> Response {
    let (kind, body) = match name.as_str() {
        "style.css" => {
            ("text/css; charset=utf-8", format!("{}{}", report::CSS, include_str!("../templates/style.css")))
        }
        "script.js" => ("text/javascript; charset=utf-8", include_str!("../templates/script.js").to_owned()),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, KEPT)], body).into_response()
}
