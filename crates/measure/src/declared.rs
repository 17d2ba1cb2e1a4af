//! Declared parsers: a workflow describes the output of its benchmark by regular expressions, a table or paths in JSON, so that no
//! parser code is needed.

mod lint;
mod path;

use std::{collections::BTreeMap, io, sync::Arc};

use model::{
    measurement::{LogEnd, Reading},
    metric::{Better, Scope, Severity, Subject},
};
use regex::{Captures, Regex};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use lint::Problem;

use self::path::JsonPath;
use crate::{
    input,
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    number::number,
    prefix::LogPrefixes,
    reading_builder::{MetricBuilder, ReadingBuilder, short},
};

/// Rules for reading the output of a benchmark.
///
/// Exactly one of `row`, `table` and `json` finds the values. Regular expressions search within a line and are linear in its
/// length. Named groups and columns called `gpu`, `node`, `rank`, `link` and `peer` are the subject of a value, `unit` is its
/// unit, and all others are labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Line that begins the output; lines before it are ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<String>,
    /// Line that ends the output: the log is complete only if it follows the last value. Required except for JSON, whose end is the
    /// closing bracket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Patterns of lines whose named groups apply to all values after the line, until the pattern matches again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// A line with a value, in the named group `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<String>,
    /// A table with a header line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableRule>,
    /// Values of a JSON document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<JsonRule>,
    /// Name of the metric: lower case, parts separated by dots.
    pub name: String,
    /// Unit of the values; absent if the group or column `unit` contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Direction of improvement of the values.
    pub better: Better,
    /// Kind of subject of the values, such as GPUs or nodes.
    pub scope: Scope,
    /// Lines that report a failure; each becomes a finding `CHECK_FAILED`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail: Vec<String>,
    /// Lines that a complete log must contain, each at least once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub must_see: Vec<String>,
    /// Lines in which the program states that it cannot measure, with the groups of `row`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmeasurable: Vec<String>,
    /// Exit statuses of a valid measurement; must include 0.
    #[serde(default = "zero")]
    pub exit: Vec<i32>,
}

fn zero() -> Vec<i32> {
    vec![0]
}

/// A table: a header line, then rows with one word for each column, until an empty line or the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableRule {
    /// The header line.
    pub header: String,
    /// Name of each column: `value`, `unit`, a subject, a label, or `-` for a column that is not read.
    pub columns: Vec<String>,
}

/// Values of a JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonRule {
    /// Path of the values, such as `$.gemm[*].tflops`.
    pub values: String,
    /// For each subject or label, its key in the object that contains the measured value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, String>,
}

/// A checked [`Declaration`].
#[derive(Clone, Debug)]
pub struct Declared(Arc<LineRules>);

#[derive(Debug)]
struct LineRules {
    begin: Option<Regex>,
    end: Option<Regex>,
    context: Vec<Regex>,
    row: Option<Regex>,
    table: Option<(Regex, Vec<String>)>,
    json: Option<(JsonPath, BTreeMap<String, String>)>,
    name: String,
    unit: Option<String>,
    better: Better,
    scope: Scope,
    fail: Vec<Regex>,
    must_see: Vec<Regex>,
    unmeasurable: Vec<Regex>,
}

/// A line that a rule of a declaration matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matched {
    /// Line number in the log, starting at 1.
    pub line: u64,
    /// The field of the declaration, such as `row` or `context[1]`.
    pub field: String,
    /// The beginning of the line.
    pub text: String,
}

/// Maximum number of reported matches.
const MATCHES: usize = 1000;
/// Format name of logs that a declaration reads.
const NAME: &str = "declared";

impl Declaration {
    /// Checks the declaration. `judged`: whether criteria judge the metric.
    ///
    /// # Errors
    ///
    /// Returns an error with all problems if the declaration has any.
    pub fn check(&self, judged: bool) -> Result<Declared, Vec<Problem>> {
        lint::check(self, judged)
    }

    /// The declaration for a program on pairs of nodes: values need not name the nodes, because the log of a pair names them.
    #[must_use]
    pub fn of_pairs(mut self) -> Self {
        if self.scope == Scope::Pair && self.check(false).is_err() {
            self.scope = Scope::World;
        }
        self
    }

    /// The problems of the declaration. `judged`: whether criteria judge the metric.
    #[must_use]
    pub fn lint(&self, judged: bool) -> Vec<Problem> {
        self.check(judged).err().unwrap_or_default()
    }
}

