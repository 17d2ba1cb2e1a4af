//! `burnin runs` and `show`.

use comfy_table::{Table, presets};
use model::RunId;
use run_index::RunReport;

use crate::{
    args::{Output, ReportForm},
    commands::{note, print, print_json, print_plain, style},
    documents::RunsDocument,
    exit::{CliError, Exit},
    local::DataFolder,
};

pub async fn runs(data: DataFolder, output: Output) -> Result<Exit, CliError> {
    let view = data.view();
    let runs = view.all().await.map_err(CliError::infrastructure)?;
    let damaged = view.damaged().await.map_err(CliError::infrastructure)?;
    for (run, why) in &damaged {
        note(format_args!("error: run {run} is damaged and not listed: {why}"));
    }
    let exit = if damaged.is_empty() { Exit::Pass } else { Exit::Infrastructure };
    if output == Output::Json {
        let runs = runs.iter().map(|line| run_index::RunSummary::clone(line)).collect();
        print_json(&RunsDocument { schema: "burnin/runs/v1", runs, damaged });
        return Ok(exit);
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
    print_plain(&format!("{}\n", table.trim_fmt()));
    Ok(exit)
}

/// Prints the report of a run.
pub async fn show(data: DataFolder, run: &RunId, output: ReportForm) -> Result<Exit, CliError> {
    if output == ReportForm::Json {
        let detail = data.view().detail(run).await.map_err(CliError::infrastructure)?;
        print_json(&detail.ok_or_else(|| data.unknown(run))?);
        return Ok(Exit::Pass);
    }
    let told = data.run_report(run).await?;
    match output {
        ReportForm::Human | ReportForm::Json => print(&terminal(&told)),
        ReportForm::Csv => print(&report::csv(&told.story())),
        ReportForm::Markdown => print(&report::markdown(&told.story())),
        ReportForm::Junit => print(&report::junit(&told.story())),
        ReportForm::Html => print(&report::html(&told.story())),
    }
    Ok(Exit::Pass)
}

pub fn terminal(told: &RunReport) -> String {
    report::terminal(&told.story(), style())
}
