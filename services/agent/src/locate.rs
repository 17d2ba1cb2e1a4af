//! Locates bad nodes: runs the benchmark on pairs of the job's nodes, round after round, until the results identify them. After a
//! re-test that passed, returns its nodes to service instead.
//!
//! Each step starts from the objects in the bucket, which are created once and never changed. A retry after a crash, or a
//! second agent, reads the same objects and performs the same step.
//!
//! ```text
//! artefacts/{run}/locate/{attempt}/
//!   nodes.json       nodes that the job ran on       over.json       reason why no new pair may start
//!   pair-{n}/...     the logs of the n-th pair       located.json    tests done, and their result
//!   pair-{n}.json    outcome of the n-th pair        retested.json   nodes that passed their re-test
//! ```

use std::{io::Cursor, sync::Arc};

use cluster_api::{JobSpec, JobStatus, Scheduler};
use ledger::{Artefacts, ArtifactOwner, ObjectReader};
use model::{
    AfterPass, Attempt, Class, Cluster, CommandId, Drain, Drained, Fact, Failure, NodeSearch, Program,
    Retest, RetestedNode, Returned, Span, SuspectNode, Suspects, Timestamp, Workload, count,
    failpoint_is_active, measurement::Reading,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use service::{PollResult, PortError};
use verdict::locate::{Located, PairOptions, SweepOutcome, Tried, best_of, from_tried, next_pairs};

mod outcome;

use outcome::{NODES_OWN, outcome, read};

use crate::{collect::Collector, job_name};

/// A pair cannot show which of two nodes is bad.
const LEAST_NODES: usize = 3;
/// Minimum time limit of a pair, even close to the deadline.
const LEAST_LIMIT: Span = Span::from_secs(10);

#[derive(Clone)]
pub struct Locator {
    /// Runs the pairs.
    pub scheduler: Arc<dyn Scheduler>,
    /// Collects the logs of the pairs.
    pub collector: Collector,
}

/// Reason why no new pair may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SearchEnd {
    Cancelled,
    TimeIsUp,
    Failed(Failure),
}

/// Content of `located.json`: all tests and their result.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SearchRecord {
    suspects: Suspects,
    located: Located,
    pairs: Vec<Tried>,
}

impl Locator {
    /// Stops a search: no new pair starts. The search has ended when a step reports its end.
    ///
    /// # Errors
    /// Returns an error if the bucket request fails.
    pub async fn cancel(&self, id: &CommandId) -> Result<(), PortError> {
        self.record_once(id, "over.json", &SearchEnd::Cancelled).await.map(drop)
    }

    /// Runs the next step of a search, without waiting.
    ///
    /// # Errors
    /// Returns an error if a request to the scheduler or the bucket fails; [`PortError::Permanent`] if the search cannot continue.
    pub async fn step(
        &self,
        id: &CommandId,
        search: &NodeSearch,
        now: Timestamp,
    ) -> Result<PollResult, PortError> {
        if let Some(retest) = &search.retest {
            return self.return_nodes(id, search, retest, now).await;
        }
        if let Some(SearchRecord { suspects, .. }) = self.read(id, "located.json").await? {
            return Ok(PollResult::Ended(Fact::NodesLocated(suspects)));
        }
        let mut search_end: Option<SearchEnd> = self.read(id, "over.json").await?;
        if search_end.is_none() && now >= search.ends_at {
            search_end = Some(self.record_once(id, "over.json", &SearchEnd::TimeIsUp).await?);
        }
        match self.run_rounds(id, search, now, search_end.as_ref()).await {
            // Running pairs must end before the failure is reported.
            Err(PortError::Permanent(failure)) if search_end.is_none() => {
                let search_end = self.record_once(id, "over.json", &SearchEnd::Failed(failure)).await?;
                self.run_rounds(id, search, now, Some(&search_end)).await
            }
            result => result,
        }
    }

