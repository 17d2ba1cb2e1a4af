//! Parses YAML to JSON values with positions.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::{
    problem::{Excerpt, FileProblem, FileProblems, Position},
    similar::suggest,
};

/// Maximum size of a file, bytes. The YAML scanner buffers every token of a bracketed list until its end,
/// which takes up to 180 times the text.
const MAX_BYTES: usize = 256 << 10;
pub(crate) const MAX_DEPTH: usize = 64;
/// Each value stores its position under its full path: number, depth and length of keys bound the memory of a
/// file.
const MAX_VALUES: usize = 20_000;
/// Maximum length of a key, bytes.
pub(crate) const MAX_KEY: usize = 256;
/// Maximum length of a field's path, bytes.
const MAX_PATH: usize = 2048;

/// Maximum length of a displayed line, characters.
const MAX_EXCERPT: usize = 300;

/// A YAML (or JSON) file as a value.
#[derive(Clone, Debug)]
pub struct YamlDocument {
    pub file: String,
    pub value: Value,
    positions: BTreeMap<String, FieldPosition>,
    lines: Arc<[String]>,
    overridden: Vec<Overridden>,
}

/// Position of a field, and the number of characters from there to the end of its key or, on the same line, of its value.
#[derive(Clone, Copy, Debug)]
struct FieldPosition {
    at: Position,
    key: usize,
    whole: usize,
}

/// Parts of the names of fields whose lines are not displayed: an address may contain a password or a key.
const SECRET: [&str; 7] = ["url", "webhook", "target", "password", "token", "secret", "key"];

/// File name of a problem with an override on the command line.
pub(crate) const SET: &str = "--set";

/// A field that is stated outside the file.
#[derive(Clone, Debug)]
struct Overridden {
    field: String,
    file: String,
    position: Option<Position>,
    excerpt: Option<Box<Excerpt>>,
    /// The text of `--set`.
    text: Option<String>,
}

impl YamlDocument {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, is not UTF-8, or is not valid YAML.
    pub fn read(path: &Path) -> Result<Self, FileProblems> {
        let file = path.display().to_string();
        match read_some(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => {
                let message = match error.kind() {
                    io::ErrorKind::InvalidData => "is not UTF-8 text; convert it to UTF-8".to_owned(),
                    _ => format!("cannot be read: {error}"),
                };
                Err(FileProblem { file, message, ..FileProblem::default() }.into())
            }
        }
    }

