//! Converts JSON Schema errors to readable problems.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    document::YamlDocument,
    problem::{FileProblem, FileProblems},
    similar::{corrected, nearest, suggest},
};

impl YamlDocument {
    /// Deserializes the document as a `T`.
    ///
    /// # Errors
    /// Returns an error if the document is invalid, with all problems.
    pub fn read_as<T: JsonSchema + DeserializeOwned>(&self) -> Result<T, FileProblems> {
        let schema = schemars::schema_for!(T).to_value();
        let validator = jsonschema::validator_for(&schema).map_err(|error| {
            self.problem(
                "",
                format!("cannot be checked: the schema of this program is invalid; report this: {error}"),
            )
        })?;
        let mut problems = Vec::new();
        for error in validator.iter_errors(&self.value) {
            Explain { document: self, schema: &schema, problems: &mut problems }.error(&error.to_owned());
        }
        if problems.is_empty() {
            // The schema is generated from the type, but newtypes may have further restrictions.
            let value = self.value.clone();
            return serde_path_to_error::deserialize(value).map_err(|error| {
                self.refused(&error.path().to_string(), &error.into_inner().to_string()).into()
            });
        }
        // A misspelled field is not also reported as absent.
        let misspelled: Vec<_> =
            problems.iter().map(|problem| (problem.field.clone(), problem.help.clone())).collect();
        problems.retain(|problem| {
            let absent =
                problem.message.strip_prefix("lacks the field `").and_then(|rest| rest.strip_suffix('`'));
            let is_absent = |name: &str| {
                let help = format!("did you mean `{name}`?");
                misspelled.iter().any(|(field, most_similar)| {
                    *most_similar == help
                        && field.rsplit_once('.').map_or("", |(outer, _)| outer) == problem.field
                })
            };
            !absent.is_some_and(is_absent)
        });
        problems.sort_by_key(|problem| problem.position);
        problems.dedup();
        Err(FileProblems(problems))
    }

    /// Deserializes the document without its invalid parts, and returns their problems: the rest can be checked
    /// further. `required` has values for required fields of the document itself.
    ///
    /// # Errors
    /// Returns an error if the valid parts do not form a `T`, with all problems.
    pub(crate) fn read_in_part<T: JsonSchema + DeserializeOwned>(
        &self,
        required: &Value,
    ) -> Result<(T, Vec<FileProblem>), FileProblems> {
        let all = match self.read_as() {
            Ok(read) => return Ok((read, vec![])),
            Err(all) => all,
        };
        if !self.value.is_object() {
            return Err(all);
        }
        let (mut rest, mut found) = (self.clone(), all.clone());
        for _ in 0..MAX_REPAIRS {
            for problem in &found.0 {
                let is_whole = problem.field.is_empty() || !rest.remove(&problem.field);
                if is_whole
                    && let (Some(given), Some(required)) = (rest.value.as_object_mut(), required.as_object())
                {
                    required.iter().for_each(|(name, value)| _ = given.entry(name).or_insert(value.clone()));
                }
            }
            match rest.read_as() {
                Ok(read) => return Ok((read, all.0)),
                Err(again) => found = again,
            }
        }
        Err(all)
    }

    /// The problem of a value that fits its schema but not its type.
    fn refused(&self, path: &str, why: &str) -> FileProblem {
        let field = if path == "." { "" } else { path };
        // serde's messages contain names of Rust types, which do not occur in workflow files.
        let of_serde = ["invalid ", "missing field", "unknown ", "data did not match", "duplicate field"];
        if of_serde.iter().any(|begin| why.starts_with(begin)) {
            return self.problem(field, "has an invalid value; compare it with `burnin schema`");
        }
        self.problem(field, why)
    }
}

/// Maximum number of attempts to leave out invalid parts: removing a required field invalidates the enclosing one.
const MAX_REPAIRS: usize = 8;
/// Maximum number of reported problems per file: a malicious file has thousands.
const MAX_PROBLEMS: usize = 100;
/// Maximum length of a message, characters: some quote the value.
const MAX_MESSAGE: usize = 500;

struct Explain<'a> {
    document: &'a YamlDocument,
    schema: &'a Value,
    problems: &'a mut Vec<FileProblem>,
}

