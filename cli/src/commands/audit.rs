//! `burnin audit`: prints versions and settings of nodes and GPUs that differ, then versions below a minimum, then recommendations.

use std::path::PathBuf;

use comfy_table::{Table, presets};
use model::{NodeEvidence, RunId, count, measurement::Reading};
use verdict::{
    audit::{Audit, Setting, SettingValue},
    minimum::MINIMUMS_DATE,
};

use crate::{
    args::Output,
    commands::{
        parse::{self, ReadFormat},
        print, print_json,
    },
    exit::{CliError, Exit},
    local::DataFolder,
};

/// Maximum number of nodes or GPUs named for a value.
const NAMED: usize = 6;

/// Evidence of nodes, and the version of NCCL by check or log.
#[derive(Default)]
struct AuditEvidence {
    evidence: Vec<NodeEvidence>,
    nccl: Vec<(String, String)>,
}

impl AuditEvidence {
    fn add(&mut self, source: &str, reading: &Reading) {
        self.evidence.extend(reading.evidence.iter().cloned());
        for version in reading.tables.iter().filter_map(|table| table.nccl_version.as_ref()) {
            let entry = (source.to_owned(), version.clone());
            if !self.nccl.contains(&entry) {
                self.nccl.push(entry);
            }
        }
    }

    fn audit(&self) -> Audit {
        Audit::of(&self.evidence, &self.nccl)
    }
}

/// Compares the evidence in logs.
pub fn logs(logs: &[PathBuf], output: Output) -> Result<Exit, CliError> {
    let mut found = AuditEvidence::default();
    for log in logs {
        found.add(&log.display().to_string(), &parse::read_with_clues(log, &ReadFormat::Detected)?.0);
    }
    Ok(print_audit(&found.audit(), output))
}

/// Compares the evidence of all checks of a run.
pub async fn run(data: DataFolder, run: &RunId, output: Output) -> Result<Exit, CliError> {
    let (_, state) = data.state(run).await?;
    let mut found = AuditEvidence::default();
    for check in state.checks() {
        let report = data.run_report(run, Some(check)).await?;
        let source =
            state.workflow.check(check).map_or_else(|| run.to_string(), |check| check.name.to_string());
        for log in &report.input().logs {
            found.add(&source, log.reading);
        }
    }
    Ok(print_audit(&found.audit(), output))
}

/// Prints the audit. Exit code 1 if a setting differs or a version is below a minimum; 2 if a version or some nodes cannot be
/// compared, or if the evidence covers fewer than two nodes and fewer than two GPUs.
fn print_audit(audit: &Audit, output: Output) -> Exit {
    match output {
        Output::Json => print_json(audit),
        Output::Human => print(&text(audit)),
    }
    if audit.differs() || !audit.below_minimum.is_empty() {
        Exit::Fail
    } else if audit.is_incomplete() || !audit.unreadable_versions.is_empty() {
        Exit::Inconclusive
    } else {
        Exit::Pass
    }
}

fn text(audit: &Audit) -> String {
    let mut text = match audit.nodes {
        0 => "no hardware evidence: run a check whose criteria have `evidence: judged`\n".to_owned(),
        _ => settings(audit),
    };
    for it in &audit.below_minimum {
        text += &format!(
            "below minimum: {} {} on {}: {}; install {} ({}, {})\n",
            it.component,
            it.version,
            names(&it.subjects),
            it.reason,
            it.minimum,
            it.date,
            it.source
        );
    }
    for it in &audit.unreadable_versions {
        let (component, on) = (&it.component, names(&it.subjects));
        text +=
            &format!("invalid version: {component} {:?} on {on}; not compared with the minimums\n", it.text);
    }
    if audit.below_minimum.is_empty() && audit.unreadable_versions.is_empty() {
        text += &format!("no version is below the minimums of {MINIMUMS_DATE}\n");
    }
    for it in &audit.recommendations {
        let on = names(&it.subjects);
        text +=
            &format!("recommendation: {} is {} on {on}: {} ({})\n", it.setting, it.value, it.text, it.source);
    }
    if audit.has_gpus() {
        for node in &audit.without_gpus {
            text += &format!("{node}: nvidia-smi listed no GPU; its GPUs are not compared\n");
        }
    } else if audit.nodes > 0 {
        text += "no node lists a GPU; GPUs are not compared\n";
    }
    for node in &audit.without_settings {
        text += &format!(
            "{node}: no settings in its evidence; run the check again with this version of Burnin\n"
        );
    }
    for part in &audit.missing {
        text += &format!("missing: {part}\n");
    }
    text
}

/// Table of all settings, and the number of settings that differ.
fn settings(audit: &Audit) -> String {
    let nodes = audit.nodes.saturating_sub(audit.without_settings.len() as u64);
    let of = format!("{} and {}", count(nodes, "node"), count(audit.gpus, "GPU"));
    let differing = audit.settings.iter().filter(|setting| setting.differs()).count() as u64;
    let text = match differing {
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
    format!("{text}{table}\n")
}

/// Names of the nodes or GPUs with a value. The most frequent value (position 0) has their number instead, such as `31 of 32`, or `all`.
fn subjects(setting: &Setting, at: usize, value: &SettingValue) -> String {
    let total: usize = setting.values.iter().map(|value| value.subjects.len()).sum();
    match value.subjects.len() {
        _ if !setting.differs() => "all".to_owned(),
        count if at == 0 && count > 1 => format!("{count} of {total}"),
        _ => names(&value.subjects),
    }
}

/// The first [`NAMED`] names, and the number of further names.
fn names(subjects: &[String]) -> String {
    let more = subjects.len().saturating_sub(NAMED);
    let named = subjects[..subjects.len() - more].join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}
