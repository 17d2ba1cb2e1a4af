//! The state of each node over the runs on its cluster.
//!
//! | before | run | after |
//! |---|---|---|
//! | any | Burnin drained the node | drained |
//! | any | Burnin returned the node to service after its re-test | returned |
//! | good, suspected | suspects the node; the evidence states a proposed drain | suspected |
//! | drained, returned, failed again | suspects the node | failed again |
//! | suspected | passes, also as a re-test after which the node was not returned | good |
//! | drained, failed again | passes | returned |
//! | any | re-tests the node, and is not closed | in re-test |
//! | drained, returned, failed again | re-tests the node and passes, but the node is not returned yet | the same |
//! | drained, returned, failed again | re-tests the node and fails without suspects | failed again |
//! | suspected | re-tests the node and fails without suspects | suspected |
//!
//! Any other run has no effect: a run without a pass does not show that its other nodes are good. Burnin has no report on whether a
//! proposed drain was executed, so its node is suspected and never drained. Only clusters that exist before and after a run have a history,
//! because the names of provisioned nodes do not identify hardware. The views `nodes_latest` and `nodes_history` of the warehouse (SQLite and BigQuery) derive
//! the same states from the results of closed runs; `docs/VERDICT.md` has this table for users.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use lifecycle::RunState;
use model::{ClusterSpec, Drained, Returned, RunId, Timestamp, Verdict, VerdictReached, VerdictSuspect};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdict::Judgement;

use crate::{RunIndex, RunIndexError, RunSummary};

/// Number of runs that are read at the same time.
const READS: usize = 16;

/// Evidence of closed runs about their nodes.
pub(crate) type NodeCache = BTreeMap<RunId, Option<Arc<NodesOfRun>>>;

/// Maximum number of changes of a node.
const CHANGES: usize = 100;

/// State of a node, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Suspected again after it was drained.
    FailedAgain,
    /// Drained by Burnin; no run on the node has passed since.
    Drained,
    /// A run that re-tests the node is open.
    InRetest,
    /// Suspected by a run; no run on the node has passed since.
    Suspected,
    /// Drained earlier; a run on the node has passed since.
    Returned,
    /// Measured by a run that passed; not suspected since.
    Good,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FailedAgain => "failed again",
            Self::Drained => "drained",
            Self::InRetest => "in re-test",
            Self::Suspected => "suspected",
            Self::Returned => "returned",
            Self::Good => "good",
        })
    }
}

/// The nodes of all existing clusters. This is the document `burnin/nodes/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nodes {
    /// `burnin/nodes/v1`.
    pub schema: String,
    /// The nodes, worst state first, then by cluster and name.
    pub nodes: Vec<NodeHistory>,
    /// Number of judged runs that were read.
    pub runs: u64,
    /// Number of older judged runs that were not read. None of them changes the state of a node.
    pub older_runs: u64,
}

/// State and history of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeHistory {
    /// Name of the node's cluster.
    pub cluster: String,
    /// Name of the node in the cluster.
    pub node: String,
    /// State after all runs that were read.
    pub state: NodeState,
    /// Number of judged runs on the node.
    pub runs: u64,
    /// Time of the newest judged run on the node.
    pub last_run_at: Timestamp,
    /// The newest judged run on the node.
    pub last_run: RunId,
    /// The newest changes of the state, at most 100, oldest first. The first state is also a change.
    pub changes: Vec<NodeChange>,
}

/// A change of a node's state, or further evidence for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeChange {
    /// Time of the request for the run.
    pub at: Timestamp,
    /// Id of the run that caused the change or added the evidence.
    pub run: RunId,
    /// State after the run.
    pub state: NodeState,
    /// Metrics, findings and actions that name the node.
    pub evidence: Vec<String>,
}

/// Evidence of one run about its nodes.
#[derive(Clone, Debug)]
pub(crate) struct NodesOfRun {
    run: RunId,
    at: Timestamp,
    cluster: String,
    /// The most severe verdict; `None` before the first verdict.
    verdict: Option<Verdict>,
    closed: bool,
    nodes: BTreeSet<String>,
    /// Evidence by suspected node.
    suspected: BTreeMap<String, Vec<String>>,
    /// Reason by drained node.
    drained: BTreeMap<String, String>,
    /// Nodes to re-test.
    retests: BTreeSet<String>,
    /// Action by node that passed its re-test.
    retested: BTreeMap<String, Returned>,
}

