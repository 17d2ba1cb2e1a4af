//! Output of containers as a kubelet stores it: lines with timestamps, which may be rotated away.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, Query},
    http::StatusCode,
    response::IntoResponse,
    routing::get,
};
use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use futures::Stream;
use tokio::{net::TcpListener, task::JoinHandle};

#[derive(Clone, Default)]
pub struct PodLogs(Arc<Mutex<BTreeMap<String, LogOutput>>>);

#[derive(Default)]
struct LogOutput {
    lines: Vec<(DateTime<Utc>, Vec<u8>)>,
    /// Lines that were rotated away.
    gone: usize,
    over: bool,
}

fn name(pod: &str, container: &str) -> String {
    format!("{pod}/{container}")
}

impl PodLogs {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, LogOutput>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A started container has an empty log.
    pub fn begin(&self, pod: &str, container: &str) {
        self.all().entry(name(pod, container)).or_default();
    }

    /// Appends a line, with its newline if it has one.
    pub fn line(&self, pod: &str, container: &str, line: &[u8]) {
        self.all().entry(name(pod, container)).or_default().lines.push((Utc::now(), line.to_owned()));
    }

    /// Records the end of a container.
    pub fn end(&self, pod: &str, container: &str) {
        self.all().entry(name(pod, container)).or_default().over = true;
    }

    pub fn rotate(&self, pod: &str, container: &str) {
        if let Some(output) = self.all().get_mut(&name(pod, container)) {
            output.gone = output.lines.len();
        }
    }

    /// The last lines of a container, within a maximum number of bytes.
    pub fn tail(&self, pod: &str, container: &str, bytes: usize) -> String {
        let all = self.all();
        let lines = all
            .get(&name(pod, container))
            .map(|output| output.lines.iter().flat_map(|(_, line)| line.clone()).collect::<Vec<u8>>());
        let text = lines.unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(bytes)..]).into_owned()
    }

    /// Serves the logs over plain HTTP, like a kubelet.
    ///
    /// # Errors
    /// Returns an error if the address is in use.
    pub async fn serve(&self, address: &str) -> std::io::Result<JoinHandle<()>> {
        let (logs, listener) = (self.clone(), TcpListener::bind(address).await?);
        let answer = move |Path((_, pod, container)): Path<(String, String, String)>,
                           Query(parameters): Query<HashMap<String, String>>| {
            let logs = logs.clone();
            async move {
                let since = parameters.get("sinceTime").and_then(|since| since.parse().ok());
                let follow = parameters.get("follow").is_some_and(|follow| follow == "true");
                match logs.read(&pod, &container, since, follow) {
                    Some(body) => Body::from_stream(body).into_response(),
                    None => StatusCode::NOT_FOUND.into_response(),
                }
            }
        };
        let router = Router::new().route("/containerLogs/{namespace}/{pod}/{container}", get(answer));
        Ok(tokio::spawn(async move { drop(axum::serve(listener, router).await) }))
    }

    /// The output since a time, in the API's format; `None` for a container that has not started.
    pub fn read(
        &self,
        pod: &str,
        container: &str,
        since: Option<DateTime<Utc>>,
        follow: bool,
    ) -> Option<impl Stream<Item = Result<Bytes, std::io::Error>> + use<>> {
        let key = name(pod, container);
        let first = self.all().get(&key)?.gone;
        let start = (self.clone(), key, first);
        Some(futures::stream::unfold(start, move |(logs, key, next)| async move {
            loop {
                let (lines, over) = {
                    let all = logs.all();
                    let output = all.get(&key)?;
                    let lines: Vec<_> = output.lines.iter().skip(next).cloned().collect();
                    (lines, output.over)
                };
                if !lines.is_empty() {
                    let after = next + lines.len();
                    let mut text = Vec::new();
                    for (time, line) in
                        lines.iter().filter(|(time, _)| since.is_none_or(|since| *time >= since))
                    {
                        text.extend_from_slice(time.to_rfc3339_opts(SecondsFormat::Nanos, true).as_bytes());
                        text.push(b' ');
                        text.extend_from_slice(line);
                    }
                    return Some((Ok(Bytes::from(text)), (logs, key, after)));
                }
                if over || !follow {
                    return None;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }))
    }
}
