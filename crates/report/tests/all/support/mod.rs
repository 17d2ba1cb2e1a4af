//! Runs for reports: the state machine creates each record of their ledgers, at a simulated time.
use lifecycle::{Decision, Input, ReceivedFact, RunState, decide, decide_first, evolve, fold};
use model::{
    Program,
    measurement::{Device, Half, LogEnd, OutOfBounds, Reading, Row, Table},
    *,
};
use report::{ReportInput, ReportedLog, RunLocations};
use verdict::{Clues, Judgement, RunEvidence, Standard, judge};

pub mod logs;

pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub fn criteria(floors: &[(u64, f64)]) -> Criteria {
    let floors = floors.iter().map(|&(size_bytes, busbw)| Floor::everywhere(size_bytes, busbw)).collect();
    Criteria { floors, ..Criteria::named("two-nodes") }
}

pub fn workflow() -> Workflow {
    Workflow {
        name: "quickstart".into(),
        description: "this machine, two nodes".into(),
        image: Some(ImageSpec::Build(BuildSpec {
            config: serde_json::json!({"steps": []}),
            repository: None,
            source: Some(SourceObject { object: "sources/3b5d.tar".into(), sha256: "3b5d".repeat(16) }),
            substitutions: Default::default(),
        })),
        cluster: Some(ClusterSpec::Provisioned(System::processes(2))),
        checks: Vec::new(),
        excluded: Default::default(),
        soak: None,
        benchmark: Some(Benchmark {
            environment: Default::default(),
            program: Program::NcclTests(Workload {
                collective: Collective::AllReduce,
                min_bytes: 1024,
                max_bytes: 16 << 20,
                step_factor: 4,
                iterations: 20,
                warmup_iterations: 5,
                check: true,
                datatype: None,
                extra_args: Default::default(),
            }),
            baseline: None,
            criteria: criteria(&[(1 << 20, 1.5), (16 << 20, 4.0)]),
        }),
        locate: None,
        retest: None,
        limits: Limits::default(),
        cost: None,
        notify: Vec::new(),
    }
}

/// The curve of a healthy pair of nodes: latency first, then a plateau.
pub fn reading(workflow: &Workflow) -> Reading {
    let sizes = workflow.benchmark.as_ref().map_or_else(Vec::new, |benchmark| {
        benchmark.program.workload().map_or_else(Vec::new, Workload::sizes)
    });
    let half = |size: u64, latency: f64, peak: f64| {
        let time_us = latency + size as f64 / (peak * 1e3);
        let printed = |value: f64| (value * 100.0).round() / 100.0;
        let (time_us, algbw) = (printed(time_us), printed(size as f64 / time_us / 1e3));
        Some(Half { time_us, algbw, busbw: algbw, wrong: Some(0), ..Half::default() })
    };
    let row = |size| Row {
        size_bytes: size,
        count: size / 4,
        dtype: "float".into(),
        redop: Some("sum".into()),
        root: Some(-1),
        out_of_place: half(size, 21.4, 5.2),
        in_place: half(size, 19.8, 5.0),
        ..Row::default()
    };
    let device = |rank| Device {
        rank,
        host: format!("n{rank}"),
        device: Some(0),
        bus_id: None,
        name: Some("CPU".into()),
    };
    Reading {
        ended: LogEnd::Complete,
        first_error: None,
        tables: vec![Table {
            collective: Some("all_reduce".into()),
            ranks: Some(2),
            devices: vec![device(0), device(1)],
            nccl_tests_version: Some("2.19.6".into()),
            nccl_version: Some("2.28.9".into()),
            started_at: None,
            unmeasured: 0,
            rows: sizes.into_iter().map(row).collect(),
            out_of_bounds: Some(OutOfBounds { count: 0, ok: true }),
            average_busbw: Some(1.8342),
            ended: LogEnd::Complete,
        }],
        ..Reading::default()
    }
}

pub fn handle(name: &str) -> Handle {
    Handle { handle: name.into() }
}

pub fn image() -> Image {
    Image {
        reference: "artefacts/quickstart-1/image/1/".into(),
        digest: format!("sha256:{}", "9f86d081884c7d65".repeat(4)),
        files: vec![FileDigest {
            name: "image/all_reduce_perf".into(),
            size_bytes: 4_718_592,
            sha256: "9f86d081884c7d65".repeat(4),
        }],
        manifest_sha256: None,
    }
}

