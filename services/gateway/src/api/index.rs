//! A first page for people: where everything is.

use axum::{
    http::{HeaderMap, header::HOST},
    response::Html,
};

/// `GET /`.
pub async fn page(headers: HeaderMap) -> Html<String> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let fit =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    Html(PAGE.replace("HOST", if fit { host } else { "127.0.0.1:8080" }))
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
  <li><a href="/api/v1/workflows">Workflows</a> that may be asked for</li>
  <li><a href="/api/v1/openapi.json">What else can be asked</a>, as OpenAPI</li>
  <li><a href="/about">About this server</a></li>
</ul>
<p>Ask for a run:</p>
<pre>curl -sS -X POST -H 'content-type: application/json' \
  -d '{"workflow": "quickstart"}' http://HOST/api/v1/runs</pre>
</html>
"#;
