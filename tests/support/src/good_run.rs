//! The request of a successful run, and the facts of its workers.

use model::*;

pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// A workflow with every stage but the search for a bad node.
pub fn workflow() -> Workflow {
    Workflow {
        name: "quickstart".into(),
        description: String::new(),
        image: Some(ImageSpec::Build(BuildSpec {
            config: serde_json::json!({"steps": []}),
            repository: None,
            source: None,
            substitutions: Default::default(),
        })),
        cluster: Some(ClusterSpec::Provisioned(System::processes(2))),
        checks: Vec::new(),
        excluded: Default::default(),
        soak: None,
        benchmark: Some(Benchmark {
            program: Program::NcclTests(Workload {
                collective: Collective::AllReduce,
                min_bytes: 8,
                max_bytes: 1024,
                step_factor: 2,
                iterations: 20,
                warmup_iterations: 5,
                check: true,
                datatype: None,
                extra_args: Default::default(),
            }),
            criteria: Criteria::named("any"),
            baseline: None,
            environment: Default::default(),
        }),
        locate: None,
        retest: None,
        limits: Limits::default(),
        cost: None,
        notify: Vec::new(),
    }
}

/// The workflow with several checks, named `a`, `b`, `c`, ... instead of a single benchmark. `needs`: for each check,
/// the letters of the checks that it needs.
pub fn with_checks(needs: &[&str]) -> Workflow {
    let mut workflow = workflow();
    let benchmark = workflow.benchmark.take().expect("the good run has a benchmark");
    let check = |(letter, needs): (char, &&str)| Check {
        name: letter.to_string(),
        benchmark: benchmark.clone(),
        needs: needs.chars().map(String::from).collect(),
        limit: None,
    };
    workflow.checks = ('a'..='z').zip(needs).map(check).collect();
    workflow
}

pub fn requested(workflow: Workflow) -> Fact {
    let trigger = Trigger { kind: "manual".into(), by: "test".into() };
    Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: None }))
}

pub fn handle() -> Handle {
    Handle { handle: "h-1".into() }
}

pub fn cluster() -> Cluster {
    let node = |name: &str| Node::new(name, 1);
    Cluster {
        name: "quickstart-1-cluster-1".into(),
        nodes: vec![node("n0"), node("n1")],
        access: ClusterAccess::processes("e"),
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
    Fact::JobDone(JobEnd::new("COMPLETED", Some(0)))
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
        suspects: Vec::new(),
        object: "v".into(),
        measurements: None,
    })
}

/// The facts of the workers in a successful run, in order.
pub fn successful_facts() -> Vec<Fact> {
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
