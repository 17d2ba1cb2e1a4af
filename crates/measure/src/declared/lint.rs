//! Refuses declarations that could pass a bad result.

use std::fmt;

use model::metric::{Better, Scope};
use regex::{Regex, RegexBuilder};

use super::{Declaration, Declared, LineRules, path::JsonPath};

/// A problem of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `row` or `context[1]`.
    pub field: String,
    /// The problem and the next step.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Maximum size of a compiled regular expression, bytes: a few thousand times the length of a usual expression.
const SIZE: usize = 1 << 20;
/// Maximum length of a list of regular expressions.
const LIST: usize = 16;
/// Numbers that programs print; a value group must match each of them as a whole.
const PROBES: [&str; 5] = ["9.5e-05", "1.25e+06", "12.5", "0.003", "417600"];
/// Numbers that a counter prints.
const COUNTS: [&str; 3] = ["0", "7", "1234567"];

struct Lint<'a> {
    declaration: &'a Declaration,
    problems: Vec<Problem>,
}

/// Checks a declaration and compiles it.
pub(super) fn check(declaration: &Declaration, judged: bool) -> Result<Declared, Vec<Problem>> {
    let mut lint = Lint { declaration, problems: Vec::new() };
    let rules = LineRules {
        begin: lint.one("begin", declaration.begin.as_deref()),
        end: lint.one("end", declaration.end.as_deref()),
        context: lint.many("context", &declaration.context),
        row: lint.one("row", declaration.row.as_deref()),
        table: lint.table(),
        json: lint.json(),
        name: declaration.name.clone(),
        unit: declaration.unit.clone(),
        better: declaration.better,
        scope: declaration.scope,
        fail: lint.many("fail", &declaration.fail),
        must_see: lint.many("must_see", &declaration.must_see),
        unmeasurable: lint.many("unmeasurable", &declaration.unmeasurable),
    };
    lint.check_names(&rules, judged);
    lint.check_value(&rules);
    if lint.problems.is_empty() { Ok(Declared(rules.into())) } else { Err(lint.problems) }
}

