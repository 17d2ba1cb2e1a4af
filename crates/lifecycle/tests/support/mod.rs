//! A ledger in memory and a world that answers commands, for stories and properties.
#![allow(dead_code, reason = "each test file uses a part of it")]

use lifecycle::{Decision, Ignored, Input, Occurrence, RunState, decide, decide_first, evolve, fold, owed};
use model::*;

pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub fn workflow() -> Workflow {
    Workflow {
        name: "quickstart".into(),
        description: String::new(),
        image: Some(ImageSpec::Build(BuildSpec {
            config: serde_json::json!({"steps": []}),
            source: None,
            substitutions: Default::default(),
        })),
        cluster: Some(ClusterSpec::Rent(System::Processes { nodes: 2 })),
        benchmark: Some(Benchmark {
            workload: Workload {
                collective: Collective::AllReduce,
                min_bytes: 8,
                max_bytes: 1024,
                step_factor: 2,
                iterations: 20,
                warmup_iterations: 5,
                check: true,
            },
            criteria: Criteria::named("any"),
            baseline: None,
        }),
        locate: None,
        limits: Limits::default(),
        cost: None,
        notify: Vec::new(),
    }
}

pub fn requested(workflow: Workflow) -> Fact {
    let trigger = Trigger { kind: "manual".into(), by: "test".into() };
    Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: None }))
}

pub fn handle() -> Handle {
    Handle { handle: "h-1".into() }
}

pub fn failure(class: Class) -> Failure {
    Failure::new(class, "CODE", "it broke")
}

pub fn cluster() -> Cluster {
    let node = |name: &str| Node { name: name.into(), slots: 1 };
    Cluster {
        name: "quickstart-1-cluster-1".into(),
        nodes: vec![node("n0"), node("n1")],
        endpoint: "e".into(),
    }
}

pub fn deleted(at: Timestamp) -> Fact {
    Fact::ClusterDeleted(Deleted { name: "c".into(), evidence: "list is empty".into(), confirmed_at: at })
}

pub fn image() -> Image {
    Image {
        reference: "artefacts/".into(),
        digest: format!("sha256:{}", "0".repeat(64)),
        files: vec![],
        manifest_sha256: None,
    }
}

pub fn job_done() -> Fact {
    Fact::JobDone(JobEnd {
        state: "COMPLETED".into(),
        exit_code: Some(0),
        signal: None,
        started_at: None,
        ended_at: None,
    })
}

pub fn logs() -> Fact {
    Fact::LogsCollected(Logs { manifest: "m".into(), sha256: "s".into(), objects: 1, size_bytes: 1 })
}

pub fn loaded() -> Fact {
    Fact::ResultsLoaded(Results { load: "l".into(), rows: 2, table: "t".into() })
}

pub fn verdict(verdict: Verdict) -> Fact {
    Fact::VerdictReached(VerdictReached {
        verdict,
        reasons: vec![],
        criteria: "c".into(),
        baseline: None,
        fingerprint: Default::default(),
        log_sha256: None,
        object: "v".into(),
        measurements: None,
    })
}

/// The facts of a run in which all goes well, in order, without the request.
pub fn happy() -> Vec<Fact> {
    vec![
        Fact::ImageAccepted(handle()),
        Fact::ImageBuilt(image()),
        Fact::ClusterAccepted(handle()),
        Fact::ClusterReady(cluster()),
        Fact::JobAccepted(handle()),
        job_done(),
        logs(),
        verdict(Verdict::Pass),
        loaded(),
        deleted(START),
    ]
}

/// A workflow that looks for the bad node after a failed verdict.
pub fn searching() -> Workflow {
    Workflow { locate: Some(Locate::default()), ..workflow() }
}

pub fn located() -> Fact {
    let drained = Drained::Proposed { command: "drain n1".into() };
    Fact::NodesLocated(Suspects {
        nodes: vec![SuspectNode { node: "n1".into(), confidence: 0.9, drained }],
        links: vec![],
        undecided: None,
        tests: 6,
        best_busbw: Some(90.0),
        object: "located".into(),
    })
}

/// Every kind of fact that a worker can publish.
pub fn every_fact() -> Vec<Fact> {
    let mut facts = happy();
    for stage in Stage::ALL {
        for class in [Class::Infrastructure, Class::ClusterLost, Class::Workload, Class::Cancelled] {
            facts.push(Fact::failed(stage, failure(class)));
        }
    }
    facts.push(Fact::CancelRequested(CancelRequested { by: "somebody".into(), reason: "test".into() }));
    facts
}

/// A ledger with a clock.
#[derive(Clone)]
pub struct Book {
    pub records: Vec<Record>,
    pub state: RunState,
    pub now: Timestamp,
}

impl Book {
    pub fn open(workflow: Workflow) -> Self {
        let event = EventKey { source: "//test".into(), id: "request".into() };
        let entry = decide_first(Occurrence { event, attempt: Attempt::FIRST, fact: requested(workflow) });
        let record = record(1, START, entry);
        let state = fold([&record]).expect("a request begins a ledger");
        Self { records: vec![record], state, now: START }
    }

    pub fn feed(&mut self, attempt: u32, fact: Fact) -> Option<Ignored> {
        let id = format!("{}-{attempt}-{}", fact.event_type(), serde_json::to_string(&fact).unwrap());
        self.feed_as(&id, attempt, fact)
    }

    pub fn feed_as(&mut self, id: &str, attempt: u32, fact: Fact) -> Option<Ignored> {
        let event = EventKey { source: "//test".into(), id: id.into() };
        self.wake(Input::Fact(Box::new(Occurrence { event, attempt: Attempt(attempt), fact })))
    }

    pub fn tick(&mut self, seconds: u64) {
        self.now = self.now + Span::from_secs(seconds);
        self.wake(Input::Tick);
    }

    fn wake(&mut self, input: Input) -> Option<Ignored> {
        let Decision { entries, ignored } = decide(&self.state, input, self.now);
        for entry in entries {
            let record = record(self.state.seq + 1, self.now, entry);
            self.state = evolve(self.state.clone(), &record);
            self.records.push(record);
        }
        ignored
    }

    /// What is owed, as `stage.attempt.verb`.
    pub fn owes(&self) -> Vec<String> {
        let short = |id: CommandId| id.to_string().split_once('.').map(|(_, rest)| rest.to_owned()).unwrap();
        owed(&self.state, self.now).into_iter().map(|owed| short(owed.command.id)).collect()
    }

    pub fn entries(&self) -> Vec<&RecordEntry> {
        self.records.iter().map(|record| &record.entry).collect()
    }

    /// Feeds the facts of a good run up to, and including, the one of this type.
    pub fn until(&mut self, event_type: &str) -> &mut Self {
        for fact in happy() {
            let last = fact.event_type() == event_type;
            assert_eq!(self.feed(1, fact), None);
            if last {
                return self;
            }
        }
        panic!("no fact of type {event_type} in a good run");
    }

    pub fn conclusion(&self) -> Option<&'static str> {
        self.state.closed.and(self.state.settled.as_ref()).map(|(conclusion, _)| conclusion.as_str())
    }
}

fn record(seq: u64, at: Timestamp, entry: RecordEntry) -> Record {
    let run = "quickstart-1".parse().expect("a legal run id");
    Record { format: RECORD_FORMAT, run, seq, nonce: "n".into(), recorded_at: at, entry }
}
