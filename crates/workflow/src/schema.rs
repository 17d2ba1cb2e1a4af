//! Converts JSON Schema errors to readable problems.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::document::{FileProblem, FileProblems, YamlDocument};

impl YamlDocument {
    /// Deserializes the document as a `T`.
    ///
    /// # Errors
    /// Returns an error if the document is invalid, with all problems.
    pub fn read_as<T: JsonSchema + DeserializeOwned>(&self) -> Result<T, FileProblems> {
        let schema = schemars::schema_for!(T).to_value();
        let validator = jsonschema::validator_for(&schema).map_err(|error| {
            self.problem("", format!("cannot be checked, the schema itself is wrong: {error}"))
        })?;
        let mut problems = Vec::new();
        for error in validator.iter_errors(&self.value) {
            Explain { document: self, schema: &schema, problems: &mut problems }.error(&error.to_owned());
        }
        if problems.is_empty() {
            // The schema is generated from the type, but newtypes may have further restrictions.
            return serde_json::from_value(self.value.clone())
                .map_err(|error| self.problem("", error.to_string()).into());
        }
        problems.sort_by_key(|problem| problem.position);
        problems.dedup();
        Err(FileProblems(problems))
    }
}

/// Maximum number of reported problems per file: a malicious file has thousands.
const MAX_PROBLEMS: usize = 100;
/// Maximum length of a message, characters: some quote the value.
const MAX_MESSAGE: usize = 500;

struct Explain<'a> {
    document: &'a YamlDocument,
    schema: &'a Value,
    problems: &'a mut Vec<FileProblem>,
}

impl Explain<'_> {
    fn error(&mut self, error: &ValidationError<'static>) {
        let field = dotted(error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                for name in unexpected {
                    let field = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                    self.add(&field, "is not a known field");
                }
            }
            ValidationErrorKind::Required { property } => {
                self.add(&field, format!("lacks the field `{}`", property.as_str().unwrap_or_default()));
            }
            ValidationErrorKind::Type { .. } if error.instance().is_null() => {
                self.add(&field, format!("has no value; expected {}", expected(error)));
            }
            ValidationErrorKind::Type { .. } => {
                self.add(&field, format!("expected {}, found {}", expected(error), shown(error)));
            }
            ValidationErrorKind::Enum { options } => {
                self.add(&field, format!("expected one of {}, found {}", list(options), shown(error)));
            }
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                self.choose(&field, context, error);
            }
            ValidationErrorKind::Pattern { pattern } => {
                let wanted = self.description(error).unwrap_or_else(|| format!("the form {pattern}"));
                self.add(&field, format!("expected {wanted}, found {}", shown(error)));
            }
            _ => self.add(&field, error.to_string()),
        }
    }

    fn add(&mut self, field: &str, message: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            let message = shortened(message.into(), MAX_MESSAGE);
            self.problems.push(self.document.problem(field, message));
        }
    }

    /// The schema's description of the violated rule, without the full stop.
    fn description(&self, error: &ValidationError<'static>) -> Option<String> {
        let path = error.schema_path().as_str();
        let (place, _) = path.rsplit_once('/')?;
        let text = self.schema.pointer(place)?["description"].as_str()?;
        Some(text.trim_end_matches('.').to_owned())
    }

    /// Selects the intended alternative: the one that matched furthest.
    fn choose(
        &mut self,
        field: &str,
        context: &[Vec<ValidationError<'static>>],
        error: &ValidationError<'static>,
    ) {
        let here = error.instance_path().as_str().len();
        let depth = |branch: &&Vec<ValidationError<'static>>| {
            branch.iter().map(|error| error.instance_path().as_str().len()).max().unwrap_or(0)
        };
        let furthest = context.iter().max_by_key(depth);
        if let Some(branch) = furthest.filter(|branch| depth(branch) > here) {
            return branch.iter().for_each(|error| self.error(error));
        }
        let tags: Vec<_> = context
            .iter()
            .flatten()
            .filter_map(|error| match error.kind() {
                ValidationErrorKind::Required { property } => Some(format!("`{}`", property.as_str()?)),
                ValidationErrorKind::Constant { expected_value } => {
                    Some(format!("`{}`", expected_value.as_str()?))
                }
                ValidationErrorKind::Enum { options } => Some(list(options)),
                _ => None,
            })
            .collect();
        // `Option<T>` is T or null: report the problem of T.
        let meant = context.iter().find(|branch| !branch.iter().all(is_null_type));
        match (tags.is_empty(), meant) {
            (false, _) => {
                self.add(field, format!("expected one of {}, found {}", tags.join(", "), shown(error)))
            }
            (true, Some(branch)) => branch.iter().for_each(|error| self.error(error)),
            (true, None) => self.add(field, error.to_string()),
        }
    }
}

fn list(options: &Value) -> String {
    let options = options.as_array().into_iter().flatten();
    options.map(|option| format!("`{}`", option.as_str().unwrap_or_default())).collect::<Vec<_>>().join(", ")
}

fn is_null_type(error: &ValidationError<'static>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Type { .. }) && expected(error) == "null"
}

/// The expected type from the error text: `... is not of type "string"`.
fn expected(error: &ValidationError<'static>) -> String {
    let text = error.to_string();
    let (_, types) =
        text.rsplit_once("of type").or_else(|| text.rsplit_once("of types")).unwrap_or(("", &text));
    types.trim_start_matches('s').trim().replace('"', "").replace("object", "a set of fields")
}

fn shown(error: &ValidationError<'static>) -> String {
    let shown = match &**error.instance() {
        Value::Object(map) => format!("the fields {}", map.keys().cloned().collect::<Vec<_>>().join(", ")),
        Value::Array(items) => format!("a list of {}", items.len()),
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
