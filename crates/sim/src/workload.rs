//! Workflows of the simulation, and the output of their benchmarks.

use std::fmt::Write;

use model::{
    AfterPass, Benchmark, BuildSpec, Check, ClusterCost, ClusterSpec, Collective, Criteria, Drain, Fact,
    Floor, Image, ImageSpec, Limits, Locate, Money, Program, Retest, RunRequested, Soak, Span, System,
    Trigger, Workflow, Workload,
};

use crate::SeededRandom;

/// Log file with the table.
pub const LOG: &str = "node-0.log";
/// Name of the existing cluster.
pub const EXISTING: &str = "shared";

const fn limits() -> Limits {
    Limits {
        image: Span::from_secs(600),
        cluster: Span::from_secs(600),
        job: Span::from_secs(900),
        logs: Span::from_secs(300),
        results: Span::from_secs(300),
        verdict: Span::from_secs(300),
        locate: Span::from_secs(1800),
        lease: Span::from_secs(5400),
        patience: Span::from_secs(60),
        grace: Span::from_secs(60),
        attempts: 2,
    }
}

fn build() -> ImageSpec {
    let config = serde_json::json!({"steps": []});
    ImageSpec::Build(BuildSpec { config, source: None, repository: None, substitutions: Default::default() })
}

/// A workflow with all stages.
pub fn full_workflow() -> Workflow {
    Workflow {
        name: "sim".to_owned(),
        description: String::new(),
        image: Some(build()),
        cluster: Some(ClusterSpec::Provisioned(System::processes(2))),
        checks: Vec::new(),
        excluded: Default::default(),
        soak: None,
        benchmark: Some(Benchmark {
            program: Program::NcclTests(Workload {
                collective: Collective::AllReduce,
                min_bytes: 8,
                max_bytes: 64,
                step_factor: 8,
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
        limits: limits(),
        cost: None,
        notify: Vec::new(),
    }
}

/// A random workflow; most workflows have all stages.
pub fn any(random: &mut SeededRandom) -> Workflow {
    let mut workflow = full_workflow();
    match random.below(20) {
        0 => {
            let reference = "registry/ready".to_owned();
            let digest = format!("sha256:{}", "1".repeat(64));
            workflow.image =
                Some(ImageSpec::Prebuilt(Image { reference, digest, files: vec![], manifest_sha256: None }));
        }
        1 => workflow.image = None,
        2..4 => {
            let system = System::processes(3);
            workflow.cluster = Some(ClusterSpec::Existing { system, name: EXISTING.to_owned() });
        }
        4 => workflow.benchmark = None,
        5 => (workflow.cluster, workflow.benchmark) = (None, None),
        _ => {}
    }
    if let (Some(cluster), Some(benchmark), true) =
        (&mut workflow.cluster, &mut workflow.benchmark, random.once_in(2))
    {
        // With two nodes no pair can identify the bad one.
        if let ClusterSpec::Provisioned(system) = cluster {
            *system = System::processes(3 + u32::try_from(random.below(4)).unwrap_or(0));
        }
        // Some workflows use an existing cluster: it is never deleted, so a late pair can start there.
        if random.once_in(3) {
            let system = System::processes(3);
            *cluster = ClusterSpec::Existing { system, name: EXISTING.to_owned() };
        }
        if random.once_in(2) {
            workflow.limits.locate = Span::from_secs(20 + random.below(200));
        }
        benchmark.criteria.floors.push(Floor::everywhere(64, SLOW));
        workflow.locate = Some(Locate { drain: Drain::Apply, ..Locate::default() });
    }
    if random.once_in(3) {
        split(&mut workflow, random);
    }
    let is_existing = matches!(workflow.cluster, Some(ClusterSpec::Existing { .. }));
    if is_existing && workflow.soak.is_none() && workflow.check_count() > 0 && random.once_in(3) {
        workflow.locate = None;
        workflow.retest = Some(Retest { nodes: vec!["node-1".to_owned()], after_pass: AfterPass::Return });
    }
    workflow.limits.attempts = 1 + u32::try_from(random.below(3)).unwrap_or(0);
    workflow
}

/// Makes two or three checks of the benchmark; a later check may need an earlier check.
fn split(workflow: &mut Workflow, random: &mut SeededRandom) {
    let Some(benchmark) = workflow.benchmark.take() else { return };
    for name in ["first", "second", "third"].into_iter().take(2 + random.index(2)) {
        let earlier: Vec<_> = workflow.checks.iter().map(|check| check.name.clone()).collect();
        let needs = earlier.into_iter().filter(|_| random.once_in(4)).collect();
        let limit = random.once_in(4).then(|| Span::from_secs(600));
        workflow.checks.push(Check { name: name.to_owned(), benchmark: benchmark.clone(), needs, limit });
    }
    if let Some(ClusterSpec::Provisioned(system)) = &workflow.cluster {
        // Draw the budget from a copy of the generator, so that the seeds of workflows without a budget keep their decisions.
        workflow.cost = cost(system.nodes(), &mut random.clone());
    }
    if random.once_in(4) {
        // The lease covers the time of the soak and one more round.
        let duration = Span::from_secs(60 + random.below(600));
        workflow.soak = Some(Soak { duration, drift: 0.02 });
    }
}

/// A budget for 3 to 25 minutes of the cluster, so that some runs exceed their budget in each of their checks. `None` for most
/// workflows.
fn cost(nodes: u32, random: &mut SeededRandom) -> Option<ClusterCost> {
    // Each node costs one unit of currency per second.
    const NODE_HOUR: Money = Money::from_micros(3_600_000_000);
    let seconds = 180 + random.below(1_320);
    random.once_in(3).then(|| ClusterCost {
        node_hour: NODE_HOUR,
        kept_hour: None,
        budget: Some(NODE_HOUR.for_hours_of(nodes, Span::from_secs(seconds))),
        currency: "EUR".to_owned(),
    })
}

/// Limit of the bus bandwidth at 64 bytes, GB/s: every good node is above it, every slow node below.
const SLOW: f64 = 0.003;

pub fn requested(workflow: Workflow) -> Fact {
    let trigger = Trigger { kind: "manual".to_owned(), by: "sim".to_owned() };
    Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: None }))
}

/// Output of a successful benchmark. A slow node slows the whole benchmark.
fn log(workload: &Workload, ranks: u32, job: &str, slow: bool) -> String {
    let mut text = format!("# job {job}\n# Collective test starting: all_reduce_perf\n");
    _ = writeln!(
        text,
        "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {}(factor) warmup iters: {} iters: {} agg iters: 1 \
         validation: 1 graph: 0 unalign: 0\n#\n# Using devices",
        workload.min_bytes,
        workload.max_bytes,
        workload.step_factor,
        workload.warmup_iterations,
        workload.iterations
    );
    for rank in 0..ranks {
        _ = writeln!(
            text,
            "#  Rank {rank:2} Group  0 Pid  10{rank:02} on     node-{rank} device  0 [cpu:00] CPU"
        );
    }
    text.push_str(
        "#\n\
         #                                                              out-of-place                       in-place\n\
         #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n\
         #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n",
    );
    for size in workload.sizes() {
        let time = if slow { 1000.0 } else { 10.0 };
        let algbw = size as f64 / time / 1e3;
        let half = format!("{time:7.2}  {algbw:6.4}  {algbw:6.4}       0");
        _ = writeln!(text, "{size:12}  {:12}     float     sum      -1  {half}  {half}", size / 4);
    }
    text.push_str("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.0036\n#\n");
    text.push_str("# Collective test concluded: all_reduce_perf\n");
    text
}

/// End of a benchmark's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputEnding {
    /// Complete.
    Complete,
    /// Truncated.
    Truncated,
    /// Truncated, and followed by an error message.
    WithError,
}

/// Parameters of a benchmark's output, before it is rendered.
#[derive(Clone, Debug)]
pub struct RankOutput {
    pub workload: Workload,
    pub ranks: u32,
    /// Whether one of its nodes is slow.
    pub slow: bool,
    pub end: OutputEnding,
}

impl RankOutput {
    /// The full output of the job with this name.
    pub fn text(&self, job: &str) -> String {
        let mut text = log(&self.workload, self.ranks, job, self.slow);
        if self.end != OutputEnding::Complete {
            text.truncate(text.find("# Out of bounds").unwrap_or(text.len()));
        }
        if self.end == OutputEnding::WithError {
            text.push_str("node-0: Test NCCL failure all_reduce.cu:44 'unhandled system error'\n");
        }
        text
    }
}
