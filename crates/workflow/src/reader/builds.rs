//! Builds: their config, substitutions, repository and source.

use std::{collections::BTreeMap, path::Path};

use model::{BuildSpec, SourceObject, SourceRepository};

use super::{DEPLOYED_FIELD, SET_BY_BURNIN, WorkflowReader};
use crate::{
    archive::SourceArchive,
    document::YamlDocument,
    file::{BuildFile, RepositoryFile},
};

/// Requirements on the steps that provision or release a cluster.
#[derive(Clone, Copy)]
pub(super) struct StepsRequest<'a> {
    /// Substitutions that Burnin sets and the config must declare.
    pub(super) declares: &'a [&'a str],
    /// File that a step must write.
    pub(super) writes: &'a str,
    /// Substitutions of both configs.
    pub(super) shared: &'a BTreeMap<String, String>,
}

impl WorkflowReader<'_> {
    /// Steps that provision or release a cluster must use the required substitutions and write the required
    /// file.
    pub(super) fn steps(
        &mut self,
        field: &str,
        build: &BuildFile,
        request: StepsRequest<'_>,
    ) -> Option<BuildSpec> {
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

    /// Reads a build. `shared`: substitutions of several builds; those that this build's config declares apply to it.
    pub(super) fn build(
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

    /// Substitutions of a build, in order of precedence: command line, values file, the build's own, shared ones.
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

    /// A substitution that the config neither declares nor mentions has no effect and is probably misspelled. Cloud Build also rejects it,
    /// unless the config sets `substitutionOption: ALLOW_LOOSE`.
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
            let message = format!("is not a substitution of {config}, which declares: {known}");
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
            self.complain(
                &field,
                "cannot be combined with `source`: the workspace is one of them; remove one",
            );
        }
        let RepositoryFile { url, connection, revision } = repository.clone();
        SourceRepository { url, connection, revision }
    }

    /// Packs a source folder. Equal folders produce equal archives.
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
}

/// Placeholders for all secrets the config declares: only the build service can check whether they exist.
fn any_secrets(config: &cloudbuild::BuildConfig) -> BTreeMap<String, cloudbuild::Secret> {
    let declared = config.available_secrets.iter().flat_map(|available| &available.secret_manager);
    let names = declared.filter_map(|secret| secret.version_name.split("secrets/").nth(1)?.split('/').next());
    names.map(|name| (name.to_owned(), cloudbuild::Secret::new("only checked"))).collect()
}
