//! A ledger in memory and simulated facts that answer commands, for stories and properties.
use lifecycle::{Decision, Ignored, Input, ReceivedFact, RunState, decide, decide_first, evolve, fold, owed};
use model::*;
pub use test_support::good_run::*;

pub fn failure(class: Class) -> Failure {
    Failure::new(class, "CODE", "it broke")
}

/// A workflow that searches for the bad node after a failed verdict.
pub fn searching() -> Workflow {
    Workflow { locate: Some(Locate::default()), ..workflow() }
}

pub fn located() -> Fact {
    let drained = Drained::Proposed { command: "drain n1".into(), why: None };
    located_nodes(vec![SuspectNode { node: "n1".into(), confidence: 0.9, drained }])
}

/// The result of a search that drained these nodes.
pub fn drained(nodes: &[&str]) -> Fact {
    let drained = || Drained::Applied { reason: "slow".into() };
    let node = |node: &&str| SuspectNode { node: (*node).into(), confidence: 0.9, drained: drained() };
    located_nodes(nodes.iter().map(node).collect())
}

fn located_nodes(nodes: Vec<SuspectNode>) -> Fact {
    Fact::NodesLocated(Suspects {
        nodes,
        links: vec![],
        undecided: None,
        tests: 6,
        best_busbw: Some(90.0),
        object: "located".into(),
        retested: vec![],
    })
}

/// Every kind of fact that a worker can publish.
pub fn every_fact() -> Vec<Fact> {
    let mut facts = successful_facts();
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
pub struct TestLedger {
    pub records: Vec<Record>,
    pub state: RunState,
    pub now: Timestamp,
}

impl TestLedger {
    pub fn open(workflow: Workflow) -> Self {
        let event = EventKey { source: "//test".into(), id: "request".into() };
        let entry = decide_first(ReceivedFact { event, attempt: Attempt::FIRST, fact: requested(workflow) });
        let record = record(1, START, entry);
        let state = fold([&record]).expect("a request starts a ledger");
        Self { records: vec![record], state, now: START }
    }

    pub fn deliver(&mut self, attempt: u32, fact: Fact) -> Option<Ignored> {
        self.feed_at(Attempt::new(attempt), fact)
    }

    pub fn feed_at(&mut self, attempt: Attempt, fact: Fact) -> Option<Ignored> {
        let id = format!("{}-{attempt}-{}", fact.event_type(), serde_json::to_string(&fact).unwrap());
        self.feed_message(&id, attempt, fact)
    }

    pub fn feed_as(&mut self, id: &str, attempt: u32, fact: Fact) -> Option<Ignored> {
        self.feed_message(id, Attempt::new(attempt), fact)
    }

    fn feed_message(&mut self, id: &str, attempt: Attempt, fact: Fact) -> Option<Ignored> {
        let event = EventKey { source: "//test".into(), id: id.into() };
        self.wake(Input::Fact(Box::new(ReceivedFact { event, attempt, fact })))
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

    /// Pending commands, as `stage.attempt.verb`.
    pub fn owes(&self) -> Vec<String> {
        let short = |id: CommandId| id.to_string().split_once('.').map(|(_, rest)| rest.to_owned()).unwrap();
        owed(&self.state, self.now).into_iter().map(|owed| short(owed.command.id)).collect()
    }

    pub fn entries(&self) -> Vec<&RecordEntry> {
        self.records.iter().map(|record| &record.entry).collect()
    }

    /// Applies the facts of a successful run up to and including the first fact of this type.
    pub fn until(&mut self, event_type: &str) -> &mut Self {
        for fact in successful_facts() {
            let last = fact.event_type() == event_type;
            assert_eq!(self.deliver(1, fact), None);
            if last {
                return self;
            }
        }
        panic!("a successful run has no fact of type {event_type}");
    }

    pub fn conclusion(&self) -> Option<&'static str> {
        self.state.closed.and(self.state.settled.as_ref()).map(|(conclusion, _)| conclusion.as_str())
    }
}

fn record(seq: u64, at: Timestamp, entry: RecordEntry) -> Record {
    let run = "quickstart-1".parse().expect("the run id is valid");
    Record { format: RECORD_FORMAT, run, seq, nonce: "n".into(), recorded_at: at, entry }
}

/// A run whose cluster is ready for the first check.
pub fn ready(workflow: Workflow) -> TestLedger {
    let mut ledger = TestLedger::open(workflow);
    ledger.until("dev.burnin.cluster.ready.v1");
    ledger
}

/// Records the expected fact for each pending command until the run closes. No job may be started.
pub fn finish(ledger: &mut TestLedger) {
    for _ in 0..20 {
        for owed in ledger.owes() {
            let mut parts = owed.split('.');
            let (stage, attempt) = (parts.next().unwrap(), parts.next().unwrap().parse().unwrap());
            let fact = match (stage, parts.next().unwrap()) {
                ("cluster", "delete") => deleted(ledger.now),
                ("results", _) => loaded(),
                ("job", "cancel") => Fact::JobFailed(failure(Class::Cancelled)),
                ("verdict", _) => verdict(Verdict::Pass),
                other => panic!("{other:?} is owed"),
            };
            ledger.feed_at(attempt, fact);
        }
    }
}
