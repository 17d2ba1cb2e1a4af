//! Callers that Cloud Run has admitted.
//!
//! Cloud Run verifies the token of a request and the right of its account to invoke the service, removes the token's signature, and
//! forwards the request. If a request has two tokens, Cloud Run verifies only the token in `X-Serverless-Authorization`
//! (<https://cloud.google.com/run/docs/authenticating/service-to-service>). So the claims of that token are read without verification.
//!
//! A browser has no token. A user starts `gcloud run services proxy`, which adds the user's token to every request that reaches a port
//! of the user's machine, in `X-Serverless-Authorization`, and replaces `Host` (`main.go` of GoogleCloudPlatform/cloud-run-proxy at
//! c58d6fd4). A page of another site can send requests to that port too, also under its own DNS name that resolves to 127.0.0.1. So
//! a request with the proxy's token must state in `Sec-Fetch-Site` that it comes from a page of this server, or from the user: browsers
//! set this header on requests to local and encrypted addresses, and scripts cannot set it
//! (<https://www.w3.org/TR/fetch-metadata/>).

use jsonwebtoken::dangerous::insecure_decode_claims;
use serde::Deserialize;
use service::auth::{Authenticator, Caller, Denied, HeaderMap, Method};

use crate::auth::LONGEST;

/// Header with the token of the proxy; Cloud Run prefers it to `Authorization`.
const BY_PROXY: &str = "x-serverless-authorization";
/// Header with the token of a program.
const BY_PROGRAM: &str = "authorization";

/// Reads the callers that the platform has verified.
pub struct PlatformCallers {
    /// Whether the platform has verified the token of every request. Otherwise only local callers are accepted, and callers have no name.
    pub are_tokens_verified: bool,
}

#[derive(Deserialize)]
struct AccountClaims {
    #[serde(default)]
    email: String,
    #[serde(default)]
    sub: String,
}

#[async_trait::async_trait]
impl Authenticator for PlatformCallers {
    async fn authenticate(&self, method: &Method, headers: &HeaderMap) -> Result<Caller, Denied> {
        let by_proxy = headers.get(BY_PROXY);
        check_origin(method, headers, by_proxy.is_some())?;
        if !self.are_tokens_verified {
            return Ok(Caller { email: model::UNNAMED.to_owned(), subscription: None });
        }
        let header = by_proxy.or_else(|| headers.get(BY_PROGRAM));
        let header = header.ok_or_else(|| Denied::Unproven("the token is missing".to_owned()))?;
        let email = account(header.to_str().unwrap_or_default());
        let email = email
            .ok_or_else(|| Denied::Unproven("the token has neither an address nor a subject".to_owned()))?;
        Ok(Caller { email, subscription: None })
    }
}

/// The account of a token: its email address, or its subject if the token has no address.
fn account(header: &str) -> Option<String> {
    let (scheme, token) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.len() > LONGEST {
        return None;
    }
    // The token has no signature: Cloud Run has verified and removed the signature.
    let AccountClaims { email, sub } = insecure_decode_claims(token.trim()).ok()?;
    [email, sub].into_iter().find(|name| !name.is_empty())
}