    /// Runs all rounds up to the first incomplete one.
    async fn run_rounds(
        &self,
        id: &CommandId,
        search: &NodeSearch,
        now: Timestamp,
        search_end: Option<&SearchEnd>,
    ) -> Result<PollResult, PortError> {
        let Some(nodes) = self.nodes(id, search, search_end).await? else {
            return Ok(PollResult::Ended(stopped(search_end))); // no pair ever started
        };
        let options = PairOptions { tolerance: search.locate.tolerance, ..PairOptions::default() };
        let tests = search.locate.tests.map_or(4 * nodes.len(), |tests| tests as usize);
        let suspected: Vec<String> =
            nodes.iter().filter(|node| is_suspected(search, node)).cloned().collect();
        let mut tried: Vec<Tried> = Vec::new();
        while nodes.len() >= LEAST_NODES {
            let pairs = next_pairs(&nodes, &suspected, &tried, &options, tests);
            let first = tried.len() + 1;
            let mut round = Vec::new();
            let mut known = true;
            for (number, (a, b)) in pairs.iter().enumerate() {
                let pair = NodePair { id, search, number: first + number, ends: [a, b], now };
                let before = self.outcome(&pair).await?;
                known &= before.is_some();
                let outcome = match before {
                    None => self.pair(&pair, search_end).await?,
                    before => before,
                };
                if let Some(outcome) = outcome {
                    round.push(Tried { a: a.clone(), b: b.clone(), outcome });
                }
            }
            if round.len() < pairs.len() {
                return Ok(PollResult::Running);
            }
            tried.extend(round);
            // A round starts only after the previous round is complete.
            if pairs.is_empty() || (search_end.is_some() && !known) {
                break;
            }
        }
        match search_end {
            Some(SearchEnd::Cancelled | SearchEnd::Failed(_)) => Ok(PollResult::Ended(stopped(search_end))),
            None | Some(SearchEnd::TimeIsUp) => self.finish(id, search, &nodes, tried, search_end).await,
        }
    }

    /// Nodes of the search; `None` if the search was stopped before they were determined.
    async fn nodes(
        &self,
        id: &CommandId,
        search: &NodeSearch,
        search_end: Option<&SearchEnd>,
    ) -> Result<Option<Vec<String>>, PortError> {
        let known = self.read(id, "nodes.json").await?;
        if known.is_some() || matches!(search_end, Some(SearchEnd::Cancelled | SearchEnd::Failed(_))) {
            return Ok(known);
        }
        let nodes = self.scheduler.nodes(&search.cluster, &job_name(id, search.job_attempt)).await?;
        self.record_once(id, "nodes.json", &nodes).await.map(Some)
    }

    async fn outcome(&self, pair: &NodePair<'_>) -> Result<Option<SweepOutcome>, PortError> {
        self.read(pair.id, &pair.file()).await
    }

    /// Outcome of a pair; `None` while it runs. Starts the pair if necessary.
    async fn pair(
        &self,
        pair: &NodePair<'_>,
        search_end: Option<&SearchEnd>,
    ) -> Result<Option<SweepOutcome>, PortError> {
        let (cluster, name) = (self.scheduler.part(&pair.search.cluster, &pair.ends)?, pair.name());
        let mut status = self.poll_pair(&cluster, &name).await?;
        if search_end.is_some() && matches!(status, JobStatus::Absent | JobStatus::Active) {
            // A submission in flight must not start afterwards.
            self.scheduler.cancel(&cluster, &name).await?;
            status = self.poll_pair(&cluster, &name).await?;
        }
        let outcome = match status {
            JobStatus::Active => return Ok(None),
            JobStatus::Absent if search_end.is_some() => {
                SweepOutcome::Void { why: "the pair was not started".to_owned() }
            }
            JobStatus::Absent => {
                // Another agent may have stopped the search since this step started. If a stop follows, the next step derives this pair
                // from the stored outcomes, and cancels the pair by its name.
                let ended: Option<SearchEnd> = self.read(pair.id, "over.json").await?;
                if ended.is_none() {
                    self.scheduler.submit(&pair.job(cluster)).await?;
                }
                return Ok(None);
            }
            JobStatus::Lost { code, why } if code == "CLUSTER_GONE" => {
                return Err(PortError::Permanent(Failure::new(Class::Infrastructure, code, why)));
            }
            JobStatus::Lost { code, why } if search_end.is_none() && NODES_OWN.contains(&code.as_str()) => {
                SweepOutcome::Broken { why: format!("{code}: {why}") }
            }
            // The job was preempted or deleted for reasons outside the pair.
            JobStatus::Lost { code, why } => SweepOutcome::Void { why: format!("{code}: {why}") },
            JobStatus::Yielded { why } => SweepOutcome::Void { why },
            JobStatus::Ended(end) => {
                let readings = self.logs(pair).await?;
                outcome(&end, pair.search, &readings)
            }
        };
        // Release before recording: a recorded pair is never polled again.
        self.scheduler.release(&cluster, &name).await?;
        self.record_once(pair.id, &pair.file(), &outcome).await.map(Some)
    }

    /// State of a pair. An infrastructure failure of a pair does not end the search.
    async fn poll_pair(&self, cluster: &Cluster, name: &str) -> Result<JobStatus, PortError> {
        match self.scheduler.poll(cluster, name).await {
            Err(PortError::Permanent(Failure { class: Class::Infrastructure, code, message, .. })) => {
                Ok(JobStatus::Lost { code, why: message })
            }
            status => status,
        }
    }

