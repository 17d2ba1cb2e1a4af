//! The steps of a wake-up: load, decide, append, compute the owed commands, send.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use hashlink::LinkedHashMap;
use ledger::{AppendError, Ledger, LedgerError, LedgerSnapshot};
use lifecycle::{
    Decision, Ignored, Input, RunState, current_poll, decide, decide_first, evolve, fold, last_loads, owed,
};
use model::{
    Attempt, CheckIndex, ClusterSpec, Command, CommandId, Drained, Fact, NodeResult, NodeResultKind, Record,
    RecordEntry, RetestedNode, Returned, RunClosed, RunId, RunUsed, Span, Stage, Timestamp, Verb, Verdict,
    failpoint_is_active,
};
use service::{Bus, Clock, Publisher, telemetry::meters::run_ended};
use tracing::{debug, info, warn};

use crate::run_locks::RunLocks;

/// Maximum number of append attempts per wake-up; then the event is redelivered.
const RACES: u32 = 20;
/// Maximum number of runs whose state is kept. A state takes about as much memory as its records.
const STATES: usize = 1000;
/// Maximum number of a run's last loads that are published concurrently, and of published loads that exist only in this process. Each load
/// reads the measurements of a check, and a cancelled soak may have 5,000 checks.
const LAST_LOADS: usize = 32;

#[derive(Clone, Copy, Debug)]
pub struct WakeSettings {
    /// Resend interval of owed commands.
    pub resend: Span,
    /// Maximum age of the records known to this process at a tick. Zero: each tick lists the ledger. An append by
    /// another process is found at the latest by the first tick after this time.
    pub refresh: Span,
}

/// Function that is called with the state of a run at each of its wake-ups, before commands are sent.
pub type Observer = Arc<dyn Fn(&RunState) + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeOutcome {
    /// The run was never requested.
    Unknown,
    /// The fact had no effect, for this reason.
    Ignored(Ignored),
    /// The run was advanced, or had no pending work.
    Advanced,
}

