//! `cargo xtask schemas` and `rooms`: write generated files; with `--check`, they only compare the files.
//! `cargo xtask rights`: checks the permissions in `infra/`. `cargo xtask style`: reports phrases that docs/STYLE.md bans.

mod cycles;
#[cfg(test)]
mod readmes;
mod rights;
mod rooms;
mod schemas;
mod style;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Xtask {
    #[command(subcommand)]
    what: XtaskCommand,
    /// Only compare with the existing files.
    #[arg(long, global = true)]
    check: bool,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// JSON Schemas of events, files and documents.
    Schemas,
    /// Dependencies between crates, and import cycles within them.
    Rooms,
    /// Checks the permissions in the cloud against the rules.
    Rights,
    /// Reports phrases that docs/STYLE.md bans.
    Style,
}

pub fn main() -> ExitCode {
    let Xtask { what, check } = Xtask::parse();
    let done = checkout().and_then(|root| match what {
        XtaskCommand::Style => style::check(&root),
        XtaskCommand::Schemas => update_files(&root, Path::new("schemas"), schemas::all(), check),
        XtaskCommand::Rooms => {
            cycles::check(&root).and_then(|()| rooms::drawing(&root)).and_then(|drawing| {
                let files = BTreeMap::from([(PathBuf::from("tests/rooms.out"), drawing)]);
                update_files(&root, Path::new("tests/rooms.out"), files, check)
            })
        }
        XtaskCommand::Rights => rights::check(&root),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The checkout that contains the current folder: the program may have been built in another one.
fn checkout() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|error| format!("current folder: {error}"))?;
    let root = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
    root.map(Path::to_path_buf)
        .ok_or_else(|| format!("{} is not in a checkout of Burnin; change to a checkout", here.display()))
}

/// Writes the files and removes obsolete files, or reports differences.
fn update_files(
    root: &Path,
    target: &Path,
    files: BTreeMap<PathBuf, String>,
    check: bool,
) -> Result<(), String> {
    let mut differing = Vec::new();
    for (path, content) in &files {
        if fs::read_to_string(root.join(path)).ok().as_ref() != Some(content) {
            differing.push(path.clone());
        }
    }
    let there = list(root, target).map_err(|error| format!("{}: {error}", target.display()))?;
    let stale: Vec<_> = there.into_iter().filter(|path| !files.contains_key(path)).collect();
    if check {
        differing.extend(stale);
        return match differing.as_slice() {
            [] => Ok(()),
            paths => Err(format!("files are not up to date: {paths:?}; run `cargo xtask` without --check")),
        };
    }
    let write = |path: &PathBuf| {
        let file = root.join(path);
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::write(file, &files[path])
    };
    differing.iter().try_for_each(write).map_err(|error| error.to_string())?;
    stale.iter().try_for_each(|path| fs::remove_file(root.join(path))).map_err(|error| error.to_string())
}

fn list(root: &Path, target: &Path) -> io::Result<Vec<PathBuf>> {
    if !root.join(target).is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(target))? {
        let entry = entry?;
        let path = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            files.extend(list(root, &path)?);
        } else if path.extension().is_some_and(|kind| kind == "json") {
            // SQL views are written by hand.
            files.push(path);
        }
    }
    Ok(files)
}
