//! Public reports of nodes that were drained without a fault, and of faults that checks did not detect. Each row is a log.
//! The tests parse and judge it, and run a search for bad nodes that may drain nodes.

use std::{
    collections::BTreeMap,
    io::Cursor,
    path::Path,
    sync::{Arc, Mutex},
};

use agent::{CollectLimits, Collector, Locator};
use cluster_api::{JobSpec, JobStatus, Outputs, Scheduler};
use ledger::{Artefacts, MemoryStore, ObjectReader};
use measure::evidence::EvidenceFilter;
use model::{
    Attempt, Cluster, ClusterAccess, Collective, CommandId, CommandLine, Criteria, Drain, Every,
    EvidenceRule, Fact, JobEnd, Locate, MetricCriterion, Node, NodeSearch, OutputFormat, Program, Stage,
    Timestamp, Verb, Verdict, Workload,
};
use redact::Rules;
use serde_json::{Value, json};
use service::{PollResult, PortError};
use verdict::{ClueReader, Clues, Judgement, RunEvidence, Standard};

/// A job's log, and the scheduler's state of the job.
#[derive(Clone)]
struct Job {
    log: String,
    state: &'static str,
}

fn completed(log: impl Into<String>) -> Job {
    Job { log: log.into(), state: "COMPLETED" }
}

fn failed(log: impl Into<String>) -> Job {
    Job { log: log.into(), state: "FAILED" }
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sample(name: &str) -> String {
    file(&format!("crates/measure/tests/samples/{name}"))
}

/// A result of a test of DCGM 4 on one GPU.
fn result(gpu: u32, status: &str, warnings: Value) -> Value {
    let mut result = json!({"entity_group": "GPU", "entity_id": gpu, "status": status});
    if warnings != Value::Null {
        result["warnings"] = json!([warnings]);
    }
    result
}

/// Category and severity of an error are those of `dcgm_errors.c` of DCGM 4.6.
fn warning(id: u32, category: u32, severity: u32, text: &str) -> Value {
    json!({"error_id": id, "error_category": category, "error_severity": severity, "warning": text})
}

/// The document of `dcgmi diag -j` with one test on eight GPUs. Omitted results are passes.
fn diagnosis(test: &str, results: &[Value]) -> String {
    let mut all: BTreeMap<u64, Value> =
        (0..8).map(|gpu| (u64::from(gpu), result(gpu, "Pass", Value::Null))).collect();
    for result in results {
        all.insert(result["entity_id"].as_u64().unwrap(), result.clone());
    }
    let entities: Vec<_> =
        (0..8).map(|gpu| json!({"entity_id": gpu, "serial_num": format!("S{gpu}")})).collect();
    let tests = json!([{"name": test, "results": all.into_values().collect::<Vec<_>>()}]);
    let document = json!({
        "DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]},
        "entity_groups": [{"entity_group": "GPU", "entities": entities}],
    });
    format!("{document:#}\n")
}

/// The same result on all GPUs.
fn on_all(test: &str, status: &str, warning: &Value) -> String {
    let results: Vec<_> = (0..8).map(|gpu| result(gpu, status, warning.clone())).collect();
    diagnosis(test, &results)
}

/// All-reduce on two H100, with evidence.
fn all_reduce() -> String {
    file("tests/data/evidence/h100-all-reduce.log")
}

/// A passing diagnosis, with the evidence of two H100 before and after it.
fn passing_diagnosis() -> String {
    let log = file("tests/data/evidence/h100-load.log");
    let log = log.replace("\ndone\n", &format!("\n{}", diagnosis("memory", &[])));
    assert!(log.contains("DCGM Diagnostic"));
    log
}

/// The log with this text replaced in the evidence before and after the job, or only after it.
fn changed(log: &str, moments: &[&str], from: &str, to: &str) -> String {
    let is_of =
        |line: &str| moments.iter().any(|moment| line.starts_with(&format!("burnin evidence: vm {moment} ")));
    let lines = log
        .lines()
        .map(|line| if is_of(line) { line.replace(from, to) + "\n" } else { line.to_owned() + "\n" });
    let changed: String = lines.collect();
    assert_ne!(changed, log, "{from}");
    changed
}

/// The log with this text after the line of the evidence that begins with `after`.
fn with_line(log: &str, moment: &str, after: &str, text: &str) -> String {
    let begin = format!("burnin evidence: vm {moment} {after}");
    let lines = log.lines().map(|line| match line.starts_with(&begin) {
        true => format!("{line}\nburnin evidence: vm {moment} {text}\n"),
        false => format!("{line}\n"),
    });
    let changed: String = lines.collect();
    assert_ne!(changed, log, "{after}");
    changed
}

fn criteria(rule: EvidenceRule) -> Criteria {
    Criteria { data_only: true, evidence: rule, ..Criteria::named("reports") }
}

/// The verdict, as the judge computes it.
fn judged(job: &Job, criteria: &Criteria) -> Judgement {
    let mut log = EvidenceFilter::new(job.log.as_bytes());
    let mut clue_reader = ClueReader::new(&mut log);
    let mut reading = measure::read(&mut clue_reader).unwrap();
    let clues = clue_reader.finish();
    reading.evidence = log.finish();
    let end = JobEnd::new(job.state, None);
    let evidence = RunEvidence { job: Some(&end), ..RunEvidence::of(&reading, &clues) };
    verdict::judge(&evidence, &Standard { criteria: Some(criteria), ..Standard::default() })
}

/// Pairs with node `n1` end like the reported job, all other pairs like the good job.
struct Pairs {
    reported: Job,
    good: Job,
    jobs: Mutex<BTreeMap<String, JobSpec>>,
    drained: Mutex<Vec<String>>,
}

impl Pairs {
    fn job(&self, cluster: &Cluster) -> &Job {
        if cluster.nodes.iter().any(|node| node.name == "n1") { &self.reported } else { &self.good }
    }
}

#[async_trait::async_trait]
impl Scheduler for Pairs {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        self.jobs.lock().unwrap().insert(job.name.clone(), job.clone());
        Ok(job.name.clone())
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        let is_known = self.jobs.lock().unwrap().contains_key(name);
        Ok(if is_known {
            JobStatus::Ended(JobEnd::new(self.job(cluster).state, None))
        } else {
            JobStatus::Absent
        })
    }

    async fn cancel(&self, _: &Cluster, _: &str) -> Result<(), PortError> {
        Ok(())
    }

    async fn outputs(&self, _: &Cluster, _: &str) -> Result<Outputs, PortError> {
        Ok(["benchmark.log"].into_iter().collect())
    }

    async fn output(&self, cluster: &Cluster, _: &str, _: &str) -> Result<ObjectReader, PortError> {
        Ok(Box::new(Cursor::new(self.job(cluster).log.clone())))
    }

    fn drain_command(&self, _: &Cluster, node: &str, _: &str) -> Option<String> {
        Some(format!("drain {node}"))
    }

    async fn drain(&self, _: &Cluster, node: &str, _: &str) -> Result<(), PortError> {
        self.drained.lock().unwrap().push(node.to_owned());
        Ok(())
    }
}

