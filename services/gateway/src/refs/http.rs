//! Reads refs over HTTP with git's discovery request: for images without git.

use super::{Ref, Refs, TIMEOUT};

/// Maximum size of a list of refs, bytes.
const MAX_BYTES: usize = 64 << 20;

/// Reads refs by `GET {url}/info/refs` of git's smart HTTP protocol.
pub struct HttpRefs {
    http: reqwest::Client,
    token: Option<String>,
}

impl HttpRefs {
    /// `token`: token of the forge, sent only over HTTPS.
    ///
    /// # Errors
    /// Returns an error if TLS is not available.
    pub fn new(token: Option<String>) -> Result<Self, reqwest::Error> {
        // Never follow redirects: the token must not reach another host.
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { http, token })
    }
}

#[async_trait::async_trait]
impl Refs for HttpRefs {
    async fn list(&self, url: &str) -> Result<Vec<Ref>, String> {
        let https = url.starts_with("https://");
        if !https && !url.starts_with("http://") {
            return Err(format!(
                "`{url}` is neither http:// nor https://, and this service has no git for other schemes"
            ));
        }
        let mut request = self.http.get(format!("{}/info/refs", url.trim_end_matches('/')));
        request = request.query(&[("service", "git-upload-pack")]);
        if let Some(token) = self.token.as_ref().filter(|_| https) {
            request = request.basic_auth("x-access-token", Some(token));
        }
        // The error's own text would contain the URL.
        let failed = |error: reqwest::Error| format!("request failed: {}", error.without_url());
        let mut answer = request.send().await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(format!("status {}", answer.status()));
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&piece);
            if body.len() > MAX_BYTES {
                return Err(format!(
                    "the list of refs is larger than the maximum of {} MiB",
                    MAX_BYTES >> 20
                ));
            }
        }
        refs(&body).ok_or_else(|| "the response is not git's smart HTTP protocol".to_owned())
    }
}

/// Parses lines of `COMMIT NAME`, each after its length in four hex digits; `0000` separates sections.
fn refs(mut body: &[u8]) -> Option<Vec<Ref>> {
    let mut refs = Vec::new();
    let mut announced = false;
    while !body.is_empty() {
        let length = std::str::from_utf8(body.get(..4)?).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length < 4 {
            body = &body[4..];
            continue;
        }
        let line = body.get(4..length)?;
        body = &body[length..];
        // Capabilities follow after a zero byte.
        let line = line.split(|byte| *byte == 0).next()?;
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        if line.starts_with('#') {
            announced = line == "# service=git-upload-pack";
        } else if let Some((commit, name)) = line.split_once(' ') {
            // Names ending in ^{} are targets of tags, not refs.
            let wanted = name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
            if wanted && !name.ends_with("^{}") {
                refs.push(Ref { name: name.to_owned(), commit: commit.to_owned() });
            }
        }
    }
    announced.then_some(refs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_list_of_refs_is_refused() {
        let good = "001e# service=git-upload-pack\n0000003daaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refs/heads/main\n0000";
        assert_eq!(refs(good.as_bytes()).unwrap()[0].name, "refs/heads/main");
        for end in 1..good.len() - 4 {
            assert!(refs(&good.as_bytes()[..end]).is_none_or(|refs| refs.is_empty()), "cut at {end}");
        }
        for bad in ["<html>", "", "zzzz", "0003", "ffff", "0000"] {
            assert_eq!(refs(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(refs(&[0xff; 64]), None);
    }
}
