//! A container's output is stored completely and once, despite any failure while it is read.

use cluster_api::Scheduler;
use cluster_kubernetes::job_notes::JobNotes;
use serde_json::json;

use crate::bed::{KubernetesBed, ended, text, wait_for};

/// Prints lines, some of them equal, until the file `enough` exists.
fn writer(bed: &std::path::Path) -> String {
    format!(
        "for ((n = 0; ; n++)); do echo \"line $n\"; echo same; [ -e {}/enough ] && break; sleep 0.02; done; printf 'no newline'",
        bed.display()
    )
}

fn whole(text: &str) {
    let mut next = 0;
    let (body, last) = text.rsplit_once('\n').unwrap();
    let mut lines = body.lines().filter(|line| line.starts_with("line ") || *line == "same");
    while let Some(line) = lines.next() {
        assert_eq!(
            (line, lines.next()),
            (format!("line {next}").as_str(), Some("same")),
            "no line is missing or duplicated"
        );
        next += 1;
    }
    assert!(next > 3, "{next} lines");
    assert_eq!(last, "no newline", "text after the last newline is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connections_neither_lose_nor_duplicate_lines() {
    let bed = KubernetesBed::new("exec bash \"$(dirname \"$0\")/writer\"").await;
    std::fs::write(bed.root.path().join("writer"), writer(bed.root.path())).unwrap();
    let (jobs, job) = (bed.jobs(), bed.job("breaks", json!({"nodes": 1})));
    jobs.submit(&job).await.unwrap();
    let notes = JobNotes::of(&bed.store, "breaks");
    for times in 1..=4 {
        wait_for("output is kept while the pod runs", async || {
            jobs.poll(&job.cluster, "breaks").await.unwrap();
            let mut pieces = 0;
            for stream in notes.streams().await.unwrap() {
                pieces += notes.pieces(&stream).await.unwrap().len();
            }
            pieces >= times
        })
        .await;
        bed.api.cut();
    }
    // A second agent reads the same output, so both compete for the next piece.
    let other = bed.jobs();
    other.poll(&job.cluster, "breaks").await.unwrap();
    std::fs::write(bed.root.path().join("enough"), "").unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "COMPLETED");
    assert_eq!(jobs.outputs(&job.cluster, "breaks").await.unwrap().others, []);
    whole(&text(&jobs, &job, "benchmark.log").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_lines_are_kept_after_log_rotation() {
    let bed = KubernetesBed::new("exec bash \"$(dirname \"$0\")/writer\"").await;
    std::fs::write(bed.root.path().join("writer"), writer(bed.root.path())).unwrap();
    let (jobs, job) = (bed.jobs(), bed.job("rotates", json!({"nodes": 1})));
    jobs.submit(&job).await.unwrap();
    let notes = JobNotes::of(&bed.store, "rotates");
    wait_for("some lines are stored", async || {
        jobs.poll(&job.cluster, "rotates").await.unwrap();
        let streams = notes.streams().await.unwrap();
        match streams.first() {
            Some(stream) => notes.cursor(stream).await.unwrap().bytes > 200,
            None => false,
        }
    })
    .await;
    let stream = notes.streams().await.unwrap().remove(0);
    let before = notes.cursor(&stream).await.unwrap().bytes;
    let pod = stream.splitn(3, '.').nth(2).unwrap().to_owned();
    // Lines that are rotated while no process reads them are lost and reported as missing. Stored lines are kept.
    drop(jobs);
    bed.api.logs().rotate(&pod, "benchmark");
    let jobs = bed.jobs();
    jobs.poll(&job.cluster, "rotates").await.unwrap();
    std::fs::write(bed.root.path().join("enough"), "").unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "COMPLETED");
    let outputs = jobs.outputs(&job.cluster, "rotates").await.unwrap();
    assert!(
        outputs.others.iter().any(|(name, why)| name == "benchmark.log" && why.contains("may be missing")),
        "{outputs:?}"
    );
    let all = text(&jobs, &job, "benchmark.log").await;
    assert!(
        all.len() as u64 > before && all.contains("line 0\nsame\n") && all.ends_with("no newline"),
        "{all}"
    );
    let mut lines: Vec<_> = all.lines().filter(|line| line.starts_with("line ")).collect();
    let count = lines.len();
    lines.dedup();
    assert_eq!(lines.len(), count, "no line is duplicated");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_watch_is_restarted() {
    let bed = KubernetesBed::new("exec bash \"$(dirname \"$0\")/writer\"").await;
    std::fs::write(bed.root.path().join("writer"), writer(bed.root.path())).unwrap();
    bed.controllers.hold(true);
    let (jobs, job) = (bed.jobs(), bed.job("old", json!({"nodes": 1, "queue": "a4"})));
    jobs.submit(&job).await.unwrap();
    wait_for("the pod is watched", async || bed.api.request_count("GET pods") > 2).await;
    bed.api.compact();
    bed.api.cut();
    bed.controllers.hold(false);
    let notes = JobNotes::of(&bed.store, "old");
    // The test does not poll, so only the watch can find the pod.
    wait_for("the output of the pod is read", async || !notes.streams().await.unwrap().is_empty()).await;
    std::fs::write(bed.root.path().join("enough"), "").unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "COMPLETED");
    jobs.outputs(&job.cluster, "old").await.unwrap();
    whole(&text(&jobs, &job, "benchmark.log").await);
}
