//! Receives notices and, like GitHub, commit statuses.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use ledger::Store;
use model::{
    Attempt, Conclusion, EventKey, Fact, Limits, RECORD_FORMAT, Record, RecordEntry, RunId, RunRequested,
    Timestamp, Trigger, Verdict, VerdictReached, Workflow,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// Maximum number of rejections of a notice: further rejections would only delay it.
const REFUSED: usize = 2;

/// Received notices: number by run, kind of notice and id.
type Received = BTreeMap<(String, String), BTreeMap<String, usize>>;

/// A webhook's receiver on a local port; clones share their records.
#[derive(Clone)]
pub struct Receiver {
    pub url: String,
    /// Whether the receiver rejects some notices, and closes the connection after others.
    unreliable: bool,
    received: Arc<Mutex<Received>>,
    /// Number of rejections by id.
    refused: Arc<Mutex<BTreeMap<String, usize>>>,
    /// States of each commit in the order of arrival, by repository and commit: `acme/images/0123...`.
    statuses: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

impl Receiver {
    pub async fn start(unreliable: bool) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let here = Self {
            url,
            unreliable,
            received: Arc::default(),
            refused: Arc::default(),
            statuses: Arc::default(),
        };
        let receiver = here.clone();
        tokio::spawn(async move {
            for number in 0_u32.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let here = receiver.clone();
                tokio::spawn(async move { here.receive(stream, number).await });
            }
        });
        Ok(here)
    }

    async fn receive(&self, stream: TcpStream, number: u32) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let before = head.len();
            if stream.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
            let line = head[before..].to_ascii_lowercase();
            length = line
                .strip_prefix("content-length: ")
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(length);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let notice: Value = serde_json::from_slice(&body).ok()?;
        // docs.github.com/rest/commits/statuses: POST /repos/{owner}/{repo}/statuses/{sha} answers 201.
        if let Some((repository, rest)) =
            head.strip_prefix("POST /repos/").and_then(|rest| rest.split_once("/statuses/"))
        {
            let commit = rest.split_whitespace().next().unwrap_or_default();
            let state = notice["state"].as_str().unwrap_or_default().to_owned();
            self.set_status(format!("{repository}/{commit}"), state);
            let created = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
            return stream.write_all(created).await.ok();
        }
        let text = |field: &str| notice[field].as_str().unwrap_or_default().to_owned();
        let (busy, silent) = (self.unreliable && number % 4 == 1, self.unreliable && number % 7 == 2);
        let refused = (busy || silent) && self.refuses(text("id"));
        if busy && refused {
            let busy =
                b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            return stream.write_all(busy).await.ok();
        }
        *self
            .received
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry((text("run"), text("news")))
            .or_default()
            .entry(text("id"))
            .or_default() += 1;
        if silent && refused {
            return None; // received, but not acknowledged
        }
        let taken = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        stream.write_all(taken).await.ok()
    }

    /// Whether this notice is rejected.
    fn refuses(&self, id: String) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let times = refused.entry(id).or_default();
        *times += 1;
        *times <= REFUSED
    }

    fn set_status(&self, commit: String, state: String) {
        let mut statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        statuses.entry(commit).or_default().push(state);
    }

    /// States of a commit, `OWNER/REPOSITORY/COMMIT`, in the order of arrival.
    pub fn states(&self, commit: &str) -> Vec<String> {
        let statuses = self.statuses.lock().unwrap_or_else(PoisonError::into_inner);
        statuses.get(commit).cloned().unwrap_or_default()
    }

    /// Whether a notice about a run arrived.
    pub fn has(&self, run: &str) -> bool {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.keys().any(|(reported, _)| reported == run)
    }

    /// Checks that each of these runs was reported with its kind of notice under one notice id, and that no other notice arrived.
    pub fn check<'a>(
        &self,
        expected: impl Iterator<Item = (&'a RunId, &'static str)>,
        wrong: &mut Vec<String>,
    ) {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notices = 0;
        for (run, news) in expected {
            notices += 1;
            match received.get(&(run.to_string(), news.to_owned())).map(BTreeMap::len) {
                Some(1) => {}
                Some(ids) => wrong.push(format!("{run} was reported under {ids} ids")),
                None => wrong.push(format!("{run} was not reported")),
            }
        }
        let deliveries: usize = received.values().flat_map(BTreeMap::values).sum();
        println!("{deliveries} deliveries of {} notices, {notices} expected", received.len());
        if received.len() != notices {
            let found: Vec<_> = received.keys().collect();
            wrong.push(format!("expected {notices} notices, found {}: {found:?}", received.len()));
        }
    }
}

/// Stores a run of this workflow that failed an hour ago and was notified to the receiver, so that the next pass is a change and causes
/// a notice.
pub async fn failed_before(store: &dyn Store, workflow: &str, now: Timestamp) -> Result<(), String> {
    let run: RunId = format!("{workflow}-before").parse().map_err(|error| format!("{error}"))?;
    let value = json!({"name": workflow, "image": null, "cluster": null, "benchmark": null, "limits": Limits::default()});
    let workflow: Workflow = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let trigger = Trigger { kind: "manual".to_owned(), by: "kill".to_owned() };
    let reached = VerdictReached {
        verdict: Verdict::Fail,
        reasons: Vec::new(),
        criteria: "any".to_owned(),
        baseline: None,
        fingerprint: BTreeMap::new(),
        log_sha256: None,
        suspects: Vec::new(),
        object: "nowhere".to_owned(),
        measurements: None,
    };
    let accepted = |number: u64, fact: Fact| RecordEntry::Accepted {
        event: EventKey { source: "//kill".to_owned(), id: number.to_string() },
        attempt: Attempt::FIRST,
        fact: Box::new(fact),
    };
    let entries = [
        accepted(1, Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: None }))),
        accepted(2, Fact::VerdictReached(reached)),
        RecordEntry::Closed { conclusion: Conclusion::Completed },
    ];
    for (seq, entry) in (1..).zip(entries) {
        let recorded_at = Timestamp::from_millis(now.as_millis() - 3_600_000);
        let nonce = format!("before-{seq}");
        let record = Record { format: RECORD_FORMAT, run: run.clone(), seq, nonce, recorded_at, entry };
        let body = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
        let created = store.create(&format!("ledger/{run}/{seq:010}.json"), body.into()).await;
        created.map_err(|error| service::worker::chain(&error))?;
    }
    let decided = json!({"at": now, "channels": ["webhook-kill"], "listened": ["webhook-kill"]}).to_string();
    let created = store.create(&format!("notices/{run}/ended.json"), decided.into()).await;
    created.map(drop).map_err(|error| service::worker::chain(&error))
}
