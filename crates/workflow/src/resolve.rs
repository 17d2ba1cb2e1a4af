//! Resolves a workflow file to the content of a run.

use std::path::{Path, PathBuf};

use model::Workflow;
use serde_json::json;
use triggers::Triggers;

use crate::{
    archive::SourceArchive,
    document::{MAX_DEPTH, MAX_KEY, SET, YamlDocument, plain},
    file::{SuiteFile, WorkflowFile},
    parameters::ValuesFile,
    problem::{FileProblem, FileProblems},
    reader::{WorkflowReader, similar_file},
    rules,
};

/// A workflow with the content of all files it names.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Payload of `run.requested`.
    pub workflow: Workflow,
    /// Source archives to upload to the artefact bucket before the run is requested.
    pub archives: Vec<SourceArchive>,
    /// Reasons why a run may fail or end early.
    pub warnings: Vec<FileProblem>,
}

/// Properties of a workflow file for triggers and requests.
#[derive(Clone, Debug)]
pub struct WorkflowHeader {
    pub name: String,
    pub description: String,
    pub on: Triggers,
    /// Fields that network requests may override.
    pub parameters: Vec<String>,
}

/// Reads the properties of a workflow file for triggers and requests, without the files it names.
///
/// # Errors
/// Returns an error if the file is invalid, with all problems.
pub fn read_header(path: &Path) -> Result<WorkflowHeader, FileProblems> {
    header_of(&YamlDocument::read(path)?)
}

/// Reads these properties of an already parsed file.
///
/// # Errors
/// Returns an error if the file is invalid, with all problems.
pub fn header_of(document: &YamlDocument) -> Result<WorkflowHeader, FileProblems> {
    let WorkflowFile { name, description, on, parameters, .. } = document.read_as()?;
    let problems = on.problems();
    if problems.is_empty() {
        return Ok(WorkflowHeader { name, description, on, parameters });
    }
    let problem = |(field, why): (String, String)| document.problem(&format!("on.{field}"), why);
    Err(FileProblems(problems.into_iter().map(problem).collect()))
}

/// An overridden field, from `--set key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The field, such as `limits.job`.
    pub field: String,
    /// Value of the field, parsed as YAML.
    pub value: String,
}

