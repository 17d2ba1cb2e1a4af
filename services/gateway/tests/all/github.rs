//! Pushes: from GitHub's webhooks, from a real `git push`, and found by polling.

use std::{fs, path::Path, process::Command};

use crate::support::{
    GatewayBed, SECRET,
    git_server::{GitServer, git},
};
use axum::http::StatusCode;
use hmac::{Hmac, KeyInit, Mac};
use model::Span;
use serde_json::{Value, json};
use sha2::Sha256;

const ON_MAIN: &str =
    "on: {push: [{repository: acme/images, branches: [main], tags: ['v*'], paths: ['images/**']}]}\n";
const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const NONE: &str = "0000000000000000000000000000000000000000";

fn signature(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

/// A push in GitHub's documented fields.
fn push(reference: &str, before: &str, after: &str, files: &[&str]) -> Value {
    json!({
        "ref": reference, "before": before, "after": after,
        "created": before == NONE, "deleted": after == NONE, "forced": false,
        "base_ref": null, "compare": "https://github.com/acme/images/compare/a...b",
        "commits": [{"id": after, "message": "m", "timestamp": "2026-11-20T20:54:40Z", "distinct": true,
                     "author": {"name": "a", "email": "a@example.com"},
                     "added": [], "removed": [], "modified": files}],
        "head_commit": if after == NONE { Value::Null } else { json!({"id": after}) },
        "repository": {"id": 186_853_002, "full_name": "Acme/Images", "default_branch": "main"},
        "pusher": {"name": "a"}, "sender": {"login": "a", "id": 1, "type": "User"},
    })
}

async fn deliver(bed: &GatewayBed, event: &str, delivery: &str, payload: &Value) -> (StatusCode, Value) {
    let body = payload.to_string();
    let signature = signature(SECRET, &body);
    let headers = [
        ("content-type", "application/json"),
        ("x-github-event", event),
        ("x-github-delivery", delivery),
        ("x-hub-signature-256", &signature),
    ];
    let (status, _, text) = bed.send("POST", "/hooks/github", &headers, &body).await;
    (status, serde_json::from_str(&text).unwrap_or_default())
}

fn runs(answer: &Value) -> usize {
    answer["runs"].as_array().map_or(0, Vec::len)
}

#[tokio::test]
async fn a_repeated_push_starts_its_run_once() {
    let mut bed = GatewayBed::new(&[("w", ON_MAIN), ("other", "")]);
    let payload = push("refs/heads/main", B, A, &["images/nccl/Dockerfile"]);
    let (status, first) = deliver(&bed, "push", "d-1", &payload).await;
    assert_eq!((status, runs(&first)), (StatusCode::ACCEPTED, 1), "{first}");
    for number in 0..100 {
        // The header is not signed: a captured delivery may be replayed with another header.
        let (status, again) = deliver(&bed, "push", &format!("d-{number}"), &payload).await;
        assert_eq!((status, &again["runs"]), (StatusCode::ACCEPTED, &first["runs"]));
    }
    bed.restart();
    let (_, again) = deliver(&bed, "push", "d-1", &payload).await;
    assert_eq!((&again["runs"], bed.runs().await.len()), (&first["runs"], 1));
    let (_, shown) = bed.get(&format!("/api/v1/runs/{}", first["runs"][0].as_str().unwrap())).await;
    assert_eq!(shown["trigger"], json!({"kind": "push", "by": "Acme/Images refs/heads/main aaaaaaaaaaaa"}));
    let origin = json!({"push": {"repository": "Acme/Images", "reference": "refs/heads/main", "commit": A}});
    assert_eq!(bed.published("dev.burnin.run.requested.v1")[0]["origin"], origin);
}

#[tokio::test]
async fn a_push_builds_the_pushed_commit() {
    let build = |url: &str| {
        format!(
            "on: {{push: [{{repository: acme/images, url: /srv/mirror}}]}}\n\
             image: {{build: {{config: b.yaml, repository: {{url: '{url}', revision: release}}}}}}\n"
        )
    };
    let workflows = [
        ("https", build("https://github.com/Acme/images.git")),
        ("ssh", build("git@github.com:acme/images")),
        ("mirror", build("/srv/mirror")),
        ("unrelated", build("https://github.com/acme/more-images")),
    ];
    let bed = GatewayBed::new(&workflows.each_ref().map(|(name, more)| (*name, more.as_str())));
    let config =
        "steps: [{name: bash, script: 'true', env: ['R=$_REVISION']}]\nsubstitutions: {_REVISION: ''}\n";
    fs::create_dir(bed.folder.path().join("configs")).unwrap();
    fs::write(bed.folder.path().join("configs/b.yaml"), config).unwrap();
    for (name, _) in &workflows {
        let file = bed.folder.path().join(format!("{name}.yaml"));
        fs::write(&file, fs::read_to_string(&file).unwrap().replace("b.yaml", "configs/b.yaml")).unwrap();
    }
    let (status, answer) = deliver(&bed, "push", "d-1", &push("refs/heads/main", B, A, &["images/a"])).await;
    assert_eq!((status, runs(&answer)), (StatusCode::ACCEPTED, 4), "{answer}");
    for requested in bed.published("dev.burnin.run.requested.v1") {
        let build = &requested["workflow"]["image"]["build"];
        let expected = if requested["workflow"]["name"] == "unrelated" { "release" } else { A };
        assert_eq!(build["repository"]["revision"], expected, "{requested}");
        assert_eq!(build["substitutions"]["_REVISION"], expected, "{requested}");
    }
}

#[tokio::test]
async fn irrelevant_and_unsigned_pushes_start_nothing() {
    let bed = GatewayBed::new(&[("w", ON_MAIN)]);
    let main = |files: &[&str]| push("refs/heads/main", B, A, files);
    let good = main(&["images/a"]);
    let cases = [
        ("ping", json!({"zen": "Keep it logically awesome.", "hook_id": 1}), 204),
        ("issues", json!({"action": "opened"}), 204),
        ("push", push("refs/heads/main", A, NONE, &[]), 204),
        ("push", push("refs/heads/topic", B, A, &["images/a"]), 202),
        ("push", main(&["docs/a.md"]), 202),
        ("push", push("refs/tags/nightly", NONE, A, &[]), 202),
        ("push", json!({"ref": "refs/heads/main"}), 400),
        ("push", json!([]), 400),
    ];
    for (number, (event, payload, status)) in cases.into_iter().enumerate() {
        let (answered, answer) = deliver(&bed, event, &format!("d-{number}"), &payload).await;
        assert_eq!((answered.as_u16(), runs(&answer)), (status, 0), "{payload}");
    }
    let mut bot = push("refs/heads/main", B, "cccccccccccccccccccccccccccccccccccccccc", &["images/a"]);
    bot["sender"] = json!({"login": "renovate[bot]", "id": 2, "type": "Bot"});
    assert_eq!(runs(&deliver(&bed, "push", "d-b", &bot).await.1), 0);
    let mut other = good.clone();
    other["repository"]["full_name"] = "acme/other".into();
    assert_eq!(runs(&deliver(&bed, "push", "d-o", &other).await.1), 0);
    // The signature is missing, made with another key, or made for other bytes.
    let body = good.to_string();
    let altered = signature(SECRET, &body.replace("a@example.com", "b@example.com"));
    for signed in ["", "sha256=", &signature("another secret of 16 letters", &body), &altered] {
        let headers = [("x-github-event", "push"), ("x-hub-signature-256", signed)];
        assert_eq!(bed.send("POST", "/hooks/github", &headers, &body).await.0, 401, "{signed}");
    }
    assert_eq!(bed.runs().await, [""; 0]);
}

#[tokio::test]
async fn forced_pushes_new_branches_and_tags_ignore_path_filters() {
    let bed = GatewayBed::new(&[("w", ON_MAIN)]);
    let mut forced = push("refs/heads/main", B, A, &["docs/a.md"]);
    forced["forced"] = true.into();
    assert_eq!(
        runs(&deliver(&bed, "push", "d-1", &forced).await.1),
        1,
        "a forced push does not list the reverted files"
    );
    let back = push("refs/heads/main", A, B, &["images/a"]);
    assert_eq!(runs(&deliver(&bed, "push", "d-2", &back).await.1), 1);
    let (_, again) = deliver(&bed, "push", "d-3", &forced).await;
    assert_eq!(
        (runs(&again), bed.runs().await.len()),
        (1, 2),
        "this commit has a run of this branch already"
    );
    let tag = push("refs/tags/v1.0", NONE, A, &[]);
    assert_eq!(
        runs(&deliver(&bed, "push", "d-4", &tag).await.1),
        1,
        "the same commit under another ref starts a run"
    );
    assert_eq!(bed.runs().await.len(), 3);
}

#[tokio::test]
async fn hostile_names_are_treated_as_text() {
    let bed = GatewayBed::new(&[("w", "on: {push: [{repository: acme/images}]}\n")]);
    let payload = push("refs/heads/a$(id);`id`,_EVIL=1", B, A, &[]);
    assert_eq!(runs(&deliver(&bed, "push", "d-1", &payload).await.1), 1);
    let short = push("refs/heads/main", B, "../../x", &[]);
    assert_eq!(deliver(&bed, "push", "d-2", &short).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(bed.runs().await.len(), 1);
}

/// Hook of a forge: posts a signed webhook for each ref to the server at `PORT`.
const HOOK: &str = r#"#!/usr/bin/env bash
set -euo pipefail
zero=0000000000000000000000000000000000000000
while read -r before after ref; do
  files=""
  if [[ $before != "$zero" && $after != "$zero" ]]; then
    for file in $(git diff --name-only "$before" "$after"); do files+="${files:+,}\"$file\""; done
  fi
  body=$(printf '{"ref":"%s","before":"%s","after":"%s","created":%s,"deleted":%s,"forced":false,"commits":[{"id":"%s","added":[],"removed":[],"modified":[%s]}],"repository":{"id":1,"full_name":"acme/images"},"sender":{"login":"a","type":"User"}}' \
    "$ref" "$before" "$after" "$([[ $before == "$zero" ]] && echo true || echo false)" "$([[ $after == "$zero" ]] && echo true || echo false)" "$after" "$files")
  signature=$(printf '%s' "$body" | openssl dgst -sha256 -hmac "SECRET" | sed 's/.*= *//')
  exec 3<>"/dev/tcp/127.0.0.1/PORT"
  printf 'POST /hooks/github HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: %s\r\nX-Hub-Signature-256: sha256=%s\r\nContent-Length: %s\r\n\r\n%s' \
    "$after" "$signature" "${#body}" "$body" >&3
  head -n 1 <&3 >&2
done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_push_starts_a_run_and_polling_finds_a_push_whose_webhook_is_lost() {
    let git_server = GitServer::new();
    let on = format!(
        "on: {{push: [{{repository: acme/images, url: '{}', branches: [main], paths: ['images/**']}}]}}\n",
        git_server.url()
    );
    let bed = GatewayBed::new(&[("w", &on)]);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = bed.router();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    git_server.commit("images/Dockerfile", "one");
    git_server.work(&["push", "--quiet", "origin", "main"]);
    assert_eq!(bed.periodic_task("refs").await, 204, "the first poll: existing commits are not new pushes");
    assert_eq!(bed.runs().await.len(), 0);

    let hook = Path::new(&git_server.url()).join("hooks/post-receive");
    fs::write(&hook, HOOK.replace("PORT", &port.to_string()).replace("SECRET", SECRET)).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&hook).status().unwrap().success());
    let push = async |arguments: &[&str]| {
        let (work, arguments) = (
            git_server.folder.path().join("work"),
            arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>(),
        );
        tokio::task::spawn_blocking(move || {
            git(&work, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .await
        .unwrap()
    };
    git_server.commit("images/Dockerfile", "two");
    push(&["push", "--quiet", "origin", "main"]).await;
    assert_eq!(bed.runs().await.len(), 1, "the webhook reported the push");
    git_server.commit("docs/a.md", "three");
    push(&["push", "--quiet", "origin", "main"]).await;
    assert_eq!(bed.runs().await.len(), 1, "the reported push matches no path filter");
    push(&["push", "--quiet", "origin", "main:topic"]).await;
    push(&["push", "--quiet", "origin", "--delete", "topic"]).await;
    assert_eq!(bed.periodic_task("refs").await, 204);
    assert_eq!(bed.runs().await.len(), 1, "a poll finds no missed push");

    // The webhook is lost. Polling waits for the webhook, and then reports the push.
    fs::remove_file(&hook).unwrap();
    git_server.work(&["commit", "--quiet", "--amend", "-m", "rewritten"]);
    push(&["push", "--quiet", "--force", "origin", "main"]).await;
    assert_eq!(bed.periodic_task("refs").await, 204);
    assert_eq!(bed.runs().await.len(), 1, "the webhook may still arrive");
    bed.clock.advance(Span::from_secs(180));
    for _ in 0..3 {
        assert_eq!(bed.periodic_task("refs").await, 204);
    }
    assert_eq!(bed.runs().await.len(), 2, "found, once");
}

#[tokio::test]
async fn without_webhooks_the_first_poll_after_a_push_starts_the_run() {
    let git_server = GitServer::new();
    let on = format!("on: {{push: [{{repository: acme/images, url: '{}'}}]}}\n", git_server.url());
    let bed = GatewayBed::new(&[("w", &on)]).without_secrets();
    assert_eq!(bed.periodic_task("refs").await, 204);
    git_server.commit("a", "one");
    git_server.work(&["push", "--quiet", "origin", "main"]);
    for _ in 0..3 {
        assert_eq!(bed.periodic_task("refs").await, 204);
    }
    assert_eq!(bed.runs().await.len(), 1);
    fs::remove_dir_all(git_server.url()).unwrap();
    assert_eq!(bed.periodic_task("refs").await, 503, "an absent repository is reported");
}

#[tokio::test]
async fn unsigned_deliveries_do_not_count_toward_the_rate_limit_of_signed_ones() {
    let bed = GatewayBed::with(&[("w", ON_MAIN)], "2,2");
    let forged = format!("sha256={}", "0".repeat(64));
    for signature in ["", "sha256=zz", &forged] {
        for _ in 0..100 {
            let headers = [("x-github-event", "push"), ("x-hub-signature-256", signature)];
            let (status, _, _) = bed.send("POST", "/hooks/github", &headers, "{}").await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{signature}");
        }
    }
    for number in 0..20 {
        let (status, answer) = deliver(&bed, "ping", &number.to_string(), &json!({})).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{number}: {answer}");
    }
    let mut refused = 0;
    for number in 0..100 {
        refused += usize::from(
            deliver(&bed, "ping", &number.to_string(), &json!({})).await.0 == StatusCode::TOO_MANY_REQUESTS,
        );
    }
    assert!(refused > 50, "signed deliveries are rate-limited: {refused} of 100 refused");
}
