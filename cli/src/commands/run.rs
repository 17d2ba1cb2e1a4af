//! `burnin run`, `run --resume` and `cancel`: drives a run until it is closed.

use std::{
    fs::{self, File},
    io::IsTerminal,
    path::Path,
    time::{Duration, Instant},
};

use ledger::Creation;
use lifecycle::RunState;
use model::{CancelRequested, EventKey, Fact, Limits, RunId, RunRequested, Trigger, Workflow};
use run_index::CheckSummary;
use service::shutdown;
use sha2::{Digest, Sha256};
use tokio::{sync::Mutex, time::timeout};
use tracing::{Instrument, info_span};
use workflow::Resolved;

use crate::{
    args::Output,
    commands::{note, plan, print, print_json, screen, status},
    documents::RunDocument,
    exit::{CliError, Exit},
    live::{self, LiveOutput, NewLines},
    local::{DataFolder, LocalServices},
    progress::{self, Progress, is_moving},
    release::release_directly,
};

/// Next step for a run that another process drives.
fn driven(run: &RunId) -> String {
    format!("wait for its end, or cancel it with `burnin cancel {run}`")
}

/// Requests a run and drives it until it is closed.
pub async fn begin(data: DataFolder, resolved: Resolved, output: Output) -> Result<Exit, CliError> {
    let Resolved { workflow, archives, warnings } = resolved;
    plan::warn(&warnings);
    for archive in archives {
        let stored =
            data.store.create(&archive.object, archive.bytes).await.map_err(CliError::infrastructure)?;
        tracing::debug!(object = archive.object, known = stored == Creation::Exists, "source archive");
    }
    let run = name(&workflow);
    let claim = data.claim(&run)?.ok_or_else(|| {
        CliError::usage(format!("{run} is already driven by another process; {}", driven(&run)))
    })?;
    status(format_args!("run {run}  ({})", workflow.name));
    let by = super::user();
    let trigger = Trigger { kind: "manual".to_owned(), by };
    let requested = Fact::RunRequested(Box::new(RunRequested { workflow, trigger, origin: None }));
    drive(data, run, claim, Some(requested), output).await
}

/// Every manual start is a new run, so its event id is unique.
fn name(workflow: &Workflow) -> RunId {
    let event = EventKey { source: "//burnin/cli".to_owned(), id: service::ids::unique() };
    let digest = hex::encode(&Sha256::digest(event.to_string())[..4]);
    format!("{}-{digest}", workflow.name.trim_end_matches('-'))
        .parse()
        .unwrap_or_else(|error| unreachable!("workflow names are checked when they are read: {error}"))
}

pub async fn resume(data: DataFolder, run: Option<RunId>, output: Output) -> Result<Exit, CliError> {
    let run = match run {
        Some(run) => {
            data.state(&run).await?;
            run
        }
        None => only_open(&data).await?,
    };
    let claim = data.claim(&run)?;
    let claim = claim
        .ok_or_else(|| CliError::usage(format!("{run} is driven by another process; {}", driven(&run))))?;
    status(format_args!("run {run}  (resumed)"));
    data.ledger.mark_open(&run).await.map_err(CliError::infrastructure)?;
    drive(data, run, claim, None, output).await
}

async fn only_open(data: &DataFolder) -> Result<RunId, CliError> {
    let mut open = Vec::new();
    for run in data.ledger.open_runs().await.map_err(CliError::infrastructure)? {
        if !data.ledger.load(&run).await.map_err(CliError::infrastructure)?.records().is_empty() {
            open.push(run);
        } else if data.claim(&run)?.is_some() {
            // The process ended between its hint and its first record, so nothing was started.
            data.ledger.mark_closed(&run).await.map_err(CliError::infrastructure)?;
        }
    }
    if open.is_empty() {
        // A hint may be lost in a crash. The ledgers are slower to scan, but always complete.
        open = unclosed(data).await?;
    }
    match open.as_slice() {
        [run] => Ok(run.clone()),
        [] => Err(CliError::usage("no unfinished run; start one with `burnin run WORKFLOW`")),
        many => {
            let names: Vec<_> = many.iter().map(ToString::to_string).collect();
            Err(CliError::usage(format!("several runs are unfinished; name one of: {}", names.join(", "))))
        }
    }
}

async fn unclosed(data: &DataFolder) -> Result<Vec<RunId>, CliError> {
    data.run_index().unfinished().await.map_err(CliError::infrastructure)
}

