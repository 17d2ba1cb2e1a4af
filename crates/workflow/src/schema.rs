//! From JSON Schema errors to problems a person can act on.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::document::{Document, Problem, Problems};

impl Document {
    /// The document as a `T`.
    ///
    /// # Errors
    /// Every place where it is none.
    pub fn read_as<T: JsonSchema + DeserializeOwned>(&self) -> Result<T, Problems> {
        let schema = schemars::schema_for!(T).to_value();
        let validator = jsonschema::validator_for(&schema).map_err(|error| {
            self.problem("", format!("cannot be checked, the schema itself is wrong: {error}"))
        })?;
        let mut problems = Vec::new();
        for error in validator.iter_errors(&self.value) {
            explain(self, &error.to_owned(), &mut problems);
        }
        if problems.is_empty() {
            // The schema is generated from the type; what it lets through can still be out of a newtype's range.
            return serde_json::from_value(self.value.clone())
                .map_err(|error| self.problem("", error.to_string()).into());
        }
        problems.sort_by_key(|problem| problem.position);
        problems.dedup();
        Err(Problems(problems))
    }
}

fn explain(document: &Document, error: &ValidationError<'static>, problems: &mut Vec<Problem>) {
    let field = dotted(error.instance_path().as_str());
    let within = |name: &str| if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            problems.extend(
                unexpected.iter().map(|name| document.problem(&within(name), "is not a known field")),
            );
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            problems.push(document.problem(&field, format!("lacks the field `{name}`")));
        }
        ValidationErrorKind::Type { .. } if error.instance().is_null() => {
            problems.push(document.problem(&field, format!("has no value; expected {}", expected(error))));
        }
        ValidationErrorKind::Type { .. } => {
            problems.push(
                document.problem(&field, format!("expected {}, found {}", expected(error), shown(error))),
            );
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            choose(document, &field, context, error, problems);
        }
        ValidationErrorKind::Pattern { .. } => {
            problems.push(
                document.problem(&field, format!("{} has not the form that is expected here", shown(error))),
            );
        }
        _ => problems.push(document.problem(&field, error.to_string())),
    }
}

/// Of several alternatives the one that was meant is the one that got furthest.
fn choose(
    document: &Document,
    field: &str,
    context: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'static>,
    problems: &mut Vec<Problem>,
) {
    let here = error.instance_path().as_str().len();
    let depth = |branch: &&Vec<ValidationError<'static>>| {
        branch.iter().map(|error| error.instance_path().as_str().len()).max().unwrap_or(0)
    };
    let furthest = context.iter().max_by_key(depth);
    if let Some(branch) = furthest.filter(|branch| depth(branch) > here) {
        return branch.iter().for_each(|error| explain(document, error, problems));
    }
    let tags: Vec<_> = context
        .iter()
        .flatten()
        .filter_map(|error| match error.kind() {
            ValidationErrorKind::Required { property } => Some(format!("`{}`", property.as_str()?)),
            ValidationErrorKind::Constant { expected_value } => {
                Some(format!("`{}`", expected_value.as_str()?))
            }
            ValidationErrorKind::Enum { options } => Some(options.to_string()),
            _ => None,
        })
        .collect();
    // `Option<T>` is T or null: what is wrong with T is the answer.
    let meant = context.iter().find(|branch| !branch.iter().all(is_null_type));
    match (tags.is_empty(), meant) {
        (false, _) => {
            let message = format!("expected one of {}, found {}", tags.join(", "), shown(error));
            problems.push(document.problem(field, message));
        }
        (true, Some(branch)) => branch.iter().for_each(|error| explain(document, error, problems)),
        (true, None) => problems.push(document.problem(field, error.to_string())),
    }
}

fn is_null_type(error: &ValidationError<'static>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Type { .. }) && expected(error) == "null"
}

/// What the error says it wanted, in its own words: `... is not of type "string"`.
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
    if shown.chars().count() > 60 { shown.chars().take(57).chain("...".chars()).collect() } else { shown }
}

/// `/steps/2/timeout` as `steps[2].timeout`.
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