    /// Parsed logs of a pair.
    async fn logs(&self, pair: &NodePair<'_>) -> Result<Vec<Reading>, PortError> {
        let (part, cluster) = (pair.part(), self.scheduler.part(&pair.search.cluster, &pair.ends)?);
        let owner = ArtifactOwner { command: pair.id, part: Some(&part) };
        let logs = self.collector.collect_for(owner, &cluster, &[(Attempt::FIRST, pair.name())]).await?;
        let program = pair.search.program.clone();
        let read = self.collector.artefacts.logs(&logs, Attempt::FIRST, move |log| read(&program, log));
        Ok(read.await?.into_iter().map(|(_, reading)| reading).collect())
    }

    async fn finish(
        &self,
        id: &CommandId,
        search: &NodeSearch,
        nodes: &[String],
        pairs: Vec<Tried>,
        search_end: Option<&SearchEnd>,
    ) -> Result<PollResult, PortError> {
        let options = PairOptions { tolerance: search.locate.tolerance, ..PairOptions::default() };
        let mut located = from_tried(nodes, &pairs, &options);
        if failpoint_is_active("a_good_node_is_named") {
            let other = |name: &str| nodes.iter().find(|node| *node != name).cloned();
            located.suspects.iter_mut().for_each(|bad| bad.host = bad.host.as_deref().and_then(other));
        }
        let mut named = Vec::new();
        let mut left = search.drains_left.unwrap_or(search.locate.drain_at_most);
        for suspect in &located.suspects {
            let Some(node) = suspect.host.clone() else { continue };
            let counted = search.drained.contains(&node);
            let drained = self.drain(id, search, &node, counted || left > 0).await?;
            left = if counted { left } else { left.saturating_sub(1) };
            named.push(SuspectNode { node, confidence: suspect.confidence, drained });
        }
        let undecided = match (nodes.len() < LEAST_NODES, &located.undecided) {
            (true, _) => Some("a pair cannot show which of two nodes is bad; add a third node".to_owned()),
            (_, Some(why)) if search_end.is_some() => Some(format!("time limit reached (limits.locate): {why}")),
            (_, Some(why)) => Some(why.clone()),
            (_, None) if located.healthy => Some(
                "all pairs perform equally: the fault affects all nodes alike, or appears only with more nodes"
                    .to_owned(),
            ),
            (_, None) => None,
        };
        let ran = pairs.iter().filter(|pair| !matches!(pair.outcome, SweepOutcome::Void { .. }));
        let suspects = Suspects {
            nodes: named,
            links: located.links.iter().map(|link| [link.a.clone(), link.b.clone()]).collect(),
            undecided,
            tests: u32::try_from(ran.count()).unwrap_or(u32::MAX),
            // Only nccl-tests measure in GB/s; the units of other programs differ.
            best_busbw: search.program.workload().and_then(|_| best_of(&pairs)),
            object: Artefacts::folder(id) + "located.json",
            retested: Vec::new(),
        };
        let record = SearchRecord { suspects, located, pairs };
        let SearchRecord { suspects, .. } = self.record_once(id, "located.json", &record).await?;
        Ok(PollResult::Ended(Fact::NodesLocated(suspects)))
    }

    async fn drain(
        &self,
        id: &CommandId,
        search: &NodeSearch,
        node: &str,
        may: bool,
    ) -> Result<Drained, PortError> {
        let (cluster, reason) = (&search.cluster, Drained::reason(&id.run));
        let Some(command) = self.scheduler.drain_command(cluster, node, &reason) else {
            let why = "nodes of this kind of cluster cannot be drained".to_owned();
            return Ok(Drained::Left { why });
        };
        if search.locate.drain == Drain::Propose {
            return Ok(Drained::Proposed { command, why: None });
        }
        if !may {
            return Ok(Drained::Proposed { command, why: Some(none_left(search)) });
        }
        match self.scheduler.drain(cluster, node, &reason).await {
            Ok(()) => Ok(Drained::Applied { reason }),
            Err(PortError::Permanent(failure)) => Ok(Drained::Left { why: failure.message }),
            Err(error) => Err(error),
        }
    }

    /// Ends a re-test that passed: returns its nodes to service, or proposes their return. If one node cannot be returned, the others still
    /// are.
    async fn return_nodes(
        &self,
        id: &CommandId,
        search: &NodeSearch,
        retest: &Retest,
        now: Timestamp,
    ) -> Result<PollResult, PortError> {
        if let Some(ended) = self.read(id, "retested.json").await? {
            return Ok(PollResult::Ended(Fact::NodesLocated(ended)));
        }
        let search_end: Option<SearchEnd> = self.read(id, "over.json").await?;
        if search_end.is_some() || now >= search.ends_at {
            return Ok(PollResult::Ended(stopped(search_end.as_ref())));
        }
        let mut retested = Vec::new();
        for node in &retest.nodes {
            let returned = self.return_node(&search.cluster, node, retest.after_pass).await?;
            retested.push(RetestedNode { node: node.clone(), returned });
        }
        let suspects = Suspects {
            nodes: Vec::new(),
            links: Vec::new(),
            undecided: None,
            tests: 0,
            best_busbw: None,
            object: Artefacts::folder(id) + "retested.json",
            retested,
        };
        Ok(PollResult::Ended(Fact::NodesLocated(self.record_once(id, "retested.json", &suspects).await?)))
    }

