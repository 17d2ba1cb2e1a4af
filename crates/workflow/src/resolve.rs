//! From a file to what a run carries.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use terms::{
    Benchmark, BuildSpec, ByteSize, ClusterSpec, Criteria, ImageSpec, Source, System, Workflow, Workload,
};

use crate::{
    document::{Document, Problem, Problems, scalar},
    file::{BuildFile, ClusterFile, ExistingFile, ImageFile, WorkflowFile, WorkloadFile},
};

/// Source folders larger than this are somebody's mistake: build outputs, or a home.
const MAX_SOURCE: u64 = 64 << 20;

/// A workflow with everything it names.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What `run.requested` carries.
    pub workflow: Workflow,
    /// The source archive to be put into the artefact bucket before the run is asked for.
    pub archive: Option<Archive>,
}

/// A source folder as a tar archive: sorted, without times or owners, so that equal folders have equal archives.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Its name in the artefact bucket.
    pub object: String,
    /// Its content.
    pub bytes: Bytes,
}

/// `--set key=value`: a field of the file, replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The field, such as `limits.job`.
    pub field: String,
    /// Its value, as YAML would read it.
    pub value: String,
}

impl std::str::FromStr for Override {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((field, value)) if !field.is_empty() => {
                Ok(Self { field: field.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("`{text}` is not KEY=VALUE, such as limits.job=10m")),
        }
    }
}

/// Reads a workflow file and everything it names.
///
/// # Errors
/// Every problem in any of the files.
pub fn resolve(path: &Path, overrides: &[Override]) -> Result<Resolved, Problems> {
    let mut document = Document::read(path)?;
    for Override { field, value } in overrides {
        document.set(field, scalar(value));
    }
    let file: WorkflowFile = document.read_as()?;
    let mut reading =
        Reading { folder: path.parent().unwrap_or(Path::new("")), document: &document, problems: vec![] };

    let (image, archive) = match &file.image {
        Some(ImageFile::Build(build)) => reading.build(build).unzip(),
        Some(ImageFile::Prebuilt(image)) => {
            reading.digest(&image.digest);
            (Some(ImageSpec::Prebuilt(image.clone())), None)
        }
        None => (None, None),
    };
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
        reading.complain("", "asks for nothing: give it an `image`, a `cluster` or both");
    }
    if file.limits.attempts == 0 {
        reading.complain("limits.attempts", "must be at least 1");
    }
    match &file.cluster {
        Some(ClusterFile::Rent(System::Slurm(_))) => {
            reading.complain(
                "cluster.rent",
                "a Slurm cannot be rented; name one that is there under `existing`",
            );
        }
        Some(ClusterFile::Existing(ExistingFile { system: System::Slurm(slurm), .. })) => {
            for (field, problem) in slurm.problems() {
                reading.complain(&format!("cluster.existing.system.slurm.{field}"), problem);
            }
        }
        _ => {}
    }
    if !reading.problems.is_empty() {
        return Err(Problems(reading.problems));
    }
    let cluster = file.cluster.map(|cluster| match cluster {
        ClusterFile::Rent(system) => ClusterSpec::Rent(system),
        ClusterFile::Existing(existing) => {
            ClusterSpec::Existing { system: existing.system, name: existing.name }
        }
    });
    let (name, description, limits, cost) = (file.name, file.description, file.limits, file.cost);
    let workflow = Workflow { name, description, image, cluster, benchmark, limits, cost };
    Ok(Resolved { workflow, archive: archive.flatten() })
}

struct Reading<'a> {
    folder: &'a Path,
    document: &'a Document,
    problems: Vec<Problem>,
}

impl Reading<'_> {
    fn complain(&mut self, field: &str, message: impl Into<String>) {
        self.problems.push(self.document.problem(field, message));
    }

    /// A named file, read; its problems become ours.
    fn named(&mut self, field: &str, path: &Path) -> Option<Document> {
        if !self.folder.join(path).is_file() {
            self.complain(field, format!("there is no file {}", self.folder.join(path).display()));
            return None;
        }
        let read = Document::read(&self.folder.join(path));
        read.map_err(|problems| self.problems.extend(problems.0)).ok()
    }

    fn build(&mut self, build: &BuildFile) -> Option<(ImageSpec, Option<Archive>)> {
        let document = self.named("image.build.config", &build.config)?;
        let archive = match &build.source {
            None => None,
            Some(source) => Some(self.source(source)?),
        };
        let config = match document.read_as::<cloudbuild::Config>() {
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
        let source = archive.as_ref().map(|archive| Source {
            object: archive.object.clone(),
            sha256: hex(&Sha256::digest(&archive.bytes)),
        });
        let spec = BuildSpec { config: document.value, source, substitutions: build.substitutions.clone() };
        Some((ImageSpec::Build(spec), archive))
    }

    fn source(&mut self, folder: &Path) -> Option<Archive> {
        let folder = self.folder.join(folder);
        match pack(&folder) {
            Ok(bytes) => {
                let object = format!("sources/{}.tar", hex(&Sha256::digest(&bytes)));
                Some(Archive { object, bytes: bytes.into() })
            }
            Err(error) => {
                self.complain(
                    "image.build.source",
                    format!("{} cannot be packed: {error}", folder.display()),
                );
                None
            }
        }
    }

    fn digest(&mut self, digest: &str) {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            self.complain(
                "image.prebuilt.digest",
                "expected sha256: and 64 hex digits; a tag can change its meaning",
            );
        }
    }

    fn workload(&mut self, workload: &WorkloadFile) -> Workload {
        let (ByteSize(min_bytes), ByteSize(max_bytes)) = (workload.min_bytes, workload.max_bytes);
        if min_bytes == 0 {
            self.complain("benchmark.workload.min_bytes", "must be at least 1: no factor leads away from 0");
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
        document.read_as().map_err(|problems| self.problems.extend(problems.0)).ok()
    }

    fn baseline(&mut self, path: &Path) -> Option<serde_json::Value> {
        let document = self.named("benchmark.baseline", path)?;
        let baseline: Result<verdict::Baseline, _> = document.read_as();
        let baseline = baseline.map_err(|problems| self.problems.extend(problems.0)).ok()?;
        serde_json::to_value(baseline).ok()
    }
}

/// Every secret the config declares, as if it were there: whether it is, only the place that builds can tell.
fn any_secrets(config: &cloudbuild::Config) -> BTreeMap<String, cloudbuild::Secret> {
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
            // A link could lead anywhere, and would mean something else where it is unpacked.
            return Err(io::Error::other(format!("{} is neither file nor folder", entry.path().display())));
        }
    }
    Ok(())
}
