//! Commands against a server: the same output and exit codes as on this machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use model::{CheckIndex, Record, RunId};
use pins::PinHistory;
use report::StageLine;
use reqwest::Method;
use run_index::{RunDetail, RunSummary, ShownSuspects};
use serde::Deserialize;
use serde_json::json;
use service::{Clock, SystemClock};
use workflow::Override;

use super::{
    explain,
    follow::{self, is_of_check},
    note,
    pins::lines,
    print, print_json, print_plain,
    show::table,
    status,
};
use crate::{
    args::{CliCommand, Decide, Output, ReportForm, RunChoice},
    documents::{PinsDocument, RunDocument, RunsDocument},
    exit::{CliError, Exit},
    local::selected,
    output,
    progress::{self, Progress},
    server::Server,
};

/// Delay before an event stream is reopened.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of consecutive failures to follow a run. The command then ends; the run continues.
const FAILURES: u32 = 20;

pub async fn execute(server: Server, mut command: CliCommand) -> Result<Exit, CliError> {
    if let Some(run) = command.run_mut() {
        *run = resolve(&server, run.clone()).await?;
    }
    match command {
        CliCommand::Run { workflow: Some(workflow), values: None, set, output, .. } => {
            let name = workflow.to_str().unwrap_or_default();
            if name.is_empty() || name.contains(['/', '.']) {
                let why = format!(
                    "--server: expected the name of a workflow that the server serves, found the file {}",
                    workflow.display()
                );
                return Err(CliError::usage(why));
            }
            run(&server, name, &set, output).await
        }
        CliCommand::Runs { choice, output } => runs(&server, &choice, output).await,
        CliCommand::Show { run, check, output } => show(&server, &run, check.as_deref(), output).await,
        CliCommand::Cancel { run, reason } => cancel(&server, &run, &reason).await,
        CliCommand::Logs { run, name, check: None, follow: false } => {
            logs(&server, &run, name.as_deref()).await
        }
        CliCommand::Logs { run, check, follow, .. } => {
            follow_logs(&server, &run, check.as_deref(), follow).await
        }
        CliCommand::Explain { what } => match explain::code(&what)? {
            Some(done) => Ok(done),
            None => {
                let run = resolve(&server, what.parse().map_err(CliError::usage)?).await?;
                explain::explain_records(&records(&server, &run).await?)
            }
        },
        CliCommand::Replay { run } => explain::replay_records(&run, &records(&server, &run).await?),
        CliCommand::Baseline { decide: Some(decide), .. } => pin(&server, decide).await,
        _ => Err(CliError::usage(
            "--server: this command works on files or on a data folder of this machine; on a server: run, runs, show, explain, \
             replay, cancel, logs, baseline pin, unpin and pins",
        )),
    }
}

async fn run(server: &Server, workflow: &str, set: &[Override], output: Output) -> Result<Exit, CliError> {
    #[derive(Deserialize)]
    struct Started {
        run: RunId,
    }
    let set: BTreeMap<_, _> = set.iter().map(|set| (&set.field, &set.value)).collect();
    // One key for all attempts of this command: a retry after a lost response does not start a second run.
    let request = server
        .request(Method::POST, &["runs"])
        .header("Idempotency-Key", service::ids::unique())
        .json(&json!({"workflow": workflow, "set": set}));
    let Started { run } = server.json(request).await?;
    status(format_args!("run {run}  ({workflow})"));
    let runs = all_runs(server).await.unwrap_or_default();
    let detail = follow_run(server, &run, progress::usual_duration(runs.iter(), workflow)).await?;
    let (summary, address) =
        (&detail.summary, server.request(Method::GET, &["runs", run.as_str(), "report"]));
    match output {
        Output::Human => print(&report(server, &run, None, "text").await?),
        Output::Json => print_json(&RunDocument {
            schema: "burnin/run/v1",
            run: run.clone(),
            conclusion: summary.conclusion.clone(),
            verdict: summary.verdict,
            checks: summary.checks.clone(),
            suspects: detail.suspects.as_ref().and_then(ShownSuspects::located).cloned(),
            retested: detail.retested.clone(),
            report: address.build().map(|request| request.url().to_string()).unwrap_or_default(),
        }),
    }
    Ok(Exit::of_result(&summary.conclusion, summary.verdict))
}

/// Prints the stages of a run until it is closed. An interrupt does not cancel the run.
async fn follow_run(server: &Server, run: &RunId, expected: Option<Duration>) -> Result<RunDetail, CliError> {
    let mut progress = Progress::new(expected);
    let (mut failures, mut found) = (0, false);
    let closed = loop {
        match poll_run(server, run, &mut progress).await {
            Ok(Some(detail)) => break detail,
            Ok(None) => (failures, found) = (0, true),
            // The server has no such run until the request is recorded.
            Err(error) if (found && error.exit == Exit::Usage) || failures >= FAILURES => {
                let again = format!("{}; {run} continues: `burnin --server ... show {run}`", error.message);
                return Err(CliError { message: again, ..error });
            }
            Err(_) => failures += 1,
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = tokio::signal::ctrl_c() => {
                let message = format!("{run} continues; `burnin --server ... cancel {run}` cancels it");
                return Err(CliError::new(message, Exit::Cancelled));
            }
        }
    };
    progress.finish();
    Ok(closed)
}