impl<'a> Explain<'a> {
    fn error(&mut self, error: &ValidationError<'static>) {
        let field = dotted(error.instance_path().as_str());
        let rule = self.rule(error);
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = rule["properties"].as_object();
                for name in unexpected {
                    let help =
                        suggest(name, known.into_iter().flat_map(Map::keys).map(String::as_str), "fields");
                    let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                    self.add_name(&field, "is not a known field", help);
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let described = self.described(&rule["properties"][name]);
                let help = described.map(|what| format!("add `{name}: ...`: {what}"));
                self.add_name(&field, format!("lacks the field `{name}`"), help);
            }
            ValidationErrorKind::Type { .. } => {
                let (found, types) = (error.instance(), kinds(&rule["type"]));
                let help = corrected(found, rule);
                let message = match (&**found, rule["description"].as_str()) {
                    (Value::Null, _) => format!("has no value; expected {types}"),
                    (Value::Number(number), _)
                        if help.as_ref().is_some_and(|help| help.contains("for minutes")) =>
                    {
                        format!("{number} has no unit; expected {}", self.description(rule).unwrap_or(types))
                    }
                    (found @ (Value::String(_) | Value::Number(_)), _) if rule["type"] == "array" => {
                        let message = format!("expected a list, found {}", shown(found));
                        let help = if self.document.is_set(&field) {
                            format!(
                                "--set does not support lists: set one element of an existing list (`{field}[0]=...`), or write the list into the \
                                 workflow or a file for --values"
                            )
                        } else {
                            format!("write a list: [{}]", shown(found))
                        };
                        return self.add(&field, message, Some(help));
                    }
                    (found, _) => format!("expected {types}, found {}", shown(found)),
                };
                self.add(&field, message, help);
            }
            ValidationErrorKind::Enum { options } => {
                let message = format!("expected one of {}, found {}", list(options), shown(error.instance()));
                self.add(&field, message, most_similar(error.instance(), &option_names(options)));
            }
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                self.choose(&field, context, error);
            }
            ValidationErrorKind::OneOfMultipleValid { .. } => {
                self.add(&field, "fits several alternatives; keep the fields of one", None);
            }
            ValidationErrorKind::Pattern { .. } => {
                let found = shown(error.instance());
                let message = match self.description(rule) {
                    Some(wanted) => format!("expected {wanted}, found {found}"),
                    None => format!("{found} contains an invalid character, or has an invalid length"),
                };
                self.add(&field, message, corrected(error.instance(), rule));
            }
            ValidationErrorKind::Minimum { limit } => {
                let message = format!("{} is less than the minimum of {limit}", shown(error.instance()));
                self.add(&field, message, Some(format!("write {limit} or more")));
            }
            ValidationErrorKind::Maximum { limit } => {
                let message = format!("{} is more than the maximum of {limit}", shown(error.instance()));
                self.add(&field, message, Some(format!("write {limit} or less")));
            }
            ValidationErrorKind::ExclusiveMinimum { limit } => {
                let message = format!("{} is not greater than {limit}", shown(error.instance()));
                self.add(&field, message, Some(format!("write more than {limit}")));
            }
            ValidationErrorKind::ExclusiveMaximum { limit } => {
                let message = format!("{} is not less than {limit}", shown(error.instance()));
                self.add(&field, message, Some(format!("write less than {limit}")));
            }
            ValidationErrorKind::MinItems { limit } => {
                let found = error.instance().as_array().map_or(0, Vec::len);
                self.add(
                    &field,
                    format!("has too few elements; expected at least {limit}, found {found}"),
                    None,
                );
            }
            ValidationErrorKind::MaxItems { limit } => {
                let found = error.instance().as_array().map_or(0, Vec::len);
                self.add(
                    &field,
                    format!("has too many elements; expected at most {limit}, found {found}"),
                    None,
                );
            }
            ValidationErrorKind::MinLength { limit } => {
                let found = error.instance().as_str().map_or(0, |text| text.chars().count());
                let message = format!("is too short; expected at least {limit} characters, found {found}");
                self.add(&field, message, None);
            }
            ValidationErrorKind::MaxLength { limit } => {
                let found = error.instance().as_str().map_or(0, |text| text.chars().count());
                let message = format!("is too long; expected at most {limit} characters, found {found}");
                self.add(&field, message, None);
            }
            ValidationErrorKind::MinProperties { limit } => {
                let found = error.instance().as_object().map_or(0, Map::len);
                self.add(
                    &field,
                    format!("has too few fields; expected at least {limit}, found {found}"),
                    None,
                );
            }
            ValidationErrorKind::MaxProperties { limit } => {
                let found = error.instance().as_object().map_or(0, Map::len);
                self.add(
                    &field,
                    format!("has too many fields; expected at most {limit}, found {found}"),
                    None,
                );
            }
            ValidationErrorKind::UniqueItems => {
                self.add(&field, "contains an element twice; remove one", None)
            }
            ValidationErrorKind::Constant { expected_value } => {
                self.add(
                    &field,
                    format!("expected {expected_value}, found {}", shown(error.instance())),
                    None,
                );
            }
            _ => {
                let expected =
                    self.description(rule).map_or_else(String::new, |what| format!("; expected {what}"));
                self.add(&field, format!("{} is not valid here{expected}", shown(error.instance())), None);
            }
        }
    }

    /// The part of the schema that contains the violated rule.
    fn rule(&self, error: &ValidationError<'static>) -> &'a Value {
        let path = error.schema_path().as_str();
        path.rsplit_once('/').and_then(|(place, _)| self.schema.pointer(place)).unwrap_or(&Value::Null)
    }

    fn add(&mut self, field: &str, message: impl Into<String>, help: Option<String>) {
        let message = shortened(message.into(), MAX_MESSAGE);
        self.push(self.document.problem(field, message), help);
    }

    /// Adds a problem of a field's name rather than its value.
    fn add_name(&mut self, field: &str, message: impl Into<String>, help: Option<String>) {
        let message = shortened(message.into(), MAX_MESSAGE);
        self.push(self.document.problem_of_name(field, message), help);
    }

    fn push(&mut self, problem: FileProblem, help: Option<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem.with_help(help.map(|help| shortened(help, MAX_MESSAGE))));
        }
    }

    /// A description as a part of a sentence.
    fn description(&self, rule: &Value) -> Option<String> {
        let text = self.described(rule)?;
        let mut letters = text.chars();
        let first = letters.next()?;
        // `NCCL` stays, `Short name` becomes `short name`.
        let acronym = letters.clone().next().is_some_and(char::is_uppercase);
        Some(if acronym { text } else { first.to_lowercase().chain(letters).collect() })
    }

    /// The schema's description of a rule, without the final period.
    fn described(&self, rule: &Value) -> Option<String> {
        let target = rule["$ref"].as_str().and_then(|at| self.schema.pointer(at.strip_prefix('#')?));
        let text = rule["description"].as_str().or_else(|| target?["description"].as_str())?;
        let first = text.split(". ").next().unwrap_or(text);
        Some(first.trim_end_matches('.').to_owned())
    }

    /// Selects the alternative that the user probably meant: the one with the deepest error.
    fn choose(
        &mut self,
        field: &str,
        context: &[Vec<ValidationError<'static>>],
        error: &ValidationError<'static>,
    ) {
        // `Option<T>` is T or null: report the problem of T.
        let context: Vec<_> =
            context.iter().filter(|branch| !branch.iter().all(|error| self.wants_null(error))).collect();
        if let [branch] = context[..] {
            return branch.iter().for_each(|error| self.error(error));
        }
        // Prefer an alternative of the value's own type.
        let here = error.instance_path().as_str().len();
        let fits = |branch: &&&Vec<ValidationError<'static>>| {
            !branch.iter().any(|error| {
                let at = error.instance_path().as_str().len();
                at == here && matches!(error.kind(), ValidationErrorKind::Type { .. })
            })
        };
        let fitting: Vec<_> = context.iter().filter(fits).copied().collect();
        let context = if fitting.is_empty() { context } else { fitting };
        if let [branch] = context[..] {
            return branch.iter().for_each(|error| self.error(error));
        }
        let tags: Vec<_> = context.iter().filter_map(|branch| self.tag(branch)).collect();
        let given: Vec<_> = match &**error.instance() {
            Value::Object(map) => tags.iter().filter(|tag| map.contains_key(**tag)).collect(),
            _ => vec![],
        };
        if let [first, second, ..] = given[..] {
            let help = format!("keep `{first}` or `{second}`");
            return self.add_name(field, format!("`{first}` and `{second}` exclude each other"), Some(help));
        }
        let depth = |branch: &&&Vec<ValidationError<'static>>| {
            branch.iter().map(|error| error.instance_path().as_str().len()).max().unwrap_or(0)
        };
        // Select the alternative whose field is given, or else the one with the deepest error.
        let chosen =
            given.first().and_then(|tag| context.iter().find(|branch| self.tag(branch) == Some(**tag)));
        let furthest =
            chosen.or_else(|| context.iter().max_by_key(depth).filter(|branch| depth(branch) > here));
        if let Some(branch) = furthest {
            return branch.iter().for_each(|error| self.error(error));
        }
        let mut options: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        for error in context.iter().copied().flatten() {
            match error.kind() {
                ValidationErrorKind::Constant { expected_value } => {
                    options.extend(expected_value.as_str().map(str::to_owned))
                }
                ValidationErrorKind::Enum { options: named } => options.extend(option_names(named)),
                _ => {}
            }
        }
        options.dedup();
        if options.is_empty() {
            return match context.first() {
                Some(branch) => branch.iter().for_each(|error| self.error(error)),
                None => self.add(field, format!("{} is not valid here", shown(error.instance())), None),
            };
        }
        let message = format!("expected one of {}, found {}", quoted(&options), shown(error.instance()));
        self.add(field, message, most_similar(error.instance(), &options));
    }

    /// The only required field of an alternative.
    fn tag(&self, branch: &[ValidationError<'static>]) -> Option<&str> {
        branch.iter().find_map(|error| {
            // The error may be below the alternative: its schema is the nearest one with exactly one required field.
            let rule = self.rule(error);
            let [tag] = &rule["required"].as_array()?[..] else { return None };
            let closed = rule["properties"].as_object().is_some_and(|properties| properties.len() == 1);
            closed.then(|| tag.as_str()).flatten()
        })
    }

    fn wants_null(&self, error: &ValidationError<'static>) -> bool {
        matches!(error.kind(), ValidationErrorKind::Type { .. }) && self.rule(error)["type"] == "null"
    }
}

