//! Tokens: accepted callers, and the number of key requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::{
    encoding::AsDer,
    rsa::{KeyPair, KeySize},
    signature::KeyPair as _,
};
use base64::{Engine, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use gcp::{
    auth::Verifier,
    keys::{KeySource, Keys},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::JwkSet};
use model::{Span, Timestamp};
use serde_json::{Value, json};
use service::{
    ManualClock,
    auth::{Caller, Denied},
};

const AUDIENCE: &str = "https://builder.example/";
const PUSH: &str = "push@p.iam.gserviceaccount.com";
const SUBSCRIPTION: &str = "projects/p/subscriptions/builder";
const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Signs tokens; the public key is published as a JWK.
struct Signer {
    private: EncodingKey,
    published: Value,
}

fn signer(id: &str) -> Signer {
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let body = STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
    let public = pair.public_key();
    let published = json!({
        "kty": "RSA", "alg": "RS256", "use": "sig", "kid": id,
        "n": URL_SAFE_NO_PAD.encode(public.modulus().big_endian_without_leading_zero()),
        "e": URL_SAFE_NO_PAD.encode(public.exponent().big_endian_without_leading_zero()),
    });
    Signer { private: EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap(), published }
}

fn claims() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    json!({"aud": AUDIENCE, "email": PUSH, "email_verified": true, "exp": now + 3600, "iat": now,
           "iss": "https://accounts.google.com", "sub": "1"})
}

fn token(signer: &Signer, id: &str, claims: &Value) -> String {
    let header = Header { kid: Some(id.to_owned()), ..Header::new(Algorithm::RS256) };
    format!("Bearer {}", encode(&header, claims, &signer.private).unwrap())
}

/// Publishes keys slowly and counts requests.
#[derive(Clone)]
struct KeyPublisher {
    keys: Arc<std::sync::Mutex<Result<Value, String>>>,
    fetches: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl KeySource for KeyPublisher {
    async fn fetch(&self) -> Result<(JwkSet, Duration), String> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        // Concurrent requests must find the fetch in progress.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let keys = self.keys.lock().unwrap().clone()?;
        Ok((serde_json::from_value(json!({"keys": [keys]})).unwrap(), Duration::from_secs(3600)))
    }
}

struct AuthBed {
    google: Signer,
    publisher: KeyPublisher,
    clock: Arc<ManualClock>,
    verifier: Arc<Verifier>,
}

fn bed() -> AuthBed {
    let google = signer("k1");
    let publisher = KeyPublisher {
        keys: Arc::new(std::sync::Mutex::new(Ok(google.published.clone()))),
        fetches: Arc::default(),
    };
    let clock = Arc::new(ManualClock::new(START));
    let keys = Keys::new(publisher.clone(), clock.clone());
    let callers = format!("{PUSH}={SUBSCRIPTION}, tick@p.iam.gserviceaccount.com").parse().unwrap();
    let verifier = Arc::new(Verifier::new(AUDIENCE, callers, keys));
    AuthBed { google, publisher, clock, verifier }
}

impl AuthBed {
    async fn admit(&self, token: &str) -> Result<Caller, Denied> {
        self.verifier.verify(Some(token)).await
    }

