//! `burnin explain` and `replay`: the state of a run, and its history.

use std::fmt::Write;

use lifecycle::{LeaseState, RunState, evolve, fold, owed, wake};
use model::{Record, RecordEntry, RunId, Span, Timestamp};
use service::{Clock, SystemClock};

use crate::{
    commands::print_plain,
    exit::{CliError, Exit},
    local::DataFolder,
    output,
};

/// Prints the entry of a reason code; `None` for a text in lower case that is not a code: it may be a run id.
pub fn code(text: &str) -> Result<Option<Exit>, CliError> {
    let code = text.to_ascii_uppercase().replace('-', "_");
    let entries = report::reasons::entries(&code);
    if entries.is_empty() {
        if !text.starts_with(|c: char| c.is_ascii_uppercase()) {
            return Ok(None);
        }
        let distance = |known: &&str| strsim::damerau_levenshtein(known, &code);
        let nearest = report::reasons::codes()
            .into_iter()
            .min_by_key(distance)
            .filter(|known| distance(known) <= code.len() / 3);
        let help = nearest.map_or_else(
            || "docs/VERDICT.md lists them".to_owned(),
            |known| format!("did you mean `{known}`?"),
        );
        return Err(CliError::usage(format!("`{text}` is not a reason code; {help}")));
    }
    let mut out = String::new();
    for entry in &entries {
        let of = match (entries.len(), entry.metrics) {
            (1, _) => "",
            (_, true) => "  (benchmarks other than nccl-tests)",
            (_, false) => "  (nccl-tests)",
        };
        _ = writeln!(out, "{code}{of}\n  weighs   {}\n  means    {}", entry.weighs, entry.meaning);
        let action = if entry.action.is_empty() { "nothing to do" } else { &entry.action };
        _ = writeln!(out, "  next     {action}");
    }
    print_plain(&out);
    Ok(Some(Exit::Pass))
}

/// Prints the state of a run, the reason, and the pending commands.
pub async fn explain(data: DataFolder, run: &RunId) -> Result<Exit, CliError> {
    let (records, state) = data.state(run).await?;
    let driver = if data.claim(run)?.is_none() { DrivenBy::Here } else { DrivenBy::None };
    print_plain(&explanation(&state, &records, SystemClock.now(), driver));
    Ok(Exit::Pass)
}

/// Prints the state of a run from the records that a server returned.
pub fn explain_records(records: &[Record]) -> Result<Exit, CliError> {
    let state = fold(records).map_err(CliError::infrastructure)?;
    print_plain(&explanation(&state, records, SystemClock.now(), DrivenBy::Server));
    Ok(Exit::Pass)
}

#[derive(Clone, Copy)]
enum DrivenBy {
    /// A process of this host drives the run.
    Here,
    /// The server's conductor drives the run.
    Server,
    None,
}

fn explanation(state: &RunState, records: &[Record], now: Timestamp, driver: DrivenBy) -> String {
    let mut text =
        format!("{}  requested {} ago, {}\n", state.run, ago(now, state.requested_at), state.trigger);
    let mut line = |label: &str, what: String| {
        _ = writeln!(text, "  {label:<8} {what}"); // writing to a String cannot fail
    };
    line("answer", result_text(state, now));
    if let Some(last) = records.last() {
        line(
            "because",
            format!("record {}, {} ago: {}", last.seq, ago(now, last.recorded_at), summary(&last.entry)),
        );
    }
    for (attempt, lease) in &state.leases {
        let what = match lease.state {
            LeaseState::Returned => "returned".to_owned(),
            LeaseState::Asked | LeaseState::Held if state.needs_lease(*attempt) => {
                let word = if lease.state == LeaseState::Held { "held" } else { "requested" };
                format!("{word}, needed; expires at {}", output::display_time(lease.expires_at))
            }
            _ => "no longer needed, to be released".to_owned(),
        };
        line("lease", format!("{} {what}", state.cluster_name(*attempt)));
    }
    let obligations = owed(state, now);
    for obligation in &obligations {
        line("owed", format!("{} since {}", obligation.command.id, ago(now, obligation.since)));
    }
    if obligations.is_empty() {
        line("owed", "nothing".to_owned());
    }
    if let Some(wake) = wake(state, now) {
        line("deadline", format!("next unconditional wake-up at {}", output::display_time(wake)));
    }
    let closed = state.closed.is_some() && state.leases_returned();
    match (closed, driver) {
        (true, _) => line("driven", "no: the run is closed".to_owned()),
        (false, DrivenBy::Here) => line("driven", "by a process on this host".to_owned()),
        (false, DrivenBy::Server) => line("driven", "by the server's conductor".to_owned()),
        (false, DrivenBy::None) => {
            line("driven", format!("not driven; continue with `burnin run --resume {}`", state.run))
        }
    }
    text
}