fn program(is_diagnosis: bool) -> Program {
    if is_diagnosis {
        let read = OutputFormat::Format("dcgm-diag".to_owned());
        return Program::Command(CommandLine {
            argv: vec!["dcgmi".to_owned()],
            every: Every::Rank,
            rounds: None,
            image: None,
            read,
        });
    }
    Program::NcclTests(Workload {
        collective: Collective::AllReduce,
        min_bytes: 8,
        max_bytes: 1 << 30,
        step_factor: 8,
        iterations: 50,
        warmup_iterations: 5,
        check: true,
        datatype: None,
        extra_args: Default::default(),
    })
}

/// Nodes drained by a search that may drain all nodes.
async fn drained(reported: &Job) -> Vec<String> {
    let is_diagnosis = reported.log.contains("\"DCGM ");
    let good = completed(if is_diagnosis { diagnosis("memory", &[]) } else { all_reduce() });
    let pairs = Arc::new(Pairs {
        reported: reported.clone(),
        good,
        jobs: Mutex::default(),
        drained: Mutex::default(),
    });
    let scheduler: Arc<dyn Scheduler> = Arc::clone(&pairs) as _;
    let collector = Collector {
        scheduler: Arc::clone(&scheduler),
        artefacts: Artefacts::in_place(Arc::new(MemoryStore::default())),
        rules: Rules::of_patterns(),
        limits: CollectLimits::default(),
    };
    let locator = Locator { scheduler, collector };
    let nodes = (0..6).map(|node| Node::new(format!("n{node}"), 8)).collect();
    let search = NodeSearch {
        environment: Default::default(),
        cluster: Cluster { name: "lab".into(), nodes, access: ClusterAccess::processes("/lab") },
        image: None,
        program: program(is_diagnosis),
        metrics: vec!["dcgm.memory".to_owned()],
        better: Default::default(),
        job_attempt: Attempt::FIRST,
        locate: Locate { drain: Drain::Apply, drain_at_most: 6, ..Locate::default() },
        ends_at: Timestamp::from_millis(600_000),
        retest: None,
        drains_left: None,
        drained: Vec::new(),
        suspected: Vec::new(),
    };
    let id = CommandId {
        run: "lab-1".parse().unwrap(),
        stage: Stage::Locate,
        attempt: Attempt::FIRST,
        verb: Verb::Start,
    };
    for _ in 0..500 {
        match locator.step(&id, &search, Timestamp::from_millis(0)).await.unwrap() {
            PollResult::Ended(Fact::NodesLocated(suspects)) => {
                assert!(suspects.tests > 0 || suspects.undecided.is_some());
                return pairs.drained.lock().unwrap().clone();
            }
            PollResult::Ended(other) => panic!("{other:?}"),
            PollResult::Running => {}
        }
    }
    panic!("the search has not ended");
}

