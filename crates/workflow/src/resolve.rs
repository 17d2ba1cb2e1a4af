//! Resolves a workflow file to the content of a run.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use cluster_deployed::Deployed;
use model::{
    Benchmark, BuildSpec, ByteSize, ClusterSpec, Criteria, ImageSpec, Notify, SourceObject, System, Workflow,
    Workload,
};
use sha2::{Digest, Sha256};
use triggers::Triggers;

use crate::{
    document::{FileProblem, FileProblems, MAX_DEPTH, MAX_KEY, YamlDocument, scalar},
    feasible::{self, FeasibilityFinding, In},
    file::{
        BuildFile, ClusterFile, DeployedFile, ExistingFile, ImageFile, RentFile, WorkflowFile, WorkloadFile,
    },
};

/// Maximum size of a source folder: larger ones contain build outputs or a home folder.
const MAX_SOURCE: u64 = 64 << 20;

/// Substitutions that every deploy config must declare, so that its resources can be identified and expire.
const TOLD_TO_DEPLOY: [&str; 2] = ["_CLUSTER", "_EXPIRES"];
/// Substitutions that every destroy config must declare.
const TOLD_TO_DESTROY: [&str; 1] = ["_CLUSTER"];
/// Substitutions that Burnin sets.
const TOLD: [&str; 4] = ["_CLUSTER", "_RUN", "_EXPIRES", "_STATE"];

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

/// A source folder as a tar archive: sorted, without times or owners, so that equal folders give equal
/// archives.
#[derive(Clone, Debug)]
pub struct SourceArchive {
    /// Object name in the artefact bucket.
    pub object: String,
    /// Its content.
    pub bytes: Bytes,
}

/// Properties of a workflow file for triggers and requests.
#[derive(Clone, Debug)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// Description for display.
    pub description: String,
    /// Automatic triggers.
    pub on: Triggers,
    /// Fields that network requests may override.
    pub parameters: Vec<String>,
}

/// Reads these properties of a workflow file, without the files it names.
///
/// # Errors
/// Returns all problems of the file.
pub fn offered(path: &Path) -> Result<Offered, FileProblems> {
    offered_by(&YamlDocument::read(path)?)
}

/// The same, for an already parsed file.
///
/// # Errors
/// Returns all problems of the file.
pub fn offered_by(document: &YamlDocument) -> Result<Offered, FileProblems> {
    let WorkflowFile { name, description, on, parameters, .. } = document.read_as()?;
    let problems = on.problems();
    if problems.is_empty() {
        return Ok(Offered { name, description, on, parameters });
    }
    let problem = |(field, why): (String, String)| document.problem(&format!("on.{field}"), why);
    Err(FileProblems(problems.into_iter().map(problem).collect()))
}

/// An overridden field, from `--set key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The field, such as `limits.job`.
    pub field: String,
    /// Its value, parsed as YAML.
    pub value: String,
}