pub fn cluster() -> Cluster {
    let node = |name: &str| Node::new(name, 1);
    Cluster {
        name: "quickstart-1-cluster-1".into(),
        nodes: vec![node("n0"), node("n1")],
        access: ClusterAccess::processes("/var/lib/burnin/clusters/quickstart-1-cluster-1"),
    }
}

pub fn locations() -> RunLocations {
    RunLocations {
        ledger: "/home/ada/.burnin/ledger/quickstart-1".into(),
        artefacts: "/home/ada/.burnin/artefacts/quickstart-1".into(),
        logs: Some("/home/ada/.burnin/artefacts/quickstart-1/logs/1".into()),
        warehouse: "/home/ada/.burnin/warehouse.sqlite".into(),
        report: Some("/home/ada/.burnin/reports/quickstart-1.html".into()),
    }
}

/// A run, and all input of its report.
pub struct RecordedRun {
    pub records: Vec<Record>,
    pub state: RunState,
    pub reading: Option<Reading>,
    pub judgement: Option<Judgement>,
    pub locations: RunLocations,
    now: Timestamp,
}

impl RecordedRun {
    pub fn open(workflow: Workflow) -> Self {
        let trigger = Trigger { kind: "manual".into(), by: "ada".into() };
        let fact = Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: None }));
        let event = EventKey { source: "//test".into(), id: "request".into() };
        let entry = decide_first(ReceivedFact { event, attempt: Attempt::FIRST, fact });
        let record = record(1, START, entry);
        let state = fold([&record]).expect("a request starts a ledger");
        Self {
            records: vec![record],
            state,
            reading: None,
            judgement: None,
            locations: locations(),
            now: START,
        }
    }

    /// Records the fact, `millis` milliseconds after the previous one.
    pub fn fact(&mut self, millis: u64, attempt: u32, fact: Fact) -> &mut Self {
        let id = format!("{}-{attempt}-{}", fact.event_type(), self.records.len());
        let event = EventKey { source: "//test".into(), id };
        let ignored = self.wake(
            millis,
            Input::Fact(Box::new(ReceivedFact { event, attempt: Attempt::new(attempt), fact })),
        );
        assert_eq!(ignored, None);
        self
    }

    pub fn tick(&mut self, millis: u64) -> &mut Self {
        self.wake(millis, Input::Tick);
        self
    }

    fn wake(&mut self, millis: u64, input: Input) -> Option<lifecycle::Ignored> {
        self.now = self.now + Span::from_millis(millis);
        let Decision { entries, ignored } = decide(&self.state, input, self.now);
        for entry in entries {
            let record = record(self.state.seq + 1, self.now, entry);
            self.state = evolve(self.state.clone(), &record);
            self.records.push(record);
        }
        ignored
    }

    pub fn built(&mut self) -> &mut Self {
        self.fact(40, 1, Fact::ImageAccepted(handle("build-71c2"))).fact(3240, 1, Fact::ImageBuilt(image()))
    }

    pub fn up(&mut self) -> &mut Self {
        self.fact(35, 1, Fact::ClusterAccepted(handle("quickstart-1-cluster-1"))).fact(
            410,
            1,
            Fact::ClusterReady(cluster()),
        )
    }

    pub fn ran(&mut self, end: JobEnd) -> &mut Self {
        self.fact(28, 1, Fact::JobAccepted(handle("job-4411"))).fact(8120, 1, Fact::JobDone(end)).fact(
            160,
            1,
            Fact::LogsCollected(Logs {
                manifest: "quickstart-1/logs/1/manifest.json".into(),
                sha256: "60303ae22b998861".repeat(4),
                objects: 4,
                size_bytes: 12_400,
            }),
        )
    }

    pub fn gone(&mut self) -> &mut Self {
        let deleted = Deleted {
            name: "quickstart-1-cluster-1".into(),
            evidence: "no process remains, its folder is deleted".into(),
            confirmed_at: self.now,
        };
        self.fact(220, 1, Fact::ClusterDeleted(deleted))
    }

    pub fn loaded(&mut self) -> &mut Self {
        let load = Results { load: "quickstart-1.1".into(), rows: 8, table: "measurements".into() };
        self.fact(90, 1, Fact::ResultsLoaded(load))
    }

    /// Judges the measurements as the service `judge` does.
    pub fn judged(&mut self, reading: Reading) -> &mut Self {
        let benchmark = self.state.workflow.benchmark.clone().expect("a benchmark");
        let job = self.state.job().expect("a job that ended").clone();
        let cluster = self.state.cluster().expect("a cluster").clone();
        let clues = Clues::default();
        let evidence = RunEvidence {
            job: Some(&job),
            workload: benchmark.program.workload(),
            cluster: Some(&cluster),
            ..RunEvidence::of(&reading, &clues)
        };
        let standard = Standard { criteria: Some(&benchmark.criteria), ..Standard::default() };
        let judgement = judge(&evidence, &standard);
        let reached = VerdictReached {
            verdict: judgement.verdict,
            reasons: judgement.reasons.clone(),
            criteria: format!("sha256:{}", "2c26b46b68ffc68f".repeat(4)),
            baseline: None,
            fingerprint: Default::default(),
            log_sha256: Some("fcde2b2edba56bf4".repeat(4)),
            suspects: Vec::new(),
            object: "quickstart-1/verdict/1/verdict.json".into(),
            measurements: None,
        };
        self.reading = Some(reading);
        self.judgement = Some(judgement);
        self.fact(55, 1, Fact::VerdictReached(reached))
    }

    pub fn input(&self) -> ReportInput<'_> {
        let judgement = self.judgement.as_ref();
        let name = self.state.run.as_str();
        let benchmark = self.state.workflow.benchmark.as_ref();
        ReportInput {
            run: Some(report::ReportedRun {
                state: &self.state,
                records: &self.records,
                locations: &self.locations,
                rounds: &[],
                check: None,
            }),
            parts: Vec::new(),
            logs: self.reading.iter().map(|reading| ReportedLog { name, reading, judgement }).collect(),
            judgement,
            standard: Standard {
                criteria: benchmark.map(|benchmark| &benchmark.criteria),
                ..Standard::default()
            },
            series: false,
        }
    }
}