/// The run, if it is closed.
async fn poll_run(
    server: &Server,
    run: &RunId,
    progress: &mut Progress,
) -> Result<Option<RunDetail>, CliError> {
    let detail: RunDetail = server.json(server.request(Method::GET, &["runs", run.as_str()])).await?;
    let stages: Vec<StageLine> = detail.stages.iter().cloned().map(StageLine::from).collect();
    let waiting =
        match (detail.summary.stage, stages.iter().any(|line| line.teardown && line.ended.is_none())) {
            (Some(stage), _) => format!("{stage}: in progress"),
            (None, true) => "teardown: waits for the deletion of the cluster".to_owned(),
            (None, false) => String::new(),
        };
    progress.show_stages(&stages, waiting);
    Ok((detail.summary.state == run_index::RunStatus::Closed).then_some(detail))
}

async fn report(server: &Server, run: &RunId, check: Option<&str>, form: &str) -> Result<String, CliError> {
    let query: Vec<_> = [("form", form)].into_iter().chain(check.map(|check| ("check", check))).collect();
    let request = server.request(Method::GET, &["runs", run.as_str(), "report"]).query(&query);
    server.send(request).await?.text().await.map_err(|error| server.connection_error(&error))
}

async fn runs(server: &Server, choice: &RunChoice, output: Output) -> Result<Exit, CliError> {
    let runs = choice.of(all_runs(server).await?, SystemClock.now());
    match output {
        Output::Json => {
            print_json(&RunsDocument { schema: "burnin/runs/v1", runs, damaged: Default::default() })
        }
        Output::Human => print_plain(&table(runs.iter())),
    }
    Ok(Exit::Pass)
}

/// All runs of the server, newest first.
async fn all_runs(server: &Server) -> Result<Vec<RunSummary>, CliError> {
    #[derive(Deserialize)]
    struct Page {
        runs: Vec<RunSummary>,
        next: Option<String>,
    }
    let mut runs: Vec<RunSummary> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let request = server.request(Method::GET, &["runs"]).query(&[("limit", run_index::MAX_PAGE)]);
        let request = after.iter().fold(request, |request, after| request.query(&[("after", after)]));
        let page: Page = server.json(request).await?;
        runs.extend(page.runs);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(runs),
        }
    }
}

/// A run that a user names by its id, by a prefix of the id, or by `latest`.
async fn resolve(server: &Server, name: RunId) -> Result<RunId, CliError> {
    // A complete id ends with a digest; only other names need the list.
    let digest = name.as_str().rsplit_once('-').map_or("", |(_, digest)| digest);
    if digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(name);
    }
    let runs = all_runs(server).await?;
    selected(name, runs.iter().map(|run| &run.run))
}

async fn records(server: &Server, run: &RunId) -> Result<Vec<Record>, CliError> {
    #[derive(Deserialize)]
    struct RunRecords {
        records: Vec<Record>,
    }
    let request = server.request(Method::GET, &["runs", run.as_str(), "records"]);
    let RunRecords { records } = server.json(request).await?;
    Ok(records)
}

async fn show(
    server: &Server,
    run: &RunId,
    check: Option<&str>,
    output: ReportForm,
) -> Result<Exit, CliError> {
    let form = match output {
        ReportForm::Json => {
            let request = server.request(Method::GET, &["runs", run.as_str()]).query(&[("metrics", "true")]);
            let request = request.query(&check.map(|check| ("check", check)).as_slice());
            let detail: RunDetail = server.json(request).await?;
            print_json(&detail);
            return Ok(Exit::Pass);
        }
        ReportForm::Human => "text",
        ReportForm::Csv => "csv",
        ReportForm::Markdown => "markdown",
        ReportForm::Junit => "junit",
        ReportForm::Html => "html",
    };
    print(&report(server, run, check, form).await?);
    Ok(Exit::Pass)
}

async fn cancel(server: &Server, run: &RunId, reason: &str) -> Result<Exit, CliError> {
    let request =
        server.request(Method::POST, &["runs", run.as_str(), "cancel"]).json(&json!({"reason": reason}));
    let before: RunDetail = server.json(request).await?;
    if before.summary.settled_at.is_some() {
        note(format_args!("{run} has already ended: {}", before.summary.conclusion));
    } else {
        note(format_args!("{run} cancel recorded"));
    }
    Ok(Exit::Pass)
}

/// A collected log, as listed by the server.
#[derive(Deserialize)]
struct File {
    name: String,
    size_bytes: u64,
}