impl NodesOfRun {
    /// Evidence of a run; `None` for a provisioned cluster, and for a run without a verdict that re-tests no nodes.
    fn of(state: &RunState, suspects: Vec<VerdictSuspect>) -> Option<Self> {
        let Some(ClusterSpec::Existing { name, .. }) = &state.workflow.cluster else { return None };
        let verdict = state.verdict().map(|reached| reached.verdict);
        let retest = state.workflow.retest.as_ref();
        if verdict.is_none() && (retest.is_none() || state.closed.is_some()) {
            return None;
        }
        let mut of_run = Self {
            run: state.run.clone(),
            at: state.requested_at,
            cluster: name.clone(),
            verdict,
            closed: state.closed.is_some(),
            nodes: state.node_names().into_iter().map(str::to_owned).collect(),
            suspected: BTreeMap::new(),
            drained: BTreeMap::new(),
            retests: retest.into_iter().flat_map(|retest| &retest.nodes).cloned().collect(),
            retested: state.retested().iter().map(|it| (it.node.clone(), it.returned.clone())).collect(),
        };
        of_run.nodes.extend(of_run.retests.iter().cloned());
        for VerdictSuspect { node, evidence } in suspects {
            let node = of_run.node_of(&node);
            let evidence = evidence.into_iter().filter(|evidence| !evidence.is_empty());
            of_run.suspected.entry(node).or_default().extend(evidence);
        }
        for located in state.checks().filter_map(|check| state.suspects_of(check)) {
            for suspect in &located.nodes {
                let evidence = format!("bad in {} pairs", located.tests);
                of_run.suspected.entry(suspect.node.clone()).or_default().push(evidence);
                match &suspect.drained {
                    Drained::Applied { reason } => {
                        of_run.drained.insert(suspect.node.clone(), reason.clone());
                    }
                    Drained::Proposed { .. } | Drained::Left { .. } => {
                        let undrained = suspect.drained.undrained();
                        of_run.suspected.entry(suspect.node.clone()).or_default().extend(undrained);
                    }
                }
            }
        }
        Some(of_run)
    }

    /// The node of a host: a program may print a name with a domain.
    fn node_of(&self, host: &str) -> String {
        let short = host.split('.').next().unwrap_or(host);
        let known = |name: &str| self.nodes.contains(name);
        if !known(host) && known(short) { short.to_owned() } else { host.to_owned() }
    }

    /// State of a node after this run, and the evidence; `None` if the run does not change the state.
    fn change(&self, node: &str, before: Option<NodeState>) -> Option<(NodeState, Vec<String>)> {
        if self.retests.contains(node) && !self.closed {
            return Some((NodeState::InRetest, Vec::new()));
        }
        let was_drained =
            matches!(before, Some(NodeState::Drained | NodeState::Returned | NodeState::FailedAgain));
        let mut evidence = self.suspected.get(node).cloned();
        if let Some(reason) = self.drained.get(node) {
            let mut evidence = evidence.unwrap_or_default();
            evidence.push(format!("drained: {reason}"));
            return Some((NodeState::Drained, evidence));
        }
        if self.retested.get(node) == Some(&Returned::Applied) && self.verdict == Some(Verdict::Pass) {
            return Some((NodeState::Returned, vec!["passed its re-test; returned to service".to_owned()]));
        }
        if let Some(evidence) = evidence.take() {
            return Some((if was_drained { NodeState::FailedAgain } else { NodeState::Suspected }, evidence));
        }
        if let Some((before, evidence)) = before.zip(self.retest_without_return(node)) {
            let is_suspected = before == NodeState::Suspected;
            let after = if is_suspected { NodeState::Good } else { before };
            return (is_suspected || was_drained).then_some((after, vec![evidence]));
        }
        let failed_retest = self.retests.contains(node) && self.verdict == Some(Verdict::Fail);
        if failed_retest && self.suspected.is_empty() {
            let evidence = vec!["its re-test failed".to_owned()];
            return match before {
                Some(NodeState::Suspected) => Some((NodeState::Suspected, evidence)),
                _ => was_drained.then_some((NodeState::FailedAgain, evidence)),
            };
        }
        let after = match before {
            _ if self.verdict != Some(Verdict::Pass) => return None,
            Some(NodeState::Drained | NodeState::FailedAgain) => NodeState::Returned,
            Some(NodeState::Suspected) | None => NodeState::Good,
            Some(NodeState::Good | NodeState::Returned | NodeState::InRetest) => return None,
        };
        // The first pass of a node does not change a known state.
        let evidence = before.map(|_| "a later run on the node passed".to_owned());
        Some((after, evidence.into_iter().collect()))
    }

