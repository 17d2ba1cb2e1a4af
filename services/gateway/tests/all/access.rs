//! A server on a machine with other users: it serves only the user who started it.

use crate::support::GatewayBed;
use serde_json::json;

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml");
/// Every kind of path: events, chores, the interface, event streams, pages.
const PATHS: [(&str, &str); 10] = [
    ("POST", "/"),
    ("GET", "/"),
    ("GET", "/about"),
    ("POST", "/chores/requests"),
    ("GET", "/api"),
    ("GET", "/api/v1/runs"),
    ("POST", "/api/v1/runs"),
    ("GET", "/api/v1/runs/w-1/events"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/nowhere"),
];

#[tokio::test]
async fn other_users_of_the_host_are_refused() {
    let bed = GatewayBed::new(&[("w", "on: {cluster: [{source: //acme/rack, system: slurm}]}\n")]);
    let offer = json!({"specversion": "1.0", "type": events::CLUSTER_OFFERED, "source": "//acme/rack", "id": "1",
                       "data": {"name": "c", "system": {"slurm": {"nodes": 1, "shared_folder": "/tmp/m",
                                                                  "profile": "/tmp/m/profile.sh"}}}});
    let token = bed.access.header().rsplit_once(' ').unwrap().1.to_owned();
    let bearer = |token: &str| format!("Bearer {token}");
    let wrong: [(&str, String); 7] = [
        ("cookie", String::new()),
        ("authorization", bearer("")),
        ("authorization", bearer(&token[1..])),
        ("authorization", bearer(&token.replace(|c: char| c.is_ascii_digit(), "x"))),
        ("authorization", format!("Basic {token}")),
        ("cookie", format!("burnin_8080={token}")),
        ("cookie", "burnin_8080=; burnin=1".to_owned()),
    ];
    for (name, value) in &wrong {
        for (method, path) in PATHS {
            let headers = [(*name, value.as_str()), ("content-type", "application/cloudevents+json")];
            let (status, headers, body) = bed.send(method, path, &headers, &offer.to_string()).await;
            assert_eq!(status, 401, "{method} {path} is admitted with {name}: {value}");
            assert_eq!(headers["www-authenticate"], "Bearer");
            assert!(body.contains("curl -H @.burnin/host/up/8080.header"), "{body}");
        }
    }
    assert_eq!(bed.runs().await, [""; 0]);
    assert!(bed.store.list("").await.unwrap().is_empty(), "refused requests store no object");
    // The health check and GitHub's signed webhook need no token.
    let anonymous = [("cookie", "")];
    assert_eq!(bed.send("GET", "/healthz", &anonymous, "").await.0, 200);
    assert_eq!(
        bed.send("POST", "/hooks/github", &anonymous, "{}").await.0,
        401,
        "the webhook is refused because its signature is missing"
    );
    assert_eq!(bed.get("/api/v1/runs").await.0, 200, "the user's request is accepted");
}

#[tokio::test]
async fn a_sign_in_link_works_once_and_is_removed_from_the_address_bar() {
    let bed = GatewayBed::new(&[("w", "")]);
    let links = || bed.links.lock().unwrap().clone();
    let path = |link: &str| link.strip_prefix("http://127.0.0.1:8080").unwrap().to_owned();
    let anonymous = [("cookie", ""), HTML];
    let first = path(&links()[0]);
    let (status, headers, page) = bed.send("GET", &first, &anonymous, "").await;
    assert_eq!(status, 200);
    assert!(page.contains(r#"<meta http-equiv="refresh" content="0;url=/">"#), "{page}");
    assert_eq!(
        (&headers["cache-control"], &headers["referrer-policy"]),
        (&"no-store".parse().unwrap(), &"no-referrer".parse().unwrap())
    );
    let cookie = headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict");
    assert!(!first.contains(pair.split_once('=').unwrap().1), "the link does not contain the cookie's value");
    let browser = [("cookie", pair), HTML];
    assert_eq!(bed.send("GET", "/", &browser, "").await.0, 200);
    assert_eq!(bed.send("GET", "/api/v1/runs", &browser, "").await.0, 200);
    // Another user can no longer use the link; the browser that used it stays signed in.
    let (status, headers, page) = bed.send("GET", &first, &anonymous, "").await;
    assert_eq!(status, 401);
    assert!(page.contains("Not signed in") && !headers.contains_key("set-cookie"), "{page}");
    let (status, headers, _) = bed.send("GET", &first, &browser, "").await;
    assert!(status == 200 && !headers.contains_key("set-cookie"));
    let known = links();
    assert_eq!(known.len(), 2, "a new link is published for the next browser");
    assert_eq!(bed.send("GET", &path(&known[1]), &anonymous, "").await.0, 200);
    // Only a navigation to the first page signs a browser in.
    let third = path(&links()[2]);
    assert_eq!(bed.send("POST", &third, &anonymous, "").await.0, 401);
    assert_eq!(bed.send("GET", &third.replace("/?", "/api?"), &anonymous, "").await.0, 401);
    assert_eq!(bed.send("GET", "/?code=", &anonymous, "").await.0, 401);
    assert_eq!(links().len(), 3);
}

#[tokio::test]
async fn a_link_on_another_site_leads_to_a_page_with_a_local_link() {
    let bed = GatewayBed::new(&[("w", "")]);
    let fetch = async |path: &str| bed.send("GET", path, &[("cookie", ""), HTML], "").await.2;
    assert!(fetch("/runs/w-1").await.contains(r#"<a href="/runs/w-1">continue here</a>"#));
    let page = fetch("/runs/%22onclick=x").await;
    assert!(page.contains(r#"<a href="/">continue here</a>"#), "{page}");
}

#[tokio::test]
async fn runs_name_the_user_and_old_keys_stay_valid() {
    let bed = GatewayBed::new(&[("w", "")]);
    let (status, started) = bed.post("/api/v1/runs", Some("k"), json!({"workflow": "w"})).await;
    assert_eq!(status, 202, "{started}");
    let (_, shown) = bed.get(started["links"]["run"].as_str().unwrap()).await;
    assert_eq!(shown["trigger"], json!({"kind": "manual", "by": "alice"}));
    let kept = bed.store.list("requests/").await.unwrap();
    let kept = kept.iter().find(|name| !name.contains("/open/")).unwrap();
    let kept = bed.store.read(kept).await.unwrap().unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(
        kept["key"]["source"], "//burnin/callers/somebody",
        "the key is the same as in versions without users"
    );
}

#[tokio::test]
async fn a_request_forwarded_by_a_proxy_is_refused() {
    let bed = GatewayBed::new(&[("w", "")]);
    for (header, value, expected) in [
        ("x-forwarded-host", "evil.example", 421),
        ("x-forwarded-host", "127.0.0.1.evil.example", 421),
        ("x-forwarded-host", "localhost, evil.example", 421),
        ("forwarded", "host=evil.example", 421),
        ("x-forwarded-host", "localhost:8080", 200),
    ] {
        let headers = [("host", "127.0.0.1:8080"), (header, value)];
        assert_eq!(bed.send("GET", "/api/v1/runs", &headers, "").await.0, expected, "{header}: {value}");
    }
    // A tunnel for GitHub may forward requests; only the signature is checked.
    assert_eq!(bed.send("POST", "/hooks/github", &[("x-forwarded-host", "evil.example")], "{}").await.0, 401);
}

#[tokio::test]
async fn unreadable_events_are_kept_up_to_a_limit() {
    let bed = GatewayBed::with(&[("w", "")], "1,1");
    let (mut kept, began) = (0, std::time::Instant::now());
    for number in 0..40 {
        let (status, headers, _) = bed.send("POST", "/", &[], &format!("nonsense {number}")).await;
        match status.as_u16() {
            204 => kept += 1,
            429 => assert_eq!(headers["retry-after"], "1"),
            other => panic!("{other}"),
        }
    }
    let most = 11 + began.elapsed().as_secs() as usize;
    assert!(
        (10..=most).contains(&kept),
        "a burst of ten and one per second are allowed: {kept}, at most {most}"
    );
    assert_eq!(bed.store.list("parked/").await.unwrap().len(), kept);
}