/// Reports of healthy nodes that were drained.
fn without_fault() -> Vec<(&'static str, Job)> {
    let power = warning(12, 14, 1, "Detected clocks event due to power violation in GPU 3.");
    let imex = warning(122, 8, 2, "IMEX daemon status is -3 (not READY)");
    let persistence = warning(29, 8, 5, "Persistence Mode: Persistence mode for GPU 0 is disabled.");
    let link = warning(14, 11, 4, "GPU 0's NvLink link 3 is currently down");
    let limited = all_reduce().replace("0x0000000000000000", "0x0000000000000004");
    let epilog = "slurmd: error: epilog failed: nv-hostengine did not stop\n";
    let gres =
        "srun: error: Unable to create step for job 118: Invalid generic resource (gres) specification\n";
    let library =
        "all_reduce_perf: error while loading shared libraries: libnvidia-ml.so.1: file too short\n";
    vec![
        (
            "NVIDIA/DCGM#285: the power limit under load, on one GPU",
            completed(diagnosis("power", &[result(3, "Warn", power.clone())])),
        ),
        (
            "NVIDIA/DCGM#285: the power limit under load, on all GPUs",
            completed(on_all("power", "Warn", &power)),
        ),
        ("NVIDIA/DCGM#285: the power limit in the samples of the evidence", completed(limited)),
        (
            "NVIDIA/DCGM#308: IMEX is not used, on one GPU",
            completed(diagnosis("nvlink", &[result(0, "Fail", imex.clone())])),
        ),
        ("NVIDIA/DCGM#308: IMEX is not used, on all GPUs", completed(on_all("nvlink", "Fail", &imex))),
        ("nebius/soperator#1232: the scheduler counts no GPU", failed(gres)),
        ("GoogleCloudPlatform/cluster-toolkit#6230: the epilog hangs", completed(all_reduce() + epilog)),
        (
            "AWS HyperPod: persistence mode is off on all eight GPUs",
            failed(on_all("software", "Fail", &persistence)),
        ),
        (
            "persistence mode is off on the only GPU",
            completed(sample("dcgm-diag/4.2.3-gb10-level2-partial-skip.json")),
        ),
        ("persistence mode is off, version 3 of DCGM", completed(sample("dcgm-diag/3-fail-warn.json"))),
        ("all GPUs have the same hardware finding", completed(on_all("nvlink", "Fail", &link))),
        ("nebius/soperator#2684: an empty library file", failed(library)),
    ]
}

#[tokio::test]
async fn reports_without_a_fault_drain_no_node() {
    for (report, job) in without_fault() {
        let judgement = judged(&job, &criteria(EvidenceRule::Judged));
        assert_ne!(judgement.verdict, Verdict::Fail, "{report}: {:?}", judgement.reasons);
        assert!(judgement.suspects.is_empty(), "{report}: {:?}", judgement.suspects);
        assert_eq!(drained(&job).await, [""; 0], "{report}");
    }
}

#[tokio::test]
async fn a_fault_drains_its_node() {
    let banner = "# Collective test starting: all_reduce_perf\n# Using devices\n";
    let fault = "n1: Test CUDA failure common.cu:892 'uncorrectable ECC error encountered'\n";
    assert_eq!(drained(&failed(format!("{banner}{fault}"))).await, ["n1"]);
}