impl Lint<'_> {
    fn add(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(Problem { field: field.to_owned(), message: message.into() });
    }

    fn one(&mut self, field: &str, pattern: Option<&str>) -> Option<Regex> {
        let pattern = pattern?;
        match RegexBuilder::new(pattern).size_limit(SIZE).build() {
            Ok(regex) if regex.is_match("") => {
                self.add(
                    field,
                    "matches an empty line and therefore every line; require a word that the program prints",
                );
                None
            }
            Ok(regex) => Some(regex),
            Err(error) => {
                self.add(field, format!("is not a regular expression: {error}"));
                None
            }
        }
    }

    fn many(&mut self, field: &str, patterns: &[String]) -> Vec<Regex> {
        if patterns.len() > LIST {
            self.add(field, format!("has {} entries; the maximum is {LIST}", patterns.len()));
        }
        let patterns = patterns.iter().take(LIST).enumerate();
        patterns.filter_map(|(at, pattern)| self.one(&format!("{field}[{at}]"), Some(pattern))).collect()
    }

    fn table(&mut self) -> Option<(Regex, Vec<String>)> {
        let table = self.declaration.table.as_ref()?;
        let header = self.one("table.header", Some(&table.header));
        let values = table.columns.iter().filter(|column| *column == "value").count();
        if values != 1 {
            self.add("table.columns", format!("names {values} columns `value`; name one"));
        }
        if table.columns.len() < 2 {
            self.add(
                "table.columns",
                "has fewer than two columns, so any word would be a row; name two or more",
            );
        }
        Some((header?, table.columns.clone()))
    }

    fn json(&mut self) -> Option<(JsonPath, std::collections::BTreeMap<String, String>)> {
        let json = self.declaration.json.as_ref()?;
        match JsonPath::parse(&json.values) {
            Ok(path) => Some((path, json.with.clone())),
            Err(error) => {
                self.add("json.values", error);
                None
            }
        }
    }

    /// Whether a named group, column or key of this name exists.
    fn has(&self, name: &str, rules: &LineRules) -> bool {
        let regexes = rules.row.iter().chain(&rules.context);
        regexes.flat_map(|regex| regex.capture_names().flatten()).any(|group| group == name)
            || rules.table.as_ref().is_some_and(|(_, columns)| columns.iter().any(|column| column == name))
            || rules.json.as_ref().is_some_and(|(_, with)| with.contains_key(name))
    }

    fn check_names(&mut self, rules: &LineRules, judged: bool) {
        let declaration = self.declaration;
        let sources = [declaration.row.is_some(), declaration.table.is_some(), declaration.json.is_some()];
        let sources = sources.iter().filter(|source| **source).count();
        if sources != 1 {
            self.add("row", format!("expected exactly one of `row`, `table` and `json`, found {sources}"));
        }
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' || c == '_';
        let ends = |c: char| c.is_ascii_lowercase();
        if !declaration.name.chars().all(valid) || !declaration.name.starts_with(ends) {
            self.add(
                "name",
                format!("{:?} is not a name; write lower case words separated by dots", declaration.name),
            );
        }
        match (&declaration.unit, self.has("unit", rules)) {
            (None, false) => {
                self.add("unit", "is missing; state it, or read it with a group or column `unit`")
            }
            (Some(_), true) => {
                self.add("unit", "is stated and also read from the output; remove one of them")
            }
            (Some(unit), _) if unit.trim().is_empty() => {
                self.add("unit", "is empty; write `1` for a ratio, `count` for a count")
            }
            _ => {}
        }
        if declaration.end.is_none() && declaration.json.is_none() {
            let message = if declaration.must_see.is_empty() {
                "is missing: a truncated log could not be distinguished from a complete log; state the line that the program prints last"
            } else {
                "is missing: `must_see` may match before the last value; state the line that the program prints last"
            };
            self.add("end", message);
        }
        let needed = match declaration.scope {
            Scope::Gpu => Some("gpu"),
            Scope::Link => Some("link"),
            Scope::Pair => Some("peer"),
            Scope::World | Scope::Node | Scope::Rank => None,
        };
        if let Some(needed) = needed.filter(|needed| !self.has(needed, rules)) {
            self.add(
                "scope",
                format!("needs a group, column or key `{needed}`, which names the subject of each value"),
            );
        }
        if judged && declaration.better == Better::None {
            self.add("better", "is `none`, which is never judged, but criteria name the metric; write `higher`, `lower` or `exact`");
        }
        if !declaration.exit.contains(&0) {
            self.add(
                "exit",
                "lacks 0, the exit status of a completed program; write `[0]`, and append other statuses",
            );
        }
        for (at, regex) in rules.context.iter().enumerate() {
            if regex.capture_names().flatten().next().is_none() {
                self.add(&format!("context[{at}]"), "has no named group; add one such as `(?<gpu>[0-9]+)`");
            }
            if regex.capture_names().flatten().any(|name| name == "value") {
                self.add(
                    &format!("context[{at}]"),
                    "has a group `value`, which only `row` may have; rename the group",
                );
            }
        }
    }

    /// The value group must match whole numbers.
    fn check_value(&mut self, rules: &LineRules) {
        let (Some(regex), Some(pattern)) = (&rules.row, &self.declaration.row) else { return };
        if !regex.capture_names().flatten().any(|name| name == "value") {
            return self
                .add("row", "has no named group `value`; write `(?<value>\\S+)` in place of the number");
        }
        let Some(group) = group(pattern, "value") else { return };
        let counts = self.declaration.unit.as_deref() == Some("count");
        let probes: &[&str] = if counts { &COUNTS } else { &PROBES };
        let Ok(whole) = RegexBuilder::new(&format!("^(?:{group})$")).size_limit(SIZE).build() else { return };
        for probe in probes {
            if !whole.is_match(probe) {
                return self.add(
                    "row",
                    format!("the group `value` cannot match {probe:?} as a whole and could cut it; write `(?<value>[-+.0-9eE]+)` or `(?<value>\\S+)`"),
                );
            }
        }
    }
}

/// The pattern inside a named group.
fn group<'a>(pattern: &'a str, name: &str) -> Option<&'a str> {
    let start = [format!("(?<{name}>"), format!("(?P<{name}>")]
        .iter()
        .find_map(|open| Some(pattern.find(open.as_str())? + open.len()))?;
    let rest = &pattern[start..];
    let (mut depth, mut in_class, mut escaped) = (0, false, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class && depth == 0 => return Some(&rest[..at]),
            ')' if !in_class => depth -= 1,
            _ => {}
        }
    }
    None
}
