//! `burnin locate --groups`: finds bad members of a cluster by group tests, one test at a time.

mod measured;

use std::{
    collections::BTreeSet,
    fmt::Display,
    io::Read,
    path::{Path, PathBuf},
};

use model::metric::Better;
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
    tests: Vec<GroupTest>,
    /// Bound for the values of tests; required if a test has a value.
    reference: Option<GroupReference>,
    /// Members with a hardware finding.
    #[serde(default)]
    findings: Vec<String>,
}

/// A group test states whether the group was degraded, or a value such as the bus bandwidth of a collective, or a log that
/// contains the value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTest {
    /// May be absent if the log names the nodes, as logs of nccl-tests do.
    #[serde(default)]
    members: Vec<String>,
    degraded: Option<bool>,
    value: Option<f64>,
    /// Log of the test, relative to the file. Its format is detected.
    log: Option<PathBuf>,
}

/// The value of a group without a bad member.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupReference {
    value: f64,
    /// `higher` or `lower`; default: that of the metric in the logs, otherwise `higher`.
    better: Option<Better>,
    /// Metric of the whole job in the logs, such as `hpl.throughput`. Default: the only metric of the logs; for nccl-tests the bus
    /// bandwidth.
    metric: Option<String>,
    /// Unit of `value`, which the logs must have.
    unit: Option<String>,
    /// Maximum fraction by which a good group may be worse than `value`.
    #[serde(default = "tolerance")]
    within: f64,
}

fn tolerance() -> f64 {
    0.1
}

impl GroupReference {
    fn check(&self) -> Result<(), String> {
        if !(self.value.is_finite() && self.value > 0.0) {
            return Err(format!("reference.value: expected a positive number, found {}", self.value));
        }
        if !(self.within > 0.0 && self.within < 1.0) {
            return Err(format!(
                "reference.within: expected a fraction between 0 and 1, found {}",
                self.within
            ));
        }
        match self.better {
            None | Some(Better::Higher | Better::Lower) => Ok(()),
            Some(other) => {
                Err(format!("reference.better: expected `higher` or `lower`, found `{}`", other.as_str()))
            }
        }
    }

    fn is_degraded(&self, value: f64, better: Better) -> bool {
        match self.better.unwrap_or(better) {
            Better::Lower => value > self.value * (1.0 + self.within),
            _ => value < self.value * (1.0 - self.within),
        }
    }
}

impl GroupTest {
    /// # Errors
    /// Returns an error, with the field and the expectation, if the outcome is not stated exactly once.
    fn outcome(&self, reference: Option<&GroupReference>) -> Result<GroupOutcome, String> {
        let stated = usize::from(self.degraded.is_some()) + usize::from(self.value.is_some());
        if let Some(log) = &self.log {
            if stated > 0 {
                return Err(
                    "expected one of `degraded`, `value` and `log`, found several; keep one".to_owned()
                );
            }
            let read = measured::GroupLog::read(log, reference)?;
            let degraded = match (read.value, reference) {
                (None, _) => true,
                (Some((value, better)), Some(reference)) => reference.is_degraded(value, better),
                (Some((value, _)), None) => {
                    return Err(format!(
                        "log: found {value} without `reference` in the file; add it with the value of a good group"
                    ));
                }
            };
            return Ok(GroupOutcome { members: self.members.clone(), degraded });
        }
        let degraded = match (self.degraded, self.value, reference) {
            (Some(degraded), None, _) => degraded,
            (None, Some(value), Some(reference)) if value.is_finite() && value >= 0.0 => {
                reference.is_degraded(value, Better::Higher)
            }
            (None, Some(value), Some(_)) => {
                return Err(format!("value: expected a number of at least 0, found {value}"));
            }
            (None, Some(value), None) => {
                return Err(format!(
                    "value: found {value} without `reference` in the file; add it with the value of a good group"
                ));
            }
            (Some(_), Some(_), _) => {
                return Err(
                    "expected one of `degraded`, `value` and `log`, found several; keep one".to_owned()
                );
            }
            (None, None, _) => {
                return Err("expected one of `degraded`, `value` and `log`; add one".to_owned());
            }
        };
        Ok(GroupOutcome { members: self.members.clone(), degraded })
    }
}

/// The validated file.
struct GroupTests {
    members: Vec<String>,
    tests: Vec<GroupOutcome>,
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
    let options = PlanOptions { expected: f64::from(suspected), max_tests: tests, ..PlanOptions::default() };
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
        text += &format!("next test, {} members together: {}\n", next.len(), names.join(" "));
    }
    text
}

fn read(file: &Path) -> Result<GroupTests, CliError> {
    let wrong = |what: &dyn Display| CliError::usage(format!("{}: {what}", file.display()));
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    opened
        .take(MOST_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(wrong(&format!("is larger than {} MiB; remove tests or members", MOST_BYTES >> 20)));
    }
    let mut tested: GroupFile = serde_json::from_slice(&text)
        .map_err(|error| wrong(&format!("expected an object with `members` and `tests`: {error}")))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    for (at, test) in tested.tests.iter_mut().enumerate() {
        let Some(log) = &mut test.log else { continue };
        *log = folder.join(&*log);
        if test.members.is_empty() {
            let hosts = measured::hosts(log).map_err(|what| wrong(&format!("tests[{at}]: {what}")))?;
            test.members = hosts;
        }
    }
    let (names, count) = (tested.members.len(), tested.tests.len());
    if !(2..=MOST_MEMBERS).contains(&names) {
        return Err(wrong(&format!("members: expected between 2 and {MOST_MEMBERS} names, found {names}")));
    }
    let mut members = BTreeSet::new();
    if let Some(duplicate) = tested.members.iter().find(|name| !members.insert(name.as_str())) {
        return Err(wrong(&format!("members: {} is listed twice; list it once", parse::shown(duplicate))));
    }
    if count > MOST_TESTS {
        return Err(wrong(&format!("tests: expected at most {MOST_TESTS} tests, found {count}")));
    }
    for (at, name) in tested.findings.iter().enumerate() {
        if !members.contains(name.as_str()) {
            return Err(wrong(&format!(
                "findings[{at}]: {} is not in `members`; add it, or correct the name",
                parse::shown(name)
            )));
        }
    }
    for (at, test) in tested.tests.iter().enumerate() {
        if let Some(unknown) = test.members.iter().find(|name| !members.contains(name.as_str())) {
            let unknown = parse::shown(unknown);
            return Err(wrong(&format!(
                "tests[{at}].members: {unknown} is not in `members`; add it, or correct the name"
            )));
        }
        if test.members.is_empty() {
            return Err(wrong(&format!("tests[{at}].members: expected at least one name, found none")));
        }
    }
    let reference = tested.reference.as_ref();
    reference.map_or(Ok(()), GroupReference::check).map_err(|what| wrong(&what))?;
    let outcomes = tested
        .tests
        .iter()
        .enumerate()
        .map(|(at, test)| test.outcome(reference).map_err(|what| wrong(&format!("tests[{at}]: {what}"))));
    let tests = outcomes.collect::<Result<_, _>>()?;
    Ok(GroupTests { members: tested.members, tests, findings: tested.findings })
}