/// Cancels a run: here, or through the process that drives it.
pub async fn cancel(data: DataFolder, run: RunId, reason: String) -> Result<Exit, CliError> {
    let (_, state) = data.state(&run).await?;
    if let Some((conclusion, _)) = &state.settled {
        note(format_args!("{run} has already ended: {}", conclusion.as_str()));
        if state.closed.is_some() {
            return Ok(Exit::Pass);
        }
    }
    let by = super::user();
    let requested = Fact::CancelRequested(CancelRequested { by, reason });
    if let Some(claim) = data.claim(&run)? {
        let exit = drive(data, run, claim, Some(requested), Output::Human).await?;
        return Ok(if exit == Exit::Cancelled { Exit::Pass } else { exit });
    }
    // Another process drives the run and reads the ledger on its next tick: record the cancel there.
    record_cancel(&data, &run, requested).await?;
    note(format_args!("{run} cancel recorded; the process that drives the run executes it"));
    Ok(Exit::Pass)
}

async fn record_cancel(data: &DataFolder, run: &RunId, requested: Fact) -> Result<(), CliError> {
    use ledger::AppendError;
    use lifecycle::{Input, ReceivedFact, decide, fold};
    use service::{Clock, SystemClock};

    let event = EventKey { source: "//burnin/cli".to_owned(), id: service::ids::unique() };
    let occurrence = ReceivedFact { event, attempt: model::Attempt::FIRST, fact: requested };
    'again: loop {
        let mut loaded = data.ledger.load(run).await.map_err(CliError::infrastructure)?;
        let state = fold(loaded.records()).map_err(CliError::infrastructure)?;
        let now = SystemClock.now();
        for entry in decide(&state, Input::Fact(Box::new(occurrence.clone())), now).entries {
            loaded = match data.ledger.append(loaded, entry, now).await {
                Ok(loaded) => loaded,
                Err(AppendError::Conflict { .. }) => continue 'again,
                Err(error) => return Err(CliError::infrastructure(error)),
            };
        }
        return Ok(());
    }
}

/// Drives a run until it is closed, and reports it. The first signal cancels the run; the second leaves it for `--resume`.
async fn drive(
    data: DataFolder,
    run: RunId,
    claim: File,
    first: Option<Fact>,
    output: Output,
) -> Result<Exit, CliError> {
    // One trace from the request to the verdict: every event contains its context.
    let span = info_span!("run", run.id = %run);
    driving(data, run, claim, first, output).instrument(span).await
}

async fn driving(
    data: DataFolder,
    run: RunId,
    claim: File,
    first: Option<Fact>,
    output: Output,
) -> Result<Exit, CliError> {
    let stop = shutdown::on_signal().map_err(CliError::infrastructure)?;
    let services = LocalServices::new(&data, run.clone(), claim)?;
    let expected = match &first {
        Some(Fact::RunRequested(requested)) => usual_duration(&data, &requested.workflow.name).await,
        _ => None, // the elapsed part of a resumed run is unknown
    };
    if let Some(fact) = first {
        services.publish_fact(fact).await?;
    }
    let mut progress = Progress::new(expected);
    let rows = Mutex::new(BenchmarkRows::new(&data));
    let closed = {
        let ticking = services.tick();
        let watching = watch(&data, &services, &run, (&mut progress, &rows));
        tokio::pin!(ticking, watching);
        let interrupted = async {
            stop.cancelled().await;
            let by = "signal".to_owned();
            let reason = "the process received a stop signal".to_owned();
            services.publish_fact(Fact::CancelRequested(CancelRequested { by, reason })).await
        };
        tokio::pin!(interrupted);
        let mut cancelling = false;
        let mut cancelled_at = None;
        let mut polls = tokio::time::interval(LEDGER_CHECK_INTERVAL);
        loop {
            tokio::select! {
                _ = polls.tick() => {
                    let patience = patience(services.limits(), cancelled_at);
                    if let Some(why) = services.stuck_for(patience) {
                        return Err(give_up(&data, &run, &why).await);
                    }
                    let state = services.states().borrow().clone();
                    if let (Some(state), Ok(mut rows)) = (state, rows.try_lock()) {
                        rows.show(&state).await;
                    }
                }
                () = &mut ticking => unreachable!("ticks never end"),
                closed = &mut watching => break closed?,
                published = &mut interrupted, if !cancelling => {
                    published?;
                    cancelling = true;
                    cancelled_at = Some(Instant::now());
                    note(format_args!("  cancelling: releasing everything; a second interrupt leaves the rest to `burnin run --resume`"));
                }
                again = shutdown::once(), if cancelling => {
                    again.map_err(CliError::infrastructure)?;
                    return Err(CliError::new(format!("{run} is unfinished; `burnin run --resume {run}` releases its resources"), Exit::Cancelled));
                }
            }
        }
    };
    progress.finish();
    services.end().await?;
    report(&data, &run, &closed, output).await
}

/// The usual duration of a run of this workflow; `None` for its first run.
async fn usual_duration(data: &DataFolder, workflow: &str) -> Option<Duration> {
    let runs = data.run_index().all().await.ok()?;
    progress::usual_duration(runs.iter().map(|run| &**run), workflow)
}

