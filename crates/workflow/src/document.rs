//! Parses YAML to JSON values with positions.

use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
};

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

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

/// A position in a file, both numbers starting at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// An invalid field or syntax error, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// File name as given, or `--set`.
    pub file: String,
    /// Position, if any.
    pub position: Option<Position>,
    /// The field, such as `limits.job` or `steps[2].timeout`; empty for the whole file.
    pub field: String,
    /// The problem and the expected value.
    pub message: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All problems of a file and of the files it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileProblems(pub Vec<FileProblem>);

impl std::error::Error for FileProblems {}

impl fmt::Display for FileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.0.iter();
        lines.next().map_or(Ok(()), |first| first.fmt(f))?;
        lines.try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

impl From<FileProblem> for FileProblems {
    fn from(problem: FileProblem) -> Self {
        Self(vec![problem])
    }
}

/// A YAML (or JSON) file as a value.
#[derive(Clone, Debug)]
pub struct YamlDocument {
    /// File name as given.
    pub file: String,
    /// Content.
    pub value: Value,
    positions: BTreeMap<String, Position>,
    overridden: Vec<Overridden>,
}

/// File name of a problem with an override on the command line.
const SET: &str = "--set";

/// A field that is stated outside the file.
#[derive(Clone, Debug)]
struct Overridden {
    field: String,
    file: String,
    position: Option<Position>,
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
                let message = format!("cannot be read: {error}");
                Err(FileProblem { file, position: None, field: String::new(), message }.into())
            }
        }
    }

    /// Parses a text: a single document without anchors, aliases, tags or repeated keys, which are easily
    /// overlooked.
    ///
    /// # Errors
    /// Returns an error if the text is invalid: the first syntax error, with its position.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileProblems> {
        let mut document = Self {
            file: file.to_owned(),
            value: Value::Null,
            positions: BTreeMap::new(),
            overridden: vec![],
        };
        if text.len() > MAX_BYTES {
            return Err(document
                .problem("", format!("is larger than {MAX_BYTES} bytes and is not read"))
                .into());
        }
        match DocumentBuilder::new(text).document() {
            Ok((value, positions)) => {
                document.value = value;
                document.positions = positions;
                Ok(document)
            }
            Err(SyntaxError { position, field, message }) => {
                Err(FileProblem { file: document.file, position, field, message }.into())
            }
        }
    }

    /// A problem of a field, at its position or the nearest enclosing one.
    pub fn problem(&self, field: &str, message: impl Into<String>) -> FileProblem {
        let (file, position) = match self.overridden_by(field) {
            Some(by) => (by.file.clone(), by.position),
            None => (self.file.clone(), self.position(field)),
        };
        FileProblem { file, position, field: field.to_owned(), message: message.into() }
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
    fn position(&self, field: &str) -> Option<Position> {
        let mut field = field;
        loop {
            if let Some(position) = self.positions.get(field) {
                return Some(*position);
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
    pub(crate) fn set(&mut self, field: &str, value: Value) {
        let field = self.put(field.split('.'), value);
        self.overridden.push(Overridden { field, file: SET.to_owned(), position: None });
    }

    /// The same, by a field of another file. `path`: names from the outermost field on.
    pub(crate) fn set_by(&mut self, path: &[&str], value: Value, other: &Self) {
        let position = other.position(&path.join("."));
        let field = self.put(path.iter().copied(), value);
        self.overridden.push(Overridden { field, file: other.file.clone(), position });
    }

    /// Returns the field with the numbers of list elements instead of their names.
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

/// Reads at most enough of a file to detect that it is too large.
fn read_some(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Parses a single YAML scalar, as in `--set key=`.
pub(crate) fn scalar(text: &str) -> Value {
    plain(text)
}

struct SyntaxError {
    position: Option<Position>,
    field: String,
    message: String,
}

struct DocumentBuilder<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    positions: BTreeMap<String, Position>,
    values: usize,
}

impl<'a> DocumentBuilder<'a> {
    fn new(text: &'a str) -> Self {
        Self { events: Parser::new_from_str(text), positions: BTreeMap::new(), values: 0 }
    }

    fn document(mut self) -> Result<(Value, BTreeMap<String, Position>), SyntaxError> {
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
                let message = format!("is not YAML: {}", error.info());
                Err(SyntaxError { position, field: String::new(), message })
            }
            None => Err(SyntaxError {
                position: None,
                field: String::new(),
                message: "ends in the middle".into(),
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
        self.positions.entry(field.to_owned()).or_insert(position(span));
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
            | Event::MappingStart(_, Some(_)) => Err(broken(span, field, "tags are not supported")),
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(plain(&text)),
            Event::Scalar(text, ..) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(..) => self.sequence(field, depth),
            Event::MappingStart(..) => self.mapping(field, depth),
            _ => Err(broken(span, field, "is not a value")),
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
                    return Err(broken(&span, field, &format!("a key is longer than {MAX_KEY} bytes")));
                }
                Event::Scalar(key, ..) => key.into_owned(),
                _ => return Err(broken(&span, field, "a key must be a string")),
            };
            let child = if field.is_empty() { key.clone() } else { format!("{field}.{key}") };
            // Report the position of the key rather than that of the value.
            self.positions.entry(child.clone()).or_insert(position(&span));
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
    SyntaxError { position: Some(position(span)), field: field.to_owned(), message: message.to_owned() }
}

/// YAML 1.2's core schema: `no` and `on` are strings; `010` has a leading zero and is a string here.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    // Only JSON's number syntax is unambiguous.
    serde_json::from_str::<Number>(text).map_or_else(|_| Value::String(text.to_owned()), Value::Number)
}