    /// Evidence about a node that passed its re-test but is not in service yet.
    fn retest_without_return(&self, node: &str) -> Option<String> {
        if !self.retests.contains(node) || self.verdict != Some(Verdict::Pass) {
            return None;
        }
        match self.retested.get(node) {
            // Already handled by `change`: the node is returned to service.
            Some(Returned::Applied) => None,
            Some(Returned::Proposed { command }) => {
                Some(format!("passed its re-test; return it with: {command}"))
            }
            Some(Returned::Left { why }) => Some(format!("passed its re-test; not returned: {why}")),
            None => Some("passed its re-test; not returned".to_owned()),
        }
    }
}

/// The histories of all nodes. `runs`: oldest first.
fn histories<'a>(runs: impl IntoIterator<Item = &'a NodesOfRun>) -> Vec<NodeHistory> {
    let mut known: BTreeMap<(String, String), NodeHistory> = BTreeMap::new();
    for run in runs {
        let suspected: BTreeSet<_> = run.suspected.keys().cloned().collect();
        for node in run.nodes.union(&suspected).cloned() {
            let key = (run.cluster.clone(), node.clone());
            let before = known.get(&key).map(|history| history.state);
            let change = run.change(&node, before);
            // A node that was measured only in runs without a pass is not known to be good.
            let Some(state) = change.as_ref().map(|(state, _)| *state).or(before) else { continue };
            let history = known.entry(key).or_insert_with(|| NodeHistory {
                cluster: run.cluster.clone(),
                node,
                state,
                runs: 0,
                last_run_at: run.at,
                last_run: run.run.clone(),
                changes: Vec::new(),
            });
            history.state = state;
            if run.verdict.is_some() {
                (history.last_run_at, history.last_run) = (run.at, run.run.clone());
                history.runs += 1;
            }
            if let Some((state, evidence)) = change {
                history.changes.push(NodeChange { at: run.at, run: run.run.clone(), state, evidence });
                let more = history.changes.len().saturating_sub(CHANGES);
                history.changes.drain(..more);
            }
        }
    }
    let mut nodes: Vec<_> = known.into_values().collect();
    nodes.sort_by_key(|history| history.state);
    nodes
}

/// Whether an older run may change the state of a node: as evidence against it, or as its re-test. Summaries of earlier versions lack this
/// field: every run that did not pass may change states.
fn may_change_nodes(summary: &RunSummary) -> bool {
    summary.changes_nodes.unwrap_or(summary.verdict != Some(Verdict::Pass))
}

/// Maximum number of older runs that are read because they may change the state of a node. Each costs one listing and one read for each
/// record: 13 requests and 7 KB for the twelve records of a run with one check (`tests/data/ledger/v1-pass.json`), 5 requests and 2 KB more
/// for each further check, and one read of each verdict whose record may lack suspects. 2,000 runs with one check are 26,000 requests and
/// 14 MB: with [`READS`] at the same time and 30 ms for a request to a bucket, 49 s. A process reads each closed run once.
const MOST_MARKED: usize = 2_000;

/// Maximum number of suspects in the record of a verdict; the stored verdict has all of them.
const RECORDED_SUSPECTS: usize = 100;

