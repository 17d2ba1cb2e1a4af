//! Conformance suite of readers of refs.

use crate::support::git_server::GitServer;
use gateway::{GitRefs, Ref, Refs};

/// A repository with two branches, a lightweight and an annotated tag.
fn git_server() -> GitServer {
    let git_server = GitServer::new();
    git_server.commit("a", "one");
    git_server.work(&["tag", "light"]);
    git_server.work(&["tag", "-a", "heavy", "-m", "annotated"]);
    git_server.commit("a", "two");
    git_server.work(&["push", "--quiet", "origin", "main", "main:a$(id)", "light", "heavy"]);
    git_server
}

/// `url` is the repository, `nowhere` does not exist.
async fn conforms(refs: &dyn Refs, git_server: &GitServer, url: &str, nowhere: &str) {
    let mut there = refs.list(url).await.unwrap();
    there.sort_by(|a, b| a.name.cmp(&b.name));
    let at =
        |name: &str, what: &str| Ref { name: name.to_owned(), commit: git_server.work(&["rev-parse", what]) };
    let expected = [
        at("refs/heads/a$(id)", "main"),
        at("refs/heads/main", "main"),
        at("refs/tags/heavy", "heavy"),
        at("refs/tags/light", "light"),
    ];
    assert_eq!(
        there, expected,
        "each branch and tag has the commit that a push reports; HEAD and peeled tags are omitted"
    );
    assert_ne!(
        expected[2].commit,
        git_server.work(&["rev-parse", "heavy^{}"]),
        "the annotated tag is a separate object"
    );
    let why = refs.list(nowhere).await.unwrap_err();
    assert!(!why.is_empty() && !why.contains('\n'), "{why}");
}

#[tokio::test]
async fn git_lists_branches_and_tags() {
    let git_server = git_server();
    conforms(&GitRefs, &git_server, &git_server.url(), "/nowhere/at/all.git").await;
    assert!(GitRefs.list("ext::sh -c true").await.is_err(), "a URL starts no program");
    assert!(GitRefs.list("--upload-pack=true").await.is_err(), "a URL is not parsed as an option");
}

#[cfg(feature = "gcp")]
#[tokio::test(flavor = "multi_thread")]
async fn http_lists_branches_and_tags() {
    use axum::{Router, extract::Query, http::StatusCode, routing::get};

    // `git upload-pack` computes the responses.
    let git_server = git_server();
    let repository = git_server.url();
    let advertised = async move |Query(query): Query<std::collections::BTreeMap<String, String>>| {
        assert_eq!(query["service"], "git-upload-pack");
        let git = tokio::process::Command::new("git")
            .args(["upload-pack", "--stateless-rpc", "--advertise-refs", &repository])
            .output()
            .await
            .unwrap();
        [b"001e# service=git-upload-pack\n0000".as_slice(), &git.stdout].concat()
    };
    let router = Router::new()
        .route("/forge.git/info/refs", get(advertised))
        .route("/page/info/refs", get(async || "<html>"))
        .route("/closed/info/refs", get(async || StatusCode::UNAUTHORIZED));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    // A program's `main` sets the cryptography provider of TLS; this test has no such `main`.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let refs = gateway::HttpRefs::new(Some("a token".to_owned())).unwrap();
    conforms(&refs, &git_server, &format!("{at}/forge.git"), &format!("{at}/nowhere.git")).await;
    for place in ["page", "closed"] {
        assert!(refs.list(&format!("{at}/{place}")).await.is_err(), "{place}");
    }
    assert!(refs.list(&git_server.url()).await.unwrap_err().contains("no git for other schemes"));
}
