//! `burnin audit`: versions and settings of nodes and GPUs, differences first.

use std::path::PathBuf;

use comfy_table::{Table, presets};
use model::{NodeEvidence, RunId, count};
use verdict::audit::{Audit, Setting, SettingValue};

use crate::{
    args::Output,
    commands::{parse, print, print_json},
    exit::{CliError, Exit},
    local::DataFolder,
};

/// Maximum number of nodes or GPUs named for a value.
const NAMED: usize = 6;

/// Compares the evidence in logs.
pub fn logs(logs: &[PathBuf], output: Output) -> Result<Exit, CliError> {
    let mut evidence = Vec::new();
    for log in logs {
        evidence.extend(parse::listen(log)?.0.evidence);
    }
    Ok(shown(&Audit::of(&evidence), output))
}

/// Compares the evidence of all checks of a run.
pub async fn run(data: DataFolder, run: &RunId, output: Output) -> Result<Exit, CliError> {
    let (_, state) = data.state(run).await?;
    let mut evidence: Vec<NodeEvidence> = Vec::new();
    for check in state.checks() {
        let report = data.run_report(run, Some(check)).await?;
        evidence.extend(report.story().logs.iter().flat_map(|log| log.reading.evidence.iter().cloned()));
    }
    Ok(shown(&Audit::of(&evidence), output))
}

/// Prints the audit. Exit code 1 if a setting differs, 2 without evidence of two nodes or two GPUs.
fn shown(audit: &Audit, output: Output) -> Exit {
    match output {
        Output::Json => print_json(audit),
        Output::Human => print(&text(audit)),
    }
    match audit.differs() {
        true => Exit::Fail,
        false if audit.nodes < 2 && audit.gpus < 2 => Exit::Inconclusive,
        false => Exit::Pass,
    }
}

fn text(audit: &Audit) -> String {
    let of = format!("{} and {}", count(audit.nodes, "node"), count(audit.gpus, "GPU"));
    if audit.nodes == 0 {
        return "no hardware evidence: run a check whose criteria have `evidence: judged`\n".to_owned();
    }
    let differing = audit.settings.iter().filter(|setting| setting.differs()).count() as u64;
    let mut text = match differing {
        0 => format!("all versions and settings of {of} are equal\n"),
        1 => format!("1 of the settings of {of} differs\n"),
        _ => format!("{differing} of the settings of {of} differ\n"),
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["", "setting", "value", "nodes or GPUs"]);
    for setting in &audit.settings {
        for (at, value) in setting.values.iter().enumerate() {
            let name = if at == 0 { setting.name.as_str() } else { "" };
            let mark = if setting.differs() { "!" } else { "" };
            let shown = value.value.as_deref().unwrap_or("(absent)");
            table.add_row([mark, name, shown, &subjects(setting, at, value)]);
        }
    }
    text += &format!("{table}\n");
    for part in &audit.missing {
        text += &format!("missing: {part}\n");
    }
    text
}

/// The names, or their number where they are the majority.
fn subjects(setting: &Setting, at: usize, value: &SettingValue) -> String {
    let all = value.subjects.len();
    if at == 0 {
        return if setting.differs() { format!("{all}") } else { "all".to_owned() };
    }
    let more = all.saturating_sub(NAMED);
    let named = value.subjects[..all - more].join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}