    /// Parses a text: a single document without anchors, aliases, tags or repeated keys, which are easily
    /// overlooked.
    ///
    /// # Errors
    /// Returns an error with the first syntax error and its position if the text is invalid.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileProblems> {
        let mut document = Self {
            file: file.to_owned(),
            value: Value::Null,
            positions: BTreeMap::new(),
            lines: Arc::default(),
            overridden: vec![],
        };
        if text.len() > MAX_BYTES {
            return Err(document
                .problem("", format!("is larger than the maximum of {MAX_BYTES} bytes; shorten it"))
                .into());
        }
        document.lines =
            text.lines().map(|line| line.chars().take(MAX_EXCERPT).collect()).collect::<Vec<_>>().into();
        match DocumentBuilder::new(text).document() {
            Ok((value, positions)) => {
                document.value = value;
                document.positions = positions;
                Ok(document)
            }
            Err(SyntaxError { position, field, message, help }) => {
                let excerpt = position.and_then(|at| document.excerpt(at, 1));
                Err(FileProblem { file: document.file, position, field, message, help, excerpt }.into())
            }
        }
    }

    /// An error in a field, at its position or the nearest enclosing one.
    pub fn problem(&self, field: &str, message: impl Into<String>) -> FileProblem {
        self.marked(field, message.into(), |place| place.whole)
    }

    /// An error in a field's name: only the name is marked.
    pub(crate) fn problem_of_name(&self, field: &str, message: impl Into<String>) -> FileProblem {
        self.marked(field, message.into(), |place| place.key)
    }

    fn marked(&self, field: &str, message: String, length: impl Fn(&FieldPosition) -> usize) -> FileProblem {
        let (file, position, mut excerpt) = match self.overridden_by(field) {
            Some(by) => (by.file.clone(), by.position, by.excerpt.clone()),
            None => {
                let found = self.position(field);
                // Only the name of an enclosing field is marked, because its value may span many lines.
                let length = |place: &FieldPosition| {
                    if self.positions.contains_key(field) { length(place) } else { place.key }
                };
                let excerpt = found.as_ref().and_then(|place| self.excerpt(place.at, length(place)));
                (self.file.clone(), found.map(|place| place.at), excerpt)
            }
        };
        let last = field.rsplit('.').next().unwrap_or_default();
        if SECRET.iter().any(|name| last.to_ascii_lowercase().contains(name)) {
            excerpt = None;
        }
        FileProblem { file, position, field: field.to_owned(), message, help: String::new(), excerpt }
    }

    fn excerpt(&self, at: Position, length: usize) -> Option<Box<Excerpt>> {
        let line = self.lines.get(at.line.checked_sub(1)?)?;
        let end = line.chars().count();
        let start = at.column.saturating_sub(1);
        // A problem at the end of the line is marked after the last character of the line.
        (start <= end && end < MAX_EXCERPT)
            .then(|| Box::new(Excerpt { line: line.clone(), start, length: length.min(end - start).max(1) }))
    }

    /// The last override of the field, of a part of it or of an enclosing field.
    fn overridden_by(&self, field: &str) -> Option<&Overridden> {
        let within = |inner: &str, outer: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.overridden.iter().rev().find(|by| {
            within(field, &by.field)
                || (!field.is_empty() && within(&by.field, field) && !self.positions.contains_key(field))
        })
    }

    /// Whether the command line sets exactly this field.
    pub(crate) fn is_set(&self, field: &str) -> bool {
        self.overridden.iter().any(|by| by.field == field && by.file == SET)
    }

    /// Position of a field, or of the nearest enclosing one.
    fn position(&self, field: &str) -> Option<FieldPosition> {
        let mut field = field;
        loop {
            if let Some(place) = self.positions.get(field) {
                return Some(*place);
            }
            if field.is_empty() {
                return None;
            }
            field = &field[..field.rfind(['.', '[']).unwrap_or(0)];
        }
    }

    /// Sets the value of a field, creating enclosing fields. An overridden field has no position.
    ///
    /// An element of a list is selected by its number, `checks[0]`, or by its name, `checks.memory`.
    pub(crate) fn set(&mut self, field: &str, text: &str) {
        self.override_field(field, plain(text), Some(text.to_owned()));
    }

    /// Like [`Self::set`], with any value.
    pub(crate) fn set_value(&mut self, field: &str, value: Value) {
        self.override_field(field, value, None);
    }

    fn override_field(&mut self, field: &str, value: Value, text: Option<String>) {
        let field = self.put(field.split('.'), value);
        self.overridden.push(Overridden { field, file: SET.to_owned(), position: None, excerpt: None, text });
    }

    /// Replaces values of `--set` such as `30` or `true` by their text where `T` requires a text: values of `--set` are not quoted.
    pub(crate) fn set_texts<T: JsonSchema + DeserializeOwned>(&mut self) {
        if self.overridden.iter().all(|by| by.text.is_none()) {
            return;
        }
        let wrong_fields = |document: &Self| -> Vec<String> {
            let problems = document.read_as::<T>().err().map_or(vec![], |problems| problems.0);
            problems.into_iter().map(|problem| problem.field).collect()
        };
        for field in wrong_fields(self) {
            let Some(set) = self.overridden.iter().rev().find(|by| by.field == field) else { continue };
            let Some(text) = set.text.clone() else { continue };
            let Some(place) = self.value.pointer_mut(&pointer(&field)) else { continue };
            let value = std::mem::replace(place, Value::String(text));
            if wrong_fields(self).contains(&field)
                && let Some(place) = self.value.pointer_mut(&pointer(&field))
            {
                *place = value;
            }
        }
    }

    /// The problem of a field that names an absent element of a list of named elements: setting it would replace the list.
    pub(crate) fn unknown_element(&self, field: &str) -> Option<FileProblem> {
        let mut place = &self.value;
        for part in field.split('.') {
            let (name, numbers) = part.split_once('[').map_or((part, ""), |(name, numbers)| (name, numbers));
            if let Some(elements) = place.as_array() {
                let names = || elements.iter().filter_map(|element| element["name"].as_str());
                let Some(at) = elements.iter().position(|element| element["name"].as_str() == Some(name))
                else {
                    let problem = FileProblem {
                        file: SET.to_owned(),
                        field: field.to_owned(),
                        message: format!("no element of the list is named `{name}`"),
                        ..FileProblem::default()
                    };
                    return names()
                        .next()
                        .is_some()
                        .then(|| problem.with_help(suggest(name, names(), "names")));
                };
                place = &elements[at];
            } else {
                place = place.get(name)?;
            }
            for number in numbers.split('[').filter(|number| !number.is_empty()) {
                place = place.get(number.strip_suffix(']')?.parse::<usize>().ok()?)?;
            }
        }
        None
    }

    /// Sets the value of a field from a field of another file. `path`: names from the outermost field on.
    pub(crate) fn set_by(&mut self, path: &[&str], value: Value, other: &Self) {
        let FileProblem { position, excerpt, .. } = other.problem(&path.join("."), "");
        let field = self.put(path.iter().copied(), value);
        self.overridden.push(Overridden { field, file: other.file.clone(), position, excerpt, text: None });
    }

    /// Removes a field's value, or that of the nearest existing enclosing field. Returns `false` for the whole document.
    pub(crate) fn remove(&mut self, field: &str) -> bool {
        let mut field = field;
        while !field.is_empty() {
            let cut = field.rfind(['.', '[']).unwrap_or(0);
            let (outer, last) = (&field[..cut], field[cut..].trim_start_matches('.'));
            let enclosing = self.value.pointer_mut(&pointer(outer));
            let removed = match (enclosing, last.strip_prefix('[').and_then(|last| last.strip_suffix(']'))) {
                (Some(Value::Object(map)), None) => map.remove(last).is_some(),
                // A list element is not removed, so that the other elements keep their numbers.
                (Some(Value::Array(_)), Some(_)) => false,
                _ => false,
            };
            if removed {
                return true;
            }
            field = outer;
        }
        false
    }

    /// Sets the value at a path, creating enclosing fields. Returns the field with the numbers of list elements instead of their names.
    fn put<'p>(&mut self, path: impl Iterator<Item = &'p str>, value: Value) -> String {
        let mut place = &mut self.value;
        let mut field = String::new();
        for part in path {
            let (name, numbers) = part.split_once('[').map_or((part, ""), |(name, numbers)| (name, numbers));
            let named = |element: &Value| element["name"].as_str() == Some(name);
            let element = place.as_array().and_then(|list| list.iter().position(named));
            place = match element {
                Some(number) => {
                    field += &format!("[{number}]");
                    &mut place[number]
                }
                None => {
                    if !place.is_object() {
                        *place = Value::Object(Map::new());
                    }
                    field += &format!("{}{name}", if field.is_empty() { "" } else { "." });
                    let Value::Object(object) = place else { return field };
                    object.entry(name).or_insert(Value::Null)
                }
            };
            for number in
                numbers.split('[').filter_map(|number| number.strip_suffix(']')?.parse::<usize>().ok())
            {
                if place.get(number).is_some() {
                    field += &format!("[{number}]");
                    place = &mut place[number];
                }
            }
        }
        *place = value;
        field
    }
}