    fn fetches(&self) -> usize {
        self.publisher.fetches.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_valid_token_of_a_listed_caller_is_accepted() {
    let bed = bed();
    let caller = bed.admit(&token(&bed.google, "k1", &claims())).await.unwrap();
    assert_eq!(caller, Caller { email: PUSH.to_owned(), subscription: Some(SUBSCRIPTION.to_owned()) });
    assert!(caller.may_deliver_for(Some(SUBSCRIPTION)));
    assert!(!caller.may_deliver_for(Some("projects/p/subscriptions/other")));
    assert!(!caller.may_deliver_for(None));
}

#[tokio::test]
async fn any_other_token_is_rejected() {
    let bed = bed();
    let changed = |key: &str, value: Value| {
        let mut claims = claims();
        claims[key] = value;
        token(&bed.google, "k1", &claims)
    };
    let without = |key: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(key);
        token(&bed.google, "k1", &claims)
    };
    let good = token(&bed.google, "k1", &claims());
    let mut parts: Vec<String> = good.split('.').map(str::to_owned).collect();
    parts[1] = URL_SAFE_NO_PAD.encode(claims().to_string().replace(PUSH, "tick@p.iam.gserviceaccount.com"));
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","kid":"k1"}"#);
    let public = bed.google.published["n"].as_str().unwrap();
    let symmetric = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::HS256) };
    let symmetric = encode(&symmetric, &claims(), &EncodingKey::from_secret(public.as_bytes())).unwrap();
    let unproven = [
        ("tampered with", parts.join(".")),
        ("of another key", token(&signer("k1"), "k1", &claims())),
        ("unsigned", format!("Bearer {none}.{}.", parts[1])),
        ("signed with the public key as a secret", format!("Bearer {symmetric}")),
        ("for another audience", changed("aud", json!("https://other.example/"))),
        ("for our audience in capitals", changed("aud", json!(AUDIENCE.to_uppercase()))),
        ("by another issuer", changed("iss", json!("https://accounts.example"))),
        ("expired", changed("exp", json!(1_700_000_000))),
        ("without expiry", without("exp")),
        ("without audience", without("aud")),
        ("without issuer", without("iss")),
        ("without address", without("email")),
        ("with an unverified address", changed("email_verified", json!(false))),
        ("without a verification of its address", without("email_verified")),
        ("empty", "Bearer ".to_owned()),
        ("another scheme", good.replace("Bearer", "Basic")),
        ("endless", format!("Bearer {}", "a".repeat(1 << 20))),
    ];
    for (what, token) in unproven {
        let result = bed.admit(&token).await;
        assert!(matches!(result, Err(Denied::Unproven(_))), "{what}: {result:?}");
    }
    assert!(matches!(bed.verifier.verify(None).await, Err(Denied::Unproven(_))));
    let stranger = bed.admit(&changed("email", json!("stranger@gmail.com"))).await;
    assert!(matches!(stranger, Err(Denied::Forbidden(_))), "{stranger:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eighty_concurrent_callers_cause_one_fetch() {
    let bed = bed();
    let token = token(&bed.google, "k1", &claims());
    let calls: Vec<_> = (0..80)
        .map(|_| {
            let (verifier, token) = (Arc::clone(&bed.verifier), token.clone());
            tokio::spawn(async move { verifier.verify(Some(&token)).await.is_ok() })
        })
        .collect();
    let mut passed = 0;
    for call in calls {
        passed += usize::from(call.await.unwrap());
    }
    assert_eq!((passed, bed.fetches()), (80, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_key_ids_cause_no_fetch_and_do_not_delay_others() {
    let bed = bed();
    let good = token(&bed.google, "k1", &claims());
    bed.admit(&good).await.unwrap();
    for number in 0..20 {
        let forged = token(&bed.google, &format!("forged-{number}"), &claims());
        assert!(matches!(bed.admit(&forged).await, Err(Denied::Unproven(_))));
    }
    assert_eq!(bed.fetches(), 1, "the keys were fetched less than the minimum interval ago");
    bed.clock.advance(Span::from_secs(61));
    let forged = token(&bed.google, "forged", &claims());
    let (verifier, held_up) = (
        Arc::clone(&bed.verifier),
        tokio::spawn({
            let verifier = Arc::clone(&bed.verifier);
            async move { verifier.verify(Some(&forged)).await.is_ok() }
        }),
    );
    assert!(verifier.verify(Some(&good)).await.is_ok());
    assert!(!held_up.await.unwrap());
    assert_eq!(bed.fetches(), 2);
}

#[tokio::test]
async fn new_keys_are_fetched_and_old_ones_rejected() {
    let bed = bed();
    let good = token(&bed.google, "k1", &claims());
    bed.admit(&good).await.unwrap();
    let next = signer("k2");
    *bed.publisher.keys.lock().unwrap() = Ok(next.published.clone());
    // Cached keys are used while they are valid; a request shortly before their expiry fetches new keys.
    bed.clock.advance(Span::from_secs(3300));
    bed.admit(&good).await.unwrap();
    assert_eq!(bed.fetches(), 2);
    assert!(matches!(bed.admit(&good).await, Err(Denied::Unproven(_))), "the key is no longer published");
    bed.admit(&token(&next, "k2", &claims())).await.unwrap();
}

#[tokio::test]
async fn without_keys_all_callers_are_rejected_temporarily() {
    let bed = bed();
    let good = token(&bed.google, "k1", &claims());
    *bed.publisher.keys.lock().unwrap() = Err("503".to_owned());
    for _ in 0..5 {
        assert!(matches!(bed.admit(&good).await, Err(Denied::Unknown(_))));
    }
    assert_eq!(bed.fetches(), 1, "the keys are fetched at most once per minimum interval");
    *bed.publisher.keys.lock().unwrap() = Ok(bed.google.published.clone());
    bed.clock.advance(Span::from_secs(61));
    bed.admit(&good).await.unwrap();
    // Expired keys are not used.
    *bed.publisher.keys.lock().unwrap() = Err("503".to_owned());
    bed.clock.advance(Span::from_secs(3601));
    assert!(matches!(bed.admit(&good).await, Err(Denied::Unknown(_))));
}
