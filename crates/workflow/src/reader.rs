//! Reads a workflow file's sections and the files they name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use cluster_api::Substitution;
use cluster_deployed::{Deployed, Keep, kept};
use model::{
    Benchmark, BuildSpec, ByteSize, Check, ClusterSpec, Collective, CommandLine, Criteria, Datatype,
    ImageSpec, OutputFormat, Program, SourceObject, SourceRepository, System, Workflow, Workload,
};

use crate::{
    archive::SourceArchive,
    document::{FileProblem, YamlDocument},
    feasible::{self, FeasibilityFinding, In},
    file::{
        BenchmarkFile, BuildFile, CheckFile, ClusterFile, DeployedFile, ExistingFile, ImageFile, ReadFile,
        RentFile, RepositoryFile, SuiteFile, WorkloadFile,
    },
    parameters::{self, ParameterProblem, Values},
    similar::{nearest, suggest},
};

/// Field of a cluster that steps provision.
const DEPLOYED_FIELD: &str = "cluster.rent.deployed";
/// Substitutions that Burnin sets.
const SET_BY_BURNIN: [&str; 5] = ["_CLUSTER", "_RUN", "_EXPIRES", "_STATE", model::REVISION];
/// Those that every deploy config must declare, so that its resources can be identified and expire.
const REQUIRED_BY_DEPLOY: [&str; 2] = ["_CLUSTER", "_EXPIRES"];
/// Those that every destroy config must declare.
const REQUIRED_BY_DESTROY: [&str; 1] = ["_CLUSTER"];
/// Maximum time for which a part is kept.
const LONGEST_KEPT: Duration = Duration::from_secs(366 * 24 * 3600);

/// Maximum number of checks of a workflow.
const MOST_CHECKS: usize = 200;
/// Maximum length of the name of an environment variable, bytes.
const LONGEST_VARIABLE: usize = 128;

/// Changes of a workload by one combination of a matrix.
#[derive(Clone, Copy)]
struct MatrixCell {
    collective: Option<Collective>,
    datatype: Option<Datatype>,
}

impl MatrixCell {
    fn over(self, program: &Program) -> Program {
        match program {
            Program::NcclTests(workload) => Program::NcclTests(Workload {
                collective: self.collective.unwrap_or(workload.collective),
                datatype: self.datatype.or(workload.datatype),
                ..workload.clone()
            }),
            Program::Command(_) => program.clone(),
        }
    }
}

/// Each element, or one `None` for an empty list.
fn each<T>(list: impl IntoIterator<Item = T>) -> Vec<Option<T>> {
    let list: Vec<_> = list.into_iter().map(Some).collect();
    if list.is_empty() { vec![None] } else { list }
}

/// Requirements on the steps that provision or release a cluster.
#[derive(Clone, Copy)]
struct StepsRequest<'a> {
    /// Substitutions that Burnin sets and the config must declare.
    declares: &'a [&'a str],
    /// File that a step must write.
    writes: &'a str,
    /// Substitutions of both configs.
    shared: &'a BTreeMap<String, String>,
}

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
    values: Option<Values<'a>>,
}

