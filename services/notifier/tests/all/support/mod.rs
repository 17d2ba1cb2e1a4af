//! Simulated runs, and a notifier for them.
pub mod receiver;

use std::sync::{Arc, Mutex};

use ledger::{Ledger, MemoryStore, Store};
use model::{
    Attempt, CancelRequested, Class, Cluster, Conclusion, EventKey, Fact, Failure, Image, Limits, Node,
    Origin, Push, RECORD_FORMAT, Reason, Record, RecordEntry, RunClosed, RunId, RunRequested, Span, Stage,
    Timestamp, Trigger, Verdict, VerdictReached, Workflow,
};
use notifier::{Notifier, NotifierSetup, Sender};
use serde_json::{Value, json};
use service::{Bus, BusError, Clock, Disposition, Event, Handler, ManualClock};

pub const COMMIT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
pub const HOSTILE: &str = "<!channel> @here [x](https://evil.example) `rm` | <script>\n# \u{202e}";

pub fn at(hours: f64) -> Timestamp {
    Timestamp::from_millis(1_795_122_600_000 + (hours * 3_600_000.0) as i64)
}

pub fn push() -> Push {
    Push {
        repository: "acme/images".to_owned(),
        reference: "refs/heads/main".to_owned(),
        commit: COMMIT.to_owned(),
    }
}

/// End of a simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    Verdict(Verdict),
    Broken,
    Cancelled,
    Open,
}

pub const PASS: RunEnd = RunEnd::Verdict(Verdict::Pass);
pub const FAIL: RunEnd = RunEnd::Verdict(Verdict::Fail);
pub const UNSURE: RunEnd = RunEnd::Verdict(Verdict::Inconclusive);

#[derive(Clone)]
pub struct SimulatedRun {
    pub run: String,
    pub notify: Value,
    pub origin: Option<Origin>,
    pub cluster: String,
    pub began: f64,
    pub ended: f64,
    pub how: RunEnd,
    /// External text: a reason, a message, a user.
    pub text: String,
}

impl SimulatedRun {
    pub fn new(run: &str, how: RunEnd, ended: f64) -> Self {
        let text = "bus bandwidth is low".to_owned();
        let (run, cluster, notify) = (run.to_owned(), "c1".to_owned(), json!([]));
        Self { run, notify, origin: None, cluster, began: ended - 0.5, ended, how, text }
    }

    pub fn notifying(self, notify: Value) -> Self {
        Self { notify, ..self }
    }

    pub fn pushed(self) -> Self {
        Self { origin: Some(Origin::Push(push())), ..self }
    }

    pub fn id(&self) -> RunId {
        self.run.parse().unwrap()
    }

    fn requested(&self) -> Fact {
        let workflow: Workflow = serde_json::from_value(json!({
            "name": "nightly",
            "image": {"build": {"config": {}, "source": null}},
            "cluster": {"existing": {"system": {"processes": {"nodes": 2}}, "name": self.cluster}},
            "benchmark": null,
            "limits": Limits::default(),
            "notify": self.notify,
        }))
        .unwrap();
        let kind = if self.origin.is_some() { "push" } else { "manual" };
        let trigger = Trigger { kind: kind.to_owned(), by: self.text.clone() };
        Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: self.origin.clone() }))
    }

    fn records(&self) -> Vec<Record> {
        let failure = || Failure::new(Class::Input, "CONFIG", self.text.clone());
        let image = Image {
            reference: "r".into(),
            digest: "sha256:0".into(),
            files: Vec::new(),
            manifest_sha256: None,
        };
        let node = Node::new("node-0", 1);
        let cluster = Cluster {
            name: self.cluster.clone(),
            nodes: vec![node],
            access: model::ClusterAccess::processes("nowhere"),
        };
        let mut entries = vec![(self.began, Ok(self.requested()))];
        let closed = |conclusion| (self.ended, Err(RecordEntry::Closed { conclusion }));
        match self.how {
            RunEnd::Open => {}
            RunEnd::Verdict(verdict) => {
                let reason = Reason { code: "ABOVE_FLOOR".into(), weighs: verdict, text: self.text.clone() };
                let reached = VerdictReached {
                    verdict,
                    reasons: vec![reason],
                    criteria: "c".to_owned(),
                    baseline: None,
                    fingerprint: Default::default(),
                    log_sha256: None,
                    suspects: Vec::new(),
                    object: "nowhere".to_owned(),
                    measurements: None,
                };
                entries.push((self.ended, Ok(Fact::VerdictReached(reached))));
                entries.push((self.ended, Ok(Fact::ImageBuilt(image))));
                entries.push((self.ended, Ok(Fact::ClusterReady(cluster))));
                entries.push(closed(Conclusion::Completed));
            }
            RunEnd::Broken => {
                entries.push((self.ended, Ok(Fact::ImageFailed(failure()))));
                entries.push(closed(Conclusion::Failed {
                    stage: Stage::Image,
                    check: Default::default(),
                    failure: failure(),
                }));
            }
            RunEnd::Cancelled => {
                let cancel = CancelRequested { by: "me".into(), reason: "".into() };
                entries.push((self.ended, Ok(Fact::CancelRequested(cancel))));
                entries.push(closed(Conclusion::Cancelled { by: "me".into() }));
            }
        }
        let record = |(number, (hours, entry)): (usize, (f64, Result<Fact, RecordEntry>))| Record {
            format: RECORD_FORMAT,
            run: self.id(),
            seq: number as u64 + 1,
            nonce: "n".to_owned(),
            recorded_at: at(hours),
            entry: match entry {
                Ok(fact) => RecordEntry::Accepted {
                    event: EventKey { source: "//test".to_owned(), id: number.to_string() },
                    attempt: Attempt::FIRST,
                    fact: Box::new(fact),
                },
                Err(entry) => entry,
            },
        };
        entries.into_iter().enumerate().map(record).collect()
    }
}

