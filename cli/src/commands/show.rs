//! `burnin runs` and `show`: the list of runs, and the report of one run.

use comfy_table::{Table, presets};
use model::{CheckIndex, Conclusion, RunId};
use run_index::{RunLog, RunReport, RunSummary};
use service::{Clock, SystemClock};

use crate::{
    args::{Output, ReportForm, RunChoice},
    commands::{note, print, print_json, print_plain, screen},
    documents::RunsDocument,
    exit::{CliError, Exit},
    local::DataFolder,
    output,
};

pub async fn runs(data: DataFolder, choice: &RunChoice, output: Output) -> Result<Exit, CliError> {
    let run_index = data.run_index();
    let runs = choice.of(run_index.all().await.map_err(CliError::infrastructure)?, SystemClock.now());
    let damaged = run_index.damaged().await.map_err(CliError::infrastructure)?;
    for (run, why) in &damaged {
        note(format_args!("error: run {run} is damaged and not listed: {why}"));
    }
    let exit = if damaged.is_empty() { Exit::Pass } else { Exit::Infrastructure };
    if output == Output::Json {
        let runs = runs.iter().map(|summary| run_index::RunSummary::clone(summary)).collect();
        print_json(&RunsDocument { schema: "burnin/runs/v1", runs, damaged });
        return Ok(exit);
    }
    print_plain(&table(runs.iter().map(|run| &**run)));
    Ok(exit)
}

/// One line for each run; on a terminal the widest version that fits.
pub fn table<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> String {
    let runs: Vec<_> = runs.collect();
    let all = drawn(&runs, RunsTable::All);
    let Some(width) = output::width() else { return all };
    let fits = |text: &String| text.lines().all(|line| line.chars().count() <= width);
    let narrower = [RunsTable::LocalTimes, RunsTable::Results, RunsTable::Short, RunsTable::NoTimes];
    let mut versions = narrower.into_iter().map(|version| drawn(&runs, version));
    versions.find(fits).unwrap_or_else(|| drawn(&runs, RunsTable::NoTimes))
}

/// Columns of the list of runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunsTable {
    /// All columns, with exact times in UTC, for programs.
    All,
    /// All columns, with times in the reader's time zone and in UTC.
    LocalTimes,
    /// No column for the stage; the conclusion is shown only for runs without a verdict.
    Results,
    /// The columns of `Results`, with dates without a year.
    Short,
    NoTimes,
}

fn drawn(runs: &[&RunSummary], version: RunsTable) -> String {
    let mut table = Table::new();
    let header: &[&str] = match version {
        RunsTable::All | RunsTable::LocalTimes => &["run", "requested", "conclusion", "verdict", "stage"],
        RunsTable::Results | RunsTable::Short => &["run", "requested", "result"],
        RunsTable::NoTimes => &["run", "result"],
    };
    table.load_style(presets::NOTHING).set_header(header);
    let none = || "-".to_owned();
    for run in runs {
        let verdict = run.verdict.map(|verdict| verdict.to_string());
        let stage = run.stage.map(|stage| stage.to_string());
        let completed = run.conclusion == Conclusion::Completed.as_str();
        let result = match (&verdict, &stage) {
            (Some(verdict), _) if completed => verdict.clone(),
            (_, Some(stage)) => format!("open: {stage}"),
            _ => run.conclusion.clone(),
        };
        let (id, at) = (run.run.to_string(), run.requested_at);
        let (verdict, stage) = (verdict.unwrap_or_else(none), stage.unwrap_or_else(none));
        table.add_row(match version {
            RunsTable::All => vec![id, at.to_string(), run.conclusion.clone(), verdict, stage],
            RunsTable::LocalTimes => {
                vec![id, output::local_and_utc(at, "%Y-%m-%d"), run.conclusion.clone(), verdict, stage]
            }
            RunsTable::Results => vec![id, output::local_and_utc(at, "%Y-%m-%d"), result],
            RunsTable::Short => vec![id, output::local_and_utc(at, "%m-%d"), result],
            RunsTable::NoTimes => vec![id, result],
        });
    }
    format!("{}\n", table.trim_fmt())
}

/// Lists a run's committed logs, or prints one.
pub async fn logs(data: DataFolder, run: &RunId, name: Option<&str>) -> Result<Exit, CliError> {
    let logs = data.run_index().logs(run).await.map_err(CliError::infrastructure)?;
    let logs = logs.ok_or_else(|| data.unknown(run))?;
    if logs.files.is_empty() {
        return Err(CliError::usage(format!("{run} has no logs yet; `burnin show {run}` shows its stage")));
    }
    let Some(name) = name else {
        let line = |log: &RunLog| format!("{}  {}\n", log.file.name, report::size(log.file.size_bytes));
        print_plain(&logs.files.iter().map(line).collect::<String>());
        return Ok(Exit::Pass);
    };
    let Some(RunLog { object, .. }) = logs.named(name) else {
        return Err(CliError::usage(format!("{run} has no log `{name}`; `burnin logs {run}` lists them")));
    };
    let missing =
        || CliError::usage(format!("{object} is missing in the data folder; restore it from a backup"));
    let body = data.store.read(object).await.map_err(CliError::infrastructure)?.ok_or_else(missing)?;
    print_plain(&String::from_utf8_lossy(&body));
    Ok(Exit::Pass)
}

/// Prints the report of a run.
pub async fn show(
    data: DataFolder,
    run: &RunId,
    check: Option<&str>,
    output: ReportForm,
) -> Result<Exit, CliError> {
    let check = match check {
        Some(name) => Some(position(&data, run, name).await?),
        None => None,
    };
    if output == ReportForm::Json {
        let detail = data.run_index().detail_of(run, check).await.map_err(CliError::infrastructure)?;
        print_json(&detail.ok_or_else(|| data.unknown(run))?);
        return Ok(Exit::Pass);
    }
    let report = data.run_report(run, check).await?;
    match output {
        ReportForm::Human | ReportForm::Json => print(&terminal(&report)),
        ReportForm::Csv => print(&report::csv(&report.input())),
        ReportForm::Markdown => print(&report::markdown(&report.input())),
        ReportForm::Junit => print(&report::junit(&report.input())),
        ReportForm::Html => print(&report::html(&report.input())),
    }
    Ok(Exit::Pass)
}

pub async fn position(data: &DataFolder, run: &RunId, name: &str) -> Result<CheckIndex, CliError> {
    let (_, state) = data.state(run).await?;
    let names: Vec<_> = state.workflow.checks.iter().map(|check| check.name.as_str()).collect();
    let known = || match names.is_empty() {
        true => "it has a single benchmark; omit --check".to_owned(),
        false => format!("its checks are {}", names.join(", ")),
    };
    state
        .check_named(name)
        .ok_or_else(|| CliError::usage(format!("{run} has no check `{name}`: {}", known())))
}

pub fn terminal(report: &RunReport) -> String {
    report::terminal(&report.input(), screen())
}
