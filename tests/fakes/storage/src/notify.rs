//! Pushes notifications of objects, as a Pub/Sub subscription would.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::ServerState;

/// Pushes every event to a URL, oldest first, each until it is acknowledged.
pub async fn push(shared: Arc<ServerState>, url: String) {
    let http = reqwest::Client::new();
    let mut at = 0;
    let mut pause = tokio::time::interval(Duration::from_millis(50));
    loop {
        pause.tick().await;
        let events: Vec<Value> = shared.state().events.get(at..).unwrap_or_default().to_vec();
        for event in events {
            let body =
                json!({"message": event["message"], "subscription": "projects/standin/subscriptions/push"});
            let answer = http.post(&url).timeout(Duration::from_secs(10)).json(&body).send().await;
            if !answer.is_ok_and(|answer| answer.status().is_success()) {
                break;
            }
            at += 1;
        }
    }
}