impl Declared {
    /// Reads a log to its end.
    ///
    /// # Errors
    ///
    /// Returns an error only if the reader fails.
    pub fn read(&self, mut input: impl io::Read) -> io::Result<Reading> {
        let (head, mut input) = input::beginning(&mut input)?;
        let labels = LogPrefixes::of(&head);
        let rules = self.0.clone();
        let new = move || -> Box<dyn Lines> { Box::new(ProcessReader::new(rules.clone(), None)) };
        input::read(NAME, labels, &new, head, &mut input)
    }

    /// Reads a log, and reports the matches of the rules, at most the first 1000.
    ///
    /// # Errors
    ///
    /// Returns an error only if the reader fails.
    pub fn explain(&self, mut input: impl io::Read) -> io::Result<(Reading, Vec<Matched>)> {
        let (head, mut input) = input::beginning(&mut input)?;
        let labels = LogPrefixes::of(&head);
        let matches = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (rules, into) = (self.0.clone(), matches.clone());
        let new =
            move || -> Box<dyn Lines> { Box::new(ProcessReader::new(rules.clone(), Some(into.clone()))) };
        let reading = input::read(NAME, labels, &new, head, &mut input)?;
        let found = matches.lock().map(|mut matches| std::mem::take(&mut *matches)).unwrap_or_default();
        Ok((reading, found))
    }
}

type Matches = Arc<std::sync::Mutex<Vec<Matched>>>;

/// Reads the output of one process.
struct ProcessReader {
    rules: Arc<LineRules>,
    matches: Option<Matches>,
    json: JsonDocuments,
    /// Groups of the last match of each context pattern.
    context: Vec<Vec<(String, String)>>,
    seen: Vec<bool>,
    started: bool,
    ended: bool,
    in_table: bool,
    values: u64,
    broken: bool,
}

impl ProcessReader {
    fn new(rules: Arc<LineRules>, matches: Option<Matches>) -> Self {
        let (context, seen) = (vec![Vec::new(); rules.context.len()], vec![false; rules.must_see.len()]);
        let started = rules.begin.is_none();
        Self {
            rules,
            matches,
            json: JsonDocuments::default(),
            context,
            seen,
            started,
            ended: false,
            in_table: false,
            values: 0,
            broken: false,
        }
    }

    fn matched(&self, line: Line<'_>, field: impl FnOnce() -> String) {
        let Some(Ok(mut matches)) = self.matches.as_ref().map(|matches| matches.lock()) else { return };
        if matches.len() < MATCHES {
            let text = line.text.trim().chars().take(200).collect();
            matches.push(Matched { line: line.number, field: field(), text });
        }
    }

    /// Adds a value, or a metric without value if the program states that it cannot measure.
    fn add_metric(&mut self, cell: ReadCell<'_>, line: Line<'_>, out: &mut ReadingBuilder) {
        self.values += 1;
        self.ended = false;
        let rules = self.rules.clone();
        let unit = cell.unit.or(rules.unit.as_deref()).unwrap_or("unknown");
        let mut put = out.custom(&rules.name, unit, rules.better, rules.scope);
        for (name, value) in self.context.iter().flatten() {
            put = with_group(put, name, value);
        }
        for (name, value) in &cell.groups {
            put = with_group(put, name, value);
        }
        match (number(cell.value), cell.reason) {
            (Some(number), None) => put.value(number, line.number),
            (_, Some(reason)) => put.unmeasurable(reason, line.number),
            (None, None)
                if matches!(cell.value.to_ascii_lowercase().as_str(), "n/a" | "-" | "nan" | "na") =>
            {
                put.unmeasurable(cell.value, line.number);
            }
            (None, None) => {
                put.unmeasurable(cell.value, line.number);
                self.broken = true;
                out.error(&format!(
                    "line {}: the value {:?} is not a number",
                    line.number,
                    short(cell.value)
                ));
            }
        }
    }

    fn row(&mut self, line: Line<'_>, out: &mut ReadingBuilder) -> bool {
        let rules = self.rules.clone();
        let Some(regex) = rules.row.as_ref().filter(|_| line.whole) else { return false };
        let Some(captures) = regex.captures(line.text) else { return false };
        let Some(value) = captures.name("value") else { return false };
        self.matched(line, || "row".to_owned());
        let groups = groups(regex, &captures);
        let unit = captures.name("unit").map(|unit| unit.as_str());
        if let Some(rest) = cut(line.text, value.start(), value.end()) {
            self.broken = true;
            out.error(&format!(
                "line {}: the group `value` matches {:?}, a part of {rest:?}",
                line.number,
                value.as_str()
            ));
            let cell = ReadCell {
                value: value.as_str(),
                unit,
                groups,
                reason: Some("the value is a part of a number"),
            };
            self.add_metric(cell, line, out);
            return true;
        }
        self.add_metric(ReadCell { value: value.as_str(), unit, groups, reason: None }, line, out);
        true
    }