impl std::str::FromStr for Override {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((field, _)) if field.split('.').count() > MAX_DEPTH => {
                Err(format!("--set: the field is nested deeper than the maximum of {MAX_DEPTH} levels"))
            }
            Some((field, _)) if field.split('.').any(|part| part.len() > MAX_KEY) => {
                Err(format!("--set: a part of the field is longer than the maximum of {MAX_KEY} bytes"))
            }
            Some((field, value)) if !field.is_empty() => {
                Ok(Self { field: field.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{text}` is not KEY=VALUE, such as limits.job=10m")),
        }
    }
}

/// Reads a workflow file and all files it names.
///
/// # Errors
/// Returns an error if a file is invalid, with all problems of all files. A file that is absent or not YAML ends the check.
pub fn resolve(path: &Path, overrides: &[Override]) -> Result<Resolved, FileProblems> {
    resolve_on(path, overrides, None)
}

/// Reads a workflow file and all files it names, with an existing cluster instead of the file's own: `existing` is the
/// value of `cluster.existing`.
///
/// # Errors
/// Returns an error if a file or `existing` is invalid, with all problems.
pub fn resolve_on(
    path: &Path,
    overrides: &[Override],
    existing: Option<serde_json::Value>,
) -> Result<Resolved, FileProblems> {
    resolve_document(YamlDocument::read(path)?, path, None, overrides, existing)
}

/// Reads a workflow file, with the user's values from a second file if one is given; that file replaces the workflow's
/// own `values`.
///
/// # Errors
/// Returns an error if a file is invalid, with all problems of all files. A file that is absent or not YAML ends the check.
pub fn resolve_with_values(
    path: &Path,
    values: Option<&Path>,
    overrides: &[Override],
) -> Result<Resolved, FileProblems> {
    let values = values.map(YamlDocument::read).transpose()?;
    resolve_document(YamlDocument::read(path)?, path, values.as_ref(), overrides, None)
}

/// Resolves an already parsed workflow file. The files it names are read now, relative to `path`.
///
/// # Errors
/// Returns an error if a file or `existing` is invalid, with all problems.
pub fn resolve_document(
    mut document: YamlDocument,
    path: &Path,
    values: Option<&YamlDocument>,
    overrides: &[Override],
    existing: Option<serde_json::Value>,
) -> Result<Resolved, FileProblems> {
    if let Some(existing) = existing {
        document.set_value("cluster", json!({ "existing": existing }));
    }
    let own = if values.is_some() { None } else { own_values(&document, path, overrides)? };
    let values = values.or(own.as_ref());
    let mut suite = suite(&document, path, overrides)?;
    let unknown = override_fields(&mut document, &mut suite, values, overrides)?;
    let (file, mut found) = document.read_in_part::<WorkflowFile>(&json!({"name": "unnamed"}))?;
    found.extend(unknown);
    let suite_file = suite.as_ref().map(|Suite { document, .. }| document.read_as::<SuiteFile>()).transpose();
    let suite_file = suite_file.unwrap_or_else(|problems| {
        found.extend(problems.0);
        None
    });
    // A section with a problem is left out, so that it causes no further problems in other sections.
    let section = |problem: &FileProblem| {
        let section = problem.field.split(['.', '[']).next().unwrap_or_default().to_owned();
        (problem.file == document.file || problem.file == SET).then_some(section)
    };
    let sections_are_valid =
        !found.iter().filter_map(section).any(|section| SECTIONS.contains(&section.as_str()))
            && (suite.is_none() || suite_file.is_some());
    let values = values.map(ValuesFile::of).transpose()?;
    let mut reader = WorkflowReader::new(path.parent().unwrap_or(Path::new("")), &document, values);
    let image = file.image.as_ref().and_then(|image| reader.image(image));
    let cluster = file.cluster.as_ref().and_then(|cluster| reader.cluster(cluster));
    let benchmark = file.benchmark.as_ref().and_then(|benchmark| reader.benchmark(benchmark));
    let checks = match (&suite, &suite_file) {
        (Some(Suite { folder, document: of_suite }), Some(file)) => reader.suite(folder, of_suite, file),
        (Some(_), None) => vec![],
        _ => reader.checks(&file.checks),
    };
    let excluded = reader.excluded();
    rules::check(&file, sections_are_valid, |field, why| reader.complain(field, why));
    let WorkflowFile { name, mut description, soak, locate, limits, cost, notify, .. } = file;
    if let Some(suite) = suite_file.filter(|_| description.is_empty()) {
        description = suite.description;
    }
    let workflow = Workflow {
        name,
        description,
        image,
        cluster,
        benchmark,
        checks,
        excluded,
        soak,
        locate,
        retest: None,
        limits,
        cost,
        notify,
    };
    // Defaults replace fields with problems, so a check for feasibility would judge another workflow.
    let warnings = if found.is_empty() { reader.judge_feasibility(&workflow) } else { vec![] };
    let (archives, problems) = reader.finish();
    let problems = all_problems(found, problems);
    if problems.is_empty() {
        Ok(Resolved { workflow, archives, warnings })
    } else {
        Err(FileProblems(problems))
    }
}

/// Replaces fields by the user's values and then by the overrides. Returns the overrides of list elements that do not exist.
fn override_fields(
    document: &mut YamlDocument,
    suite: &mut Option<Suite>,
    values: Option<&YamlDocument>,
    overrides: &[Override],
) -> Result<Vec<FileProblem>, FileProblems> {
    if let Some(values) = values {
        for (field, value) in ValuesFile::fields(values)? {
            file_of(field[0], document, suite).set_by(&field, value.clone(), values);
        }
    }
    let mut unknown = Vec::new();
    for Override { field, value } in overrides {
        let file = file_of(field, document, suite);
        match file.unknown_element(field) {
            Some(problem) => unknown.push(problem),
            None => file.set(field, value),
        }
    }
    document.set_texts::<WorkflowFile>();
    if let Some(Suite { document, .. }) = suite {
        document.set_texts::<SuiteFile>();
    }
    Ok(unknown)
}

/// Problems of the files, `found`, and `problems` of their content, in the order of the files. Without problems of files the order is kept.
fn all_problems(mut found: Vec<FileProblem>, mut problems: Vec<FileProblem>) -> Vec<FileProblem> {
    if found.is_empty() {
        return problems;
    }
    // The reader sees a list with an invalid element as empty: problems that this causes are dropped.
    let about = |problem: &FileProblem, other: &FileProblem| {
        problem.file == other.file
            && (problem.field == other.field
                || problem.field.starts_with(&format!("{}.", other.field))
                || other.field.starts_with(&format!("{}[", problem.field)))
    };
    problems.retain(|problem| !found.iter().any(|other| !other.field.is_empty() && about(problem, other)));
    found.append(&mut problems);
    found.sort_by(|a, b| (a.file != SET, &a.file, a.position).cmp(&(b.file != SET, &b.file, b.position)));
    found
}

/// Sections that the rules across sections require. If one of them has a problem, these rules are not checked.
const SECTIONS: [&str; 5] = ["image", "cluster", "benchmark", "checks", "suite"];

/// A suite of checks, in a separate file.
struct Suite {
    folder: PathBuf,
    document: YamlDocument,
}

/// The suite that the workflow names.
fn suite(
    document: &YamlDocument,
    path: &Path,
    overrides: &[Override],
) -> Result<Option<Suite>, FileProblems> {
    let Some(file) = named_file("suite", document, path, overrides)? else { return Ok(None) };
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    Ok(Some(Suite { folder, document: YamlDocument::read(&file)? }))
}

/// The file that contains a field: the suite for fields of checks.
fn file_of<'d>(
    field: &str,
    workflow: &'d mut YamlDocument,
    suite: &'d mut Option<Suite>,
) -> &'d mut YamlDocument {
    let of_checks = field.split(['.', '[']).next() == Some("checks");
    match suite {
        Some(suite) if of_checks => &mut suite.document,
        _ => workflow,
    }
}

/// The values file that the workflow itself names, because triggers have no command line. An override of `values`
/// takes precedence.
fn own_values(
    document: &YamlDocument,
    path: &Path,
    overrides: &[Override],
) -> Result<Option<YamlDocument>, FileProblems> {
    named_file("values", document, path, overrides)?.as_deref().map(YamlDocument::read).transpose()
}

/// The existing file that a field names, relative to the workflow; `None` if the field is absent or null. An override takes precedence.
fn named_file(
    field: &str,
    document: &YamlDocument,
    path: &Path,
    overrides: &[Override],
) -> Result<Option<PathBuf>, FileProblems> {
    let set = overrides.iter().rev().find(|set| set.field == field);
    let name = match set {
        Some(set) if plain(&set.value).is_null() => None,
        Some(set) => Some(set.value.as_str()),
        None => document.value[field].as_str(),
    };
    let Some(name) = name else { return Ok(None) };
    let file = path.parent().unwrap_or(Path::new("")).join(name);
    if !file.is_file() {
        let why = format!("the file {name} does not exist");
        let help = similar_file(&file)
            .map(|near| format!("did you mean `{}`?", Path::new(name).with_file_name(near).display()));
        return Err(FileProblems(vec![document.problem(field, why).with_help(help)]));
    }
    Ok(Some(file))
}