/// A whole run with this log.
pub fn whole(workflow: Workflow, reading: Reading) -> RecordedRun {
    let mut run = RecordedRun::open(workflow);
    run.built().up().ran(JobEnd::new("COMPLETED", Some(0))).judged(reading).gone().loaded();
    run
}

pub fn good() -> RecordedRun {
    let workflow = workflow();
    let reading = reading(&workflow);
    whole(workflow, reading)
}

pub fn slow() -> RecordedRun {
    let workflow = workflow();
    let mut reading = reading(&workflow);
    let half = reading.tables[0].rows.last_mut().and_then(|row| row.in_place.as_mut()).expect("measured");
    (half.time_us, half.algbw, half.busbw) = (5398.02, 3.11, 3.11);
    whole(workflow, reading)
}

/// A run with every size from 8 B to 16 GiB, 75 times the bandwidth of the healthy pair, and wrong data at one size.
pub fn long() -> RecordedRun {
    let mut workflow = workflow();
    let benchmark = workflow.benchmark.as_mut().expect("a benchmark");
    let Program::NcclTests(workload) = &mut benchmark.program else { unreachable!("it runs nccl-tests") };
    (workload.min_bytes, workload.max_bytes, workload.step_factor) = (8, 16 << 30, 2);
    let mut reading = reading(&workflow);
    for row in &mut reading.tables[0].rows {
        for half in [&mut row.out_of_place, &mut row.in_place].into_iter().flatten() {
            half.busbw *= 75.0;
        }
    }
    reading.tables[0].rows[3].in_place.as_mut().expect("measured").wrong = Some(7);
    whole(workflow, reading)
}

pub fn unbuilt() -> RecordedRun {
    let mut run = RecordedRun::open(workflow());
    let message = "step `build` ended with exit code 1:\nerror: could not compile `all_reduce_perf`\n\
                   Correct the source and run again; the step's output is in the artefacts.";
    let failure = Failure::new(Class::Workload, "FAILURE", message);
    run.fact(40, 1, Fact::ImageAccepted(handle("build-71c2"))).fact(2100, 1, Fact::ImageFailed(failure));
    (run.locations.logs, run.locations.report) = (None, None);
    run
}

pub fn cancelled() -> RecordedRun {
    let mut run = RecordedRun::open(workflow());
    run.built().up().fact(28, 1, Fact::JobAccepted(handle("job-4411")));
    let cancel = CancelRequested { by: "ada".into(), reason: "wrong branch".into() };
    run.fact(4000, 1, Fact::CancelRequested(cancel));
    run.fact(300, 1, Fact::JobDone(JobEnd::new("CANCELLED", None))).gone();
    run.locations.logs = None;
    run
}

fn record(seq: u64, at: Timestamp, entry: RecordEntry) -> Record {
    let run = "quickstart-1".parse().expect("a valid run id");
    Record { format: RECORD_FORMAT, run, seq, nonce: "n".into(), recorded_at: at, entry }
}
