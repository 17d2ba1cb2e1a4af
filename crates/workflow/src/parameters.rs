//! Values of the user (project, zone, reservation), and the check of a deployment's substitutions.
//!
//! A values file is a YAML mapping: `_NAME: value` for every build that declares the substitution, and `field.of.workflow: value` for the
//! workflow itself; a mapping as value sets the fields in it and leaves the others unchanged. A parameters file next to a deployment is a
//! JSON Schema, written in YAML, of its substitutions; a description states the expected value and its source.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use crate::{
    document::{MAX_DEPTH, YamlDocument},
    problem::{FileProblem, FileProblems},
};

pub(crate) struct ValuesFile<'a> {
    document: &'a YamlDocument,
    substitutions: BTreeMap<String, String>,
    used: BTreeSet<String>,
    known: BTreeSet<String>,
}

impl<'a> ValuesFile<'a> {
    /// Reads the substitutions. Returns an error if the file is not a mapping, or if a value is a list or a mapping.
    pub fn of(document: &'a YamlDocument) -> Result<Self, FileProblems> {
        let Some(given) = document.value.as_object() else {
            let why = "expected a mapping of `_NAME: value` and `field: value`";
            return Err(document.problem("", why).into());
        };
        let (mut substitutions, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, value) in given.iter().filter(|(name, _)| name.starts_with('_')) {
            match value {
                Value::String(text) => _ = substitutions.insert(name.clone(), text.clone()),
                Value::Number(_) | Value::Bool(_) => {
                    _ = substitutions.insert(name.clone(), value.to_string())
                }
                // The user has not set this value: the deployment's default applies, or the value is reported as
                // missing.
                Value::Null => {}
                _ => problems.push(document.problem(name, "expected a text, a number, true or false")),
            }
        }
        if !problems.is_empty() {
            return Err(FileProblems(problems));
        }
        let (used, known) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { document, substitutions, used, known })
    }

    /// Fields of the workflow by their path, with their values: scalars, lists and empty mappings.
    ///
    /// # Errors
    /// Returns an error if a path is deeper than the maximum.
    pub fn fields(document: &YamlDocument) -> Result<Vec<(Vec<&str>, &Value)>, FileProblems> {
        let given = document.value.as_object().into_iter().flatten();
        let given = given.filter(|(name, _)| !name.starts_with('_'));
        let mut pending: Vec<_> =
            given.map(|(name, value)| (name.split('.').collect::<Vec<_>>(), value)).collect();
        let mut fields = Vec::new();
        while let Some((path, value)) = pending.pop() {
            if path.len() > MAX_DEPTH {
                let message = format!("is nested deeper than {MAX_DEPTH} levels");
                return Err(document.problem(&path.join("."), message).into());
            }
            match value.as_object().filter(|inner| !inner.is_empty()) {
                Some(inner) => {
                    let within = |name| path.iter().copied().chain([name]).collect();
                    pending.extend(inner.iter().map(|(name, value)| (within(name.as_str()), value)));
                }
                None => fields.push((path, value)),
            }
        }
        Ok(fields)
    }

    /// The value of a substitution that a build declares.
    pub fn value(&mut self, name: &str) -> Option<&str> {
        self.known.insert(name.to_owned());
        let value = self.substitutions.get(name)?;
        self.used.insert(name.to_owned());
        Some(value)
    }

    /// Problems of names that no build declares.
    pub fn unused(&self) -> Vec<FileProblem> {
        let unused = self.substitutions.keys().filter(|name| !self.used.contains(*name));
        let message = |name: &str| {
            let similar = self.known.iter().map(|known| (strsim::damerau_levenshtein(known, name), known));
            match similar.min().filter(|(distance, _)| *distance <= name.len() / 3) {
                Some((_, known)) => format!("no build of the workflow declares it; did you mean {known}?"),
                None if self.known.is_empty() => {
                    "no build of the workflow declares a substitution; remove it".to_owned()
                }
                None => {
                    let known: Vec<_> = self.known.iter().map(String::as_str).collect();
                    format!("no build of the workflow declares it; expected one of: {}", known.join(", "))
                }
            }
        };
        unused.map(|name| self.document.problem(name, message(name))).collect()
    }

    /// The values file, if it states this substitution.
    pub fn origin(&self, name: &str) -> Option<&'a YamlDocument> {
        self.document.value.get(name).map(|_| self.document)
    }
}

/// A violated rule of a parameters file.
pub(crate) struct ParameterProblem {
    pub name: String,
    pub message: String,
}

/// Checks the effective substitutions of a deployment. An empty value is treated as missing.
///
/// # Errors
/// Returns an error if the parameters file is not a JSON Schema.
pub(crate) fn check(
    schema: &YamlDocument,
    given: &BTreeMap<String, String>,
) -> Result<Vec<ParameterProblem>, FileProblems> {
    let validator = jsonschema::validator_for(&schema.value)
        .map_err(|error| schema.problem("", format!("is not a JSON Schema: {error}")))?;
    let properties = &schema.value["properties"];
    let described = |name: &str| {
        let text = properties[name]["description"].as_str().unwrap_or("a value");
        text.trim_end_matches('.').to_owned()
    };
    let filled = given.iter().filter(|(_, value)| !value.is_empty());
    let typed = |name: &str, value: &String| match properties[name]["type"].as_str() {
        Some("integer") => value.parse::<i64>().map_or_else(|_| value.clone().into(), Value::from),
        Some("boolean") => value.parse::<bool>().map_or_else(|_| value.clone().into(), Value::from),
        _ => Value::from(value.clone()),
    };
    let object: Map<_, _> = filled.map(|(name, value)| (name.clone(), typed(name, value))).collect();
    let object = Value::Object(object);
    let mut problems = Vec::new();
    for error in validator.iter_errors(&object) {
        let (name, message) = match error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default().to_owned();
                // A condition may contain a more precise description of its parameter.
                let condition = error.schema_path().as_str().strip_suffix("/required").unwrap_or_default();
                let closer = schema.value.pointer(&format!("{condition}/properties/{name}/description"));
                let expected = closer.and_then(Value::as_str).map_or_else(|| described(&name), str::to_owned);
                (name, format!("is missing; expected {expected}; state it in a file for --values"))
            }
            _ => {
                let path = error.instance_path();
                let name = path.as_str().trim_start_matches('/').to_owned();
                let found = given.get(&name).map_or(String::new(), |value| format!("; found {value:?}"));
                // A rule between parameters has its own description next to it.
                let own = error.schema_path().as_str();
                let rule = own.rsplit_once('/').and_then(|(rule, _)| schema.value.pointer(rule));
                let rule = rule.and_then(|rule| rule["description"].as_str());
                let expected =
                    rule.map_or_else(|| described(&name), |rule| rule.trim_end_matches('.').to_owned());
                (name, format!("expected {expected}{found}"))
            }
        };
        if problems.iter().all(|problem: &ParameterProblem| problem.name != name) {
            problems.push(ParameterProblem { name, message });
        }
    }
    Ok(problems)
}
