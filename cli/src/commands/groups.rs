//! `burnin locate --groups`: the bad members of a cluster by tests of groups, one test at a time.

use std::{collections::BTreeSet, fmt::Display, io::Read, path::Path};

use serde::{Deserialize, Serialize};
use verdict::locate::{GroupOutcome, Located, PlanOptions, Search};

use crate::{
    args::Output,
    commands::{locate, parse, print, print_json},
    exit::{Error, Exit},
};

/// A search of more members or tests would take minutes, and is no search of a cluster.
const MOST_MEMBERS: usize = 2048;
const MOST_TESTS: usize = 512;
/// Names take ten times as much in memory as here, at worst.
const MOST_BYTES: u64 = 4 << 20;

/// What the file holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tested {
    members: Vec<String>,
    #[serde(default)]
    tests: Vec<GroupOutcome>,
}

/// What is printed as JSON: where the search is, and the next test.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    located: Located,
    next: Option<Vec<String>>,
}

/// Whom to test next, or who is bad.
pub fn groups(file: &Path, suspected: u32, tests: Option<usize>, output: Output) -> Result<Exit, Error> {
    let tested = read(file)?;
    let options = PlanOptions { expected: f64::from(suspected), most: tests, ..PlanOptions::default() };
    let mut search = Search::new(&tested.members, &options);
    tested.tests.iter().for_each(|outcome| search.learn(outcome));
    let located = search.located();
    let next = search.plan().groups.pop();
    let exit = if next.is_some() { Exit::Inconclusive } else { locate::ends(&located) };
    match output {
        Output::Json => print_json(&Answer { located, next }),
        Output::Human => print(&told(&located, next.as_deref())),
    }
    Ok(exit)
}

fn told(located: &Located, next: Option<&[String]>) -> String {
    let mut text = locate::told(located);
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

fn read(file: &Path) -> Result<Tested, Error> {
    let wrong = |what: &dyn Display| Error::usage(format!("{}: {what}", file.display()));
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    opened
        .take(MOST_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(wrong(&format!("is larger than {} MiB", MOST_BYTES >> 20)));
    }
    let tested: Tested = serde_json::from_slice(&text)
        .map_err(|error| wrong(&format!("no `members` and `tests` as group tests have them: {error}")))?;
    let members: BTreeSet<&str> = tested.members.iter().map(String::as_str).collect();
    if tested.members.len() < 2 || tested.members.len() > MOST_MEMBERS {
        return Err(wrong(&format!("members: between 2 and {MOST_MEMBERS} names were expected")));
    }
    if members.len() < tested.members.len() {
        return Err(wrong(&"members: a name is there twice"));
    }
    if tested.tests.len() > MOST_TESTS {
        return Err(wrong(&format!("tests: at most {MOST_TESTS} were expected")));
    }
    for (at, test) in tested.tests.iter().enumerate() {
        if let Some(unknown) = test.members.iter().find(|name| !members.contains(name.as_str())) {
            let unknown = parse::shown(unknown);
            return Err(wrong(&format!("tests[{at}].members: {unknown} is not one of the members")));
        }
        if test.members.is_empty() {
            return Err(wrong(&format!("tests[{at}].members: at least one name was expected")));
        }
    }
    Ok(tested)
}