    async fn return_node(
        &self,
        cluster: &Cluster,
        node: &str,
        after_pass: AfterPass,
    ) -> Result<Returned, PortError> {
        let Some(command) = self.scheduler.return_command(cluster, node) else {
            return Ok(Returned::Applied); // nodes of this kind cannot be drained, so this one is in service
        };
        if after_pass == AfterPass::Propose {
            return Ok(Returned::Proposed { command });
        }
        match self.scheduler.return_node(cluster, node).await {
            Ok(()) => Ok(Returned::Applied),
            Err(PortError::Permanent(failure)) => Ok(Returned::Left { why: failure.message }),
            Err(error) => Err(error),
        }
    }

    async fn read<T: DeserializeOwned>(&self, id: &CommandId, file: &str) -> Result<Option<T>, PortError> {
        self.collector.artefacts.get(&(Artefacts::folder(id) + file)).await.map_err(PortError::from)
    }

    /// Writes a document once. Returns the first version written.
    async fn record_once<T: Serialize + DeserializeOwned>(
        &self,
        id: &CommandId,
        file: &str,
        value: &T,
    ) -> Result<T, PortError> {
        let body = serde_json::to_vec_pretty(value).map_err(PortError::transient)?;
        let body: ObjectReader = Box::new(Cursor::new(body));
        self.collector.artefacts.try_put(id, file, body).await?;
        self.read(id, file)
            .await?
            .ok_or_else(|| PortError::Transient(format!("{file} cannot be read back yet; retry")))
    }
}

struct NodePair<'a> {
    id: &'a CommandId,
    search: &'a NodeSearch,
    /// Number of the pair, starting at 1.
    number: usize,
    ends: [&'a str; 2],
    now: Timestamp,
}

impl NodePair<'_> {
    fn part(&self) -> String {
        format!("pair-{}", self.number)
    }

    fn file(&self) -> String {
        format!("{}.json", self.part())
    }

    fn name(&self) -> String {
        format!("{}-p{}", self.id.resource_name(), self.number)
    }

    /// nccl-tests measure only the largest size: smaller sizes show a bad node less clearly and take longer.
    fn job(&self, cluster: Cluster) -> JobSpec {
        let NodeSearch { image, program, ends_at, .. } = self.search;
        let limit = ends_at.since(self.now).max(LEAST_LIMIT);
        let program = match program {
            Program::NcclTests(workload) => {
                let size = workload.sizes().last().copied().unwrap_or(workload.max_bytes);
                Program::NcclTests(Workload { min_bytes: size, max_bytes: size, ..workload.clone() })
            }
            Program::Command(_) => program.clone(),
        };
        let labels = [
            ("burnin-run", self.id.run.to_string()),
            ("burnin-attempt", self.id.attempt.to_string()),
            ("burnin-expires", (self.now + limit).to_string()),
        ];
        JobSpec {
            name: self.name(),
            cluster,
            image: image.clone(),
            program,
            environment: self.search.environment.clone(),
            evidence: false,
            limit,
            labels: labels.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }
}

/// Whether the node is a suspect of the verdict. A program may print the name of a host with a domain.
fn is_suspected(search: &NodeSearch, node: &str) -> bool {
    let short = |name: &str| name.split('.').next() == Some(node);
    search.suspected.iter().any(|host| host == node || short(host))
}

/// Reason why a search does not drain a further node: the run's maximum is reached.
fn none_left(search: &NodeSearch) -> String {
    let maximum = search.locate.drain_at_most;
    let earlier = search.drains_left.map_or_else(String::new, |left| {
        format!(", and its earlier searches drained {}", maximum.saturating_sub(left))
    });
    format!("the run may drain at most {} (locate.drain_at_most){earlier}", count(maximum, "node"))
}

fn stopped(search_end: Option<&SearchEnd>) -> Fact {
    let cancelled = || Failure::new(Class::Cancelled, "CANCELLED", "the search for bad nodes was stopped");
    Fact::NodesFailed(match search_end {
        Some(SearchEnd::Failed(failure)) => failure.clone(),
        _ => cancelled(),
    })
}