    fn table(&mut self, line: Line<'_>, out: &mut ReadingBuilder) -> bool {
        let rules = self.rules.clone();
        let Some((header, columns)) = &rules.table else { return false };
        if header.is_match(line.text) {
            self.matched(line, || "table.header".to_owned());
            self.in_table = true;
            return true;
        }
        if !self.in_table {
            return false;
        }
        let words: Vec<_> = line.text.split_whitespace().collect();
        if words.len() != columns.len() || !line.whole {
            let ends = rules.end.as_ref().is_some_and(|end| end.is_match(line.text));
            self.in_table = false;
            if !ends {
                self.broken = true;
                out.error(&format!(
                    "line {}: {} words in a table of {} columns",
                    line.number,
                    words.len(),
                    columns.len()
                ));
            }
            return false;
        }
        self.matched(line, || "table".to_owned());
        let (mut value, mut unit, mut groups) = ("", None, Vec::new());
        for (column, word) in columns.iter().zip(words) {
            match column.as_str() {
                "-" => {}
                "value" => value = word,
                "unit" => unit = Some(word),
                name => groups.push((name, word)),
            }
        }
        self.add_metric(ReadCell { value, unit, groups, reason: None }, line, out);
        true
    }

    fn document(&mut self, root: JsonValue<'_>, line: Line<'_>, out: &mut ReadingBuilder) -> LogEnd {
        let rules = self.rules.clone();
        let Some((path, with)) = &rules.json else { return LogEnd::Empty };
        let before = self.values;
        path.each(root, &mut |value, parent| {
            let at = Line { number: value.line(), ..line };
            self.matched(at, || "json.values".to_owned());
            let text = value.text().unwrap_or_default();
            let mut held = Vec::new();
            for (name, key) in with {
                match parent.and_then(|parent| parent.get_text(key)) {
                    Some(text) => held.push((name.as_str(), text)),
                    None => {
                        self.broken = true;
                        out.error(&format!(
                            "line {}: the object of the value has no key {key:?}",
                            value.line()
                        ));
                    }
                }
            }
            let unit = held.iter().find(|(name, _)| *name == "unit").map(|(_, unit)| unit.clone());
            let groups = held
                .iter()
                .filter(|(name, _)| *name != "unit")
                .map(|(name, text)| (*name, &**text))
                .collect();
            self.add_metric(ReadCell { value: &text, unit: unit.as_deref(), groups, reason: None }, at, out);
        });
        if self.values > before { LogEnd::Complete } else { LogEnd::Empty }
    }
}

/// Content of one line or JSON value: a measured value, or the reason for its absence.
struct ReadCell<'a> {
    value: &'a str,
    unit: Option<&'a str>,
    groups: Vec<(&'a str, &'a str)>,
    /// The program's explanation of an absent value.
    reason: Option<&'a str>,
}

