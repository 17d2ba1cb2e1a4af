//! Compares the requested NCCL variables with those in effect.
//!
//! A log reports the variables in effect in two ways. The job's script prints those of each node as text, directly
//! before the benchmark. NCCL prints each variable that it reads, after its conversion (NCCL v2.30.7-1,
//! `src/misc/param.cc`, `ncclLoadParam`: `strtoll` with base 0, then "%s set by environment to %lld.";
//! `src/graph/paths.cc` prints a level's name for its number).

use std::collections::{BTreeMap, BTreeSet};

use model::{Reason, Unequal, Verdict, measurement::NodesOfHosts};

/// Maximum number of distinct variables, of values per variable, and of hosts per value.
const MAX_ENTRIES: usize = 4096;
/// Maximum differences in a reason.
const MAX_SHOWN: usize = 5;
/// Host of a line without a host name.
const UNKNOWN_HOST: &str = "an unknown host";

/// Source of a printed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrintedBy {
    /// The job's script, which prints the variable's text.
    Script,
    /// NCCL, which prints the converted value.
    Nccl,
}

/// NCCL variables in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    requested: BTreeMap<String, String>,
    /// Hosts by name and effective value.
    effective: BTreeMap<String, BTreeMap<(PrintedBy, String), BTreeSet<String>>>,
}

impl Environment {
    /// Reads the rest of a line after `burnin environment: `.
    pub(crate) fn read_report(&mut self, rest: &str) {
        let Some((name, value)) = rest.split_once('=') else { return };
        if let Some(name) = name.strip_prefix("requested ") {
            if self.requested.len() < MAX_ENTRIES {
                self.requested.insert(name.to_owned(), unquoted(value.trim_end()));
            }
        } else if let Some((host, name)) = name.split_once(" has ") {
            self.add(name, (PrintedBy::Script, unquoted(value.trim_end())), host);
        }
    }

    /// Reads NCCL's line, split at ` set by environment to `.
    pub(crate) fn read_nccl(&mut self, before: &str, value: &str, host: Option<&str>) {
        let name = before.rsplit([' ', '\t']).next().unwrap_or_default();
        if name.starts_with("NCCL_") {
            self.add(name, (PrintedBy::Nccl, value.to_owned()), host.unwrap_or(UNKNOWN_HOST));
        }
    }

    fn add(&mut self, name: &str, value: (PrintedBy, String), host: &str) {
        let full = |len: usize, known: bool| len >= MAX_ENTRIES && !known;
        if full(self.effective.len(), self.effective.contains_key(name)) {
            return;
        }
        let values = self.effective.entry(name.to_owned()).or_default();
        if full(values.len(), values.contains_key(&value)) {
            return;
        }
        let hosts = values.entry(value).or_default();
        if hosts.len() < MAX_ENTRIES {
            hosts.insert(host.to_owned());
        }
    }

    pub(crate) fn name_nodes(&mut self, nodes: &NodesOfHosts) {
        let values = self.effective.values_mut().flat_map(BTreeMap::values_mut);
        values.for_each(|hosts| nodes.rename(hosts));
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.requested.extend(other.requested);
        for (name, values) in other.effective {
            for (value, hosts) in values {
                hosts.iter().for_each(|host| self.add(&name, value.clone(), host));
            }
        }
    }
}

/// The value that bash's `printf %q` printed. A value with control characters remains quoted, `$'...'`.
fn unquoted(printed: &str) -> String {
    if printed == "''" {
        return String::new();
    }
    if printed.starts_with("$'") {
        return printed.to_owned();
    }
    let (mut value, mut escaped) = (String::with_capacity(printed.len()), false);
    for c in printed.chars() {
        escaped = c == '\\' && !escaped;
        if !escaped {
            value.push(c);
        }
    }
    value
}

/// Returns one reason if variables were requested. `severity` comes from the criteria.
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
        let differing = values.iter().filter(|((by, value), _)| match by {
            PrintedBy::Script => wanted != value,
            PrintedBy::Nccl => differs_as_read(wanted, value),
        });
        for ((_, value), hosts) in differing {
            let first = hosts.first().map_or(UNKNOWN_HOST, String::as_str);
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
    let more = differences.len().saturating_sub(MAX_SHOWN);
    differences.truncate(MAX_SHOWN);
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

/// Whether NCCL read a value other than the requested one. A word and a number are not comparable: NCCL prints some
/// words as numbers and some numbers as words.
fn differs_as_read(requested: &str, read: &str) -> bool {
    match (number(requested), number(read)) {
        (Some(requested), Some(read)) => requested != read,
        (None, None) => !requested.eq_ignore_ascii_case(read),
        _ => false,
    }
}

/// Parses a number like `strtoll` with base 0: decimal, hexadecimal with `0x`, octal with `0`.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (digits, base) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    i64::from_str_radix(digits, base).ok().map(|value| sign * value)
}