/// An incomplete wake-up: wake again.
#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    /// The ledger cannot be read or written.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The hints cannot be written.
    #[error(transparent)]
    Store(#[from] ledger::StoreError),
    /// Each of [`RACES`] appends conflicted with another writer's.
    #[error("{run}: {RACES} appends conflicted with other writers; retry")]
    Conflicts { run: RunId },
    /// A command or fact cannot be sent.
    #[error(transparent)]
    Bus(#[from] service::BusError),
}

/// Key of a command within its run.
type CommandKey = (Stage, Attempt, Verb);
type SentCommands = BTreeMap<RunId, Vec<(CommandKey, Timestamp)>>;

/// A run's state, and the time at which its ledger was listed.
struct KnownState {
    state: RunState,
    listed_at: Timestamp,
}

/// Result of an input: the state after it, why a fact was ignored, and whether records were added.
struct RecordedInput {
    known: KnownState,
    ignored: Option<Ignored>,
    grew: bool,
}

/// The end of a run that this process published, and the loads that follow the end.
struct Ending {
    /// Loads that are not published yet.
    waiting: Vec<Command>,
    /// Published loads that may exist only in this process.
    published: Vec<CommandId>,
}

/// Updates the metrics of a run that was just closed.
fn count(records: &[Record], state: &RunState) {
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
    let conclusion = state.settled.as_ref().map_or("open", |(conclusion, _)| conclusion.as_str());
    let verdict = state.verdict().map(|reached| reached.verdict.to_string());
    let took = last.recorded_at.since(first.recorded_at);
    run_ended(&state.workflow.name, conclusion, verdict.as_deref(), took.0);
}

/// The only service that writes the ledger. Several processes of it may run: an append detects conflicts.
pub struct Conductor {
    ledger: Ledger,
    publisher: Publisher,
    clock: Arc<dyn Clock>,
    settings: WakeSettings,
    observer: Option<Observer>,
    /// Last send time of each command by this process. A hint: without it commands are sent again, which is harmless.
    sent: Mutex<SentCommands>,
    run_locks: RunLocks,
    /// States of open runs, so that each record is folded once. A cache: without it the records are folded again.
    states: Mutex<LinkedHashMap<RunId, KnownState>>,
    /// Closed runs whose last loads are in progress.
    endings: Mutex<BTreeMap<RunId, Ending>>,
}

impl Conductor {
    /// A conductor over a ledger and a bus. `observer`: called at each wake-up.
    pub fn new(
        ledger: Ledger,
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        settings: WakeSettings,
        observer: Option<Observer>,
    ) -> Self {
        let publisher = Publisher::new("conductor", bus, Arc::clone(&clock));
        let (sent, run_locks, states, endings) = Default::default();
        Self { ledger, publisher, clock, settings, observer, sent, run_locks, states, endings }
    }

    /// Wakes every open run.
    ///
    /// # Errors
    /// Returns an error if the open runs cannot be listed. If wake-ups fail, the other runs are still woken, and the first error
    /// is returned.
    pub async fn tick(&self) -> Result<(), WakeError> {
        let mut first = Ok(());
        let open = self.ledger.open_runs().await?;
        // Another process closed the runs that are not in `open`. Send times are only hints, so they may be
        // dropped.
        self.sent().retain(|run, _| open.binary_search(run).is_ok());
        self.states().retain(|run, _| open.binary_search(run).is_ok());
        self.endings().retain(|run, _| open.binary_search(run).is_ok());
        for run in open {
            if let Err(error) = self.wake(&run, Input::Tick).await {
                warn!(run.id = %run, "the wake-up failed: {}", service::worker::chain(&error));
                first = first.and(Err(error));
            }
        }
        first
    }

    /// Wakes one run.
    ///
    /// # Errors
    /// Returns an error if the wake-up is incomplete: appended records stay, and the next wake-up continues from there.
    pub async fn wake(&self, run: &RunId, input: Input) -> Result<WakeOutcome, WakeError> {
        let _lock = self.run_locks.lock(run).await;
        self.wake_locked(run, input).await
    }

    async fn wake_locked(&self, run: &RunId, input: Input) -> Result<WakeOutcome, WakeError> {
        for _ in 0..RACES {
            match self.record(run, &input).await {
                Err(AppendError::Conflict { .. }) if failpoint_is_active("conflict_is_the_end") => {
                    return Ok(WakeOutcome::Advanced);
                }
                Err(AppendError::Conflict { seq, .. }) => {
                    debug!(seq, "another writer appended first")
                }
                Err(AppendError::Ledger(error)) => return Err(error.into()),
                Ok(None) => return Ok(WakeOutcome::Unknown),
                Ok(Some(RecordedInput { known, ignored, grew })) => {
                    let state = &known.state;
                    let tick = matches!(input, Input::Tick);
                    self.send_owed(state, tick).await?;
                    // Remove the hint after the end is published: while the hint exists, the tick publishes the end again. A repeated fact
                    // adds no record to a closed run.
                    if tick || grew {
                        self.conclude(state).await?;
                    }
                    self.remember(known);
                    return Ok(ignored.map_or(WakeOutcome::Advanced, WakeOutcome::Ignored));
                }
            }
        }
        Err(WakeError::Conflicts { run: run.clone() })
    }

    /// Appends the records for the input. `None` for an unknown run.
    async fn record(&self, run: &RunId, input: &Input) -> Result<Option<RecordedInput>, AppendError> {
        let now = self.clock.now();
        // After an error or a lost race the state is not kept: the next attempt lists the ledger.
        let known = self.states().remove(run);
        let fresh = known.as_ref().filter(|known| {
            matches!(input, Input::Tick) && now.since(known.listed_at) < self.settings.refresh
        });
        let (mut loaded, listed_at) = match fresh {
            Some(known) => (self.ledger.load_to(run, known.state.seq).await?, known.listed_at),
            None => (self.ledger.load(run).await?, now),
        };
        let before = loaded.next_seq();
        let mut first = false;
        if loaded.records().is_empty() {
            let Input::Fact(occurrence) = input else { return Ok(None) };
            if !matches!(occurrence.fact, Fact::RunRequested(_)) {
                return Ok(None);
            }
            // Write the hint first: a hint without a run is harmless; a run without a hint is lost.
            if !failpoint_is_active("no_hint") {
                let hinted = self.ledger.mark_open(run).await;
                hinted.map_err(|source| LedgerError::Store { run: run.clone(), source })?;
            }
            loaded = self.ledger.append(loaded, decide_first((**occurrence).clone()), now).await?;
            first = true;
        }
        let damaged = |source: lifecycle::UnreadableLedger| LedgerError::Damaged {
            run: run.clone(),
            seq: 1,
            why: source.to_string(),
        };
        let mut state = advance(known.map(|known| known.state), &loaded).map_err(damaged)?;
        let input = if first { Input::Tick } else { input.clone() };
        let Decision { entries, ignored } = decide(&state, input, now);
        if let Some(why) = ignored {
            debug!("fact ignored: {}", why.as_str());
        }
        for entry in entries {
            loaded = self.ledger.append(loaded, entry, now).await?;
            state = advance(Some(state), &loaded).map_err(damaged)?;
            info!(seq = loaded.next_seq() - 1, "recorded");
        }
        let grew = loaded.next_seq() > before;
        if grew && let Some(RecordEntry::Closed { .. }) = loaded.records().last().map(|record| &record.entry)
        {
            count(loaded.records(), &state);
        }
        Ok(Some(RecordedInput { known: KnownState { state, listed_at }, ignored, grew }))
    }

    /// Sends the owed commands.
    async fn send_owed(&self, state: &RunState, tick: bool) -> Result<(), WakeError> {
        if let Some(observer) = &self.observer {
            observer(state);
        }
        let now = self.clock.now();
        let obligations = owed(state, now);
        let fresh = !self.mark_sent(&state.run);
        if !obligations.is_empty() && state.closed.is_some() {
            self.ledger.mark_open(&state.run).await?; // a cluster reappeared
        }
        let after_restart = current_poll(state).filter(|_| fresh);
        for command in obligations.into_iter().map(|obligation| obligation.command).chain(after_restart) {
            self.send(command, now, tick).await?;
        }
        Ok(())
    }

    /// Publishes the end of a closed run without owed commands.
    async fn conclude(&self, state: &RunState) -> Result<(), WakeError> {
        if failpoint_is_active("hint_removed_too_early") && state.settled.is_some() {
            self.ledger.mark_closed(&state.run).await?;
        }
        if let Some((run, conclusion)) = state.closing().filter(|_| state.leases_returned()) {
            // If this wake-up is interrupted, the next one repeats all publications.
            let known = self.endings().remove(run);
            let is_published = known.is_some();
            let mut ending =
                known.unwrap_or_else(|| Ending { waiting: last_loads(state), published: Vec::new() });
            self.load(&mut ending).await?;
            if !is_published {
                let closed = RunClosed {
                    conclusion: conclusion.clone(),
                    verdict: state.verdict().map(|verdict| verdict.verdict),
                };
                let used = used(state, &closed);
                self.publisher.publish_run_fact(run.clone(), Attempt::FIRST, Fact::RunClosed(closed)).await?;
                self.publisher
                    .publish_run_fact(run.clone(), Attempt::FIRST, Fact::RunUsed(Box::new(used)))
                    .await?;
            }
            if !ending.waiting.is_empty() || !ending.published.is_empty() {
                // The hint remains: after a crash the next process publishes the loads again.
                self.endings().insert(run.clone(), ending);
                return Ok(());
            }
            self.ledger.mark_closed(run).await?;
            self.sent().remove(run);
            // Another process may have recorded a reappeared cluster and written the hint before this process removed it.
            let news = self.ledger.since(run, state.seq).await?;
            if !news.is_empty() && !news.iter().fold(state.clone(), evolve).leases_returned() {
                self.ledger.mark_open(run).await?;
            }
        }
        Ok(())
    }

    /// Publishes loads until [`LAST_LOADS`] of them exist only in this process.
    async fn load(&self, ending: &mut Ending) -> Result<(), WakeError> {
        loop {
            ending.published.retain(|load| self.publisher.is_in_memory(load));
            let count = LAST_LOADS.saturating_sub(ending.published.len()).min(ending.waiting.len());
            if count == 0 {
                return Ok(());
            }
            let loads: Vec<_> = ending.waiting.drain(..count).collect();
            ending.published.extend(loads.iter().map(|load| load.id.clone()));
            let publishing = stream::iter(loads).map(|load| self.publisher.publish_command(load));
            publishing.buffer_unordered(LAST_LOADS).try_collect::<Vec<()>>().await?;
        }
    }

    /// Whether the measurements of a closed run are still being loaded. Each tick continues the load.
    pub fn is_loading(&self, run: &RunId) -> bool {
        self.endings().contains_key(run)
    }

    /// Sends a command unless it was sent recently.
    async fn send(&self, command: Command, now: Timestamp, tick: bool) -> Result<(), WakeError> {
        let CommandId { run, stage, attempt, verb } = command.id.clone();
        let key = (stage, attempt, verb);
        let found = |sent: &[(CommandKey, Timestamp)]| sent.iter().position(|(known, _)| *known == key);
        let last = self.sent().get(&run).and_then(|sent| Some(sent[found(sent)?].1));
        let due = match last {
            None => true,
            Some(last) => tick && now.since(last) >= self.settings.resend,
        };
        if due {
            self.publisher.publish_command(command).await?;
            let mut sent = self.sent();
            let sent = sent.entry(run).or_default();
            match found(sent) {
                Some(place) => sent[place].1 = now,
                None => sent.push((key, now)),
            }
        }
        Ok(())
    }

    /// Keeps the state of an open run.
    fn remember(&self, known: KnownState) {
        let is_over = known.state.closed.is_some() && known.state.leases_returned();
        if is_over && !self.is_loading(&known.state.run) {
            return;
        }
        let mut states = self.states();
        states.insert(known.state.run.clone(), known);
        if states.len() > STATES {
            states.pop_front();
        }
    }

    /// Adds the run to this process's memory of sent commands. Returns whether the memory contained it before.
    fn mark_sent(&self, run: &RunId) -> bool {
        let mut sent = self.sent();
        let known = sent.contains_key(run);
        sent.entry(run.clone()).or_default();
        known
    }

    /// Number of runs in this process's memory.
    pub fn remembered(&self) -> usize {
        self.sent().len() + self.run_locks.len() + self.states().len() + self.endings().len()
    }

    fn sent(&self) -> MutexGuard<'_, SentCommands> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn endings(&self) -> MutexGuard<'_, BTreeMap<RunId, Ending>> {
        self.endings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn states(&self) -> MutexGuard<'_, LinkedHashMap<RunId, KnownState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State after all `loaded` records: continues from `state` if its records are among them, otherwise starts from the first record.
fn advance(
    state: Option<RunState>,
    loaded: &LedgerSnapshot,
) -> Result<RunState, lifecycle::UnreadableLedger> {
    let known =
        |state: &RunState| usize::try_from(state.seq).ok().filter(|seq| *seq <= loaded.records().len());
    match state.and_then(|state| Some((known(&state)?, state))) {
        Some((seq, state)) => Ok(loaded.records()[seq..].iter().fold(state, evolve)),
        None => fold(loaded.records()),
    }
}

/// Cluster usage of a run. With all clusters released it does not depend on the time of the call.
fn used(state: &RunState, closed: &RunClosed) -> RunUsed {
    let usage = state.usage(state.recorded_at);
    RunUsed {
        workflow: state.workflow.name.clone(),
        requested_at: state.requested_at,
        closed_at: state.closed.unwrap_or(state.recorded_at),
        conclusion: closed.conclusion.clone(),
        verdict: closed.verdict,
        nodes: if state.leases.is_empty() { 0 } else { usage.nodes },
        held: usage.held,
        busy: usage.busy,
        spent: usage.spent,
        currency: state.workflow.cost.as_ref().map(|cost| cost.currency.clone()),
        cluster: match &state.workflow.cluster {
            Some(ClusterSpec::Existing { name, .. }) => Some(name.clone()),
            _ => None,
        },
        node_results: node_results(state),
    }
}

/// Evidence of a run about single nodes. The index of runs derives the states of nodes in the same way (`run_index::nodes`).
fn node_results(state: &RunState) -> Vec<NodeResult> {
    let names: BTreeSet<_> = state.node_names().into_iter().collect();
    let judged = state.checks().filter_map(|check| state.verdict_of(check));
    let judged =
        judged.filter(|reached| reached.verdict != Verdict::Pass).flat_map(|reached| &reached.suspects);
    let accused = judged.map(|suspect| NodeResult {
        node: node_of(&names, &suspect.node).to_owned(),
        result: NodeResultKind::Suspected,
        detail: suspect.evidence.join("; "),
    });
    let located = state.checks().filter_map(|check| state.suspects_of(check)).flat_map(|found| &found.nodes);
    let suspected = located.map(|suspect| {
        let confidence = format!("confidence {:.0} %", 100.0 * suspect.confidence);
        let (result, detail) = match (&suspect.drained, suspect.drained.undrained()) {
            (Drained::Applied { reason }, _) => (NodeResultKind::Drained, reason.clone()),
            (_, Some(why)) => (NodeResultKind::Suspected, format!("{confidence}; {why}")),
            (_, None) => (NodeResultKind::Suspected, confidence),
        };
        NodeResult { node: suspect.node.clone(), result, detail }
    });
    let mut results: Vec<_> = suspected.chain(accused).collect();
    let suspects: BTreeSet<_> = results.iter().map(|result| result.node.clone()).collect();
    results.extend(state.retested().iter().map(|RetestedNode { node, returned }| {
        let (result, detail) = match returned {
            Returned::Applied => (NodeResultKind::Returned, "passed its re-test".to_owned()),
            Returned::Proposed { command } => (NodeResultKind::RetestPassed, command.clone()),
            Returned::Left { why } => (NodeResultKind::RetestPassed, format!("not returned: {why}")),
        };
        NodeResult { node: node.clone(), result, detail }
    }));
    let verdict = state.verdict().map(|reached| reached.verdict);
    let retested = state.workflow.retest.iter().flat_map(|retest| &retest.nodes);
    let result = |node: &str, result, detail: String| NodeResult { node: node.to_owned(), result, detail };
    if verdict == Some(Verdict::Fail) {
        // A failed run with other suspects is no evidence about this node.
        let failed = retested.clone().filter(|node| suspects.is_empty() || suspects.contains(*node));
        let failed_checks = || format!("failed its re-test: {}", checks_with(state, Verdict::Fail));
        results.extend(failed.map(|node| result(node, NodeResultKind::RetestFailed, failed_checks())));
    }
    if verdict == Some(Verdict::Pass) && state.workflow.cluster.as_ref().is_some_and(is_existing) {
        let retested: BTreeSet<_> = retested.map(String::as_str).collect();
        // The stage that returns nodes may have failed after the re-test passed.
        let handled: BTreeSet<_> = state.retested().iter().map(|it| it.node.as_str()).collect();
        let kept = retested.iter().filter(|node| !handled.contains(**node));
        results
            .extend(kept.map(|node| result(node, NodeResultKind::RetestPassed, "not returned".to_owned())));
        let passed = names.iter().filter(|node| !suspects.contains(**node) && !retested.contains(**node));
        let passed_checks = format!("passed: {}", checks_with(state, Verdict::Pass));
        results.extend(passed.map(|node| result(node, NodeResultKind::Passed, passed_checks.clone())));
    }
    // A node may be suspected after several checks, by the verdict and by the search.
    results.sort_by(|one, other| (&one.node, one.result).cmp(&(&other.node, other.result)));
    results.dedup_by(|later, first| {
        let same = first.node == later.node && first.result == later.result;
        if same && !later.detail.is_empty() && first.detail != later.detail {
            first.detail = format!("{}; {}", first.detail, later.detail);
        }
        same
    });
    results
}

/// Maximum number of names of checks in a detail.
const NAMED_CHECKS: usize = 5;

/// Names of the checks with this verdict, at most [`NAMED_CHECKS`]; the workflow's name for a single benchmark.
fn checks_with(state: &RunState, verdict: Verdict) -> String {
    let reached = |check: &CheckIndex| state.verdict_of(*check).is_some_and(|it| it.verdict == verdict);
    let names = state.checks().filter(reached);
    let names = names.map(|check| state.workflow.check(check).map_or(&state.workflow.name, |it| &it.name));
    let names: BTreeSet<_> = names.map(String::as_str).collect();
    let named: Vec<_> = names.iter().take(NAMED_CHECKS).copied().collect();
    match names.len().saturating_sub(NAMED_CHECKS) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

const fn is_existing(cluster: &ClusterSpec) -> bool {
    matches!(cluster, ClusterSpec::Existing { .. })
}

/// Name of the node for a printed host name, which may include a domain.
fn node_of<'a>(names: &BTreeSet<&'a str>, host: &'a str) -> &'a str {
    let short = host.split('.').next().unwrap_or(host);
    if !names.contains(host) && names.contains(short) { short } else { host }
}
