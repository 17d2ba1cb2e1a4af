//! Dynamic completions: run ids, workflows and checks, read when the shell requests them.
//!
//! After an error the list is empty, because a shell cannot show the error.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap_complete::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, Shell,
    engine::ValueCompleter,
    env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh},
};

/// Maximum number of run ids; older runs are left out.
const RUNS: usize = 200;
/// Environment variable that the shell's completion script sets when it calls this program.
pub const VARIABLE: &str = "BURNIN_COMPLETE";

/// The script that registers the completions of a shell; `None` for a shell without dynamic completions.
pub fn script(shell: Shell) -> Option<String> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
        _ => return None,
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "burnin", "burnin", "burnin", &mut script).ok()?;
    String::from_utf8(script).ok()
}

/// Ids of runs in the data folder, newest first, and `latest`.
pub fn runs() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let ids = run_ids(&data_folder()).into_iter().map(|(id, _)| id);
        matching(std::iter::once("latest".to_owned()).chain(ids), current)
    })
}

/// Names of the workflows in the folder `workflows` and of the workflows of runs.
pub fn workflow_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let files = workflow_files(Path::new("workflows"));
        let files = files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()));
        let runs = run_ids(&data_folder());
        let of_runs = runs.iter().filter_map(|(id, _)| Some(id.rsplit_once('-')?.0.to_owned()));
        let names: BTreeSet<_> = files.chain(of_runs).collect();
        matching(names.into_iter(), current)
    })
}

/// Files of the folder `workflows`, then any path.
pub fn workflow_files_or_paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let files = workflow_files(Path::new("workflows"));
        let files = files.iter().map(|file| file.display().to_string());
        let mut found = matching(files, current);
        found.extend(PathCompleter::file().complete(current));
        found
    })
}

/// Checks of the run that the command line names, or of the newest runs.
pub fn checks() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let data = data_folder();
        let words: Vec<_> = std::env::args().collect();
        let runs = run_ids(&data);
        let named = runs
            .iter()
            .filter(|(id, _)| words.iter().any(|word| id.starts_with(word.as_str()) && word.len() > 2));
        let named: Vec<_> = named.take(1).chain(runs.iter().take(1)).collect();
        let names = named.first().map_or_else(Vec::new, |(id, _)| checks_of(&data, id));
        matching(names.into_iter(), current)
    })
}

fn matching(names: impl Iterator<Item = String>, current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let plain = |name: &String| !name.chars().any(report::is_control);
    names.filter(|name| name.starts_with(&*current)).filter(plain).map(CompletionCandidate::new).collect()
}

/// The data folder of the command line, of the environment, or the default one.
fn data_folder() -> PathBuf {
    let words: Vec<OsString> = std::env::args_os().collect();
    let named = words.windows(2).find(|pair| pair[0] == "--data").map(|pair| pair[1].clone());
    let joined = || {
        let of = |word: &OsString| word.to_str()?.strip_prefix("--data=").map(OsString::from);
        words.iter().find_map(of)
    };
    named
        .or_else(joined)
        .or_else(|| std::env::var_os("BURNIN_DATA"))
        .map_or_else(|| ".burnin".into(), PathBuf::from)
}

/// Ids of runs with the time of their first record, newest first.
fn run_ids(data: &Path) -> Vec<(String, SystemTime)> {
    let Ok(entries) = fs::read_dir(data.join("ledger")) else { return Vec::new() };
    let id = |entry: fs::DirEntry| {
        let id = entry.file_name().into_string().ok()?;
        Some((id, entry.metadata().ok()?.modified().ok()?))
    };
    let mut ids: Vec<_> = entries.flatten().filter_map(id).collect();
    ids.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    ids.truncate(RUNS);
    ids
}

fn workflow_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(yaml).collect();
    files.sort();
    files
}

/// Names of the checks, from the first record of the run.
fn checks_of(data: &Path, run: &str) -> Vec<String> {
    let first = || {
        let entries = fs::read_dir(data.join("ledger").join(run)).ok()?;
        let first = entries.flatten().map(|entry| entry.path()).min()?;
        let record: serde_json::Value = serde_json::from_slice(&fs::read(first).ok()?).ok()?;
        let workflow = record.pointer("/entry/accepted/fact/data/workflow")?;
        let checks = workflow["checks"].as_array()?;
        Some(checks.iter().filter_map(|check| Some(check["name"].as_str()?.to_owned())).collect())
    };
    first().unwrap_or_default()
}