/// Converts `steps[2].timeout` to `/steps/2/timeout`. A name with a dot is not found, and its enclosing field is used.
fn pointer(field: &str) -> String {
    let parts =
        field.split(['.', '[']).map(|part| part.trim_end_matches(']')).filter(|part| !part.is_empty());
    parts.map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Reads at most one byte more than the maximum of a file, to detect a larger one.
fn read_some(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

struct SyntaxError {
    position: Option<Position>,
    field: String,
    message: String,
    help: String,
}

struct DocumentBuilder<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    positions: BTreeMap<String, FieldPosition>,
    values: usize,
}

impl<'a> DocumentBuilder<'a> {
    fn new(text: &'a str) -> Self {
        Self { events: Parser::new_from_str(text), positions: BTreeMap::new(), values: 0 }
    }

    fn document(mut self) -> Result<(Value, BTreeMap<String, FieldPosition>), SyntaxError> {
        let value = loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) => {}
                Event::StreamEnd => return Err(broken(&span, "", "is empty")),
                event => break self.value(event, &span, "", 0)?,
            }
        };
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok((value, self.positions)),
                (Event::DocumentEnd, _) => {}
                (_, span) => {
                    return Err(broken(&span, "", "a second document begins here; write one per file"));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), SyntaxError> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let marker = error.marker();
                let position = Some(Position { line: marker.line(), column: marker.col() + 1 });
                let (what, help) = in_words(error.info());
                let message = format!("is not YAML: {what}");
                Err(SyntaxError { position, field: String::new(), message, help: help.to_owned() })
            }
            None => Err(SyntaxError {
                position: None,
                field: String::new(),
                message: "ends before its value is complete".into(),
                help: String::new(),
            }),
        }
    }

    fn value(
        &mut self,
        event: Event<'a>,
        span: &Span,
        field: &str,
        depth: usize,
    ) -> Result<Value, SyntaxError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(broken(span, "", &format!("has more than {MAX_VALUES} values")));
        }
        if depth > MAX_DEPTH || field.len() > MAX_PATH {
            let message = format!(
                "is nested too deeply: more than {MAX_DEPTH} levels, or a path of more than {MAX_PATH} bytes"
            );
            return Err(broken(span, "", &message));
        }
        let length = on_one_line(span);
        let marked = self.positions.entry(field.to_owned()).or_insert(FieldPosition {
            at: position(span),
            key: length,
            whole: length,
        });
        // The value of a key on the same line: mark both.
        if !matches!(event, Event::SequenceStart(..) | Event::MappingStart(..))
            && span.start.line() == marked.at.line
        {
            marked.whole = (span.start.col() + 1 + length).saturating_sub(marked.at.column).max(marked.key);
        }
        match event {
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                Err(broken(span, field, "anchors are not supported; write the value out"))
            }
            Event::Alias(_) => Err(broken(span, field, "aliases are not supported; write the value out")),
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                Err(broken(span, field, "tags are not supported; remove the tag"))
            }
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(plain(&text)),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => self.sequence(field, depth),
            Event::MappingStart(..) => self.mapping(field, depth),
            _ => Err(broken(span, field, "is not a scalar, list or mapping")),
        }
    }

    fn sequence(&mut self, field: &str, depth: usize) -> Result<Value, SyntaxError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                (event, span) => {
                    let item = format!("{field}[{}]", items.len());
                    items.push(self.value(event, &span, &item, depth + 1)?);
                }
            }
        }
    }

    fn mapping(&mut self, field: &str, depth: usize) -> Result<Value, SyntaxError> {
        let mut map = Map::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Value::Object(map)),
                Event::Scalar(key, ..) if key.len() > MAX_KEY => {
                    return Err(broken(
                        &span,
                        field,
                        &format!("a key is longer than {MAX_KEY} bytes; shorten it"),
                    ));
                }
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(broken(&span, field, "a key must be a string; write `name: value`")),
            };
            let child = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
            // Report the position of the key, not of the value.
            let length = on_one_line(&span);
            self.positions.entry(child.clone()).or_insert(FieldPosition {
                at: position(&span),
                key: length,
                whole: length,
            });
            let (event, value_span) = self.next()?;
            let value = self.value(event, &value_span, &child, depth + 1)?;
            if map.insert(key, value).is_some() {
                return Err(broken(&span, &child, "is given twice"));
            }
        }
    }
}