impl Lines for ProcessReader {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let rules = self.rules.clone();
        if rules.begin.as_ref().is_some_and(|begin| begin.is_match(line.text)) {
            self.matched(line, || "begin".to_owned());
            self.started = true;
        }
        if !self.started {
            return;
        }
        for (at, regex) in rules.must_see.iter().enumerate() {
            if !self.seen[at] && regex.is_match(line.text) {
                self.seen[at] = true;
                self.matched(line, || format!("must_see[{at}]"));
            }
        }
        for (at, regex) in rules.fail.iter().enumerate() {
            if regex.is_match(line.text) {
                self.matched(line, || format!("fail[{at}]"));
                out.error(line.text);
                let mut subject = Subject::default();
                for (name, value) in self.context.iter().flatten() {
                    set(&mut subject, name, value);
                }
                out.finding("CHECK_FAILED", subject, Severity::Hardware, line.text, line.number);
            }
        }
        if rules.json.is_some() {
            // Without the text after the line, the document is read line by line, so that these patterns see each of its lines.
            let has_patterns = !rules.fail.is_empty() || !rules.must_see.is_empty();
            let of_json = if has_patterns { Line { ahead: "", ..line } } else { line };
            let mut json = std::mem::take(&mut self.json);
            let taken = json.line(&of_json, b"{[", out, |root, out| self.document(root, line, out));
            self.json = json;
            if taken {
                return;
            }
        }
        // A line without a line break may be truncated within a group.
        for (at, regex) in rules.context.iter().enumerate().filter(|_| line.whole) {
            if let Some(captures) = regex.captures(line.text) {
                self.matched(line, || format!("context[{at}]"));
                let groups = groups(regex, &captures);
                self.context[at] = groups
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), short(value).to_owned()))
                    .collect();
            }
        }
        let mut taken = false;
        for (at, regex) in rules.unmeasurable.iter().enumerate() {
            if let Some(captures) = regex.captures(line.text).filter(|_| !taken && line.whole) {
                self.matched(line, || format!("unmeasurable[{at}]"));
                let cell = ReadCell {
                    value: "",
                    unit: None,
                    groups: groups(regex, &captures),
                    reason: Some(line.text.trim()),
                };
                self.add_metric(cell, line, out);
                taken = true;
            }
        }
        taken = taken || self.row(line, out) || self.table(line, out);
        if !taken && rules.end.as_ref().is_some_and(|end| end.is_match(line.text)) {
            self.matched(line, || "end".to_owned());
            self.ended = self.values > 0;
            self.in_table = false;
        }
    }

    fn finish(&mut self, out: &mut ReadingBuilder) -> LogEnd {
        let json = self.json.finish(LogEnd::Empty);
        // A JSON document needs no end mark. If the rules state a mark, it must follow the document.
        let needs_mark = self.rules.json.is_none() || self.rules.end.is_some();
        let ended = (self.rules.json.is_none() || json == LogEnd::Complete) && (!needs_mark || self.ended);
        let seen = self.seen.iter().all(|seen| *seen);
        if ended && self.values > 0 && seen && !self.broken && self.started {
            return LogEnd::Complete;
        }
        let started = self.started && self.rules.begin.is_some() || self.values > 0 || json != LogEnd::Empty;
        match () {
            () if started && !out.reading.findings.is_empty() && !ended => LogEnd::Failed,
            () if started => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

/// Named groups of a match, without value and unit.
fn groups<'a>(regex: &'a Regex, captures: &Captures<'a>) -> Vec<(&'a str, &'a str)> {
    let names = regex.capture_names().flatten().filter(|name| !matches!(*name, "value" | "unit"));
    names.filter_map(|name| Some((name, captures.name(name)?.as_str()))).collect()
}

/// Adds a group to a metric: as its subject, or as a label.
fn with_group<'a>(metric: MetricBuilder<'a>, name: &str, value: &str) -> MetricBuilder<'a> {
    let is_subject = matches!(name, "gpu" | "rank" | "node" | "link" | "peer");
    if is_subject { metric.subject(|subject| set(subject, name, value)) } else { metric.label(name, value) }
}

/// Sets a part of a subject; other names are labels.
fn set(subject: &mut Subject, name: &str, value: &str) {
    match name {
        "gpu" => subject.gpu = crate::number::count(value),
        "rank" => subject.rank = crate::number::count(value),
        "node" => subject.node = Some(short(value).into()),
        "link" => subject.link = Some(short(value).into()),
        "peer" => subject.peer = Some(short(value).into()),
        _ => {}
    }
}

/// The complete number around a partial match, such as `9.5e-05` around `9.5`; `None` for a complete match.
fn cut(line: &str, start: usize, end: usize) -> Option<&str> {
    let bytes = line.as_bytes();
    let of_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let before = start > 0 && of_number(bytes[start - 1])
        || start > 1
            && matches!(bytes[start - 1], b'e' | b'E' | b'-' | b'+')
            && (of_number(bytes[start - 2]) || matches!(bytes[start - 2], b'e' | b'E'));
    let minus = start > 0
        && bytes[start - 1] == b'-'
        && (start == 1 || matches!(bytes[start - 2], b' ' | b'\t' | b'=' | b':'));
    let exponent = matches!(bytes.get(end), Some(b'e' | b'E'))
        && (bytes.get(end + 1).is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+')));
    // A full stop after a number ends a sentence unless a digit follows it.
    let after = bytes.get(end).is_some_and(u8::is_ascii_digit)
        || bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
        || exponent
        || bytes.get(end) == Some(&b',') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
    if !(before || minus || after) {
        return None;
    }
    let space = |byte: &u8| byte.is_ascii_whitespace();
    let from = bytes[..start].iter().rposition(space).map_or(0, |at| at + 1);
    let to = bytes[end..].iter().position(space).map_or(line.len(), |at| end + at);
    line.get(from..to)
}

#[cfg(test)]
mod tests;