impl<'a> WorkflowReader<'a> {
    pub(crate) const fn new(
        folder: &'a Path,
        document: &'a YamlDocument,
        values: Option<Values<'a>>,
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

    /// Adds a problem with the correction of a misspelt name.
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
                In::Workflow => self.document.problem(&field, message),
                In::Check(check) => {
                    let prefix = self.measured.get(check.index()).map_or("benchmark", |(field, _)| field);
                    self.suite.unwrap_or(self.document).problem(&format!("{prefix}.{field}"), message)
                }
                In::Criteria(check) => {
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

    /// The archives to upload, and all problems.
    pub(crate) fn finish(mut self) -> (Vec<SourceArchive>, Vec<FileProblem>) {
        self.problems.extend(self.values.iter().flat_map(Values::unused));
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

    pub(crate) fn benchmark(&mut self, benchmark: &BenchmarkFile) -> Option<Benchmark> {
        let BenchmarkFile { workload, criteria, baseline } = benchmark;
        let program = Program::NcclTests(self.workload("benchmark", workload));
        self.measured("benchmark", program, criteria, baseline.as_deref())
    }

    /// The checks of a suite in another file.
    pub(crate) fn suite(
        &mut self,
        folder: &'a Path,
        document: &'a YamlDocument,
        suite: &SuiteFile,
    ) -> Vec<Check> {
        let mut reader = Self::new(folder, document, None);
        let checks = reader.checks(&suite.checks);
        self.problems.extend(reader.problems);
        (self.suite, self.measured, self.excluded) = (Some(document), reader.measured, reader.excluded);
        checks
    }

    /// Checks that do not run, with the reasons.
    pub(crate) fn excluded(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.excluded)
    }

    /// The checks of the workflow; a check with a matrix becomes one check for each combination.
    pub(crate) fn checks(&mut self, files: &[CheckFile]) -> Vec<Check> {
        let mut checks: Vec<Check> = Vec::new();
        // Names of a file's checks by the name in the file: `needs` may name a whole matrix.
        let mut named: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (at, file) in files.iter().enumerate() {
            let field = format!("checks[{at}]");
            let mut needs = Vec::new();
            for (place, need) in file.needs.iter().enumerate() {
                match named.get(need.as_str()) {
                    Some(names) => needs.extend(names.iter().cloned()),
                    None if checks.iter().any(|check| check.name == *need) => needs.push(need.clone()),
                    None => {
                        let earlier: Vec<_> = checks
                            .iter()
                            .map(|check| check.name.as_str())
                            .chain(named.keys().copied())
                            .collect();
                        let message = format!("`{need}` is not an earlier check");
                        self.complain_of_name(
                            &format!("{field}.needs[{place}]"),
                            message,
                            need,
                            earlier,
                            "checks",
                        );
                    }
                }
            }
            for (name, value) in &file.environment {
                if let Some(why) = cluster_api::settings::not_a_variable(name, value, LONGEST_VARIABLE) {
                    self.complain(&format!("{field}.environment.{name}"), why);
                }
            }
            if let Some(reason) = &file.skip {
                if reason.trim().is_empty() {
                    self.complain(
                        &format!("{field}.skip"),
                        "is empty; state the reason, which the reports show",
                    );
                }
                self.excluded.insert(file.name.clone(), reason.trim().to_owned());
                named.insert(&file.name, Vec::new());
                continue;
            }
            let program = self.program(&field, file);
            let read = program
                .and_then(|program| self.measured(&field, program, &file.criteria, file.baseline.as_deref()));
            let document = if read.is_some() { self.measured.pop() } else { None };
            let combinations = self.combinations(&field, file);
            named.insert(&file.name, combinations.iter().map(|(name, ..)| name.clone()).collect());
            for (name, cell, environment) in combinations {
                if checks.iter().any(|check| check.name == name) {
                    self.complain(
                        &format!("{field}.name"),
                        format!("`{name}` is the name of an earlier check"),
                    );
                }
                let Some(read) = read.clone() else { continue };
                let program = cell.over(&read.program);
                let benchmark = Benchmark { program, environment, ..read };
                self.measured.extend(document.clone());
                checks.push(Check { name, benchmark, needs: needs.clone(), limit: file.limit });
            }
        }
        if checks.is_empty() && !self.excluded.is_empty() {
            self.complain("checks", "are all skipped, so nothing would be measured");
        }
        if checks.len() > MOST_CHECKS {
            let why = format!(
                "{} checks, with those of each matrix; at most {MOST_CHECKS} run on one cluster",
                checks.len()
            );
            self.complain("checks", why);
        }
        checks
    }

    /// Name, changes of the workload, and environment of each combination of a check's matrix.
    fn combinations(
        &mut self,
        field: &str,
        file: &CheckFile,
    ) -> Vec<(String, MatrixCell, BTreeMap<String, String>)> {
        let matrix = file.matrix.clone().unwrap_or_default();
        for (name, environment) in &matrix.environments {
            let field = format!("{field}.matrix.environments.{name}");
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            if name.is_empty() || !name.chars().all(is_plain) {
                self.complain(
                    &field,
                    "is a part of the check's name: expected letters, digits, `-`, `_` and `.`",
                );
            }
            for (variable, value) in environment {
                if let Some(why) = cluster_api::settings::not_a_variable(variable, value, LONGEST_VARIABLE) {
                    self.complain(&format!("{field}.{variable}"), why);
                }
            }
        }
        if file.repeat.is_some_and(|repeat| !(2..=100).contains(&repeat)) {
            self.complain(&format!("{field}.repeat"), "expected 2 to 100 repetitions");
            return Vec::new();
        }
        let mut cells = Vec::new();
        for collective in each(matrix.collectives) {
            for datatype in each(matrix.datatypes.clone()) {
                for environment in each(matrix.environments.clone()) {
                    let mut variables = file.environment.clone();
                    let mut name = file.name.clone();
                    let parts = [
                        collective.map(|it| it.as_str().to_owned()),
                        datatype.map(|it| it.as_str().to_owned()),
                        environment.as_ref().map(|(name, _)| name.clone()),
                    ];
                    for part in parts.into_iter().flatten() {
                        name = format!("{name}-{part}");
                    }
                    variables.extend(environment.map(|(_, variables)| variables).unwrap_or_default());
                    for number in each(1..=file.repeat.unwrap_or(0)) {
                        let name = number.map_or(name.clone(), |number| format!("{name}-{number}"));
                        cells.push((name, MatrixCell { collective, datatype }, variables.clone()));
                    }
                }
            }
        }
        cells
    }

    /// Reads the program of a check.
    fn program(&mut self, field: &str, file: &CheckFile) -> Option<Program> {
        if let Some(workload) = &file.workload {
            let alone = [
                ("command", !file.command.is_empty()),
                ("every", file.every.is_some()),
                ("image", file.image.is_some()),
                ("read", file.read.is_some()),
            ];
            for (name, _) in alone.iter().filter(|(_, is_set)| *is_set) {
                self.complain(&format!("{field}.{name}"), "contradicts `workload`; remove one of them");
            }
            return Some(Program::NcclTests(self.workload(field, workload)));
        }
        if file.command.is_empty() {
            self.complain(
                field,
                "has neither `workload`, a program of nccl-tests, nor `command`, any other program",
            );
            return None;
        }
        for (at, word) in file.command.iter().enumerate() {
            if word.contains('\0') || (at == 0 && word.trim().is_empty()) {
                self.complain(&format!("{field}.command[{at}]"), "is not a word of a command line");
            }
        }
        if let Some(image) = &file.image {
            let digest = image.rsplit_once("@sha256:").map_or("", |(_, digest)| digest);
            if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                self.complain(&format!("{field}.image"), "expected NAME@sha256:DIGEST; a tag can be moved");
            }
        }
        if let Some(matrix) = &file.matrix {
            for (name, is_set) in
                [("collectives", !matrix.collectives.is_empty()), ("datatypes", !matrix.datatypes.is_empty())]
            {
                if is_set {
                    self.complain(
                        &format!("{field}.matrix.{name}"),
                        "applies to `workload` only; use `environments`",
                    );
                }
            }
        }
        let read = self.output_format(field, file.read.as_ref())?;
        let command = CommandLine {
            argv: file.command.clone(),
            every: file.every.unwrap_or_default(),
            image: file.image.clone(),
            read,
        };
        Some(Program::Command(command))
    }

    fn output_format(&mut self, field: &str, read: Option<&ReadFile>) -> Option<OutputFormat> {
        let field = format!("{field}.read");
        match read {
            None => {
                let names: Vec<_> = measure::FORMATS.iter().map(|format| format.name).collect();
                let message = format!(
                    "is missing; name the format of the output ({}), or declare it",
                    names.join(", ")
                );
                self.complain(&field, message);
                None
            }
            Some(ReadFile::Format(name)) if measure::format(name).is_none() => {
                let names: Vec<_> = measure::FORMATS.iter().map(|format| format.name).collect();
                let known = format!("`{name}` is not a format; known: {}", names.join(", "));
                let near = nearest(name, names);
                let problem = self.document.problem(&field, known);
                self.problems.push(problem.with_help(near.map(|name| format!("did you mean `{name}`?"))));
                None
            }
            Some(ReadFile::Format(name)) => Some(OutputFormat::Format(name.clone())),
            Some(ReadFile::Declared(rules)) => {
                match serde_json::from_value::<measure::Declaration>(rules.clone()) {
                    Ok(declaration) => {
                        for measure::Problem { field: place, message } in declaration.lint(true) {
                            self.complain(&format!("{field}.{place}"), pattern_in_words(message));
                        }
                        Some(OutputFormat::Declared(rules.clone()))
                    }
                    Err(_) => {
                        self.complain(
                            &field,
                            "is not a declaration of rules; docs/METRICS.md describes its fields",
                        );
                        None
                    }
                }
            }
        }
    }

    /// Reads criteria and baseline of a check.
    fn measured(
        &mut self,
        field: &str,
        program: Program,
        criteria: &Path,
        baseline: Option<&Path>,
    ) -> Option<Benchmark> {
        self.measured.push((field.to_owned(), None));
        let criteria = self.criteria(field, criteria)?;
        let baseline = match baseline {
            Some(path) => Some(self.baseline(field, path)?),
            None => None,
        };
        Some(Benchmark { program, criteria, baseline, environment: BTreeMap::new() })
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

    pub(crate) fn cluster(&mut self, cluster: &ClusterFile) -> Option<ClusterSpec> {
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
        let field = DEPLOYED_FIELD;
        let mut given = file.systems.iter().filter(|(_, settings)| !settings.is_null());
        let system = match (given.next(), given.next()) {
            (Some((kind, settings)), None) => self.settings(field, kind, settings),
            _ => {
                let kinds = clusters::names(|kind| kind.can_be_deployed());
                self.complain(field, format!("expected exactly one of {}", kinds.join(", ")));
                None
            }
        };
        // The number of nodes and the like are stated once, in the settings.
        let settings = system.as_ref().map(settings_as_substitutions).unwrap_or_default();
        let mut shared: BTreeMap<_, _> =
            settings.iter().filter_map(|it| Some((it.name.to_owned(), it.value.clone()?))).collect();
        shared.extend(file.substitutions.clone());
        for name in SET_BY_BURNIN.iter().filter(|name| file.substitutions.contains_key(**name)) {
            self.complain(&format!("{field}.substitutions.{name}"), "is set by Burnin; remove it");
        }
        let steps = StepsRequest { declares: &REQUIRED_BY_DEPLOY, writes: "cluster.json", shared: &shared };
        let deploy = self.steps(&format!("{field}.deploy"), &file.deploy, steps);
        let steps = StepsRequest { declares: &REQUIRED_BY_DESTROY, writes: "gone.json", shared: &shared };
        let destroy = self.steps(&format!("{field}.destroy"), &file.destroy, steps);
        if let (Some(deploy), Some(destroy)) = (&deploy, &destroy) {
            self.unknown_shared(&file.substitutions, [deploy, destroy]);
            self.kept_parts(&file.keep, deploy, destroy);
        }
        if let (Some(path), Some(deploy)) = (&file.parameters, &deploy) {
            let kind = system.as_ref().map_or("", System::kind);
            let stated = |it: &Substitution| (it.name, format!("{field}.{kind}.{}", it.setting));
            self.parameters(path, deploy, &settings.iter().map(stated).collect());
        }
        let keep = file.keep.clone();
        Some(Deployed { deploy: deploy?, destroy: destroy?, keep, system: system? })
    }

    /// The steps must know each part that the workflow keeps.
    fn kept_parts(&mut self, keep: &Keep, deploy: &BuildSpec, destroy: &BuildSpec) {
        for (part, span) in keep {
            let field = format!("cluster.rent.deployed.keep.{part}");
            let uses = kept::substitution(part);
            if !kept::is_part(part) || deploy.config["substitutions"].get(&uses).is_none() {
                let message =
                    format!("is not a part that the deployment can reuse: it does not declare {uses}");
                self.complain(&field, message);
            } else if destroy.config["substitutions"].get(kept::KEEP).is_none() {
                self.complain(
                    &field,
                    format!("the teardown cannot keep it: it does not declare {}", kept::KEEP),
                );
            } else if span.0.is_zero() || span.0 > LONGEST_KEPT {
                self.complain(&field, "expected a span from 1s to 366d".to_owned());
            }
        }
    }

    /// A shared substitution that neither config declares has no effect and is probably misspelt.
    fn unknown_shared(&mut self, shared: &BTreeMap<String, String>, builds: [&BuildSpec; 2]) {
        let declared =
            |name: &str| builds.iter().any(|build| build.config["substitutions"].get(name).is_some());
        for name in shared.keys().filter(|name| !declared(name)) {
            let message = "is declared by neither config; correct its name or remove it";
            self.complain(&format!("cluster.rent.deployed.substitutions.{name}"), message);
        }
    }

    /// Checks the substitutions of the deploying steps before they incur cost.
    /// `settings`: fields that state a substitution by its name.
    fn parameters(&mut self, path: &Path, deploy: &BuildSpec, settings: &BTreeMap<&str, String>) {
        let Some(schema) = self.named("cluster.rent.deployed.parameters", path) else { return };
        let declared = deploy.config["substitutions"].as_object().into_iter().flatten();
        let defaults = declared.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let mut effective: BTreeMap<_, _> = defaults.collect();
        effective.extend(deploy.substitutions.clone());
        effective.retain(|name, _| !SET_BY_BURNIN.contains(&name.as_str()));
        match parameters::check(&schema, &effective) {
            Ok(problems) => {
                for ParameterProblem { name, message } in problems {
                    let problem = self.located(&name, message, settings);
                    self.problems.push(problem);
                }
            }
            Err(problems) => self.problems.extend(problems.0),
        }
    }

    /// A problem of a substitution, where it is stated: values file, own or shared substitutions, settings.
    fn located(&self, name: &str, message: String, settings: &BTreeMap<&str, String>) -> FileProblem {
        let field = DEPLOYED_FIELD;
        let (own, shared) =
            (format!("{field}.deploy.substitutions.{name}"), format!("{field}.substitutions.{name}"));
        let is_stated =
            |field: &str| self.document.value.pointer(&format!("/{}", field.replace('.', "/"))).is_some();
        match self.values.as_ref().and_then(|values| values.origin(name)) {
            Some(values) if !self.document.is_set(&own) && !self.document.is_set(&shared) => {
                values.problem(name, message)
            }
            _ if self.document.is_set(&shared) && !self.document.is_set(&own) => {
                self.document.problem(&shared, message)
            }
            _ if is_stated(&own) => self.document.problem(&own, message),
            _ if is_stated(&shared) => self.document.problem(&shared, message),
            _ => self.document.problem(settings.get(name).unwrap_or(&shared), message),
        }
    }

    /// Steps that provision or release a cluster must use the required substitutions and write the required
    /// file.
    fn steps(&mut self, field: &str, build: &BuildFile, request: StepsRequest<'_>) -> Option<BuildSpec> {
        let StepsRequest { declares, writes, shared } = request;
        for name in SET_BY_BURNIN.iter().filter(|name| build.substitutions.contains_key(**name)) {
            self.complain(&format!("{field}.substitutions.{name}"), "is set by Burnin; remove it");
        }
        let (spec, document) = self.build(field, build, shared)?;
        for name in declares.iter().filter(|name| spec.config["substitutions"].get(**name).is_none()) {
            let why = format!("must declare `{name}: \"\"`, which Burnin fills in for steps to use");
            self.problems.push(document.problem("substitutions", why));
        }
        let paths = spec.config["artifacts"]["objects"]["paths"].as_array();
        if !paths.is_some_and(|paths| paths.iter().any(|path| path.as_str() == Some(writes))) {
            let why = format!("must name `{writes}`, which a step must write");
            self.problems.push(document.problem("artifacts.objects.paths", why));
        }
        Some(spec)
    }

    /// Reads a build. `shared`: substitutions that apply as far as its config declares them.
    fn build(
        &mut self,
        field: &str,
        build: &BuildFile,
        shared: &BTreeMap<String, String>,
    ) -> Option<(BuildSpec, YamlDocument)> {
        let document = self.named(&format!("{field}.config"), &build.config)?;
        let substitutions = self.substitutions(field, build, shared, &document);
        let source = match &build.source {
            None => None,
            Some(source) => Some(self.source(&format!("{field}.source"), source)?),
        };
        let repository =
            build.repository.as_ref().map(|repository| self.repository(field, build, repository));
        let config = match document.read_as::<cloudbuild::BuildConfig>() {
            Ok(config) => config,
            Err(problems) => {
                self.problems.extend(problems.0);
                return None;
            }
        };
        let inputs = cloudbuild::Inputs {
            substitutions: substitutions.clone(),
            secrets: any_secrets(&config),
            ..cloudbuild::Inputs::default()
        };
        if let Err(problems) = cloudbuild::plan::check(&config, &inputs) {
            let located =
                problems.into_iter().map(|problem| document.problem(&problem.path, problem.message));
            self.problems.extend(located);
            return None;
        }
        let config = document.value.clone();
        self.unknown_substitutions(field, build, &config);
        let mut spec = BuildSpec { config, source, repository, substitutions };
        if let Some(RepositoryFile { revision, .. }) = &build.repository {
            spec.set_revision(revision);
        }
        Some((spec, document))
    }

    /// A build's substitutions: the command line's, else the values file's, else its own, else the shared ones.
    fn substitutions(
        &mut self,
        field: &str,
        build: &BuildFile,
        shared: &BTreeMap<String, String>,
        config: &YamlDocument,
    ) -> BTreeMap<String, String> {
        let mut all = build.substitutions.clone();
        let declared = config.value["substitutions"].as_object().into_iter().flat_map(serde_json::Map::keys);
        for name in declared.filter(|name| !SET_BY_BURNIN.contains(&name.as_str())) {
            let valued = self.values.as_mut().and_then(|values| values.value(name)).map(str::to_owned);
            let (own, shared) = (all.get(name).cloned(), shared.get(name).cloned());
            let is_set = |field: &str| self.document.is_set(&format!("{field}.substitutions.{name}"));
            let value = match (is_set(field), is_set(DEPLOYED_FIELD)) {
                (true, _) => own,
                (false, true) if shared.is_some() => shared,
                _ => valued.or(own).or(shared),
            };
            all.extend(value.map(|value| (name.clone(), value)));
        }
        all
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
                .filter(|known| !SET_BY_BURNIN.contains(&known.as_str()))
                .map(String::as_str)
                .collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let config = build.config.display();
            let message = format!("is not known to {config}, which declares: {known}");
            self.complain(&format!("{field}.substitutions.{name}"), message);
        }
    }

    fn repository(
        &mut self,
        field: &str,
        build: &BuildFile,
        repository: &RepositoryFile,
    ) -> SourceRepository {
        let field = format!("{field}.repository");
        for (name, why) in repository.problems() {
            self.complain(&format!("{field}.{name}"), why);
        }
        if build.source.is_some() {
            self.complain(&field, "cannot be combined with `source`: the workspace is one of them");
        }
        let RepositoryFile { url, connection, revision } = repository.clone();
        SourceRepository { url, connection, revision }
    }

    /// Packs a source folder. Equal folders give equal archives.
    fn source(&mut self, field: &str, folder: &Path) -> Option<SourceObject> {
        let folder = self.folder.join(folder);
        match SourceArchive::pack(&folder) {
            Ok((archive, source)) => {
                if self.archives.iter().all(|known| known.object != archive.object) {
                    self.archives.push(archive);
                }
                Some(source)
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

    fn workload(&mut self, field: &str, workload: &WorkloadFile) -> Workload {
        let (ByteSize(min_bytes), ByteSize(max_bytes)) = (workload.min_bytes, workload.max_bytes);
        if min_bytes == 0 {
            self.complain(
                &format!("{field}.workload.min_bytes"),
                "must be at least 1: multiplying 0 gives no further sizes",
            );
        }
        let reduces = matches!(
            workload.collective,
            Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce
        );
        if workload.extra_args.op.is_some() && !reduces {
            let message = format!("has no effect on {}, which reduces nothing", workload.collective.as_str());
            self.complain(&format!("{field}.workload.extra_args.op"), message);
        }
        let has_root = matches!(
            workload.collective,
            Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter
        );
        if workload.extra_args.root.is_some() && !has_root {
            let message = format!("has no effect on {}, which has no root", workload.collective.as_str());
            self.complain(&format!("{field}.workload.extra_args.root"), message);
        }
        if max_bytes < min_bytes {
            self.complain(&format!("{field}.workload.max_bytes"), "is smaller than min_bytes");
        }
        Workload {
            collective: workload.collective,
            min_bytes,
            max_bytes,
            step_factor: workload.step_factor,
            iterations: workload.iterations,
            warmup_iterations: workload.warmup_iterations,
            check: workload.check,
            datatype: workload.datatype,
            extra_args: workload.extra_args.clone(),
        }
    }

    fn criteria(&mut self, field: &str, path: &Path) -> Option<Criteria> {
        let document = self.named(&format!("{field}.criteria"), path)?;
        let criteria = document.read_as().map_err(|problems| self.problems.extend(problems.0)).ok();
        if let Some((_, read)) = self.measured.last_mut() {
            *read = Some(document);
        }
        criteria
    }

    fn baseline(&mut self, field: &str, path: &Path) -> Option<serde_json::Value> {
        let document = self.named(&format!("{field}.baseline"), path)?;
        let baseline: Result<verdict::Baseline, _> = document.read_as();
        let baseline = baseline.map_err(|problems| self.problems.extend(problems.0)).ok()?;
        serde_json::to_value(baseline).ok()
    }
}

/// The file of a misspelt name in the same folder.
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

/// The message about an invalid pattern, without the drawing of the regular expressions' library: only its last line states the
/// reason.
fn pattern_in_words(message: String) -> String {
    match message.split_once("regex parse error:") {
        Some((before, drawing)) => {
            let reason = drawing.rsplit_once("error:").map_or("cannot be read", |(_, reason)| reason.trim());
            format!("{before}{reason}")
        }
        None => message,
    }
}

/// Settings that the steps of a deployment receive as substitutions.
fn settings_as_substitutions(system: &System) -> Vec<Substitution> {
    let form = clusters::kind(system.kind()).map(|kind| kind.form());
    form.map(|form| (form.substitutions)(system.settings())).unwrap_or_default()
}

/// Placeholders for all secrets the config declares: only the build service knows whether they exist.
fn any_secrets(config: &cloudbuild::BuildConfig) -> BTreeMap<String, cloudbuild::Secret> {
    let declared = config.available_secrets.iter().flat_map(|available| &available.secret_manager);
    let names = declared.filter_map(|secret| secret.version_name.split("secrets/").nth(1)?.split('/').next());
    names.map(|name| (name.to_owned(), cloudbuild::Secret::new("only checked"))).collect()
}
