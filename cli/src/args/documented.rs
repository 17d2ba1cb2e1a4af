//! Tests that the command line accepts every command that the documents and workflows of the project state.

use std::{fs, path::Path};

use clap::{Parser, error::ErrorKind};

use super::Cli;

/// Every page and workflow of the project that states commands, with its path.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = |folder: &str, kind: &str| {
        let entries = fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_some_and(|found| found == kind));
        files.map(|path| (path.display().to_string(), fs::read_to_string(path).unwrap())).collect::<Vec<_>>()
    };
    let folders =
        ["", "docs", "docs/rfd", "workflows/a3-mega", "workflows/a4-gke-testbed", "workflows/dgx-slurm-perf"];
    let mut pages: Vec<_> = folders.iter().flat_map(|folder| files(folder, "md")).collect();
    for (path, text) in ["workflows", "workflows/suites"].iter().flat_map(|folder| files(folder, "yaml")) {
        // The comment of a workflow has the command on a line of its own.
        let commands = text.lines().filter_map(|line| line.strip_prefix("#   burnin "));
        pages.push((
            path,
            format!(
                "```\n{}```",
                commands.map(|command| format!("$ burnin {command}\n")).collect::<String>()
            ),
        ));
    }
    pages
}

/// The commands after a prompt in the code blocks of a page, and the page without its code blocks.
fn prompts(page: &str) -> (Vec<String>, String) {
    let (mut commands, mut text) = (Vec::new(), String::new());
    for (number, part) in page.split("```").enumerate() {
        if number % 2 == 0 {
            text.push_str(part);
            continue;
        }
        let joined = part.replace("\\\n", " ");
        commands
            .extend(joined.lines().filter_map(|line| Some(line.trim_start().strip_prefix("$ ")?.to_owned())));
    }
    (commands, text)
}

/// The arguments of a shell command that calls burnin, without what the shell removes. `|` ends the command.
fn shell_arguments(command: &str) -> Option<Vec<String>> {
    let words = shlex::split(command)?;
    let at = match words.iter().position(|word| word == "burnin")? {
        0 => 1,
        // `cargo run -p burnin -- ARGUMENTS`
        _ => words.iter().position(|word| word == "--")? + 1,
    };
    Some(words[at..].iter().take_while(|word| *word != "|" && !word.starts_with('>')).cloned().collect())
}

/// The arguments of a command in the text: of alternatives the first one, of optional groups `[...]` the content.
fn synopsis(span: &str) -> Option<Vec<String>> {
    let span = span.strip_prefix("burnin ")?.replace("\\|", "|").replace("...", "");
    let first = |text: &str| text.split('|').next().unwrap_or_default().to_owned();
    let mut words: Vec<String> = Vec::new();
    for part in span.split('[') {
        let (group, rest) = part.split_once(']').unwrap_or(("", part));
        words.extend(first(group).split_whitespace().map(str::to_owned));
        words.extend(rest.split_whitespace().map(first));
    }
    let is_command = words.first()?.bytes().all(|byte| byte.is_ascii_lowercase());
    (is_command && words.len() > 1).then_some(words)
}

/// Whether an argument of the synopsis is a placeholder that does not belong to a flag.
fn has_positional(words: &[String]) -> bool {
    let is_placeholder = |word: &str| word.starts_with(|first: char| first.is_ascii_uppercase());
    words.windows(2).any(|pair| is_placeholder(&pair[1]) && !pair[0].starts_with("--"))
}

/// Parses the arguments. Placeholders such as `RUN` are not valid values, which is no error here.
fn error_of(words: &[String]) -> Option<clap::Error> {
    let error = Cli::try_parse_from(["burnin".to_owned()].iter().chain(words)).err()?;
    (!matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue)).then_some(error)
}

#[test]
fn documented_commands_are_accepted() {
    let (mut checked, mut refused) = (0, Vec::new());
    for (path, page) in pages() {
        let (commands, text) = prompts(&page);
        for command in commands {
            let Some(words) = shell_arguments(&command) else { continue };
            checked += 1;
            refused.extend(error_of(&words).map(|error| format!("{path}: {command}: {error}")));
        }
        let text = text.replace('\n', " ");
        for span in text.split('`').skip(1).step_by(2) {
            let Some(words) = synopsis(span) else { continue };
            checked += 1;
            let error = error_of(&words)
                .filter(|error| error.kind() != ErrorKind::MissingRequiredArgument || has_positional(&words));
            refused.extend(error.map(|error| format!("{path}: {span}: {error}")));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(checked > 90, "only {checked} commands were found");
}
