//! `burnin locate --groups`: finds bad members of a cluster by group tests, one test at a time.

use std::{collections::BTreeSet, fmt::Display, io::Read, path::Path};

use serde::{Deserialize, Serialize};
use verdict::locate::{GroupOutcome, GroupSearch, Located, PlanOptions};

use crate::{
    args::Output,
    commands::{locate, parse, print, print_json},
    exit::{CliError, Exit},
};

/// Maximum number of members: a larger search takes minutes, and clusters are smaller.
const MOST_MEMBERS: usize = 2048;
const MOST_TESTS: usize = 512;
/// Maximum size of the input file: in memory, names take up to ten times as much.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    members: Vec<String>,
    #[serde(default)]
    tests: Vec<GroupOutcome>,
    /// Members with a hardware finding.
    #[serde(default)]
    findings: Vec<String>,
}

/// JSON output: state of the search, and the next test.
#[derive(Serialize)]
struct GroupAnswer {
    #[serde(flatten)]
    located: Located,
    next: Option<Vec<String>>,
}

/// Prints the next group to test, or the bad members.
pub fn groups(file: &Path, suspected: u32, tests: Option<usize>, output: Output) -> Result<Exit, CliError> {
    let tested = read(file)?;
    let options = PlanOptions { expected: f64::from(suspected), most: tests, ..PlanOptions::default() };
    let mut search = GroupSearch::new(&tested.members, &options);
    tested.findings.iter().for_each(|member| search.suspect(member));
    tested.tests.iter().for_each(|outcome| search.learn(outcome));
    let located = search.located();
    let next = search.plan().groups.pop();
    let exit = if next.is_some() { Exit::Inconclusive } else { locate::ends(&located) };
    match output {
        Output::Json => print_json(&GroupAnswer { located, next }),
        Output::Human => print(&group_text(&located, next.as_deref())),
    }
    Ok(exit)
}

fn group_text(located: &Located, next: Option<&[String]>) -> String {
    let mut text = locate::located_text(located);
    if let Some(search) = &located.search {
        let sure = if search.sure { "sure" } else { "not sure" };
        let percent = (search.confidence * 1000.0).floor() / 10.0;
        text += &format!("{sure}: {percent} % after {} of {} tests\n", search.tests, search.most);
    }
    if let Some(next) = next {
        let names: Vec<String> = next.iter().map(|name| parse::shown(name).to_string()).collect();
        text += &format!("test next, {} together: {}\n", next.len(), names.join(" "));
    }
    text
}

fn read(file: &Path) -> Result<GroupFile, CliError> {
    let wrong = |what: &dyn Display| CliError::usage(format!("{}: {what}", file.display()));
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    opened
        .take(MOST_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(wrong(&format!("is larger than {} MiB", MOST_BYTES >> 20)));
    }
    let tested: GroupFile = serde_json::from_slice(&text)
        .map_err(|error| wrong(&format!("expected an object with `members` and `tests`: {error}")))?;
    let members: BTreeSet<&str> = tested.members.iter().map(String::as_str).collect();
    if tested.members.len() < 2 || tested.members.len() > MOST_MEMBERS {
        return Err(wrong(&format!("members: expected between 2 and {MOST_MEMBERS} names")));
    }
    if members.len() < tested.members.len() {
        return Err(wrong(&"members: duplicate name"));
    }
    if tested.tests.len() > MOST_TESTS {
        return Err(wrong(&format!("tests: expected at most {MOST_TESTS}")));
    }
    for (at, name) in tested.findings.iter().enumerate() {
        if !members.contains(name.as_str()) {
            return Err(wrong(&format!("findings[{at}]: {} is not in `members`", parse::shown(name))));
        }
    }
    for (at, test) in tested.tests.iter().enumerate() {
        if let Some(unknown) = test.members.iter().find(|name| !members.contains(name.as_str())) {
            let unknown = parse::shown(unknown);
            return Err(wrong(&format!("tests[{at}].members: {unknown} is not in `members`")));
        }
        if test.members.is_empty() {
            return Err(wrong(&format!("tests[{at}].members: expected at least one name")));
        }
    }
    Ok(tested)
}
