//! `burnin logs --follow` and `--check`: the logs of a run one after the other, and the output of its running job.

use std::{collections::BTreeSet, time::Duration};

use model::{Attempt, CheckIndex, RunId};
use run_index::RunLog;

use crate::{
    commands::{print_plain, show},
    exit::{CliError, Exit},
    live::{LiveOutput, NewLines},
    local::DataFolder,
    output,
};

/// Interval between reads of a running job's output.
const PACE: Duration = Duration::from_millis(500);

/// Prints all logs of a run or a check; with `follow` also the output of later jobs, until the run is closed.
pub async fn logs(
    data: DataFolder,
    run: &RunId,
    check: Option<&str>,
    follow: bool,
) -> Result<Exit, CliError> {
    let check = match check {
        Some(name) => Some(show::position(&data, run, name).await?),
        None => None,
    };
    let mut live = LiveOutput::new(&data);
    let mut printed = PrintedLogs::default();
    loop {
        let (_, state) = data.state(run).await?;
        if follow {
            for NewLines { file, text } in live.next(&state, check).await {
                printed.print(&file, &text);
            }
        }
        let logs = data.run_index().logs(run).await.map_err(CliError::infrastructure)?;
        for RunLog { file, object } in logs.map(|logs| logs.files).unwrap_or_default() {
            let chosen = check.is_none_or(|check| is_of_check(&file.name, check));
            if !chosen || !printed.complete.insert(file.name.clone()) {
                continue;
            }
            let missing = || {
                CliError::usage(format!("{object} is missing in the data folder; restore it from a backup"))
            };
            let body =
                data.store.read(&object).await.map_err(CliError::infrastructure)?.ok_or_else(missing)?;
            let text = String::from_utf8_lossy(&body);
            let seen = live.lines_of(&file.name);
            let rest: String = text.split_inclusive('\n').skip(seen).collect();
            if seen == 0 || !rest.is_empty() {
                printed.print(&file.name, &rest);
            }
        }
        if !follow || state.closed.is_some() || output::is_closed() {
            return ended(run, printed.complete.is_empty() && printed.last.is_none());
        }
        tokio::select! {
            () = tokio::time::sleep(PACE) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Pass),
        }
    }
}

#[derive(Default)]
struct PrintedLogs {
    /// Name of the last printed log: further lines of this log need no header.
    last: Option<String>,
    /// Names of the collected logs already printed; a collected log does not change.
    complete: BTreeSet<String>,
}

impl PrintedLogs {
    fn print(&mut self, file: &str, text: &str) {
        if self.last.as_deref() != Some(file) {
            self.last = Some(file.to_owned());
            print_plain(&header(file));
        }
        print_plain(text);
        if !text.is_empty() && !text.ends_with('\n') {
            print_plain("\n");
        }
    }
}

/// The header before the content of a log, in the format of `tail`.
pub fn header(file: &str) -> String {
    format!("==> {file} <==\n")
}

/// Whether a collected log belongs to a check: the log's name begins with the attempt, which contains the check's
/// number.
pub fn is_of_check(file: &str, check: CheckIndex) -> bool {
    let attempt = file.split('/').next().and_then(|attempt| attempt.parse::<Attempt>().ok());
    attempt.is_some_and(|attempt| attempt.check == check)
}

/// Returns an error if no log exists.
pub fn ended(run: &RunId, nothing: bool) -> Result<Exit, CliError> {
    if nothing {
        return Err(CliError::usage(format!("{run} has no logs yet; `burnin show {run}` shows its stage")));
    }
    Ok(Exit::Pass)
}