impl std::str::FromStr for Override {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((field, _)) if field.split('.').count() > MAX_DEPTH => {
                Err(format!("the field of --set is nested deeper than {MAX_DEPTH} levels"))
            }
            Some((field, _)) if field.split('.').any(|part| part.len() > MAX_KEY) => {
                Err(format!("the field of --set has a part longer than {MAX_KEY} bytes"))
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
/// Returns all problems of all files.
pub fn resolve(path: &Path, overrides: &[Override]) -> Result<Resolved, FileProblems> {
    resolve_on(path, overrides, None)
}

/// The same, on an existing cluster instead of the file's own: `existing` is the value of `cluster.existing`.
///
/// # Errors
/// Returns all problems of all files and of `existing`.
pub fn resolve_on(
    path: &Path,
    overrides: &[Override],
    existing: Option<serde_json::Value>,
) -> Result<Resolved, FileProblems> {
    resolve_document(YamlDocument::read(path)?, path, overrides, existing)
}

/// The same, for an already parsed file; the files it names are read now, relative to `path`.
///
/// # Errors
/// Returns all problems of all files and of `existing`.
pub fn resolve_document(
    mut document: YamlDocument,
    path: &Path,
    overrides: &[Override],
    existing: Option<serde_json::Value>,
) -> Result<Resolved, FileProblems> {
    if let Some(existing) = existing {
        document.set("cluster", serde_json::json!({ "existing": existing }));
    }
    for Override { field, value } in overrides {
        document.set(field, scalar(value));
    }
    let file: WorkflowFile = document.read_as()?;
    let mut reading = WorkflowReader::new(path.parent().unwrap_or(Path::new("")), &document);

    let image = match &file.image {
        Some(ImageFile::Build(build)) => {
            reading.build("image.build", build).map(|(spec, _)| ImageSpec::Build(spec))
        }
        Some(ImageFile::Prebuilt(image)) => {
            reading.digest(&image.digest);
            Some(ImageSpec::Prebuilt(image.clone()))
        }
        None => None,
    };
    let cluster = file.cluster.as_ref().and_then(|cluster| reading.cluster(cluster));
    let benchmark = file.benchmark.as_ref().and_then(|benchmark| {
        let workload = reading.workload(&benchmark.workload);
        let criteria = reading.criteria(&benchmark.criteria)?;
        let baseline = match &benchmark.baseline {
            Some(path) => Some(reading.baseline(path)?),
            None => None,
        };
        Some(Benchmark { workload, criteria, baseline })
    });
    if file.benchmark.is_some() && file.cluster.is_none() {
        reading.complain("benchmark", "needs a `cluster` to run on");
    }
    if file.image.is_none() && file.cluster.is_none() && file.benchmark.is_none() {
        reading.complain("", "has no effect: set `image`, `cluster` or both");
    }
    if let Some(locate) = &file.locate {
        for (field, problem) in locate.problems() {
            reading.complain(&format!("locate.{field}"), problem);
        }
        if file.benchmark.is_none() {
            reading.complain("locate", "needs a `benchmark` to run on pairs of nodes");
        }
    }
    if file.limits.attempts == 0 {
        reading.complain("limits.attempts", "must be at least 1");
    }
    for (field, problem) in file.on.problems() {
        reading.complain(&format!("on.{field}"), problem);
    }
    for (field, problem) in Notify::problems(&file.notify) {
        reading.complain(&format!("notify{field}"), problem);
    }
    if file.on.push.is_empty()
        && let Some(at) = file.notify.iter().position(|notify| matches!(notify, Notify::Github(_)))
    {
        let why = "needs `on.push`: only a run started by a push has a commit";
        reading.complain(&format!("notify[{at}].github"), why);
    }
    for (at, field) in file.parameters.iter().enumerate() {
        // Overriding the name, triggers or parameters would define another workflow, and the requester must
        // not choose who is notified.
        if ["", "name", "notify", "on", "parameters"].contains(&field.split('.').next().unwrap_or_default()) {
            reading.complain(&format!("parameters[{at}]"), "is not a field that can be overridden");
        }
    }
    let WorkflowFile { name, description, locate, limits, cost, notify, .. } = file;
    let workflow = Workflow { name, description, image, cluster, benchmark, locate, limits, cost, notify };
    let warnings = reading.judge_feasibility(&workflow);
    if !reading.problems.is_empty() {
        return Err(FileProblems(reading.problems));
    }
    Ok(Resolved { workflow, archives: reading.archives, warnings })
}

struct WorkflowReader<'a> {
    folder: &'a Path,
    document: &'a YamlDocument,
    problems: Vec<FileProblem>,
    archives: Vec<SourceArchive>,
    /// The criteria file, if readable.
    criteria: Option<YamlDocument>,
}

impl<'a> WorkflowReader<'a> {
    const fn new(folder: &'a Path, document: &'a YamlDocument) -> Self {
        Self { folder, document, problems: vec![], archives: vec![], criteria: None }
    }

    fn complain(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(self.document.problem(field, message));
    }

    /// Adds errors about feasibility to the problems, and returns the warnings. Each is reported in the file
    /// of its field.
    fn judge_feasibility(&mut self, workflow: &Workflow) -> Vec<FileProblem> {
        let mut warnings = Vec::new();
        for FeasibilityFinding { file, field, message, warning } in feasible::findings(workflow) {
            let document = match (file, &self.criteria) {
                (In::Criteria, Some(criteria)) => criteria,
                _ => self.document,
            };
            let problem = document.problem(&field, message);
            if warning { warnings.push(problem) } else { self.problems.push(problem) }
        }
        warnings
    }

    /// Reads a named file and collects its problems.
    fn named(&mut self, field: &str, path: &Path) -> Option<YamlDocument> {
        if !self.folder.join(path).is_file() {
            self.complain(field, format!("the file {} does not exist", self.folder.join(path).display()));
            return None;
        }
        let read = YamlDocument::read(&self.folder.join(path));
        read.map_err(|problems| self.problems.extend(problems.0)).ok()
    }