fn result_text(state: &RunState, now: Timestamp) -> String {
    if let Some((conclusion, at)) = &state.settled {
        let verdict =
            state.verdict().map_or_else(String::new, |reached| format!(", verdict {}", reached.verdict));
        return format!("{}{verdict}, settled {} ago", conclusion.as_str(), ago(now, *at));
    }
    let Some(stage) = state.current_step() else { return "open".to_owned() };
    let Some(known) = state.stage(stage) else { return format!("waits for {stage}") };
    let whose = match &known.handle {
        Some(handle) => format!("accepted as {handle}"),
        None => "not yet accepted".to_owned(),
    };
    let since = known.since.map_or_else(String::new, |since| format!(" for {}", ago(now, since)));
    format!("waits for {stage}, attempt {}{since}: {whose}, limit {}", known.attempt, state.limit(stage))
}

/// Replays the ledger and prints the pending commands after each record.
pub async fn replay(data: DataFolder, run: &RunId) -> Result<Exit, CliError> {
    let (records, _) = data.state(run).await?;
    replay_records(run, &records)
}

/// Replays the records that a server returned.
pub fn replay_records(run: &RunId, records: &[Record]) -> Result<Exit, CliError> {
    let mut text = String::new();
    let mut state: Option<RunState> = None;
    for record in records {
        let next = match state.take() {
            Some(state) => evolve(state, record),
            None => fold([record]).map_err(CliError::infrastructure)?,
        };
        let owes: Vec<_> = owed(&next, record.recorded_at)
            .into_iter()
            .map(|obligation| obligation.command.id.to_string().replacen(&format!("{run}."), "", 1))
            .collect();
        let owes = if owes.is_empty() { "nothing".to_owned() } else { owes.join(", ") };
        _ = writeln!(
            text,
            "{:>4}  {}  {}\n      owed then: {owes}",
            record.seq,
            record.recorded_at,
            summary(&record.entry)
        );
        state = Some(next);
    }
    print_plain(&text);
    Ok(Exit::Pass)
}

fn summary(entry: &RecordEntry) -> String {
    match entry {
        RecordEntry::Accepted { event, attempt, fact } => {
            let name = fact.event_type().trim_start_matches("dev.burnin.").trim_end_matches(".v1");
            let why = fact
                .failure()
                .map_or_else(String::new, |failure| format!(" ({}: {})", failure.code, failure.message));
            format!("{name}, attempt {attempt}, from {}{why}", event.source)
        }
        RecordEntry::AttemptOpened { stage, attempt, because } => {
            format!("{stage} attempt {attempt} opened because of {}", because.code)
        }
        RecordEntry::Overdue { stage, attempt } => {
            format!("{stage} attempt {attempt} passed its limit and is polled")
        }
        RecordEntry::TimedOut { stage, attempt } => {
            format!("{stage} attempt {attempt} did not respond to a poll")
        }
        RecordEntry::OverBudget { spent, budget } => format!("over budget: {spent} of {budget} spent"),
        RecordEntry::Closed { conclusion } => format!("closed: {}", conclusion.as_str()),
    }
}

/// A duration in whole seconds, for display.
fn ago(now: Timestamp, then: Timestamp) -> Span {
    Span::from_secs(now.since(then).0.as_secs())
}