/// Prints the rows of the running benchmark above the progress line.
struct BenchmarkRows {
    output: LiveOutput,
    /// The file whose rows are shown: several ranks may print the same table.
    file: Option<String>,
}

impl BenchmarkRows {
    fn new(data: &DataFolder) -> Self {
        Self { output: LiveOutput::new(data), file: None }
    }

    async fn show(&mut self, state: &RunState) {
        if !is_moving() {
            return;
        }
        for NewLines { file, text } in self.output.next(state, None).await {
            // A new job has a new file: its first row replaces the last row of the previous job.
            let same_job = |shown: &String| shown.split('/').next() == file.split('/').next();
            if self.file.as_ref().is_some_and(|shown| same_job(shown) && *shown != file) {
                continue;
            }
            for row in text.lines().filter_map(live::benchmark_row) {
                self.file = Some(file.clone());
                note(format_args!("    {row}"));
            }
        }
    }
}

/// Interval between checks of a run with an unwritable ledger.
const LEDGER_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum wait for a writable ledger after a cancel.
const AFTER_CANCEL: Duration = Duration::from_secs(3);

/// Maximum time for which a run continues without a writable ledger: the limits of the run are not enforced during that
/// time.
fn patience(limits: Option<Limits>, cancelled_at: Option<Instant>) -> Duration {
    let limits = limits.unwrap_or_default();
    let patience = limits.patience.0.saturating_add(limits.grace.0);
    cancelled_at.map_or(patience, |_| patience.min(AFTER_CANCEL))
}

/// Abandons a run whose ledger cannot be written: deletes its clusters directly.
async fn give_up(data: &DataFolder, run: &RunId, why: &str) -> CliError {
    note(format_args!("  the ledger cannot be written: {why}; deleting the clusters without it"));
    let left = match timeout(RELEASE, release_directly(data, run)).await {
        Ok(left) if left.is_empty() => "all its clusters are deleted".to_owned(),
        Ok(left) => format!("not deleted: {}; retry with `burnin sweep`", left.join("; ")),
        Err(_) => {
            format!("its clusters were not deleted within {} s; retry with `burnin sweep`", RELEASE.as_secs())
        }
    };
    let message = format!("{run} is unfinished: {why}; {left}; `burnin run --resume {run}` records its end");
    CliError::new(message, Exit::Infrastructure)
}

/// Timeout of deleting clusters without the ledger.
const RELEASE: Duration = Duration::from_secs(60);

/// Follows the run until it is closed.
async fn watch(
    data: &DataFolder,
    services: &LocalServices,
    run: &RunId,
    (progress, rows): (&mut Progress, &Mutex<BenchmarkRows>),
) -> Result<RunState, CliError> {
    let mut states = services.states();
    loop {
        let state = states.borrow_and_update().clone();
        if let Some(state) = state {
            // Print the last rows of a job before its end.
            rows.lock().await.show(&state).await;
            // An unreadable ledger must not end this loop: the cluster would keep running.
            if let Ok(loaded) = data.ledger.load_to(run, state.seq).await {
                progress.show(&state, loaded.records());
            }
            if state.closed.is_some() && state.leases_returned() {
                return Ok(state);
            }
        }
        if states.changed().await.is_err() {
            let why = format!(
                "the conductor stopped before the end of {run}; continue with `burnin run --resume {run}`"
            );
            return Err(CliError::new(why, Exit::Infrastructure));
        }
    }
}

/// Writes a page atomically.
fn write_page(path: &Path, page: &str) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(&draft, page)?;
    fs::rename(&draft, path)
}

async fn report(data: &DataFolder, run: &RunId, state: &RunState, output: Output) -> Result<Exit, CliError> {
    let path = data.report(run);
    let report = data.run_report(run, None).await?;
    write_page(&path, &report::html(&report.input())).map_err(CliError::infrastructure)?;
    match output {
        // The progress output on the same terminal already lists the stages.
        Output::Human => {
            let seen = is_moving() && std::io::stdout().is_terminal();
            print(&report::terminal(&report.input(), report::Screen { stages: !seen, ..screen() }));
        }
        Output::Json => print_json(&RunDocument {
            schema: "burnin/run/v1",
            run: run.clone(),
            conclusion: state
                .settled
                .as_ref()
                .map_or("open", |(conclusion, _)| conclusion.as_str())
                .to_owned(),
            verdict: state.verdict().map(|reached| reached.verdict),
            checks: CheckSummary::all(state),
            suspects: state.suspects().cloned(),
            retested: state.retested().to_vec(),
            report: path.display().to_string(),
        }),
    }
    Ok(Exit::of(state))
}