/// Passed runs, oldest first, that may have returned a node to service. The runs already read show this node as out of service.
fn passes_after_faults<'a>(
    nodes: &[NodeHistory],
    unread: &[&'a Arc<RunSummary>],
) -> Vec<&'a Arc<RunSummary>> {
    let mut faults: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !matches!(node.state, NodeState::Good | NodeState::Returned)) {
        let since = node.changes.last().map_or(node.last_run_at, |change| change.at);
        faults.entry(&node.cluster).and_modify(|first| *first = since.min(*first)).or_insert(since);
    }
    let may_return = |summary: &&&Arc<RunSummary>| {
        let fault = summary.cluster.as_deref().and_then(|cluster| faults.get(cluster));
        summary.verdict == Some(Verdict::Pass) && fault.is_some_and(|fault| summary.requested_at > *fault)
    };
    unread.iter().rev().filter(may_return).copied().collect()
}

impl RunIndex {
    /// The nodes of all existing clusters, or of one. Reads the last `limit` judged runs, and the last 2,000 older runs that suspect, drain
    /// or re-test nodes. If these runs show nodes as out of service, the oldest `limit` later passed runs that may have returned one of
    /// these nodes are read as well. A return in a run that was not read is not found.
    ///
    /// # Errors
    /// Returns an error if a ledger or a verdict cannot be read.
    pub async fn nodes(&self, cluster: Option<&str>, limit: usize) -> Result<Nodes, RunIndexError> {
        let all = self.all().await?;
        let is_of_cluster =
            |summary: &&Arc<RunSummary>| cluster.is_none_or(|name| summary.cluster.as_deref() == Some(name));
        let judged: Vec<_> =
            all.iter().filter(|summary| summary.verdict.is_some()).filter(is_of_cluster).collect();
        let (newest, older) = judged.split_at(limit.min(judged.len()));
        let (mut marked, unmarked): (Vec<_>, Vec<_>) =
            older.iter().partition(|summary| may_change_nodes(summary));
        let unread = marked.len().saturating_sub(MOST_MARKED);
        marked.truncate(MOST_MARKED);
        let open = all.iter().filter(|summary| summary.verdict.is_none() && summary.closed_at.is_none());
        let mut runs = self.read_nodes(newest.iter().copied().chain(marked).chain(open), cluster).await?;
        let mut nodes = histories(runs.iter().map(|run| &**run));
        let mut returns = passes_after_faults(&nodes, &unmarked);
        returns.truncate(limit);
        let older_runs = (unread + unmarked.len().saturating_sub(returns.len())) as u64;
        if !returns.is_empty() {
            runs.extend(self.read_nodes(returns.into_iter(), cluster).await?);
            runs.sort_by_key(|run| run.at);
            nodes = histories(runs.iter().map(|run| &**run));
        }
        let count = runs.iter().filter(|run| run.verdict.is_some()).count() as u64;
        Ok(Nodes { schema: "burnin/nodes/v1".to_owned(), nodes, runs: count, older_runs })
    }

