//! Schedules: each time starts exactly one run.

use crate::support::{GatewayBed, at};
use futures::future::join_all;
use model::Span;
use serde_json::{Value, json};

const NIGHTLY: &str =
    "on: {schedule: [{cron: 30 2 * * *, zone: Europe/Zurich, window: 3h}], validated_every: 26h}\n";

/// A gateway at `now` with an earlier check of the schedule.
async fn bed(more: &str, now: &str) -> GatewayBed {
    let bed = GatewayBed::new(&[("w", more)]);
    let ahead = at(now).since(at("2026-11-20T12:00:00Z"));
    bed.clock.advance(ahead);
    assert_eq!(bed.periodic_task("schedule").await, 204);
    assert_eq!(bed.runs().await, [""; 0], "times before the first check were not missed");
    bed
}

async fn nights(bed: &GatewayBed) -> Vec<Value> {
    let (_, offered) = bed.get("/api/v1/workflows").await;
    offered["workflows"][0]["nights"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_scheduled_time_starts_one_run_with_several_gateways() {
    let mut bed = bed(NIGHTLY, "2026-11-20T12:00:00Z").await;
    bed.clock.advance(Span::from_secs(13 * 3600 + 29 * 60));
    assert_eq!(bed.periodic_task("schedule").await, 204);
    assert_eq!(bed.runs().await.len(), 0, "no run starts at 01:29 UTC, one minute early");
    bed.clock.advance(Span::from_secs(60));
    assert!(
        join_all((0..10).map(|_| bed.periodic_task("schedule"))).await.iter().all(|status| *status == 204)
    );
    bed.restart();
    assert_eq!(bed.periodic_task("schedule").await, 204);
    assert_eq!(bed.runs().await.len(), 1);
    let night = &nights(&bed).await[0];
    assert_eq!((&night["moment"], &night["late"]), (&json!("2026-11-21T01:30:00.000Z"), &json!(false)));
    assert_eq!(night["run"].as_str().unwrap(), bed.runs().await[0]);
    let (_, shown) = bed.get(&format!("/api/v1/runs/{}", bed.runs().await[0])).await;
    assert_eq!(shown["trigger"], json!({"kind": "schedule", "by": "2026-11-21T01:30:00.000Z"}));
}

#[tokio::test]
async fn a_late_start_runs_within_its_window_and_is_reported_as_missed_after_it() {
    let bed = bed(NIGHTLY, "2026-11-20T12:00:00Z").await;
    // The gateway restarts two hours after the scheduled time.
    bed.clock.advance(Span::from_secs(15 * 3600 + 30 * 60));
    bed.periodic_task("schedule").await;
    assert_eq!(bed.runs().await.len(), 1);
    assert_eq!(nights(&bed).await[0]["late"], true);
    // The gateway is stopped for three nights and restarts at noon.
    bed.clock.advance(Span::from_secs(3 * 24 * 3600 + 8 * 3600));
    for _ in 0..3 {
        assert_eq!(bed.periodic_task("schedule").await, 204);
    }
    assert_eq!(bed.runs().await.len(), 1, "the window has ended");
    let nights = nights(&bed).await;
    let summary: Vec<_> = nights
        .iter()
        .map(|night| (night["moment"].as_str().unwrap().get(..10).unwrap(), night["missed"].is_string()))
        .collect();
    assert_eq!(
        summary,
        [("2026-11-24", true), ("2026-11-23", true), ("2026-11-22", true), ("2026-11-21", false)]
    );
}

#[tokio::test]
async fn only_the_last_of_several_due_times_starts_a_run() {
    let hourly = "on: {schedule: [{cron: 0 * * * *, window: 6h}, {cron: 0 14 * * *, window: 6h}]}\n";
    let bed = bed(hourly, "2026-11-20T12:30:00Z").await;
    bed.clock.advance(Span::from_secs(3 * 3600 + 600));
    bed.periodic_task("schedule").await;
    assert_eq!(bed.runs().await.len(), 1);
    let nights = nights(&bed).await;
    assert_eq!(nights.len(), 3, "equal times of two schedules count once: {nights:?}");
    assert_eq!(nights[0]["moment"], "2026-11-20T15:00:00.000Z");
    assert!(nights[0]["run"].is_string() && nights[1]["missed"].is_string());
}

#[tokio::test]
async fn a_local_time_that_occurs_twice_runs_once() {
    // The clocks of Zurich go from 03:00 back to 02:00 at 01:00 UTC.
    let bed = GatewayBed::new(&[("w", NIGHTLY)]);
    bed.clock.advance(at("2027-10-30T12:00:00Z").since(at("2026-11-20T12:00:00Z")));
    bed.periodic_task("schedule").await;
    for _ in 0..(24 * 6) {
        bed.clock.advance(Span::from_secs(600));
        assert_eq!(bed.periodic_task("schedule").await, 204);
    }
    assert_eq!(bed.runs().await.len(), 1);
    assert_eq!(nights(&bed).await[0]["moment"], "2027-10-31T00:30:00.000Z");
}

#[tokio::test]
async fn a_schedule_of_a_workflow_that_cannot_run_is_reported_once() {
    let broken = "benchmark: {workload: {collective: all_reduce, min_bytes: 8, max_bytes: 1K}, criteria: gone.yaml}\n\
                  on: {schedule: [{cron: 0 13 * * *}]}\n";
    let bed = bed(broken, "2026-11-20T12:00:00Z").await;
    bed.clock.advance(Span::from_secs(3600));
    for _ in 0..2 {
        assert_eq!(bed.periodic_task("schedule").await, 204);
    }
    let nights = nights(&bed).await;
    assert!(nights[0]["missed"].as_str().unwrap().contains("the file"), "{nights:?}");
}

#[tokio::test]
async fn a_workflow_with_overdue_validation_is_stale() {
    let bed = bed(NIGHTLY, "2026-11-20T12:00:00Z").await;
    let offer = async || bed.get("/api/v1/workflows").await.1["workflows"][0].clone();
    let new = offer().await;
    assert_eq!(
        (&new["stale"], &new["validated_at"]),
        (&json!(false), &Value::Null),
        "a new workflow waits for one full interval"
    );
    assert_eq!(new["next"], json!(["2026-11-21T01:30:00.000Z"]));
    bed.clock.advance(Span::from_secs(26 * 3600));
    assert_eq!(offer().await["stale"], false);
    bed.clock.advance(Span::from_secs(1));
    assert_eq!(offer().await["stale"], true);
    // A run that ends without a verdict does not count as a validation.
    let (_, started) = bed.post("/api/v1/runs", None, json!({"workflow": "w"})).await;
    let cancel = format!("{}/cancel", started["links"]["run"].as_str().unwrap());
    bed.post(&cancel, None, json!({"reason": "x"})).await;
    assert_eq!(offer().await["stale"], true);
}
