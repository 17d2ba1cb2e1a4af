//! Verifies the OIDC tokens that Pub/Sub and Cloud Scheduler send.
//!
//! A valid token is signed with RS256 (regardless of its header) by a key that Google publishes, issued by Google for
//! the configured audience, not expired, and has a verified email address on the list. Without the list, anyone with a
//! Google account could obtain a token for any audience.
//!
//! The verifier of `google-cloud-auth` is not used: of 80 requests that arrived concurrently before it had cached Google's keys, 1
//! succeeded. Here concurrent requests share one fetch of the keys.

use std::{collections::BTreeMap, str::FromStr};

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::Deserialize;
use service::auth::{Authenticator, Caller, Denied, HeaderMap, Method};

use crate::keys::{KeyError, Keys};

const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];
/// Tolerance for clock differences, seconds.
const LEEWAY: u64 = 60;
/// Maximum length of a token; Google's tokens have about 1 kB.
pub(crate) const LONGEST: usize = 8 << 10;

/// Accepted addresses, separated by commas: `EMAIL` for all requests, `EMAIL=SUBSCRIPTION` only for
/// deliveries of that subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callers(BTreeMap<String, Option<String>>);

impl FromStr for Callers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut callers = BTreeMap::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (email, subscription) = match part.split_once('=') {
                Some((email, subscription)) => (email.trim(), Some(subscription.trim().to_owned())),
                None => (part, None),
            };
            let named = |subscription: &String| {
                subscription.starts_with("projects/") && subscription.contains("/subscriptions/")
            };
            if !email.contains('@') || !subscription.as_ref().is_none_or(named) {
                return Err(format!("`{part}` is not EMAIL or EMAIL=projects/P/subscriptions/S"));
            }
            if callers.insert(email.to_owned(), subscription).is_some() {
                return Err(format!("`{email}` is listed twice"));
            }
        }
        if callers.is_empty() {
            return Err("the list is empty, so no caller would be accepted".to_owned());
        }
        Ok(Self(callers))
    }
}

pub struct Verifier {
    keys: Keys,
    callers: Callers,
    validation: Validation,
}

#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    email: String,
    #[serde(default)]
    email_verified: bool,
}

impl Verifier {
    /// Accepts tokens for this audience, from these callers.
    pub fn new(audience: &str, callers: Callers, keys: Keys) -> Self {
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_audience(&[audience]);
        validation.set_issuer(&ISSUERS);
        validation.set_required_spec_claims(&["exp", "aud", "iss"]);
        validation.leeway = LEEWAY;
        Self { keys, callers, validation }
    }

    /// Verifies the token in the header `Authorization`.
    ///
    /// # Errors
    /// Returns an error with the reason if the token is missing or invalid, or the caller is not accepted.
    pub async fn verify(&self, authorization: Option<&str>) -> Result<Caller, Denied> {
        let unproven = |why: &str| Denied::Unproven(why.to_owned());
        let header = authorization
            .ok_or_else(|| unproven("the token is missing; send it in the header Authorization"))?;
        let (scheme, token) = header
            .split_once(' ')
            .ok_or_else(|| unproven("the token is missing; send it in the header Authorization"))?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.len() > LONGEST {
            return Err(unproven("the token is not a bearer token, or exceeds the maximum length"));
        }
        let head = decode_header(token).map_err(|_| unproven("the token is malformed"))?;
        if head.alg != Algorithm::RS256 {
            return Err(unproven("the token is not signed with RS256"));
        }
        let id = head.kid.ok_or_else(|| unproven("the token has no key id"))?;
        let key = self.keys.get(&id).await.map_err(|keyless| match keyless {
            KeyError::Unknown => unproven("the token's key is not Google's"),
            KeyError::Unavailable(why) => Denied::Unknown(why),
        })?;
        let claims = decode::<Claims>(token, &key, &self.validation);
        let claims = claims.map_err(|error| Denied::Unproven(format!("invalid token: {error}")))?.claims;
        if !claims.email_verified || claims.email.is_empty() {
            return Err(unproven("the token has no verified email address"));
        }
        match self.callers.0.get(&claims.email) {
            Some(subscription) => Ok(Caller { email: claims.email, subscription: subscription.clone() }),
            None => Err(Denied::Forbidden(format!(
                "{} is not an accepted caller; add it to BURNIN_CALLERS",
                claims.email
            ))),
        }
    }
}

#[async_trait::async_trait]
impl Authenticator for Verifier {
    async fn authenticate(&self, _: &Method, headers: &HeaderMap) -> Result<Caller, Denied> {
        self.verify(headers.get("authorization").and_then(|value| value.to_str().ok())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_addresses_each_with_at_most_one_subscription() {
        let read: Callers = "a@x, b@x=projects/p/subscriptions/s,".parse().unwrap();
        let expected = [("a@x", None), ("b@x", Some("projects/p/subscriptions/s".to_owned()))];
        assert_eq!(read.0, expected.map(|(email, to)| (email.to_owned(), to)).into());
        for wrong in ["", " , ", "nobody", "a@x,a@x", "a@x=s", "a@x="] {
            assert!(wrong.parse::<Callers>().is_err(), "{wrong}");
        }
    }
}