/// Reports of faults that a check did not detect.
fn with_fault() -> Vec<(&'static str, Job)> {
    let good = passing_diagnosis();
    let down = "links \t Link 3: <inactive>";
    let both = ["before", "after"];
    let inactive = "links NVML: Unable to retrieve NVLink information as all links are inActive";
    let all_down =
        both.iter().fold(good.clone(), |log, moment| with_line(&log, moment, "links GPU ", inactive));
    let one_down = both.iter().fold(good.clone(), |log, moment| with_line(&log, moment, "links GPU 1", down));
    let fabric = changed(&good, &both, "No, No, Completed", "No, No, In Progress");
    let old_failure = changed(&good, &both, "0, 0, 0, No, No, Completed", "0, 0, 2, No, Yes, Completed");
    let remapped = changed(&good, &["after"], "0, 0, 0, No, No, Completed", "0, 0, 0, Yes, No, Completed");
    let kernel =
        changed(&good, &both, "kernel lines 371", "kernel unreadable dmesg: Operation not permitted");
    let unread = "dmesg: read kernel buffer failed: Operation not permitted\n-- end of kernel log --\n";
    let allocation = warning(56, 8, 4, "Couldn't allocate at least 75.0% of GPU memory on GPU 5");
    let skipped = result(6, "Skip", Value::Null);
    let killed = good.split("burnin evidence: vm after").next().unwrap();
    vec![
        ("NVIDIA/DCGM#198: all NVLinks are down", completed(all_down)),
        ("NVIDIA/DCGM#198: an NVLink is down", completed(one_down)),
        ("NVIDIA/NVSentinel#891: Fabric Manager has stopped", completed(fabric)),
        (
            "NVIDIA/DCGM#284: the memory test could not allocate",
            completed(diagnosis("memory", &[result(5, "Pass", allocation)])),
        ),
        (
            "NVIDIA/DCGM#139, #55: a plug-in was skipped on one GPU",
            completed(diagnosis("memory", &[skipped])),
        ),
        ("NVIDIA/DCGM#55: plug-ins were skipped", completed(on_all("memory", "Skip", &Value::Null))),
        (
            "NVIDIA/DCGM: a sample with skipped plug-ins",
            completed(sample("dcgm-diag/4.5.2-gb10-level2-plugins-gated.json")),
        ),
        ("Azure NHC: the kernel log cannot be read, in the evidence", completed(kernel)),
        ("Azure NHC: the kernel log cannot be read", completed(unread)),
        ("Azure NHC: the kernel log is empty", completed("-- end of kernel log --\n")),
        ("Azure NHC: a row remapping is pending", completed(remapped)),
        ("Azure NHC: a row could not be remapped before the job", completed(old_failure)),
        ("soperator: an error with exit code 0", completed("ERROR: unsupported platform\n")),
        ("soperator: no output with exit code 0", completed("")),
        ("IBM/autopilot#68: failed tests in a healthy node", completed(sample("dcgm-diag/3.3-own.json"))),
        ("wilicc/gpu-burn: FAULTY with exit code 0", completed(sample("gpu-burn/faulty.txt"))),
        ("ROCm/cvs: unchecked data", completed(file("tests/data/nccl/h200/pair-healthy-0,1.log"))),
        (
            "ROCm/cvs: the number of wrong elements is not a number",
            completed(all_reduce().replace("330.61  330.61       0", "330.61  330.61     nan")),
        ),
        ("dcgmi: exit code 226 without a finding", failed(diagnosis("memory", &[]))),
        ("the node stopped before it printed its evidence after the job", completed(killed)),
    ]
}

#[test]
fn reports_of_a_fault_never_pass() {
    let criteria = criteria(EvidenceRule::Required);
    for (report, job) in with_fault() {
        // A rule that requires evidence makes a log without evidence inconclusive, which would hide an undetected fault: judge such logs
        // without the rule.
        let rule =
            if job.log.contains("burnin evidence: ") { EvidenceRule::Required } else { EvidenceRule::Off };
        let criteria = Criteria { evidence: rule, ..criteria.clone() };
        let judgement = judged(&job, &criteria);
        assert_ne!(judgement.verdict, Verdict::Pass, "{report}: {:?}", judgement.reasons);
    }
}

