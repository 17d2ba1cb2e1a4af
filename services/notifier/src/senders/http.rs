//! One HTTP request and the meaning of its response. Messages never contain the URL: it may contain a secret.

use std::{net::IpAddr, str::FromStr, sync::OnceLock, time::Duration};

use chrono::DateTime;
use model::{Span, Timestamp};
use reqwest::{
    Client, Method, RequestBuilder, StatusCode, Url,
    header::{HeaderMap, HeaderName, RETRY_AFTER},
    redirect::Policy,
};

use crate::{port::Reply, secrets::SecretText};

/// Timeout of a request, until the last byte of the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes read from a response.
const LONGEST: usize = 4 << 20;
/// Maximum delay that a receiver can request.
const LONGEST_WAIT: Span = Span::from_secs(6 * 3600);

/// HTTP client, created at first use: a host without certificates must still perform all other tasks.
#[derive(Default)]
pub struct Http(OnceLock<Client>);

pub struct HttpReply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Base URL of GitHub's REST API.
#[derive(Clone, Debug)]
pub struct GithubApi(String);

impl Default for GithubApi {
    fn default() -> Self {
        Self("https://api.github.com".to_owned())
    }
}

impl GithubApi {
    /// URL of a path below the base URL.
    pub fn at(&self, path: &str) -> Result<Url, String> {
        Url::parse(&format!("{}{path}", self.0.trim_end_matches('/'))).map_err(|error| error.to_string())
    }
}

impl FromStr for GithubApi {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        safe(text).map(|url| Self(url.into()))
    }
}

pub fn address(name: &str, url: &SecretText) -> Result<Url, String> {
    safe(url.reveal()).map_err(|why| format!("the url of `{name}`: {why}"))
}

/// Tokens and notices are sent over TLS, or stay on this host.
fn safe(text: &str) -> Result<Url, &'static str> {
    let wrong = "expected https://, or http:// to this host";
    let url = Url::parse(text).map_err(|_| wrong)?;
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" if !host.is_empty() => Ok(url),
        "http" if here => Ok(url),
        _ => Err(wrong),
    }
}

impl Http {
    fn client(&self) -> Result<&Client, String> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        // Receivers are set in the configuration: redirects could send notices elsewhere.
        let client = Client::builder()
            .timeout(REQUEST_TIMEOUT)
            .redirect(Policy::none())
            .user_agent(concat!("burnin/", env!("CARGO_PKG_VERSION")))
            .build();
        let client =
            client.map_err(|error| format!("TLS is not available: {}", service::worker::chain(&error)))?;
        Ok(self.0.get_or_init(|| client))
    }

    pub fn post(&self, url: Url) -> Result<RequestBuilder, String> {
        self.request(Method::POST, url)
    }

    pub fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, String> {
        Ok(self.client()?.request(method, url))
    }

    /// Sends one request. The receiver may have accepted the request even if no response arrives.
    pub async fn send(&self, request: RequestBuilder) -> Result<HttpReply, Reply> {
        let failed = |error: reqwest::Error| {
            let what =
                if error.is_timeout() { "timeout waiting for the response" } else { "connection failed" };
            Reply::transient(format!("{what}: {}", service::worker::chain(&error.without_url())))
        };
        let mut answer = request.send().await.map_err(failed)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        while body.len() < LONGEST {
            match answer.chunk().await {
                Ok(Some(piece)) => body.extend_from_slice(&piece),
                Ok(None) => break,
                // A success status is sufficient without the body.
                Err(_) if status.is_success() => break,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(HttpReply { status, headers, body })
    }
}

impl HttpReply {
    /// Meaning of the status for the delivery.
    pub fn reply(&self, now: Timestamp) -> Reply {
        let why = format!("status {}", self.status);
        match self.status.as_u16() {
            200..300 => Reply::Delivered,
            300..400 => Reply::permanent(format!("{why}, and redirects are not followed")),
            408 | 425 | 429 | 500..600 => Reply::Transient { why, after: self.wait(now) },
            _ => Reply::permanent(why),
        }
    }

    /// Requested delay: `Retry-After`, in seconds or as a date.
    pub fn wait(&self, now: Timestamp) -> Option<Span> {
        let text = self.header(&RETRY_AFTER)?;
        let span = text.trim().parse().map(Span::from_secs).ok().or_else(|| {
            let at = DateTime::parse_from_rfc2822(text).ok()?;
            Some(Timestamp::from(at.to_utc()).since(now))
        });
        Some(span?.min(LONGEST_WAIT))
    }

    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tls_or_local_urls_are_accepted() {
        for good in [
            "https://hooks.slack.com/services/T/B/x",
            "http://127.0.0.1:9/x",
            "http://[::1]/",
            "http://localhost:1",
        ] {
            assert!(safe(good).is_ok(), "{good}");
        }
        for bad in [
            "http://hooks.slack.com/x",
            "http://169.254.169.254/",
            "http://127.0.0.1.example.com/",
            "http://localhost.example/",
            "file:///etc/passwd",
            "ftp://127.0.0.1/",
            "hooks.slack.com",
            "",
        ] {
            assert!(safe(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_status_maps_to_a_reply() {
        let now: Timestamp = "2026-11-20T12:00:00Z".parse().unwrap();
        let reply = |status: u16, retry_after: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, retry_after.parse().unwrap())]);
            HttpReply { status: StatusCode::from_u16(status).unwrap(), headers, body: Vec::new() }.reply(now)
        };
        let after = |reply| match reply {
            Reply::Transient { after, .. } => after.map(|after| after.0.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(reply(204, ""), Reply::Delivered);
        assert_eq!(after(reply(503, "")), None);
        assert_eq!(after(reply(429, "90")), Some(90));
        assert_eq!(after(reply(503, "Fri, 20 Nov 2026 12:01:30 GMT")), Some(90));
        assert_eq!(after(reply(503, "Fri, 20 Nov 2026 11:00:00 GMT")), Some(0));
        assert_eq!(after(reply(429, "99999999999")), Some(6 * 3600));
        for status in [301, 307, 400, 401, 403, 404, 410, 413] {
            assert!(matches!(reply(status, "5"), Reply::Permanent { .. }), "{status}");
        }
    }
}