/// Refuses requests that a page of another site can cause.
fn check_origin(method: &Method, headers: &HeaderMap, by_proxy: bool) -> Result<(), Denied> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match text("sec-fetch-site") {
        Some("same-origin" | "none") => Ok(()),
        // A link on another page only opens a page of this server, which changes no state.
        Some(_) if *method == Method::GET && text("sec-fetch-mode") == Some("navigate") => Ok(()),
        Some(_) => Err(Denied::CrossSite("a page of another site sent this request")),
        None if by_proxy => Err(Denied::CrossSite(
            "a request through the proxy must have the header `Sec-Fetch-Site`: use a current browser at http://127.0.0.1 or \
             http://localhost; a program sends its token itself in `Authorization`, or the header `Sec-Fetch-Site: none`",
        )),
        // Programs send no `Origin`.
        None if headers.contains_key("origin") => {
            Err(Denied::CrossSite("a request with `Origin` must have the header `Sec-Fetch-Site`"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

    use super::*;

    const CLAIMS: &str = r#"{"aud":"https://gateway","email":"ann@example.com","sub":"1"}"#;

    fn bearer(claims: &str) -> String {
        format!("Bearer e30.{}.SIGNATURE_REMOVED_BY_GOOGLE", URL_SAFE_NO_PAD.encode(claims))
    }

    async fn admit(
        are_tokens_verified: bool,
        method: Method,
        headers: &[(&str, &str)],
    ) -> Result<String, Denied> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let headers: HeaderMap = headers.collect();
        let callers = PlatformCallers { are_tokens_verified };
        callers.authenticate(&method, &headers).await.map(|caller| caller.email)
    }

    #[tokio::test]
    async fn the_caller_is_the_account_of_the_token_that_cloud_run_verified() {
        let (ann, forged) = (bearer(CLAIMS), bearer(r#"{"email":"eve@example.com"}"#));
        let own = ("sec-fetch-site", "same-origin");
        assert_eq!(admit(true, Method::POST, &[(BY_PROGRAM, &ann)]).await.unwrap(), "ann@example.com");
        assert_eq!(
            admit(true, Method::POST, &[(BY_PROXY, &ann), (BY_PROGRAM, &forged), own]).await.unwrap(),
            "ann@example.com",
            "Cloud Run does not verify the second token"
        );
        let numbered = bearer(r#"{"sub":"117"}"#);
        assert_eq!(admit(true, Method::GET, &[(BY_PROGRAM, &numbered)]).await.unwrap(), "117");
        for headers in [&[] as &[_], &[(BY_PROGRAM, ann.as_str())], &[(BY_PROGRAM, "Basic YTpi")]] {
            assert_eq!(admit(false, Method::GET, headers).await.unwrap(), model::UNNAMED);
        }
        for wrong in
            ["", "Bearer", "Bearer e30", "Bearer e30.!.x", "Basic YTpi", &bearer("{}"), &bearer("[]")]
        {
            let denied = admit(true, Method::GET, &[(BY_PROGRAM, wrong)]).await;
            assert!(matches!(denied, Err(Denied::Unproven(_))), "{wrong}: {denied:?}");
        }
        assert!(matches!(admit(true, Method::GET, &[]).await, Err(Denied::Unproven(_))));
    }

    #[tokio::test]
    async fn requests_of_other_sites_through_the_proxy_are_refused() {
        let ann = bearer(CLAIMS);
        let site = |value| ("sec-fetch-site", value);
        let navigation = ("sec-fetch-mode", "navigate");
        let origin = ("origin", "http://localhost:8080");
        let refused: [(Method, &[(&str, &str)]); 7] = [
            (Method::POST, &[site("cross-site")]),
            // A page on another port of the same machine sends the request.
            (Method::POST, &[site("same-site")]),
            (Method::POST, &[site("cross-site"), navigation]),
            (Method::GET, &[site("cross-site")]),
            // A name of another site that resolves to 127.0.0.1: browsers omit the header.
            (Method::GET, &[]),
            (Method::POST, &[("origin", "http://evil.example:8080")]),
            (Method::DELETE, &[site("")]),
        ];
        for (method, headers) in refused {
            let headers = [&[(BY_PROXY, ann.as_str())], headers].concat();
            let denied = admit(true, method.clone(), &headers).await;
            assert!(matches!(denied, Err(Denied::CrossSite(_))), "{method} {headers:?}: {denied:?}");
        }
        let accepted: [(Method, &[(&str, &str)]); 4] = [
            (Method::POST, &[site("same-origin"), origin]),
            (Method::GET, &[site("none"), navigation]),
            (Method::GET, &[site("cross-site"), navigation]),
            (Method::PUT, &[site("none")]),
        ];
        for (method, headers) in accepted {
            let headers = [&[(BY_PROXY, ann.as_str())], headers].concat();
            assert!(admit(true, method.clone(), &headers).await.is_ok(), "{method} {headers:?}");
        }
        // Programs send no `Origin`.
        let denied = admit(true, Method::POST, &[(BY_PROGRAM, &ann), origin]).await;
        assert!(matches!(denied, Err(Denied::CrossSite(_))));
    }
}
