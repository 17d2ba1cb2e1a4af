//! Reads a workflow file's sections and the files they name.

mod builds;
mod checks;
mod cluster;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use model::{ImageSpec, Workflow};

use crate::{
    archive::SourceArchive,
    document::YamlDocument,
    feasible::{self, FeasibilityFinding, FieldSource},
    file::ImageFile,
    parameters::ValuesFile,
    problem::FileProblem,
    similar::{nearest, suggest},
};

/// Field of a cluster that steps provision.
const DEPLOYED_FIELD: &str = "cluster.rent.deployed";
const SET_BY_BURNIN: [&str; 5] = ["_CLUSTER", "_RUN", "_EXPIRES", "_STATE", model::REVISION];

/// Reads a workflow file and the files it names; collects their problems.
pub(crate) struct WorkflowReader<'a> {
    folder: &'a Path,
    document: &'a YamlDocument,
    problems: Vec<FileProblem>,
    archives: Vec<SourceArchive>,
    /// Field of each check and its criteria file, if readable; one entry for a single benchmark.
    measured: Vec<(String, Option<YamlDocument>)>,
    /// File of the checks, if it is not the workflow's own.
    suite: Option<&'a YamlDocument>,
    /// Checks that do not run, with the reasons.
    excluded: BTreeMap<String, String>,
    values: Option<ValuesFile<'a>>,
}

impl<'a> WorkflowReader<'a> {
    pub(crate) const fn new(
        folder: &'a Path,
        document: &'a YamlDocument,
        values: Option<ValuesFile<'a>>,
    ) -> Self {
        Self {
            folder,
            document,
            problems: vec![],
            archives: vec![],
            measured: vec![],
            suite: None,
            excluded: BTreeMap::new(),
            values,
        }
    }

    /// Adds a problem of a field of the workflow file.
    pub(crate) fn complain(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(self.document.problem(field, message));
    }

    /// Adds a problem with the correction of a misspelled name.
    fn complain_of_name<'n>(
        &mut self,
        field: &str,
        message: String,
        name: &str,
        known: impl IntoIterator<Item = &'n str>,
        label: &str,
    ) {
        let help = suggest(name, known, label);
        self.problems.push(self.document.problem(field, message).with_help(help));
    }

    /// Adds errors about feasibility to the problems, and returns the warnings. Each is reported in the file
    /// of its field.
    pub(crate) fn judge_feasibility(&mut self, workflow: &Workflow) -> Vec<FileProblem> {
        let mut warnings = Vec::new();
        for FeasibilityFinding { file, field, message, warning } in feasible::findings(workflow) {
            let problem = match file {
                FieldSource::Workflow => self.document.problem(&field, message),
                FieldSource::Check(check) => {
                    let prefix = self.measured.get(check.index()).map_or("benchmark", |(field, _)| field);
                    self.suite.unwrap_or(self.document).problem(&format!("{prefix}.{field}"), message)
                }
                FieldSource::Criteria(check) => {
                    let criteria =
                        self.measured.get(check.index()).and_then(|(_, document)| document.as_ref());
                    criteria.unwrap_or(self.document).problem(&field, message)
                }
            };
            if warning { warnings.push(problem) } else { self.problems.push(problem) }
        }
        // Checks of one matrix share their fields.
        let mut seen = BTreeSet::new();
        warnings.retain(|problem: &FileProblem| seen.insert(problem.to_string()));
        self.problems.retain(|problem| seen.insert(problem.to_string()));
        warnings
    }

    /// Returns the archives to upload, and all problems.
    pub(crate) fn finish(mut self) -> (Vec<SourceArchive>, Vec<FileProblem>) {
        self.problems.extend(self.values.iter().flat_map(ValuesFile::unused));
        (self.archives, self.problems)
    }

    pub(crate) fn image(&mut self, image: &ImageFile) -> Option<ImageSpec> {
        match image {
            ImageFile::Build(build) => {
                self.build("image.build", build, &BTreeMap::new()).map(|(spec, _)| ImageSpec::Build(spec))
            }
            ImageFile::Prebuilt(image) => {
                self.digest(&image.digest);
                Some(ImageSpec::Prebuilt(image.clone()))
            }
        }
    }

    fn digest(&mut self, digest: &str) {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let found: String = digest.chars().take(100).collect();
            let why = format!("expected sha256: and 64 hex digits, found `{found}`; a tag can be moved");
            self.complain("image.prebuilt.digest", why);
        }
    }

    /// Reads a named file and collects its problems.
    fn named(&mut self, field: &str, path: &Path) -> Option<YamlDocument> {
        let target = self.folder.join(path);
        if !target.is_file() {
            let message = match target.is_dir() {
                true => format!("{} is a folder, expected a file", target.display()),
                false => format!("the file {} does not exist", target.display()),
            };
            let help = similar_file(&target)
                .map(|name| format!("did you mean `{}`?", path.with_file_name(name).display()));
            self.problems.push(self.document.problem(field, message).with_help(help));
            return None;
        }
        let read = YamlDocument::read(&self.folder.join(path));
        read.map_err(|problems| self.problems.extend(problems.0)).ok()
    }
}

/// The file in the same folder whose name is most similar to a misspelled name.
pub(crate) fn similar_file(path: &Path) -> Option<String> {
    let files = fs::read_dir(path.parent()?).ok()?.take(1000);
    let mut files: Vec<_> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.is_file() && file.extension() == path.extension());
    let stem = |file: &'_ Path| Some(file.file_stem()?.to_str()?.to_owned());
    let names: Vec<_> = files.iter().filter_map(|file| stem(file)).collect();
    let near = nearest(&stem(path)?, names.iter().map(String::as_str))?;
    let found = files.iter().find(|file| stem(file).as_deref() == Some(near))?;
    found.file_name()?.to_str().map(str::to_owned)
}