    fn cluster(&mut self, cluster: &ClusterFile) -> Option<ClusterSpec> {
        Some(match cluster {
            ClusterFile::Rent(RentFile::Processes { nodes }) => ClusterSpec::Rent(System::processes(*nodes)),
            ClusterFile::Rent(RentFile::Deployed(deployed)) => {
                ClusterSpec::Rent(self.deployed(deployed)?.to_system())
            }
            ClusterFile::Existing(ExistingFile { system, name }) => {
                let system =
                    self.settings("cluster.existing.system", system.0.kind(), system.0.settings())?;
                ClusterSpec::Existing { system, name: name.clone() }
            }
        })
    }

    /// Checks the settings of a kind of cluster, and fills in their defaults.
    fn settings(&mut self, field: &str, kind: &str, settings: &serde_json::Value) -> Option<System> {
        let field = format!("{field}.{kind}");
        let Some(form) = clusters::kind(kind).map(|kind| kind.form()) else {
            self.complain(
                &field,
                format!("is not a kind of cluster; known: {}", clusters::names(|_| true).join(", ")),
            );
            return None;
        };
        let mut settings = settings.clone();
        let folder = self.folder;
        let mut read = |path: &Path| {
            let path = folder.join(path);
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let named = (form.inline)(&mut settings, &mut read);
        let completed = if named.is_empty() { (form.complete)(&settings) } else { Err(named) };
        match completed {
            Ok(settings) => Some(System::new(kind, settings)),
            Err(problems) => {
                for (setting, problem) in problems {
                    let field = if setting.is_empty() { field.clone() } else { format!("{field}.{setting}") };
                    self.complain(&field, problem);
                }
                None
            }
        }
    }

    fn deployed(&mut self, file: &DeployedFile) -> Option<Deployed> {
        let field = "cluster.rent.deployed";
        let mut given = file.systems.iter().filter(|(_, settings)| !settings.is_null());
        let system = match (given.next(), given.next()) {
            (Some((kind, settings)), None) => self.settings(field, kind, settings),
            _ => {
                let kinds = clusters::names(|kind| kind.can_be_deployed());
                self.complain(field, format!("expected exactly one of {}", kinds.join(", ")));
                None
            }
        };
        let deploy = self.steps(&format!("{field}.deploy"), &file.deploy, &TOLD_TO_DEPLOY, "cluster.json");
        let destroy = self.steps(&format!("{field}.destroy"), &file.destroy, &TOLD_TO_DESTROY, "gone.json");
        Some(Deployed { deploy: deploy?, destroy: destroy?, system: system? })
    }

    /// Steps that provision or release a cluster must use the required substitutions and write the required
    /// file.
    fn steps(&mut self, field: &str, build: &BuildFile, told: &[&str], leaves: &str) -> Option<BuildSpec> {
        for name in TOLD.iter().filter(|name| build.substitutions.contains_key(**name)) {
            self.complain(&format!("{field}.substitutions.{name}"), "is set by Burnin; remove it");
        }
        let (spec, document) = self.build(field, build)?;
        for name in told.iter().filter(|name| spec.config["substitutions"].get(**name).is_none()) {
            let why = format!("must declare `{name}: \"\"`, which Burnin fills in for steps to use");
            self.problems.push(document.problem("substitutions", why));
        }
        let paths = spec.config["artifacts"]["objects"]["paths"].as_array();
        if !paths.is_some_and(|paths| paths.iter().any(|path| path.as_str() == Some(leaves))) {
            let why = format!("must name `{leaves}`, which a step must write");
            self.problems.push(document.problem("artifacts.objects.paths", why));
        }
        Some(spec)
    }

    fn build(&mut self, field: &str, build: &BuildFile) -> Option<(BuildSpec, YamlDocument)> {
        let document = self.named(&format!("{field}.config"), &build.config)?;
        let source = match &build.source {
            None => None,
            Some(source) => Some(self.source(&format!("{field}.source"), source)?),
        };
        let config = match document.read_as::<cloudbuild::BuildConfig>() {
            Ok(config) => config,
            Err(problems) => {
                self.problems.extend(problems.0);
                return None;
            }
        };
        let inputs = cloudbuild::Inputs {
            substitutions: build.substitutions.clone(),
            secrets: any_secrets(&config),
            ..cloudbuild::Inputs::default()
        };
        if let Err(problems) = cloudbuild::plan::check(&config, &inputs) {
            let located =
                problems.into_iter().map(|problem| document.problem(&problem.path, problem.message));
            self.problems.extend(located);
            return None;
        }
        let (config, substitutions) = (document.value.clone(), build.substitutions.clone());
        self.unknown_substitutions(field, build, &config);
        Some((BuildSpec { config, source, substitutions }, document))
    }

    /// A substitution that the config neither declares nor mentions has no effect and is probably misspelt.
    /// Cloud Build also rejects it, unless the config sets `substitutionOption: ALLOW_LOOSE`.
    fn unknown_substitutions(&mut self, field: &str, build: &BuildFile, config: &serde_json::Value) {
        if config["options"]["substitutionOption"] == "ALLOW_LOOSE" {
            return;
        }
        let text = config.to_string();
        let declared = config["substitutions"].as_object();
        for name in build.substitutions.keys().filter(|name| !text.contains(name.as_str())) {
            let known: Vec<_> = (declared.into_iter().flat_map(serde_json::Map::keys))
                .filter(|known| !TOLD.contains(&known.as_str()))
                .map(String::as_str)
                .collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let config = build.config.display();
            let message = format!("is not known to {config}, which declares: {known}");
            self.complain(&format!("{field}.substitutions.{name}"), message);
        }
    }

    /// Packs a source folder. Equal folders give equal archives.
    fn source(&mut self, field: &str, folder: &Path) -> Option<SourceObject> {
        let folder = self.folder.join(folder);
        match pack(&folder) {
            Ok(bytes) => {
                let sha256 = hex(&Sha256::digest(&bytes));
                let object = format!("sources/{sha256}.tar");
                if self.archives.iter().all(|archive| archive.object != object) {
                    self.archives.push(SourceArchive { object: object.clone(), bytes: bytes.into() });
                }
                Some(SourceObject { object, sha256 })
            }
            Err(error) => {
                self.complain(field, format!("{} cannot be packed: {error}", folder.display()));
                None
            }
        }
    }

    fn digest(&mut self, digest: &str) {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            self.complain("image.prebuilt.digest", "expected sha256: and 64 hex digits; a tag can be moved");
        }
    }