/// Strings of a schema's list of values.
fn option_names(options: &Value) -> Vec<String> {
    let options = options.as_array().into_iter().flatten();
    options.filter_map(|option| option.as_str().map(str::to_owned)).collect()
}

fn list(options: &Value) -> String {
    quoted(&option_names(options))
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Suggests the valid option that is most similar to a misspelled value or field.
fn most_similar(found: &Value, options: &[String]) -> Option<String> {
    let found: Vec<&str> = match found {
        Value::String(text) => vec![text],
        Value::Object(map) => map.keys().map(String::as_str).collect(),
        _ => vec![],
    };
    let options = || options.iter().map(String::as_str);
    found.into_iter().find_map(|name| nearest(name, options())).map(|name| format!("did you mean `{name}`?"))
}

/// The types of a schema in words.
fn kinds(types: &Value) -> String {
    let word = |name: &str| match name {
        "string" => "text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "object" => "fields (`name: value`)",
        "array" => "a list",
        _ => "nothing",
    };
    match types {
        Value::String(name) => word(name).to_owned(),
        Value::Array(all) => {
            let all = all.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            all.map(word).collect::<Vec<_>>().join(" or ")
        }
        _ => "another value".to_owned(),
    }
}

fn shown(value: &Value) -> String {
    let shown = match value {
        Value::Object(map) if map.is_empty() => "no fields".to_owned(),
        Value::Object(map) => format!("the fields {}", map.keys().cloned().collect::<Vec<_>>().join(", ")),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Null => "no value".to_owned(),
        value => value.to_string(),
    };
    shortened(shown, 60)
}

fn shortened(text: String, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some(_) => text.chars().take(longest - 3).chain("...".chars()).collect(),
        None => text,
    }
}

/// Converts `/steps/2/timeout` to `steps[2].timeout`.
fn dotted(pointer: &str) -> String {
    let mut field = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            field += &format!("[{part}]");
        } else {
            if !field.is_empty() {
                field.push('.');
            }
            field += &part;
        }
    }
    field
}
