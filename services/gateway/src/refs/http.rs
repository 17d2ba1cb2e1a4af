//! Refs by what git asks first when it fetches over HTTP: where a service's image has no git.

use super::{PATIENCE, Ref, Refs};

/// More than this is no list of refs.
const MOST: usize = 64 << 20;

/// `GET {url}/info/refs`, as git's smart HTTP has it.
pub struct HttpRefs {
    http: reqwest::Client,
    token: Option<String>,
}

impl HttpRefs {
    /// With a token of the forge, which is shown to nobody but over HTTPS.
    ///
    /// # Errors
    /// When there is no TLS.
    pub fn new(token: Option<String>) -> Result<Self, reqwest::Error> {
        // A token must not follow to another place.
        let http = reqwest::Client::builder()
            .timeout(PATIENCE)
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
            return Err(format!("`{url}` is not http:// or https://, and there is no git here for others"));
        }
        let mut request = self.http.get(format!("{}/info/refs", url.trim_end_matches('/')));
        request = request.query(&[("service", "git-upload-pack")]);
        if let Some(token) = self.token.as_ref().filter(|_| https) {
            request = request.basic_auth("x-access-token", Some(token));
        }
        // The error's own text would repeat the URL.
        let failed = |error: reqwest::Error| format!("it does not answer: {}", error.without_url());
        let mut answer = request.send().await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(format!("it answers {}", answer.status()));
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&piece);
            if body.len() > MOST {
                return Err(format!("its list of refs is larger than {} MiB", MOST >> 20));
            }
        }
        refs(&body).ok_or_else(|| "it does not answer as git does".to_owned())
    }
}

/// Lines of `COMMIT NAME`, each behind its length in four hex digits; `0000` between sections.
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
        // Behind a zero stands what the server can do.
        let line = line.split(|byte| *byte == 0).next()?;
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        if line.starts_with('#') {
            announced = line == "# service=git-upload-pack";
        } else if let Some((commit, name)) = line.split_once(' ') {
            // What ends in ^{} is what a tag points to, and no ref.
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
    fn what_is_no_list_of_refs_is_none() {
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