    /// Evidence of these runs on the cluster, oldest first.
    async fn read_nodes<'a>(
        &self,
        summaries: impl Iterator<Item = &'a Arc<RunSummary>>,
        cluster: Option<&str>,
    ) -> Result<Vec<Arc<NodesOfRun>>, RunIndexError> {
        let wanted: Vec<RunId> = summaries.map(|summary| summary.run.clone()).collect();
        let read = stream::iter(wanted).map(|run| self.nodes_of(run)).buffered(READS);
        let mut runs: Vec<_> = read.try_collect::<Vec<_>>().await?.into_iter().flatten().collect();
        runs.retain(|run| cluster.is_none_or(|name| run.cluster == name));
        runs.sort_by_key(|run| run.at);
        Ok(runs)
    }

    /// Evidence of a run about its nodes. Closed runs are read once: their ledgers never change.
    async fn nodes_of(&self, run: RunId) -> Result<Option<Arc<NodesOfRun>>, RunIndexError> {
        let known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get(&run).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let Some(folded) = self.folded(&run).await? else { return Ok(None) };
        let suspects = self.suspects(&folded.state).await?;
        let of_run = NodesOfRun::of(&folded.state, suspects).map(Arc::new);
        if folded.state.closed.is_some() {
            self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(run, of_run.clone());
        }
        Ok(of_run)
    }

    /// Nodes suspected by the verdicts of checks that did not pass, from the records of these verdicts. A stored verdict may contain the
    /// baseline of a fleet, so it is read only if its record may lack suspects: records of earlier versions have no suspects.
    async fn suspects(&self, state: &RunState) -> Result<Vec<VerdictSuspect>, RunIndexError> {
        let mut suspects = Vec::new();
        for check in state.checks() {
            let reached = state.verdict_of(check).filter(|reached| reached.verdict != Verdict::Pass);
            let Some(reached) = reached else { continue };
            if (1..RECORDED_SUSPECTS).contains(&reached.suspects.len()) {
                suspects.extend_from_slice(&reached.suspects);
            } else {
                suspects.extend(self.stored_suspects(reached).await?);
            }
        }
        Ok(suspects)
    }

    /// Nodes that a stored verdict suspects. Empty if the verdict is unreadable: its reasons are in the ledger.
    async fn stored_suspects(&self, reached: &VerdictReached) -> Result<Vec<VerdictSuspect>, RunIndexError> {
        let body = self.store.read(&reached.object).await?;
        let stored = body.and_then(|body| serde_json::from_slice::<Judgement>(&body).ok());
        let named = stored.into_iter().flat_map(|judgement| judgement.suspects).filter_map(|suspect| {
            let gpu = suspect.gpu.map_or_else(String::new, |gpu| format!("gpu {gpu}: "));
            let evidence = format!("{gpu}{}", suspect.evidence.join(", "));
            let evidence = vec![evidence.trim_end_matches(": ").to_owned()];
            Some(VerdictSuspect { node: suspect.host?, evidence })
        });
        Ok(named.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run on n1, n2 and n3. `bad` nodes are suspected, and drained if their name is followed by `!`.
    fn run(at: i64, passed: bool, bad: &[&str]) -> NodesOfRun {
        let suspected =
            bad.iter().map(|node| (node.trim_end_matches('!').to_owned(), vec!["gemm".to_owned()]));
        let drained =
            bad.iter().filter_map(|node| Some((node.strip_suffix('!')?.to_owned(), "slow".to_owned())));
        NodesOfRun {
            run: format!("night-{at}").parse().unwrap(),
            at: Timestamp::from_millis(at),
            cluster: "hall".to_owned(),
            verdict: Some(if passed { Verdict::Pass } else { Verdict::Fail }),
            closed: true,
            nodes: ["n1", "n2", "n3"].map(str::to_owned).into(),
            suspected: suspected.collect(),
            drained: drained.collect(),
            retests: BTreeSet::new(),
            retested: BTreeMap::new(),
        }
    }

    /// A closed run that re-tests n2; without a verdict it is open.
    fn retest(at: i64, verdict: Option<Verdict>, returned: Option<Returned>) -> NodesOfRun {
        let retests = BTreeSet::from(["n2".to_owned()]);
        let retested = returned.map(|returned| ("n2".to_owned(), returned)).into_iter().collect();
        NodesOfRun { verdict, closed: verdict.is_some(), retests, retested, ..run(at, true, &[]) }
    }

    fn states(runs: &[NodesOfRun], node: &str) -> Vec<NodeState> {
        let histories = histories(runs);
        let history = histories.into_iter().find(|history| history.node == node);
        history.map_or_else(Vec::new, |history| history.changes.iter().map(|change| change.state).collect())
    }

    #[test]
    fn a_drained_node_is_returned_by_a_pass_and_fails_again_if_suspected() {
        use NodeState::{Drained, FailedAgain, Good, Returned, Suspected};
        let runs = [
            run(1, true, &[]),
            run(2, false, &["n2"]),
            run(3, false, &["n2!"]),
            run(4, true, &[]),
            run(5, true, &[]),
            run(6, false, &["n2"]),
            run(7, true, &[]),
        ];
        assert_eq!(states(&runs, "n2"), [Good, Suspected, Drained, Returned, FailedAgain, Returned]);
        assert_eq!(states(&runs, "n1"), [Good]);
        let last = histories(&runs);
        assert_eq!((last[0].node.as_str(), last[0].state, last[0].runs), ("n2", Returned, 7));
        assert_eq!(last[0].changes[2].evidence, ["gemm", "drained: slow"]);
    }

    #[test]
    fn a_suspected_node_is_good_after_a_pass_and_stays_suspected_after_other_runs() {
        use NodeState::{Good, Suspected};
        assert_eq!(states(&[run(1, false, &["n1"]), run(2, true, &[])], "n1"), [Suspected, Good]);
        let runs = [run(1, false, &["n1"]), run(2, false, &["n3"]), run(3, false, &[])];
        assert_eq!(states(&runs, "n1"), [Suspected]);
        assert!(states(&runs, "n2").is_empty(), "no run on the node passed or suspected it");
    }

    #[test]
    fn a_drained_node_is_in_re_test_until_it_is_returned() {
        use NodeState::{Drained, FailedAgain, Good, InRetest, Returned as Back};
        let drained = [run(1, true, &[]), run(2, false, &["n2!"])];
        let after = |last: NodesOfRun| states(&[&drained[..], &[last]].concat(), "n2");
        assert_eq!(after(retest(3, None, None)), [Good, Drained, InRetest]);
        assert_eq!(after(retest(3, Some(Verdict::Pass), Some(Returned::Applied))), [Good, Drained, Back]);
        assert_eq!(after(retest(3, Some(Verdict::Fail), None)), [Good, Drained, FailedAgain]);
        assert_eq!(after(retest(3, Some(Verdict::Inconclusive), None)), [Good, Drained]);
        let proposed = Some(Returned::Proposed { command: "resume n2".to_owned() });
        let last = retest(3, Some(Verdict::Pass), proposed);
        let histories = histories(&[&drained[..], &[last]].concat());
        assert_eq!((histories[0].node.as_str(), histories[0].state), ("n2", Drained));
        assert_eq!(histories[0].changes[2].evidence, ["passed its re-test; return it with: resume n2"]);
        assert_eq!(histories[0].last_run.as_str(), "night-3");
    }

    #[test]
    fn a_suspected_node_whose_drain_is_proposed_is_good_or_returned_after_its_re_test() {
        use NodeState::{FailedAgain, Good, InRetest, Returned as Back, Suspected};
        let suspected = [run(1, true, &[]), run(2, false, &["n2"])];
        let after = |last: &[NodesOfRun]| states(&[&suspected[..], last].concat(), "n2");
        assert_eq!(after(&[retest(3, None, None)]), [Good, Suspected, InRetest]);
        let applied = retest(3, Some(Verdict::Pass), Some(Returned::Applied));
        assert_eq!(after(std::slice::from_ref(&applied)), [Good, Suspected, Back]);
        assert_eq!(after(&[applied, run(4, false, &["n2"])]), [Good, Suspected, Back, FailedAgain]);
        assert_eq!(after(&[retest(3, Some(Verdict::Fail), None)]), [Good, Suspected, Suspected]);
        let proposed = Some(Returned::Proposed { command: "resume n2".to_owned() });
        let runs = [&suspected[..], &[retest(3, Some(Verdict::Pass), proposed)]].concat();
        let histories = histories(&runs);
        let last = histories.iter().find(|history| history.node == "n2").unwrap().changes.last().unwrap();
        assert_eq!(last.state, Good);
        assert_eq!(last.evidence, ["passed its re-test; return it with: resume n2"]);
    }

    #[test]
    fn a_failed_retest_marks_only_suspected_nodes_as_bad() {
        let other = NodesOfRun {
            suspected: [("n3".to_owned(), vec![])].into(),
            ..retest(3, Some(Verdict::Fail), None)
        };
        let runs = [run(1, true, &[]), run(2, false, &["n2!"]), other];
        assert_eq!(states(&runs, "n2"), [NodeState::Good, NodeState::Drained]);
        assert_eq!(states(&runs, "n3"), [NodeState::Good, NodeState::Suspected]);
    }

    #[test]
    fn a_host_name_with_a_domain_is_resolved_to_the_node() {
        let of_run = run(1, true, &[]);
        assert_eq!(of_run.node_of("n1.hall.example"), "n1");
        assert_eq!(of_run.node_of("n9.hall.example"), "n9.hall.example");
    }
}
