//! Checks: programs, matrices, output formats, criteria and baselines.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use model::{
    Benchmark, ByteSize, Check, Collective, CommandLine, Criteria, Datatype, Every, OutputFormat, Program,
    Workload,
};

use super::WorkflowReader;
use crate::{
    document::YamlDocument,
    file::{BenchmarkFile, CheckFile, ReadFile, SuiteFile, WorkloadFile},
    similar::nearest,
};

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
    fn applied_to(self, program: &Program) -> Program {
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

/// Each element as `Some`; a single `None` for an empty list, which then has no effect on the combinations.
fn each<T>(list: impl IntoIterator<Item = T>) -> Vec<Option<T>> {
    let list: Vec<_> = list.into_iter().map(Some).collect();
    if list.is_empty() { vec![None] } else { list }
}

impl<'a> WorkflowReader<'a> {
    pub(crate) fn benchmark(&mut self, benchmark: &BenchmarkFile) -> Option<Benchmark> {
        let BenchmarkFile { workload, criteria, baseline } = benchmark;
        let program = Program::NcclTests(self.workload("benchmark", workload, &[]));
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
        // Names of the resulting checks by the name in the file, because `needs` may name a whole matrix.
        let mut named: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (at, file) in files.iter().enumerate() {
            let field = format!("checks[{at}]");
            let mut needs = Vec::new();
            for (place, need) in file.needs.iter().enumerate() {
                match named.get(need.as_str()) {
                    Some(names) => needs.extend(names.iter().cloned()),
                    None if checks.iter().any(|check| check.name == *need) => needs.push(need.clone()),
                    None => {
                        let names = checks.iter().map(|check| check.name.as_str());
                        let earlier: BTreeSet<_> = names.chain(named.keys().copied()).collect();
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
                        format!("`{name}` is the name of an earlier check; write another name"),
                    );
                }
                let Some(read) = read.clone() else { continue };
                let program = cell.applied_to(&read.program);
                let benchmark = Benchmark { program, environment, ..read };
                self.measured.extend(document.clone());
                checks.push(Check { name, benchmark, needs: needs.clone(), limit: file.limit });
            }
        }
        if checks.is_empty() && !self.excluded.is_empty() {
            self.complain("checks", "are all skipped, so the run would measure nothing; remove a `skip`");
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
        if let Some(repeat) = file.repeat.filter(|repeat| !(2..=100).contains(repeat)) {
            self.complain(
                &format!("{field}.repeat"),
                format!("expected 2 to 100 repetitions, found {repeat}"),
            );
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

    fn program(&mut self, field: &str, file: &CheckFile) -> Option<Program> {
        if let Some(workload) = &file.workload {
            let collectives = file.matrix.as_ref().map_or(&[][..], |matrix| &matrix.collectives);
            let alone = [
                ("command", !file.command.is_empty()),
                ("every", file.every.is_some()),
                ("rounds", file.rounds.is_some()),
                ("image", file.image.is_some()),
                ("read", file.read.is_some()),
            ];
            for (name, _) in alone.iter().filter(|(_, is_set)| *is_set) {
                self.complain(&format!("{field}.{name}"), "contradicts `workload`; remove one of them");
            }
            return Some(Program::NcclTests(self.workload(field, workload, collectives)));
        }
        if file.command.is_empty() {
            self.complain(
                field,
                "has neither `workload` nor `command`; write `workload` for a program of nccl-tests, `command` for any other",
            );
            return None;
        }
        for (at, word) in file.command.iter().enumerate() {
            let why = match word {
                _ if word.contains('\0') => {
                    "contains a zero byte, which is invalid in a command line; remove it"
                }
                _ if at == 0 && word.trim().is_empty() => "is empty; write the name of the program",
                _ => continue,
            };
            self.complain(&format!("{field}.command[{at}]"), why);
        }
        if let Some(image) = &file.image {
            let digest = image.rsplit_once("@sha256:").map_or("", |(_, digest)| digest);
            if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                let found: String = image.chars().take(200).collect();
                let why = format!("expected NAME@sha256:DIGEST, found `{found}`; a tag can be moved");
                self.complain(&format!("{field}.image"), why);
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
        let has_peer =
            file.command.iter().any(|word| word.contains("{peer}") || word.contains("BURNIN_PEER"));
        match (file.every == Some(Every::Pair), file.rounds) {
            (true, Some(0)) => {
                self.complain(&format!("{field}.rounds"), "0 measures no pair; expected 1 or more")
            }
            (false, Some(_)) => {
                self.complain(&format!("{field}.rounds"), "applies to `every: pair` only; remove it")
            }
            _ => {}
        }
        if file.every == Some(Every::Pair) && !has_peer {
            self.complain(
                &format!("{field}.command"),
                "has no argument `{peer}`, so the client has no address of its server; write it where the program expects the address of \
                 the server",
            );
        }
        let read = self.output_format(field, file.read.as_ref(), file.every)?;
        let command = CommandLine {
            argv: file.command.clone(),
            every: file.every.unwrap_or_default(),
            rounds: file.rounds,
            image: file.image.clone(),
            read,
        };
        Some(Program::Command(command))
    }

    fn output_format(
        &mut self,
        field: &str,
        read: Option<&ReadFile>,
        every: Option<Every>,
    ) -> Option<OutputFormat> {
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
                let known = format!("`{name}` is not a format; expected one of: {}", names.join(", "));
                let near = nearest(name, names);
                let problem = self.document.problem(&field, known);
                self.problems.push(problem.with_help(near.map(|name| format!("did you mean `{name}`?"))));
                None
            }
            Some(ReadFile::Format(name)) => Some(OutputFormat::Format(name.clone())),
            Some(ReadFile::Declared(rules)) => {
                match serde_json::from_value::<measure::Declaration>(rules.clone()) {
                    Ok(declaration) => {
                        let declaration = match every {
                            Some(Every::Pair) => declaration.of_pairs(),
                            _ => declaration,
                        };
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

    /// Resolves a workload. `collectives`: the collectives of a matrix, which replace that of the workload.
    fn workload(&mut self, field: &str, workload: &WorkloadFile, collectives: &[Collective]) -> Workload {
        let (ByteSize(min_bytes), ByteSize(max_bytes)) = (workload.min_bytes, workload.max_bytes);
        if min_bytes == 0 {
            self.complain(
                &format!("{field}.workload.min_bytes"),
                "must be at least 1: multiplying 0 gives no further sizes",
            );
        }
        let of_matrix =
            if collectives.is_empty() { std::slice::from_ref(&workload.collective) } else { collectives };
        for collective in of_matrix {
            let reduces =
                matches!(collective, Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce);
            if workload.extra_args.op.is_some() && !reduces {
                let message =
                    format!("has no effect on {}, which reduces nothing; remove it", collective.as_str());
                self.complain(&format!("{field}.workload.extra_args.op"), message);
            }
            let has_root = matches!(
                collective,
                Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter
            );
            if workload.extra_args.root.is_some() && !has_root {
                let message =
                    format!("has no effect on {}, which has no root; remove it", collective.as_str());
                self.complain(&format!("{field}.workload.extra_args.root"), message);
            }
        }
        if max_bytes < min_bytes {
            let (min, max) = (workload.min_bytes, workload.max_bytes);
            let message = format!("{max} is smaller than min_bytes, {min}; write {min} or more");
            self.complain(&format!("{field}.workload.max_bytes"), message);
        }
        let mut extra_args = workload.extra_args.clone();
        if let Some(ByteSize(step)) = workload.step_bytes {
            extra_args.stepbytes = Some(step);
        }
        for (name, other) in [
            ("step_factor", workload.step_factor.is_some()),
            ("extra_args.stepbytes", workload.extra_args.stepbytes.is_some()),
        ] {
            if workload.step_bytes.is_some() && other {
                let message = format!("has no effect beside {name}; remove one of them");
                self.complain(&format!("{field}.workload.step_bytes"), message);
            }
        }
        let read = Workload {
            collective: workload.collective,
            min_bytes,
            max_bytes,
            step_factor: workload.step_factor.unwrap_or(2),
            iterations: workload.iterations,
            warmup_iterations: workload.warmup_iterations,
            check: workload.check,
            datatype: workload.datatype,
            extra_args,
        };
        if read.sizes().len() > Workload::MOST_SIZES {
            let message = format!(
                "results in more than {} sizes from {} to {}; write a larger step",
                Workload::MOST_SIZES,
                workload.min_bytes,
                workload.max_bytes
            );
            self.complain(&format!("{field}.workload.step_bytes"), message);
        }
        read
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

/// The reason of an error message about an invalid pattern. The regex library prints the pattern and a marker on several
/// lines, and states the reason on the last line.
fn pattern_in_words(message: String) -> String {
    match message.split_once("regex parse error:") {
        Some((before, drawing)) => {
            let reason = drawing.rsplit_once("error:").map_or("cannot be read", |(_, reason)| reason.trim());
            format!("{before}{reason}")
        }
        None => message,
    }
}