    fn workload(&mut self, workload: &WorkloadFile) -> Workload {
        let (ByteSize(min_bytes), ByteSize(max_bytes)) = (workload.min_bytes, workload.max_bytes);
        if min_bytes == 0 {
            self.complain(
                "benchmark.workload.min_bytes",
                "must be at least 1: multiplying 0 gives no further sizes",
            );
        }
        if max_bytes < min_bytes {
            self.complain("benchmark.workload.max_bytes", "is smaller than min_bytes");
        }
        Workload {
            collective: workload.collective,
            min_bytes,
            max_bytes,
            step_factor: workload.step_factor,
            iterations: workload.iterations,
            warmup_iterations: workload.warmup_iterations,
            check: workload.check,
        }
    }

    fn criteria(&mut self, path: &Path) -> Option<Criteria> {
        let document = self.named("benchmark.criteria", path)?;
        let criteria = document.read_as().map_err(|problems| self.problems.extend(problems.0)).ok();
        self.criteria = Some(document);
        criteria
    }

    fn baseline(&mut self, path: &Path) -> Option<serde_json::Value> {
        let document = self.named("benchmark.baseline", path)?;
        let baseline: Result<verdict::Baseline, _> = document.read_as();
        let baseline = baseline.map_err(|problems| self.problems.extend(problems.0)).ok()?;
        serde_json::to_value(baseline).ok()
    }
}

/// Placeholders for all secrets the config declares: only the build service knows whether they exist.
fn any_secrets(config: &cloudbuild::BuildConfig) -> BTreeMap<String, cloudbuild::Secret> {
    let declared = config.available_secrets.iter().flat_map(|available| &available.secret_manager);
    let names = declared.filter_map(|secret| secret.version_name.split("secrets/").nth(1)?.split('/').next());
    names.map(|name| (name.to_owned(), cloudbuild::Secret::new("only checked"))).collect()
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pack(folder: &Path) -> io::Result<Vec<u8>> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut archive = tar::Builder::new(Vec::new());
    archive.mode(tar::HeaderMode::Deterministic);
    let mut size = 0;
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file);
        size += fs::metadata(&file)?.len();
        if size > MAX_SOURCE {
            return Err(io::Error::other(format!("it holds more than {} MiB", MAX_SOURCE >> 20)));
        }
        archive.append_path_with_name(&file, name)?;
    }
    archive.into_inner()
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        } else {
            // A link could point anywhere, and would have another meaning after unpacking.
            return Err(io::Error::other(format!("{} is neither file nor folder", entry.path().display())));
        }
    }
    Ok(())
}