async fn files(server: &Server, run: &RunId) -> Result<Vec<File>, CliError> {
    #[derive(Deserialize)]
    struct Files {
        files: Vec<File>,
    }
    let Files { files } = server.json(server.request(Method::GET, &["runs", run.as_str(), "logs"])).await?;
    Ok(files)
}

/// Lists a run's logs, or prints one.
async fn logs(server: &Server, run: &RunId, name: Option<&str>) -> Result<Exit, CliError> {
    match name {
        Some(name) => print_log(server, run, name).await?,
        None => {
            let line = |file: &File| format!("{}  {}\n", file.name, report::size(file.size_bytes));
            print_plain(&files(server, run).await?.iter().map(line).collect::<String>());
        }
    }
    Ok(Exit::Pass)
}

async fn print_log(server: &Server, run: &RunId, name: &str) -> Result<(), CliError> {
    let parts: Vec<_> = ["runs", run.as_str(), "logs"].into_iter().chain(name.split('/')).collect();
    let mut response = server.send(server.request(Method::GET, &parts)).await?;
    let mut rest = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| server.connection_error(&error))? {
        // A chunk may end inside a multi-byte character.
        rest.extend_from_slice(&piece);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        print_plain(&String::from_utf8_lossy(&rest[..whole]));
        rest.drain(..whole);
    }
    print_plain(&String::from_utf8_lossy(&rest));
    Ok(())
}

/// Prints all logs of a run or a check, and with `follow` the logs of later jobs, until the run is closed.
async fn follow_logs(
    server: &Server,
    run: &RunId,
    check: Option<&str>,
    follow: bool,
) -> Result<Exit, CliError> {
    let mut printed = BTreeSet::new();
    let mut waits = false;
    loop {
        let detail: RunDetail = server.json(server.request(Method::GET, &["runs", run.as_str()])).await?;
        let prefix = match check {
            Some(name) => Some(prefix(run, &detail.summary, name)?),
            None => None,
        };
        for File { name, .. } in files(server, run).await? {
            let chosen = prefix.as_ref().is_none_or(|prefix| is_of_check(&name, *prefix));
            if chosen && printed.insert(name.clone()) {
                print_plain(&follow::header(&name));
                print_log(server, run, &name).await?;
            }
        }
        if !follow || detail.summary.state == run_index::RunStatus::Closed || output::is_closed() {
            return follow::ended(run, printed.is_empty());
        }
        if !waits {
            status(format_args!("following {run}: the server publishes a log when its job has ended"));
            waits = true;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Pass),
        }
    }
}

/// Position of a check among the checks of the run; `name@3` is in the third round of a soak.
fn prefix(run: &RunId, summary: &RunSummary, name: &str) -> Result<CheckIndex, CliError> {
    let (base, round) = match name.rsplit_once('@') {
        Some((base, round)) => (base, round.parse::<usize>().ok().and_then(|round| round.checked_sub(1))),
        None => (name, Some(0)),
    };
    let of_round = summary.checks.iter().filter(|check| check.excluded.is_none()).count();
    let first = summary.checks.iter().position(|check| check.name == base);
    let at = first.zip(round).map(|(first, round)| first + round * of_round);
    let at = at.and_then(|at| u16::try_from(at).ok());
    let names: Vec<_> = summary.checks.iter().map(|check| check.name.as_str()).collect();
    let known = || match names.is_empty() {
        true => "it has a single benchmark; omit --check".to_owned(),
        false => format!("its checks are {}", names.join(", ")),
    };
    at.map(CheckIndex).ok_or_else(|| CliError::usage(format!("{run} has no check `{name}`: {}", known())))
}

async fn pin(server: &Server, decide: Decide) -> Result<Exit, CliError> {
    match decide {
        Decide::Pin { run, learned, why } => {
            let detail: RunDetail = server.json(server.request(Method::GET, &["runs", run.as_str()])).await?;
            let workflow = detail.summary.workflow;
            let source = if learned { "learned" } else { "run" };
            let body = json!({"run": run, "source": source, "why": why});
            let request = server.request(Method::PUT, &["baselines", &workflow]).json(&body);
            let _: PinHistory = server.json(request).await?;
            print_plain(&format!("{workflow}: {run} pinned\n"));
        }
        Decide::Unpin { workflow, why } => {
            let request = server.request(Method::DELETE, &["baselines", &workflow]).query(&[("why", why)]);
            let _: PinHistory = server.json(request).await?;
            print_plain(&format!("{workflow}: pin released; the learned baseline applies\n"));
        }
        Decide::Pins { output } => {
            #[derive(Deserialize)]
            struct Baselines {
                workflows: Vec<PinHistory>,
            }
            let Baselines { workflows } = server.json(server.request(Method::GET, &["baselines"])).await?;
            match output {
                Output::Json => print_json(&PinsDocument { schema: "burnin/baselines/v1", workflows }),
                Output::Human => print_plain(&lines(&workflows)),
            }
        }
    }
    Ok(Exit::Pass)
}
