//! `burnin baseline pin`, `unpin` and `pins`: the reference run of a workflow.

use std::fmt::Write;

use pins::{DecidedBy, NewPin, PinHistory, PinNote, PinOutcome, Pins};
use run_index::ReferenceError;
use service::{Clock, SystemClock};
use verdict::pin::PinSource;

use super::{print_json, print_plain};
use crate::{
    args::{Decide, Output},
    documents::PinsDocument,
    exit::{CliError, Exit},
    local::DataFolder,
};

/// Pins or releases a run, or lists the pins.
pub async fn decide(data: DataFolder, decide: Decide) -> Result<Exit, CliError> {
    let pins = Pins::new(data.store.clone());
    match decide {
        Decide::Pin { run, learned, why } => {
            let source = if learned { PinSource::Learned } else { PinSource::Run };
            let reference = data.run_index().reference(None, &run, source).await;
            let reference = reference.map_err(|error| match error {
                ReferenceError::Unknown(run) => data.unknown(&run),
                ReferenceError::Unfit { .. } => CliError::usage(error),
                ReferenceError::Index(error) => CliError::infrastructure(error),
            })?;
            let pinned = NewPin { run: run.clone(), source, baseline: reference.baseline };
            let workflow = reference.workflow;
            match pins.pin(&workflow, pinned, decided_by(why)).await.map_err(CliError::infrastructure)? {
                PinOutcome::Before => print_plain(&format!("{workflow}: {run} is already pinned\n")),
                PinOutcome::Now | PinOutcome::Never => {
                    print_plain(&format!("{workflow}: {run} pinned\n"));
                }
            }
        }
        Decide::Unpin { workflow, why } => {
            // An invalid name could resolve to another path in the folder.
            if workflow.is_empty() || workflow.contains(['/', '\\', '.']) {
                return Err(CliError::usage(format!(
                    "workflow: `{workflow}` is not a workflow name; `burnin runs` lists the workflows of runs"
                )));
            }
            match pins.release(&workflow, decided_by(why)).await.map_err(CliError::infrastructure)? {
                PinOutcome::Now => {
                    print_plain(&format!("{workflow}: pin released; the learned baseline applies\n"));
                }
                PinOutcome::Before => print_plain(&format!("{workflow}: already released\n")),
                PinOutcome::Never => {
                    let why = format!("{workflow} has no pins; see `burnin baseline pins`");
                    return Err(CliError::usage(why));
                }
            }
        }
        Decide::Pins { output } => {
            let workflows = pins.all().await.map_err(CliError::infrastructure)?;
            match output {
                Output::Json => print_json(&PinsDocument { schema: "burnin/baselines/v1", workflows }),
                Output::Human => print_plain(&lines(&workflows)),
            }
        }
    }
    Ok(Exit::Pass)
}

/// All decisions, one line each.
pub fn lines(workflows: &[PinHistory]) -> String {
    let lines = workflows.iter().flat_map(|pins| {
        let newest = pins.history.last().map(|newest| newest.number);
        pins.history.iter().map(move |noted| pin_line(&pins.workflow, noted, newest))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { "no pins\n".to_owned() } else { lines }
}

fn decided_by(why: String) -> DecidedBy {
    let by = super::user();
    DecidedBy { by, at: SystemClock.now(), why }
}

/// Names and reasons are external text: only printable characters reach the terminal.
fn pin_line(workflow: &str, noted: &PinNote, newest: Option<u64>) -> String {
    let plain = |text: &str| text.chars().filter(|letter| !letter.is_control()).collect::<String>();
    let at = noted.at.to_string();
    let mut line = format!("{workflow}  {}  {}", noted.number, at.get(..16).unwrap_or(&at));
    let _ = match (&noted.run, noted.source) {
        (Some(run), Some(PinSource::Learned)) => write!(line, "  pinned the baseline of {run}"),
        (Some(run), _) => write!(line, "  pinned {run}"),
        (None, _) => write!(line, "  released"),
    };
    let _ = write!(line, " by {}", plain(&noted.by));
    if !noted.why.is_empty() {
        let _ = write!(line, ": {}", plain(&noted.why));
    }
    if Some(noted.number) == newest && noted.run.is_some() {
        line.push_str("  (in force)");
    }
    line + "\n"
}
