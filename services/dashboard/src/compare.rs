//! Comparison of two runs.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    response::Response,
};
use model::{RunId, measurement::Table};
use report::comparison::{self, RunPair};
use run_index::{Elsewhere, RunFilter, RunReport};
use serde::{Deserialize, Serialize};
use verdict::{compare::compare, fingerprint::Fingerprint};

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    run::named,
};

/// Query: the earlier and the later run.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CompareQuery {
    a: String,
    b: String,
}

#[derive(Serialize)]
struct ComparePage {
    a: String,
    b: String,
    /// Runs to choose from, newest first.
    runs: Vec<String>,
    /// The comparison as HTML, escaped by the report crate.
    report: Option<String>,
    problem: Option<String>,
}

/// `GET /compare`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Query(CompareQuery { a, b }): Query<CompareQuery>,
) -> Result<Response, ErrorPage> {
    let wanted = RunFilter { limit: Some(200), ..RunFilter::default() };
    let runs = dashboard.view.page(&wanted).await?.runs;
    let runs = runs.into_iter().filter(|line| line.verdict.is_some()).map(|line| line.run.to_string());
    let mut view = ComparePage { a, b, runs: runs.collect(), report: None, problem: None };
    if !view.a.is_empty() && !view.b.is_empty() {
        let (before, after) = (report(&dashboard, &view.a).await?, report(&dashboard, &view.b).await?);
        match (measured(&before), measured(&after)) {
            (Ok(first), Ok(second)) => {
                let found = compare((&first.0, &first.1), (&second.0, &second.1));
                view.report = Some(comparison::part(RunPair { a: &view.a, b: &view.b, found: &found }));
            }
            (Err(why), _) => view.problem = Some(format!("{}: {why}", view.a)),
            (_, Err(why)) => view.problem = Some(format!("{}: {why}", view.b)),
        }
    }
    Ok(frame::page(dashboard.beside_gateway, "Two runs", "compare.html", view))
}

async fn report(dashboard: &Dashboard, run: &str) -> Result<RunReport, ErrorPage> {
    let run: RunId = named(run)?;
    let told = dashboard.view.report(&run, Elsewhere::default()).await?;
    told.ok_or_else(|| ErrorPage::no_run(&run))
}

/// The only table of a run, and its fingerprint.
fn measured(told: &RunReport) -> Result<(Table, Fingerprint), &'static str> {
    let story = told.story();
    let tables = story.logs.first().map_or(&[][..], |log| &log.reading.tables[..]);
    let [table] = tables else {
        return Err("expected the measurements of one benchmark, found none or several");
    };
    let fingerprint = told.state.verdict().map(|reached| reached.fingerprint.clone()).unwrap_or_default();
    Ok((table.clone(), Fingerprint(fingerprint)))
}
