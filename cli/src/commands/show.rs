//! `burnin runs` and `show`.

use comfy_table::{Table, presets};
use kit::{Clock, SystemClock};
use machine::{RunState, owed};
use terms::RunId;

use crate::{
    args::{Output, ReportForm},
    commands::{print, print_json, told::Told},
    documents::{RunLine, RunsDocument, ShowDocument, StageDocument},
    exit::{Error, Exit},
    local::Data,
};

/// Lists the runs.
pub async fn runs(data: Data, output: Output) -> Result<Exit, Error> {
    let mut runs = Vec::new();
    for run in data.ledger.runs().await.map_err(Error::infrastructure)? {
        let (_, state) = data.state(&run).await?;
        runs.push(line(&state));
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.requested_at));
    if output == Output::Json {
        print_json(&RunsDocument { schema: "burnin/runs/v1", runs });
        return Ok(Exit::Pass);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["run", "requested", "conclusion", "verdict", "stage"]);
    for run in &runs {
        table.add_row([
            run.run.to_string(),
            run.requested_at.to_string(),
            run.conclusion.clone(),
            run.verdict.map_or_else(|| "-".to_owned(), |verdict| verdict.to_string()),
            run.stage.map_or_else(|| "-".to_owned(), |stage| stage.to_string()),
        ]);
    }
    print(&format!("{}\n", table.trim_fmt()));
    Ok(Exit::Pass)
}

fn line(state: &RunState) -> RunLine {
    let settled = state.closed.and(state.settled.as_ref());
    RunLine {
        run: state.run.clone(),
        workflow: state.workflow.name.clone(),
        requested_at: state.requested_at,
        conclusion: settled.map_or("open", |(conclusion, _)| conclusion.as_str()).to_owned(),
        verdict: state.verdict().map(|reached| reached.verdict),
        stage: state.frontier(),
    }
}

/// Shows one run, as its report does.
pub async fn show(data: Data, run: &RunId, output: ReportForm) -> Result<Exit, Error> {
    let told = Told::gather(&data, run).await?;
    match output {
        ReportForm::Human => print(&told.terminal()),
        ReportForm::Json => print_json(&document(&told)),
        ReportForm::Csv => print(&report::csv(&told.story())),
        ReportForm::Markdown => print(&report::markdown(&told.story())),
        ReportForm::Junit => print(&report::junit(&told.story())),
        ReportForm::Html => print(&report::html(&told.story())),
    }
    Ok(Exit::Pass)
}

fn document(told: &Told) -> ShowDocument {
    let state = &told.state;
    let stages = report::timeline(&told.records).into_iter().map(|line| StageDocument {
        stage: line.stage,
        attempt: line.attempt,
        teardown: line.teardown,
        began: line.began,
        ended: line.ended,
        outcome: line.outcome,
    });
    ShowDocument {
        schema: "burnin/show/v1",
        line: line(state),
        reasons: state.verdict().map(|reached| reached.reasons.clone()).unwrap_or_default(),
        suspects: state.suspects().cloned(),
        stages: stages.collect(),
        owed: owed(state, SystemClock.now()).iter().map(|owed| owed.command.id.to_string()).collect(),
        logs: state.logs().map(|logs| logs.manifest.clone()),
    }
}
