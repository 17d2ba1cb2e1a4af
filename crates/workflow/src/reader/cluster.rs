//! The cluster: its settings, the steps that provision and release it, and their parameters.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use cluster_api::Substitution;
use cluster_deployed::{Deployed, RetentionPeriods, kept};
use model::{BuildSpec, ClusterSpec, System};

use super::{DEPLOYED_FIELD, SET_BY_BURNIN, WorkflowReader, builds::StepsRequest};
use crate::{
    file::{ClusterFile, DeployedFile, ExistingFile, ProvisionedFile},
    parameters::{self, ParameterProblem},
    problem::FileProblem,
};

/// Substitutions that every deploy config must declare, so that its resources can be identified and expire.
const REQUIRED_BY_DEPLOY: [&str; 2] = ["_CLUSTER", "_EXPIRES"];
/// Substitutions that every destroy config must declare.
const REQUIRED_BY_DESTROY: [&str; 1] = ["_CLUSTER"];
/// Maximum retention period of a part.
const LONGEST_KEPT: Duration = Duration::from_secs(366 * 24 * 3600);

impl WorkflowReader<'_> {
    pub(crate) fn cluster(&mut self, cluster: &ClusterFile) -> Option<ClusterSpec> {
        Some(match cluster {
            ClusterFile::Provisioned(ProvisionedFile::Processes { nodes }) => {
                ClusterSpec::Provisioned(System::processes(*nodes))
            }
            ClusterFile::Provisioned(ProvisionedFile::Deployed(deployed)) => {
                ClusterSpec::Provisioned(self.deployed(deployed)?.to_system())
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
                format!(
                    "is not a kind of cluster; expected one of: {}",
                    clusters::names(|_| true).join(", ")
                ),
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
                let found = file.systems.values().filter(|settings| !settings.is_null()).count();
                self.complain(field, format!("expected exactly one of {}, found {found}", kinds.join(", ")));
                None
            }
        };
        // The number of nodes and similar quantities are stated once, in the settings.
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

    /// The steps must support each part that the workflow keeps.
    fn kept_parts(&mut self, keep: &RetentionPeriods, deploy: &BuildSpec, destroy: &BuildSpec) {
        for (part, span) in keep {
            let field = format!("cluster.rent.deployed.keep.{part}");
            let uses = kept::substitution(part);
            if !kept::is_part(part) {
                self.complain(&field, "is not the name of a part; write 1 to 20 lower-case letters");
            } else if deploy.config["substitutions"].get(&uses).is_none() {
                let message = format!(
                    "is not a part that the deployment can reuse: `deploy` does not declare {uses}; declare it there"
                );
                self.complain(&field, message);
            } else if destroy.config["substitutions"].get(kept::KEEP).is_none() {
                self.complain(
                    &field,
                    format!(
                        "is not a part that the teardown can keep: `destroy` does not declare {}; declare it there",
                        kept::KEEP
                    ),
                );
            } else if span.0.is_zero() || span.0 > LONGEST_KEPT {
                self.complain(&field, format!("expected a span from 1s to 366d, found {span}"));
            }
        }
    }

    /// A shared substitution that neither config declares has no effect and is probably misspelled.
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

    /// A problem of a substitution, at its definition: the values file, the steps' own or shared substitutions, or the settings.
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
}

/// Settings that the steps of a deployment receive as substitutions.
fn settings_as_substitutions(system: &System) -> Vec<Substitution> {
    let form = clusters::kind(system.kind()).map(|kind| kind.form());
    form.map(|form| (form.substitutions)(system.settings())).unwrap_or_default()
}
