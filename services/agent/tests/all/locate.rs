//! Searches for bad nodes on a simulated scheduler, interrupted at every point.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    io::Cursor,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use agent::{CollectLimits, Collector, Locator};
use cluster_api::{JobSpec, JobStatus, Outputs, Scheduler};
use ledger::{Artefacts, MemoryStore, ObjectReader};
use model::{
    AfterPass, Attempt, Class, Cluster, ClusterAccess, Collective, CommandId, Drain, Drained, Fact, Failure,
    JobEnd, Locate, Node, NodeSearch, Program, Retest, RetestedNode, Returned, Stage, Suspects, Timestamp,
    Verb, Workload,
};
use redact::Rules;
use service::{PollResult, PortError};

/// A submitted pair, its number of polls, and its planned end.
type SubmittedPair = (JobSpec, u32, Option<&'static str>);

/// Each pair ends at its second poll. A pair with a bad node takes ten times as long.
#[derive(Default)]
struct PairsScheduler {
    bad: BTreeSet<&'static str>,
    refuses: Option<usize>,
    wrong: bool,
    mute: bool,
    /// Code with which the scheduler reports the loss of a pair with a bad node.
    lost: Option<&'static str>,
    /// Error code of polls of pairs with a bad node.
    fails: Option<&'static str>,
    released: Mutex<BTreeSet<String>>,
    /// Whether submissions are reported as failed and take effect later.
    lands_late: bool,
    late: Mutex<Vec<JobSpec>>,
    /// Number of polls after which the search is cancelled.
    meddled: AtomicU32,
    meddler: OnceLock<Locator>,
    begun_by_then: OnceLock<usize>,
    jobs: Mutex<BTreeMap<String, SubmittedPair>>,
    fenced: Mutex<BTreeSet<String>>,
    drained: Mutex<Vec<String>>,
    returned: Mutex<Vec<String>>,
    /// Number of calls that succeed before one fails.
    lasts: AtomicU32,
}

impl PairsScheduler {
    fn call(&self) -> Result<(), PortError> {
        match self.lasts.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(1) => {
                self.lasts.store(u32::MAX, Relaxed);
                Err(PortError::Transient("the connection broke".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn fence(&self, name: &str) -> Option<&'static str> {
        self.fenced.lock().unwrap().contains(name).then_some("CANCELLED")
    }

    /// Delivers all submissions in flight.
    fn deliver_late_submissions(&self) {
        for job in self.late.lock().unwrap().drain(..) {
            let end = self.fence(&job.name);
            self.jobs.lock().unwrap().entry(job.name.clone()).or_insert((job, 0, end));
        }
    }

    fn active_pairs(&self) -> usize {
        let jobs = self.jobs.lock().unwrap();
        jobs.values().filter(|(_, looks, end)| *looks < 2 && end.is_none()).count()
    }
}

#[async_trait::async_trait]
impl Scheduler for PairsScheduler {
    async fn submit(&self, job: &JobSpec) -> Result<String, PortError> {
        self.call()?;
        assert_eq!(job.cluster.nodes.len(), 2);
        let workload = job.program.workload().unwrap();
        assert_eq!((workload.min_bytes, workload.max_bytes), (8 << 20, 8 << 20));
        let mut jobs = self.jobs.lock().unwrap();
        if self.refuses.is_some_and(|most| jobs.len() >= most) {
            let failure = Failure::new(Class::Input, "REFUSED", "this scheduler refuses jobs of two nodes");
            return Err(PortError::Permanent(failure));
        }
        if self.lands_late {
            self.late.lock().unwrap().push(job.clone());
            return Err(PortError::Transient("deadline exceeded".to_owned()));
        }
        let known = jobs.insert(job.name.clone(), (job.clone(), 0, self.fence(&job.name)));
        assert!(known.is_none(), "{} is submitted twice", job.name);
        Ok(job.name.clone())
    }

    async fn poll(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        self.call()?;
        if self.meddled.fetch_sub(1, Relaxed) == 1
            && let Some(locator) = self.meddler.get()
        {
            locator.cancel(&id()).await.unwrap();
            let _ = self.begun_by_then.set(self.jobs.lock().unwrap().len());
        }
        let mut jobs = self.jobs.lock().unwrap();
        let Some((_, looks, end)) = jobs.get_mut(name) else { return Ok(JobStatus::Absent) };
        *looks += 1;
        if *looks < 2 && end.is_none() {
            return Ok(JobStatus::Active);
        }
        if cluster.nodes.iter().any(|node| self.bad.contains(&*node.name)) {
            let why = "taken away".to_owned();
            if let Some(code) = self.lost {
                return Ok(JobStatus::Lost { code: code.to_owned(), why });
            }
            if let Some(code) = self.fails {
                return Err(PortError::Permanent(Failure::new(Class::Infrastructure, code, why)));
            }
        }
        Ok(JobStatus::Ended(JobEnd::new(end.unwrap_or("COMPLETED"), Some(0))))
    }

    async fn release(&self, _: &Cluster, name: &str) -> Result<(), PortError> {
        self.call()?;
        self.released.lock().unwrap().insert(name.to_owned());
        Ok(())
    }

    async fn cancel(&self, _: &Cluster, name: &str) -> Result<(), PortError> {
        self.call()?;
        self.fenced.lock().unwrap().insert(name.to_owned());
        if let Some((_, looks, end)) = self.jobs.lock().unwrap().get_mut(name)
            && *looks < 2
        {
            *end = Some("CANCELLED");
        }
        Ok(())
    }

    async fn outputs(&self, _: &Cluster, _: &str) -> Result<Outputs, PortError> {
        self.call()?;
        Ok(["benchmark.log"].into_iter().collect())
    }

    async fn output(&self, cluster: &Cluster, name: &str, _: &str) -> Result<ObjectReader, PortError> {
        self.call()?;
        let bad = cluster.nodes.iter().any(|node| self.bad.contains(&*node.name));
        let job = &self.jobs.lock().unwrap()[name].0;
        assert_eq!(&job.cluster, cluster);
        let (time, wrong) = match bad {
            true if self.wrong => (100.0, 3),
            true => (1000.0, 0),
            false => (100.0, 0),
        };
        Ok(Box::new(Cursor::new(if self.mute { String::new() } else { log(time, wrong) })))
    }

    fn drain_command(&self, _: &Cluster, node: &str, reason: &str) -> Option<String> {
        Some(format!("drain {node} '{reason}'"))
    }

    async fn drain(&self, _: &Cluster, node: &str, reason: &str) -> Result<(), PortError> {
        self.call()?;
        self.drained.lock().unwrap().push(format!("{node}: {reason}"));
        Ok(())
    }

    fn return_command(&self, _: &Cluster, node: &str) -> Option<String> {
        Some(format!("return {node}"))
    }

    async fn return_node(&self, _: &Cluster, node: &str) -> Result<(), PortError> {
        self.call()?;
        if node == "n9" {
            let why = "n9 is out of service for another reason: bad fan";
            return Err(PortError::Permanent(Failure::new(Class::Input, "NOT_RETURNED", why)));
        }
        self.returned.lock().unwrap().push(node.to_owned());
        Ok(())
    }
}

fn log(time: f64, wrong: u32) -> String {
    let mut text = "# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8388608 step: 2(factor) warmup iters: 1 iters: 5 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n".to_owned();
    for rank in 0..2 {
        _ = writeln!(text, "#  Rank {rank:2} Group  0 Pid  10{rank} on     n{rank} device  0 [cpu:00] CPU");
    }
    text += "#\n#                                                              out-of-place                       in-place\n#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n";
    // The bandwidth is printed as 0.01 or less, so only the time is precise.
    let half = format!("{time:7.2}    0.00    0.00  {wrong:6}");
    _ = writeln!(text, "     8388608       2097152     float     sum      -1  {half}  {half}");
    text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.00\n#\n"
}

fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(|node| Node::new(format!("n{node}"), 1)).collect()
}

fn search(count: usize, locate: Locate) -> NodeSearch {
    NodeSearch {
        environment: Default::default(),
        cluster: Cluster {
            name: "lab".into(),
            nodes: nodes(count),
            access: ClusterAccess::processes("/lab"),
        },
        image: None,
        program: Program::NcclTests(Workload {
            collective: Collective::AllReduce,
            min_bytes: 8,
            max_bytes: 8 << 20,
            step_factor: 2,
            iterations: 5,
            warmup_iterations: 1,
            check: true,
            datatype: None,
            extra_args: Default::default(),
        }),
        metrics: Vec::new(),
        better: Default::default(),
        job_attempt: Attempt::FIRST,
        locate,
        ends_at: Timestamp::from_millis(600_000),
        retest: None,
        drains_left: None,
        drained: Vec::new(),
        suspected: Vec::new(),
    }
}

fn id() -> CommandId {
    CommandId {
        run: "lab-1".parse().unwrap(),
        stage: Stage::Locate,
        attempt: Attempt::FIRST,
        verb: Verb::Start,
    }
}

struct LocatedJob {
    paper: Arc<PairsScheduler>,
    locator: Locator,
}

impl LocatedJob {
    fn new(paper: PairsScheduler) -> Self {
        paper.lasts.store(u32::MAX, Relaxed);
        let paper = Arc::new(paper);
        let scheduler: Arc<dyn Scheduler> = Arc::clone(&paper) as _;
        let collector = Collector {
            scheduler: Arc::clone(&scheduler),
            artefacts: Artefacts::in_place(Arc::new(MemoryStore::default())),
            rules: Rules::of_patterns(),
            limits: CollectLimits::default(),
        };
        Self { paper, locator: Locator { scheduler, collector } }
    }

    /// Steps until the end; failed calls are repeated.
    async fn end(&self, search: &NodeSearch, at: i64) -> Fact {
        for _ in 0..500 {
            match self.locator.step(&id(), search, Timestamp::from_millis(at)).await {
                Ok(PollResult::Ended(fact)) => return fact,
                Ok(PollResult::Running) | Err(PortError::Transient(_)) => {}
                Err(PortError::Permanent(failure)) => return Fact::NodesFailed(failure),
            }
        }
        panic!("timeout: the search has not ended");
    }

    async fn located(&self, search: &NodeSearch) -> Suspects {
        match self.end(search, 0).await {
            Fact::NodesLocated(suspects) => suspects,
            other => panic!("{other:?}"),
        }
    }
}

fn named(suspects: &Suspects) -> Vec<&str> {
    suspects.nodes.iter().map(|suspect| suspect.node.as_str()).collect()
}

#[tokio::test]
async fn the_bad_node_is_located_with_its_drain_command() {
    for wrong in [false, true] {
        let bed = LocatedJob::new(PairsScheduler { bad: ["n3"].into(), wrong, ..PairsScheduler::default() });
        let search = search(8, Locate::default());
        let suspects = bed.located(&search).await;
        assert_eq!(named(&suspects), ["n3"]);
        let command = "drain n3 'burnin lab-1: slow or wrong in pairs'".to_owned();
        assert_eq!(suspects.nodes[0].drained, Drained::Proposed { command, why: None });
        assert_eq!(suspects.undecided, None);
        assert_eq!(suspects.tests as usize, bed.paper.jobs.lock().unwrap().len());
        assert!(suspects.best_busbw.is_some_and(|busbw| (busbw - 83.9).abs() < 0.1), "{suspects:?}");
        assert_eq!(bed.located(&search).await, suspects, "a repeated step returns the same result");
        assert!(bed.paper.drained.lock().unwrap().is_empty(), "no node was changed");
        let released = bed.paper.released.lock().unwrap();
        assert!(bed.paper.jobs.lock().unwrap().keys().all(|pair| released.contains(pair)), "{released:?}");
    }
}

/// The program printed the name of the host with its domain.
#[tokio::test]
async fn a_node_that_the_verdict_suspects_is_located_with_half_of_the_pairs() {
    let tests = async |suspected: &[&str]| {
        let bed = LocatedJob::new(PairsScheduler { bad: ["n7"].into(), ..PairsScheduler::default() });
        let suspected = suspected.iter().map(|host| (*host).to_owned()).collect();
        let suspects = bed.located(&NodeSearch { suspected, ..search(24, Locate::default()) }).await;
        assert_eq!(named(&suspects), ["n7"]);
        suspects.tests
    };
    let (without, with) = (tests(&[]).await, tests(&["n7.lab.example"]).await);
    assert!(
        with <= without / 2 + 3,
        "a search needs {with} pairs with a suspect and {without} pairs without a suspect"
    );
    assert!(tests(&["n2"]).await <= without + 2);
}

/// A node that is lost during its pairs is bad. A node whose pairs are preempted or cannot be placed is not.
#[tokio::test]
async fn preempted_pairs_do_not_count_against_their_nodes() {
    let search = search(6, Locate::default());
    for lost in ["NODE_FAIL", "NODE_LOST"] {
        let bed = LocatedJob::new(PairsScheduler {
            bad: ["n2"].into(),
            lost: Some(lost),
            ..PairsScheduler::default()
        });
        assert_eq!(named(&bed.located(&search).await), ["n2"], "{lost}");
    }
    for lost in ["PREEMPTED", "REQUEUED", "DELETED", "EVICTED"] {
        let bed = LocatedJob::new(PairsScheduler {
            bad: ["n1", "n2"].into(),
            lost: Some(lost),
            ..PairsScheduler::default()
        });
        let suspects = bed.located(&search).await;
        assert!(suspects.nodes.is_empty(), "{lost}: {suspects:?}");
        let undecided = suspects.undecided.unwrap();
        assert!(undecided.contains("unknown: n1, n2") && undecided.contains(lost), "{undecided}");
    }
    for fails in ["UNSCHEDULABLE", "SSH_REFUSED"] {
        let bed = LocatedJob::new(PairsScheduler {
            bad: ["n1", "n2"].into(),
            fails: Some(fails),
            ..PairsScheduler::default()
        });
        let suspects = bed.located(&search).await;
        let undecided = suspects.undecided.unwrap_or_default();
        assert!(suspects.nodes.is_empty() && undecided.contains(fails), "{undecided}");
    }
}

/// A search that ends a re-test of these nodes.
fn retest(nodes: &[&str], after_pass: AfterPass) -> NodeSearch {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    NodeSearch { retest: Some(Retest { nodes, after_pass }), ..search(4, Locate::default()) }
}

#[tokio::test]
async fn nodes_that_passed_their_re_test_are_returned_or_their_return_is_proposed() {
    let proposed = LocatedJob::new(PairsScheduler::default());
    let ended = proposed.located(&retest(&["n1"], AfterPass::Propose)).await;
    let command = "return n1".to_owned();
    assert_eq!(
        ended.retested,
        [RetestedNode { node: "n1".into(), returned: Returned::Proposed { command } }]
    );
    assert!(proposed.paper.returned.lock().unwrap().is_empty(), "no node was changed");

    let bed = LocatedJob::new(PairsScheduler::default());
    let search = retest(&["n1", "n9", "n2"], AfterPass::Return);
    let ended = bed.located(&search).await;
    let actions: Vec<_> = ended.retested.iter().map(|it| (it.node.as_str(), &it.returned)).collect();
    let why = "n9 is out of service for another reason: bad fan".to_owned();
    let left = Returned::Left { why };
    assert_eq!(actions, [("n1", &Returned::Applied), ("n9", &left), ("n2", &Returned::Applied)]);
    assert_eq!(bed.located(&search).await, ended, "a repeated step reads the first result");
    assert_eq!(*bed.paper.returned.lock().unwrap(), ["n1", "n2"]);
    assert!(ended.nodes.is_empty() && ended.tests == 0, "no pair was run");
}

#[tokio::test]
async fn a_cancelled_re_test_returns_no_node() {
    let bed = LocatedJob::new(PairsScheduler::default());
    bed.locator.cancel(&id()).await.unwrap();
    let search = retest(&["n1"], AfterPass::Return);
    assert!(matches!(bed.end(&search, 0).await, Fact::NodesFailed(failure) if failure.code == "CANCELLED"));
    assert!(bed.paper.returned.lock().unwrap().is_empty());
}

#[tokio::test]
async fn at_most_the_allowed_number_of_nodes_is_drained() {
    let bed = LocatedJob::new(PairsScheduler { bad: ["n3", "n6"].into(), ..PairsScheduler::default() });
    let locate = Locate { drain: Drain::Apply, ..Locate::default() };
    let suspects = bed.located(&search(12, locate)).await;
    let mut both = named(&suspects);
    both.sort_unstable();
    assert_eq!(both, ["n3", "n6"]);
    assert!(matches!(suspects.nodes[0].drained, Drained::Applied { .. }));
    assert!(matches!(suspects.nodes[1].drained, Drained::Proposed { .. }));
    assert_eq!(bed.paper.drained.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn earlier_searches_of_the_run_reduce_the_number_of_nodes_to_drain() {
    let locate = Locate { drain: Drain::Apply, drain_at_most: 2, ..Locate::default() };
    let after = async |drains_left: u32, drained: &[&str]| {
        let bed = LocatedJob::new(PairsScheduler { bad: ["n3", "n6"].into(), ..PairsScheduler::default() });
        let drained = drained.iter().map(|node| (*node).to_owned()).collect();
        let search = NodeSearch { drains_left: Some(drains_left), drained, ..search(12, locate) };
        let suspects = bed.located(&search).await;
        assert_eq!(suspects.nodes.len(), 2, "the search names both nodes");
        let mut changed = bed.paper.drained.lock().unwrap().clone();
        changed.sort_unstable();
        (suspects, changed)
    };
    let (suspects, changed) = after(0, &["n1", "n2"]).await;
    assert!(changed.is_empty(), "{changed:?}");
    for suspect in &suspects.nodes {
        let Drained::Proposed { command, why: Some(why) } = &suspect.drained else { panic!("{suspect:?}") };
        assert!(command.starts_with(&format!("drain {}", suspect.node)), "{command}");
        assert_eq!(
            why,
            "the run may drain at most 2 nodes (locate.drain_at_most), and its earlier searches drained 2"
        );
    }
    let (suspects, changed) = after(1, &["n1"]).await;
    assert_eq!((changed.len(), changed[0].split(':').next()), (1, Some(suspects.nodes[0].node.as_str())));
    let reason = "burnin lab-1: slow or wrong in pairs";
    let both = ["n3", "n6"].map(|node| format!("{node}: {reason}"));
    for first in ["n3", "n6"] {
        let (_, changed) = after(1, &[first]).await;
        assert_eq!(changed, both, "{first} was drained before and does not count again");
    }
    let (suspects, changed) = after(0, &["n6", "n1"]).await;
    assert_eq!(changed, both[1..], "n6 was drained before");
    let again = suspects.nodes.iter().find(|suspect| suspect.node == "n6").unwrap();
    assert_eq!(again.drained, Drained::Applied { reason: reason.into() });
}

#[tokio::test]
async fn without_evidence_no_node_is_suspected() {
    let search = search(4, Locate::default());
    let healthy = LocatedJob::new(PairsScheduler::default());
    let suspects = healthy.located(&search).await;
    assert!(
        suspects.nodes.is_empty() && suspects.undecided.is_some_and(|why| why.contains("perform equally"))
    );
    let mute =
        LocatedJob::new(PairsScheduler { bad: ["n1"].into(), mute: true, ..PairsScheduler::default() });
    let suspects = mute.located(&search).await;
    assert!(suspects.nodes.is_empty() && suspects.undecided.is_some());
    let two = LocatedJob::new(PairsScheduler { bad: ["n1"].into(), ..PairsScheduler::default() });
    let suspects = two.located(&self::search(2, Locate::default())).await;
    assert!(
        suspects.nodes.is_empty() && suspects.undecided.is_some_and(|why| why.contains("which of two nodes"))
    );
    assert!(two.paper.jobs.lock().unwrap().is_empty());
}

/// After any failed call the search continues: it tests the same pairs, each once, and returns the same result.
#[tokio::test]
async fn failed_calls_do_not_change_the_result() {
    let search = search(6, Locate { drain: Drain::Apply, ..Locate::default() });
    let calm = LocatedJob::new(PairsScheduler { bad: ["n2"].into(), ..PairsScheduler::default() });
    let expected = calm.located(&search).await;
    let pairs: Vec<String> = calm.paper.jobs.lock().unwrap().keys().cloned().collect();
    for call in 1..60 {
        let bed = LocatedJob::new(PairsScheduler { bad: ["n2"].into(), ..PairsScheduler::default() });
        bed.paper.lasts.store(call, Relaxed);
        assert_eq!(bed.located(&search).await, expected, "the result differs after call {call} failed");
        assert_eq!(bed.paper.jobs.lock().unwrap().keys().cloned().collect::<Vec<_>>(), pairs);
    }
}

#[tokio::test]
async fn a_cancelled_search_leaves_no_pair_running() {
    for steps in 0..4 {
        for broken in 1..12 {
            let bed = LocatedJob::new(PairsScheduler { bad: ["n2"].into(), ..PairsScheduler::default() });
            let search = search(6, Locate::default());
            for _ in 0..steps {
                drop(bed.locator.step(&id(), &search, Timestamp::from_millis(0)).await);
            }
            bed.locator.cancel(&id()).await.unwrap();
            bed.paper.lasts.store(broken, Relaxed);
            let fact = bed.end(&search, 0).await;
            assert!(matches!(&fact, Fact::NodesFailed(failure) if failure.class == Class::Cancelled));
            assert_eq!(bed.paper.active_pairs(), 0, "a pair runs after {steps} steps and a cancel");
            // An agent that missed the cancel starts no pair.
            let jobs = bed.paper.jobs.lock().unwrap().len();
            assert_eq!(bed.end(&search, 0).await, fact);
            assert_eq!(bed.paper.jobs.lock().unwrap().len(), jobs);
        }
    }
}

/// A submission that is reported as failed may still arrive after the end of the search.
#[tokio::test]
async fn a_late_submission_of_a_pair_does_not_start() {
    for (at, cancelled) in [(0, true), (600_000, false)] {
        let bed = LocatedJob::new(PairsScheduler { lands_late: true, ..PairsScheduler::default() });
        let search = search(6, Locate::default());
        drop(bed.locator.step(&id(), &search, Timestamp::from_millis(0)).await);
        assert!(!bed.paper.late.lock().unwrap().is_empty());
        if cancelled {
            bed.locator.cancel(&id()).await.unwrap();
        }
        bed.end(&search, at).await;
        bed.paper.deliver_late_submissions();
        assert!(!bed.paper.jobs.lock().unwrap().is_empty());
        assert_eq!(bed.paper.active_pairs(), 0);
    }
}

/// Another process ends the search during a step; the step receives no notification.
#[tokio::test]
async fn an_outdated_step_starts_no_pair() {
    for poll in 1..20 {
        let bed = LocatedJob::new(PairsScheduler { bad: ["n2"].into(), ..PairsScheduler::default() });
        bed.paper.meddled.store(poll, Relaxed);
        let _ = bed.paper.meddler.set(bed.locator.clone());
        let search = search(6, Locate::default());
        let fact = bed.end(&search, 0).await;
        if let Some(started) = bed.paper.begun_by_then.get() {
            assert_eq!(
                bed.paper.jobs.lock().unwrap().len(),
                *started,
                "search stopped at poll {poll}: {fact:?}"
            );
        }
        assert_eq!(bed.paper.active_pairs(), 0);
    }
}

#[tokio::test]
async fn at_the_time_limit_the_partial_result_is_reported() {
    let bed = LocatedJob::new(PairsScheduler { bad: ["n2"].into(), ..PairsScheduler::default() });
    let search = search(6, Locate::default());
    drop(bed.locator.step(&id(), &search, Timestamp::from_millis(0)).await);
    assert!(bed.paper.active_pairs() > 0);
    let Fact::NodesLocated(suspects) = bed.end(&search, 600_000).await else { panic!() };
    assert_eq!(bed.paper.active_pairs(), 0);
    assert!(suspects.nodes.is_empty());
    assert!(suspects.undecided.is_some_and(|why| why.contains("limits.locate")));
}

#[tokio::test]
async fn a_refused_pair_ends_the_search_after_the_running_pairs() {
    let bed = LocatedJob::new(PairsScheduler { refuses: Some(2), ..PairsScheduler::default() });
    let search = search(6, Locate::default());
    let Fact::NodesFailed(failure) = bed.end(&search, 0).await else { panic!() };
    assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "REFUSED"));
    assert_eq!(bed.paper.active_pairs(), 0);
}