fn position(span: &Span) -> Position {
    Position { line: span.start.line(), column: span.start.col() + 1 }
}

fn broken(span: &Span, field: &str, message: &str) -> SyntaxError {
    SyntaxError {
        position: Some(position(span)),
        field: field.to_owned(),
        message: message.to_owned(),
        help: String::new(),
    }
}

/// Length of a scalar that ends on its first line, characters; otherwise 1.
fn on_one_line(span: &Span) -> usize {
    let (start, end) = (span.start, span.end);
    if start.line() == end.line() { end.col().saturating_sub(start.col()).max(1) } else { 1 }
}

/// Describes a syntax error of the YAML scanner, with the usual correction.
fn in_words(info: &str) -> (&'static str, &'static str) {
    let has = |part: &str| info.contains(part);
    if has("tab") {
        ("a tab cannot be used for indentation", "indent with spaces")
    } else if has("mapping values are not allowed") || has("illegal placement of ':'") {
        (
            "a second `:` on the line, or a line that is indented too far",
            "quote a text that contains `: `, or correct the indentation",
        )
    } else if has("flow sequence") {
        ("a list in brackets lacks `,` or `]`", "write [a, b]")
    } else if has("flow mapping") || has("flow construct") {
        ("fields in braces lack `,` or `}`", "write {a: 1, b: 2}")
    } else if has("quoted scalar") && (has("end of stream") || has("indentation")) {
        ("a quoted text has no closing quote", "close the quote on the same line")
    } else if has("escape") {
        ("an unknown escape sequence in double quotes", r"use single quotes, or write \\ for a backslash")
    } else if has("double-quoted") || has("trailing content") {
        ("text follows a closing quote", "quote the whole value")
    } else if has("simple key") || has("did not find expected key") {
        (
            "a field without `: `, or a line that is indented differently from the lines around it",
            "write `name: value`, indented like the other fields",
        )
    } else if has("'-' indicator") || has("block sequence entries") {
        (
            "a list element that is indented differently from the other elements",
            "begin every element with `- ` in the same column",
        )
    } else if has("indent") {
        ("a line that is indented differently from the lines around it", "indent fields of one level equally")
    } else if has("anchor") || has("alias") {
        (
            "`&` and `*` begin anchors and aliases, which are not supported",
            "quote a text that begins with `&` or `*`",
        )
    } else if has("next token") || has("unexpected character") || has("cannot start") || has("node content") {
        ("this character has a special meaning in YAML and is not allowed here", "quote the text")
    } else if has("unprintable") {
        ("a character that cannot be printed", "remove it")
    } else if has("document") || has("directive") || has("stream") {
        ("`---`, `...` or `%` at the beginning of a line", "write one document without directives")
    } else {
        (
            "the text cannot be parsed from here on",
            "check quotes, brackets and indentation of this line and the one before",
        )
    }
}
/// YAML 1.2's core schema: `no` and `on` are strings; `010` has a leading zero and is a string here.
pub(crate) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    // Only JSON's number syntax is unambiguous.
    serde_json::from_str::<Number>(text).map_or_else(|_| Value::String(text.to_owned()), Value::Number)
}
