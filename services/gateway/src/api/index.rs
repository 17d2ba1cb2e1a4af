//! Index page with links to the API.

use axum::{
    Extension,
    http::{HeaderMap, header::HOST},
    response::Html,
};

use crate::LocalUser;

/// `GET /`.
pub async fn page(user: Option<Extension<LocalUser>>, headers: HeaderMap) -> Html<String> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let fit =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    let host = if fit { host } else { "127.0.0.1:8080" };
    let port = host.rsplit_once(':').map_or("8080", |(_, port)| port);
    let proof = user.map(|_| format!(" -H @.burnin/host/up/{port}.header")).unwrap_or_default();
    Html(PAGE.replace("PROOF", &proof).replace("HOST", host))
}

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Burnin</title>
<style>
  :root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; background: Canvas; color: CanvasText; }
  body { max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }
  code, pre { font-size: .9rem; }
  pre { overflow-x: auto; padding: .75rem; border: 1px solid; border-radius: .25rem; }
</style>
<h1>Burnin</h1>
<p>Proves that GPU clusters are good, and keeps proving it.</p>
<ul>
  <li><a href="/api/v1/runs">Runs</a>, newest first</li>
  <li><a href="/api/v1/workflows">Workflows</a></li>
  <li><a href="/api/v1/openapi.json">API description</a> (OpenAPI)</li>
  <li><a href="/about">About this server</a></li>
</ul>
<p>Request a run:</p>
<pre tabindex="0">curl -sS -X POSTPROOF -H 'content-type: application/json' \
  -d '{"workflow": "quickstart"}' http://HOST/api/v1/runs</pre>
</html>
"#;
