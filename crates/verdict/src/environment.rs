//! Compares the requested NCCL variables with those in effect.
//!
//! Two parts of a log report the latter: the job's script prints those of each node directly before the benchmark, and NCCL
//! prints each variable that it reads (`src/misc/param.cc`: "NAME set by environment to VALUE").

use std::collections::{BTreeMap, BTreeSet};

use model::{Reason, Unequal, Verdict};

/// Maximum distinct variables, values of a variable, and hosts of a value.
const MOST: usize = 4096;
/// Maximum differences in a reason.
const SHOWN: usize = 5;

/// NCCL variables in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Requested values by name.
    requested: BTreeMap<String, String>,
    /// Hosts by name and effective value.
    effective: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Environment {
    /// Reads the rest of a line after `burnin environment: `.
    pub(crate) fn read_report(&mut self, rest: &str) {
        let Some((name, value)) = rest.split_once('=') else { return };
        if let Some(name) = name.strip_prefix("requested ") {
            if self.requested.len() < MOST {
                self.requested.insert(name.to_owned(), value.trim_end().to_owned());
            }
        } else if let Some((host, name)) = name.split_once(" has ") {
            self.add(name, value.trim_end(), host);
        }
    }

    /// Reads NCCL's line, split at ` set by environment to `.
    pub(crate) fn read_nccl(&mut self, before: &str, value: &str, host: Option<&str>) {
        let name = before.rsplit([' ', '\t']).next().unwrap_or_default();
        if name.starts_with("NCCL_") {
            self.add(name, value, host.unwrap_or("a rank"));
        }
    }

    fn add(&mut self, name: &str, value: &str, host: &str) {
        let full = |len: usize, known: bool| len >= MOST && !known;
        if full(self.effective.len(), self.effective.contains_key(name)) {
            return;
        }
        let values = self.effective.entry(name.to_owned()).or_default();
        if full(values.len(), values.contains_key(value)) {
            return;
        }
        let hosts = values.entry(value.to_owned()).or_default();
        if hosts.len() < MOST {
            hosts.insert(host.to_owned());
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.requested.extend(other.requested);
        for (name, values) in other.effective {
            for (value, hosts) in values {
                hosts.iter().for_each(|host| self.add(&name, &value, host));
            }
        }
    }
}

/// One reason if variables were requested. `severity`: the criteria's.
pub fn reason(environment: &Environment, severity: Unequal) -> Option<Reason> {
    let requested = &environment.requested;
    if requested.is_empty() {
        return None;
    }
    let mut differences = Vec::new();
    for (name, wanted) in requested {
        let Some(values) = environment.effective.get(name) else {
            differences.push(format!("{name} is not set, {wanted} was requested"));
            continue;
        };
        for (value, hosts) in values.iter().filter(|(value, _)| differ(wanted, value)) {
            let first = hosts.first().map_or("a rank", String::as_str);
            let more = match hosts.len() {
                0 | 1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            differences.push(format!("{name} is {value} on {first}{more}, {wanted} was requested"));
        }
    }
    if differences.is_empty() {
        let text = match requested.len() {
            1 => "the requested NCCL variable is in effect".to_owned(),
            count => format!("the {count} requested NCCL variables are in effect"),
        };
        return Some(Reason::new(Verdict::Pass, "ENVIRONMENT_AS_REQUESTED", text));
    }
    let more = differences.len().saturating_sub(SHOWN);
    differences.truncate(SHOWN);
    if more > 0 {
        differences.push(format!("and {more} more"));
    }
    let weighs = match severity {
        Unequal::Fail => Verdict::Fail,
        Unequal::Inconclusive => Verdict::Inconclusive,
        Unequal::Pass => Verdict::Pass,
    };
    Some(Reason::new(weighs, "ENVIRONMENT_DIFFERS", differences.join("; ")))
}

/// NCCL prints some variables as numbers that are requested as words, and numbers in decimal: such pairs are not compared
/// as text.
fn differ(requested: &str, effective: &str) -> bool {
    match (number(requested), number(effective)) {
        (Some(requested), Some(effective)) => requested != effective,
        (None, Some(_)) => false,
        _ => requested != effective,
    }
}

fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
