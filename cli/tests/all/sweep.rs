//! `burnin sweep` deletes clusters whose driving process has ended, and clusters whose nodes have wrong clocks.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

fn burnin(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_burnin")).arg("--data").arg(data).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn sweep_deletes_expired_clusters_and_keeps_leased_ones() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let missing = burnin(&data, &["sweep"]);
    assert_eq!(missing.status.code(), Some(64), "a read-only command creates no folder");

    fs::create_dir_all(&data).unwrap();
    // The clusters have no lease holder, as after a power failure: the process that created them has ended.
    let program = supervisor::OwnProgram(vec![env!("CARGO_BIN_EXE_burnin").into(), "host".into()]);
    let clusters =
        supervisor::ClusterFolder::new(data.canonicalize().unwrap().join("host/clusters"), program);
    let soon = |after: Duration| (chrono::Utc::now() + after).into();
    for (name, life) in [("forgotten", Duration::from_secs(2)), ("leased", Duration::from_secs(600))] {
        let expires_at: model::Timestamp = soon(life);
        let labels = [
            ("burnin-run".to_owned(), name.to_owned()),
            ("burnin-expires".to_owned(), expires_at.to_string()),
        ];
        // Nodes end when their own lease ends. The lease of these nodes ends in one hour, so only the sweep ends them.
        let expires_at = soon(Duration::from_secs(3600));
        let nodes = vec![model::Node::new("node-0", 1)];
        clusters
            .create(name, &supervisor::ClusterRequest { nodes, expires_at, labels: labels.into() })
            .unwrap();
    }
    let kept = burnin(&data, &["sweep", "--grace", "1s"]);
    assert!(kept.status.success() && text(&kept).matches("kept").count() == 2, "{}", text(&kept));

    for (name, expected) in [("leased", "`burnin cancel RUN` releases"), ("no-such-kept", "no such cluster")]
    {
        let refused = burnin(&data, &["sweep", "--release", name]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(64) && why.contains(expected), "{why}");
    }

    let until = Instant::now() + Duration::from_secs(20);
    let due = loop {
        let rehearsed = burnin(&data, &["sweep", "--grace", "1s", "--dry-run"]);
        if text(&rehearsed).contains("would be deleted") {
            break rehearsed;
        }
        assert!(Instant::now() < until, "{}", text(&rehearsed));
    };
    assert!(text(&due).contains("dry run, nothing deleted"), "{}", text(&due));
    assert!(matches!(clusters.poll("forgotten").unwrap(), supervisor::ClusterState::Ready(_)));

    let swept = burnin(&data, &["sweep", "--grace", "1s"]);
    assert!(swept.status.success(), "{}", text(&swept));
    assert!(text(&swept).contains("forgotten  gone: "), "{}", text(&swept));
    assert!(text(&swept).contains("leased  kept"), "{}", text(&swept));
    assert!(matches!(clusters.poll("forgotten").unwrap(), supervisor::ClusterState::Deleted(_)));
    let nothing_more = burnin(&data, &["sweep", "--grace", "1s"]);
    assert!(!text(&nothing_more).contains("forgotten"), "{}", text(&nothing_more));
    clusters.delete("leased", || soon(Duration::ZERO)).unwrap();
    drop(fs::remove_dir_all(&data));
}