/// dcgmi of DCGM 4 exits with 226 for each kind of finding, so the document of a complete diagnosis decides.
#[test]
fn exit_code_226_of_dcgm_4_is_judged_by_the_document() {
    let verdict = |log: String, exit_code| {
        let reading = measure::read(log.as_bytes()).unwrap();
        assert_eq!(reading.format.as_deref(), Some("dcgm-diag"));
        let (clues, criteria) = (Clues::default(), criteria(EvidenceRule::Off));
        let job = JobEnd::new(if exit_code == 0 { "COMPLETED" } else { "FAILED" }, Some(exit_code));
        let evidence = RunEvidence { job: Some(&job), ..RunEvidence::of(&reading, &clues) };
        verdict::judge(&evidence, &Standard { criteria: Some(&criteria), ..Standard::default() })
    };
    let four = |results: &[Value]| diagnosis("memory", results);
    let hardware = four(&[result(2, "Fail", warning(58, 10, 2, "Memory mismatch: 12 errors"))]);
    let failed = verdict(hardware, 226);
    assert_eq!((failed.verdict, failed.suspects[0].gpu), (Verdict::Fail, Some(2)), "{:?}", failed.reasons);
    let setting = four(&[result(2, "Fail", warning(29, 8, 5, "Persistence mode for GPU 2 is disabled."))]);
    let open = verdict(setting, 226);
    assert_eq!((open.verdict, open.suspects.len()), (Verdict::Inconclusive, 0), "{:?}", open.reasons);
    // Exit status 226 reports a fault, which this document does not contain.
    let clean = verdict(four(&[]), 226);
    assert_eq!(clean.verdict, Verdict::Inconclusive, "{:?}", clean.reasons);
    assert!(clean.reasons[0].text.contains("226"), "the reason states the code: {:?}", clean.reasons);
    assert_eq!(verdict(four(&[]), 0).verdict, Verdict::Pass);
    // These real documents of DCGM 4 each contain a finding or a skipped plug-in.
    for name in
        ["4.4-own.json", "4.2.3-gb10-level2-partial-skip.json", "4.5.2-gb10-level2-plugins-gated.json"]
    {
        let judgement = verdict(sample(&format!("dcgm-diag/{name}")), 226);
        assert_ne!(judgement.verdict, Verdict::Pass, "{name}: {:?}", judgement.reasons);
    }
    // A document that was truncated because the node stopped never passes, regardless of the status.
    let text = four(&[]);
    for exit_code in [0, 226] {
        assert_ne!(verdict(text[..text.len() / 2].to_owned(), exit_code).verdict, Verdict::Pass);
    }
}

/// All kinds of findings have the same exit status, so the status cannot decide the verdict.
#[test]
fn the_findings_of_a_failed_diagnosis_decide_the_verdict() {
    let verdict = |warning: Value| {
        let job = failed(diagnosis("nvlink", &[result(2, "Fail", warning)]));
        let judgement = judged(&job, &criteria(EvidenceRule::Off));
        (judgement.verdict, judgement.suspects.first().and_then(|suspect| suspect.gpu))
    };
    assert_eq!(
        verdict(warning(14, 11, 4, "GPU 2's NvLink link 3 is currently down")),
        (Verdict::Fail, Some(2))
    );
    assert_eq!(
        verdict(warning(29, 8, 5, "Persistence mode for GPU 2 is disabled.")),
        (Verdict::Inconclusive, None)
    );
}

/// A test that the diagnosis omitted has no result to judge, so the criteria name the expected tests.
#[test]
fn an_omitted_test_is_reported_as_not_measured() {
    let job = completed(diagnosis("memory", &[]));
    let expected = |metric: &str| {
        let criterion = MetricCriterion {
            metric: metric.to_owned(),
            equals: Some(1.0),
            subjects: Some(8),
            ..MetricCriterion::default()
        };
        judged(&job, &Criteria { metrics: vec![criterion], ..Criteria::named("expected") })
    };
    assert_eq!(expected("dcgm.memory").verdict, Verdict::Pass);
    let missed = expected("dcgm.targeted_power");
    assert_eq!((missed.verdict, missed.reasons[0].code.as_str()), (Verdict::Inconclusive, "NOT_MEASURED"));
}

/// The logs of the rows above, without the reported faults.
#[test]
fn the_same_logs_without_the_fault_pass() {
    let required = criteria(EvidenceRule::Required);
    for log in [passing_diagnosis(), all_reduce()] {
        let judgement = judged(&completed(log), &required);
        assert_eq!(judgement.verdict, Verdict::Pass, "{:?}", judgement.reasons);
    }
    let off = criteria(EvidenceRule::Off);
    for log in [
        diagnosis("memory", &[]),
        sample("kernel-log/journal.log").lines().take(3).collect::<Vec<_>>().join("\n")
            + "\n-- end of kernel log --\n",
    ] {
        let judgement = judged(&completed(log), &off);
        assert_eq!(judgement.verdict, Verdict::Pass, "{:?}", judgement.reasons);
    }
}
