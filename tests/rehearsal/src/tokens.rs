//! OIDC tokens: Google signs them for accounts, and Cloud Run verifies them before a request reaches a service. The services do not verify
//! them (`BURNIN_AUTH=platform`); their own verification is tested in `crates/gcp/tests/all/auth.rs`.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    rand::SystemRandom,
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// Validity of a token, seconds.
const VALIDITY: u64 = 3600;
const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];
/// Audience of `gcloud auth print-identity-token` for a user: gcloud's own client.
pub const GCLOUD: &str = "32555940559.apps.googleusercontent.com";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Signs tokens with a key.
pub struct Issuer {
    /// `None` if the key cannot be generated: then no token is valid.
    key: Option<KeyPair>,
    tokens: Mutex<BTreeMap<(String, String), Arc<str>>>,
}

impl Default for Issuer {
    fn default() -> Self {
        Self { key: KeyPair::generate(KeySize::Rsa2048).ok(), tokens: Mutex::default() }
    }
}

/// Google's key, shared by all rehearsals, because key generation is slow.
pub static GOOGLE: LazyLock<Issuer> = LazyLock::new(Issuer::default);

fn is_service_account(email: &str) -> bool {
    email.ends_with(".gserviceaccount.com")
}

/// The claims of an account's token.
pub fn claims(email: &str, audience: &str) -> Value {
    json!({"aud": audience, "azp": "1", "email": email, "email_verified": true, "exp": now() + VALIDITY, "iat": now(),
           "iss": ISSUERS[0], "sub": "1"})
}

impl Issuer {
    pub fn sign(&self, claims: &Value) -> String {
        let head = json!({"alg": "RS256", "kid": "1", "typ": "JWT"}).to_string();
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let mut signature = vec![0; self.key.as_ref().map_or(0, KeyPair::public_modulus_len)];
        if let Some(key) = &self.key {
            let signed = key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
            if signed.is_err() {
                signature.clear();
            }
        }
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The token of an account for an audience. Tokens are cached, as in Pub/Sub and Cloud Scheduler; a rehearsal ends before its tokens
    /// expire.
    pub fn token(&self, email: &str, audience: &str) -> Arc<str> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || self.sign(&claims(email, audience)).into();
        Arc::clone(tokens.entry((email.to_owned(), audience.to_owned())).or_insert_with(new))
    }

    /// Verifies a token for a service at this URL. Returns its email address.
    ///
    /// # Errors
    /// Returns an error, with the reason, if the token is refused.
    pub fn verify(&self, token: &str, uri: &str) -> Result<String, String> {
        let (text, signature) = token.rsplit_once('.').ok_or("the token is malformed")?;
        let (head, body) = text.split_once('.').ok_or("the token is malformed")?;
        let decoded = |part: &str| -> Option<Value> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        if decoded(head).is_none_or(|head| head["alg"] != "RS256") {
            return Err("the token is not signed with RS256".to_owned());
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        let valid = self.key.as_ref().is_some_and(|key| {
            let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
            public.verify(text.as_bytes(), &signature).is_ok()
        });
        if !valid {
            return Err("the signature is not Google's".to_owned());
        }
        let claims = decoded(body).ok_or("the token is malformed")?;
        let claim = |name: &str| claims[name].as_str().unwrap_or_default();
        if !ISSUERS.contains(&claim("iss")) {
            return Err(format!("the issuer is `{}`", claim("iss")));
        }
        if claims["exp"].as_u64().is_none_or(|end| end <= now()) {
            return Err("the token is expired".to_owned());
        }
        let email = claim("email");
        if email.is_empty() || claims["email_verified"] != true {
            return Err("the token has no verified email address".to_owned());
        }
        let audience = claim("aud");
        if audience != uri && (audience != GCLOUD || is_service_account(email)) {
            return Err(format!("the audience is `{audience}`, not `{uri}`"));
        }
        Ok(email.to_owned())
    }
}

/// Tokens that Cloud Run must refuse at this URL, although `email` may call the service.
pub fn refused(email: &str, uri: &str) -> Vec<(&'static str, String)> {
    let with = |name: &str, value: Value| {
        let mut claims = claims(email, uri);
        claims[name] = value;
        GOOGLE.sign(&claims)
    };
    let good = GOOGLE.token(email, uri);
    let parts: Vec<_> = good.split('.').collect();
    let [head, body, signature] = parts[..] else { return Vec::new() };
    let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let tampered = URL_SAFE_NO_PAD.encode(claims("owner@example.com", uri).to_string());
    vec![
        ("a malformed token", "x".to_owned()),
        ("an unsigned token", format!("{unsigned}.{body}.")),
        ("a token with changed claims", format!("{head}.{tampered}.{signature}")),
        ("a token of another issuer's key", Issuer::default().sign(&claims(email, uri))),
        ("another issuer", with("iss", json!("https://accounts.example.com"))),
        ("an expired token", with("exp", json!(now() - 1))),
        ("a token without an expiry", with("exp", Value::Null)),
        ("an address that is not verified", with("email_verified", json!(false))),
        ("the audience of another service", with("aud", json!("https://burnin-other.run.app"))),
        ("an audience with a path", with("aud", json!(format!("{uri}/")))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "https://burnin-judge-abc.run.app";
    const PUSH: &str = "push@p.iam.gserviceaccount.com";

    fn why(token: &str) -> String {
        GOOGLE.verify(token, URI).unwrap_err()
    }

    fn changed(name: &str, value: Value) -> String {
        let mut claims = claims(PUSH, URI);
        claims[name] = value;
        GOOGLE.sign(&claims)
    }

    #[test]
    fn a_token_is_valid_only_with_the_signature_of_google() {
        assert_eq!(GOOGLE.verify(&GOOGLE.token(PUSH, URI), URI), Ok(PUSH.to_owned()));
        let reasons: BTreeMap<_, _> =
            refused(PUSH, URI).into_iter().map(|(what, token)| (what, why(&token))).collect();
        assert_eq!(reasons["a malformed token"], "the token is malformed");
        assert_eq!(reasons["an unsigned token"], "the token is not signed with RS256");
        assert_eq!(reasons["a token with changed claims"], "the signature is not Google's");
        assert_eq!(reasons["a token of another issuer's key"], "the signature is not Google's");
    }

    #[test]
    fn a_token_is_valid_only_from_google_until_its_expiry_with_a_verified_address() {
        assert_eq!(why(&changed("iss", json!("https://example.com"))), "the issuer is `https://example.com`");
        assert!(GOOGLE.verify(&changed("iss", json!("accounts.google.com")), URI).is_ok());
        assert_eq!(why(&changed("exp", json!(now() - 1))), "the token is expired");
        assert_eq!(why(&changed("exp", Value::Null)), "the token is expired");
        for (name, value) in [("email", json!("")), ("email_verified", json!(false))] {
            assert_eq!(why(&changed(name, value)), "the token has no verified email address", "{name}");
        }
    }

    #[test]
    fn the_audience_is_the_url_of_the_service() {
        for audience in ["https://burnin-other.run.app", "https://burnin-judge-abc.run.app/", "", GCLOUD] {
            assert!(why(&GOOGLE.token(PUSH, audience)).starts_with("the audience is"), "{audience}");
        }
        // A user's token from gcloud has the audience of gcloud.
        assert!(GOOGLE.verify(&GOOGLE.token("a@example.com", GCLOUD), URI).is_ok());
    }
}