/// Records published events.
#[derive(Default)]
pub struct RecordingBus(pub Mutex<Vec<Event>>);

#[async_trait::async_trait]
impl Bus for RecordingBus {
    async fn publish(&self, event: Event) -> Result<(), BusError> {
        self.0.lock().unwrap().push(event);
        Ok(())
    }
}

pub struct NotifierBed {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub bus: Arc<RecordingBus>,
    pub sender: Arc<dyn Sender>,
    pub notifier: Arc<Notifier>,
}

impl NotifierBed {
    pub fn new(sender: Arc<dyn Sender>) -> Self {
        Self::over(Arc::new(MemoryStore::default()), sender, Arc::new(ManualClock::new(at(0.0))))
    }

    pub fn over(store: Arc<dyn Store>, sender: Arc<dyn Sender>, clock: Arc<ManualClock>) -> Self {
        let bus = Arc::new(RecordingBus::default());
        let notifier = notifier(&store, &sender, &clock, &bus);
        Self { store, clock, bus, sender, notifier }
    }

    /// Another process over the same store.
    pub fn restart(&mut self) {
        self.notifier = notifier(&self.store, &self.sender, &self.clock, &self.bus);
    }

    /// Writes the missing records of a run.
    pub async fn record(&self, paper: &SimulatedRun) {
        for record in paper.records() {
            let name = format!("ledger/{}/{:010}.json", record.run, record.seq);
            self.store.create(&name, serde_json::to_vec(&record).unwrap().into()).await.unwrap();
        }
    }

    /// Advances the clock to that hour.
    pub fn now_is(&self, hours: f64) {
        let ahead = at(hours).as_millis() - self.clock.now().as_millis();
        self.clock.advance(Span::from_millis(ahead.max(0) as u64));
    }

    /// The run ends and is recorded, and the notifier receives the event.
    pub async fn ends(&self, paper: &SimulatedRun) {
        self.record(paper).await;
        self.now_is(paper.ended);
        assert_eq!(self.notifier.handle(&closed(paper)).await, Disposition::Done);
    }

    pub async fn periodic_task(&self) {
        self.notifier.periodic_tasks()[0].run().await.unwrap();
    }

    pub async fn names(&self, prefix: &str) -> Vec<String> {
        let mut names = self.store.list(prefix).await.unwrap();
        names.sort();
        names
    }

    pub async fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.store.read(name).await.unwrap().unwrap_or_default()).unwrap_or_default()
    }
}

fn notifier(
    store: &Arc<dyn Store>,
    sender: &Arc<dyn Sender>,
    clock: &Arc<ManualClock>,
    bus: &Arc<RecordingBus>,
) -> Arc<Notifier> {
    Notifier::new(NotifierSetup {
        ledger: Ledger::new(store.clone(), Arc::new(service::ids::unique)),
        store: store.clone(),
        sender: sender.clone(),
        bus: bus.clone(),
        clock: clock.clone(),
        link: Some("https://burnin.example/runs/{run}".parse().unwrap()),
    })
}

pub fn closed(paper: &SimulatedRun) -> Event {
    let fact = Fact::RunClosed(RunClosed { conclusion: Conclusion::Completed, verdict: None });
    events::Message::fact("conductor", paper.id(), Attempt::FIRST, fact).to_event()
}

pub fn requested(paper: &SimulatedRun) -> Event {
    events::Message::fact("gateway", paper.id(), Attempt::FIRST, paper.requested()).to_event()
}
