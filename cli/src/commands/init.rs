//! `burnin init` and `schema`: a first workflow, with every file that it references.

mod detect;
mod install;
mod kinds;

use std::{fmt::Write as _, fs, path::Path};

use crate::{
    args::{InitKind, SchemaKind},
    commands::print_plain,
    exit::{CliError, Exit},
    output::print,
};

use self::{
    detect::Detected,
    install::{Installed, install},
    kinds::StarterFile,
};

/// Writes a workflow and its files into `folder`, and prints the next commands.
pub fn init(kind: Option<InitKind>, folder: &Path, force: bool) -> Result<Exit, CliError> {
    let detected = Detected::on_this_host(kind);
    let kind = kind.unwrap_or(detected.suggested());
    let starter = kinds::starter(kind, &detected)?;
    let Installed { written, unchanged } = install(folder, &starter, force)?;
    print_plain(&summary(folder, &starter, &detected, &written, unchanged));
    Ok(Exit::Pass)
}

/// Prints the JSON Schema of a kind of file, as in `schemas/`.
pub fn schema(kind: SchemaKind) -> Exit {
    print(kinds::schema(kind));
    Exit::Pass
}

fn summary(
    folder: &Path,
    starter: &StarterFile,
    detected: &Detected,
    written: &[String],
    unchanged: usize,
) -> String {
    let mut text = String::new();
    for line in detected.lines() {
        _ = writeln!(text, "detected  {line}");
    }
    let at = |name: &str| folder.join(name).display().to_string();
    // Print only a count: the folders of build steps contain dozens of files.
    let (main, parts): (Vec<_>, Vec<_>) = written.iter().partition(|name| starter.edited(name));
    for name in main {
        _ = writeln!(text, "wrote     {}", at(name));
    }
    if !parts.is_empty() {
        _ = writeln!(
            text,
            "wrote     {} that the workflow references",
            report::count(parts.len() as u64, "file")
        );
    }
    if unchanged > 0 {
        _ = writeln!(text, "kept      {} with the same content", report::count(unchanged as u64, "file"));
    }
    for (number, step) in starter.next.iter().enumerate() {
        let label = if number == 0 { "next" } else { "then" };
        _ = writeln!(
            text,
            "{label:<9} {}",
            step.replace("{folder}", &shell_word(&folder.display().to_string()))
        );
    }
    text
}

/// Quotes a path for a shell.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Whether a path exists; a dangling symbolic link counts as existing.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
