//! Converts a config to the API's build. Pure.
//!
//! Burnin's types and the API's types have the same field names. This module adds Burnin's parts, and rejects fields
//! that the API would misunderstand or ignore; the error names them.

use std::collections::BTreeMap;

use ::model::{BuildSpec, SourceRepository, Span};
use cloudbuild::{BuildConfig, BuildProblem, config::ConfigOptions, substitution};
use google_cloud_build_v1::model::{
    Artifacts, Build, BuildOptions, BuildStep, ConnectedRepository, GitSource, Secret, Secrets, Source,
    StorageSource, build_options::SubstitutionOption,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::tags;
use crate::limit;

/// Limits of Cloud Build.
const MOST_STEPS: usize = 300;
const MOST_TAGS: usize = 64;
const LONGEST_VALUE: usize = 4000;
const LONGEST_TIMEOUT: Span = Span::from_secs(24 * 3600);

/// Locations and timeout of a build.
#[derive(Clone, Debug)]
pub struct BuildContext<'a> {
    /// Maximum duration, and maximum wait in the queue.
    pub limit: Span,
    /// The bucket, without `gs://`.
    pub bucket: &'a str,
    /// Object name of the gzipped source archive, if any.
    pub source: Option<String>,
    /// Folder in the bucket for its files, without a trailing slash.
    pub outputs: String,
    /// Folder in the log bucket for its log, unless the config sets one.
    pub logs: String,
    /// The log bucket, without `gs://`.
    pub log_bucket: &'a str,
    /// Service account of the build, unless the config sets one: `projects/PROJECT/serviceAccounts/EMAIL`. `None`: the
    /// project's default account.
    pub account: Option<&'a str>,
}

/// The build described by a config.
///
/// # Errors
/// Returns an error if the config is invalid, with all problems.
pub fn translate(spec: &BuildSpec, context: &BuildContext<'_>) -> Result<Build, Vec<BuildProblem>> {
    let config: BuildConfig = serde_json::from_value(limit::with_limit(context.limit, &spec.config))
        .map_err(|error| vec![problem("config", format!("not a Cloud Build config: {error}"))])?;
    let mut problems = Vec::new();
    check(&config, spec, &mut problems);
    let build = assemble(&config, spec, context, &mut problems);
    if problems.is_empty() { Ok(build) } else { Err(problems) }
}

fn assemble(
    config: &BuildConfig,
    spec: &BuildSpec,
    context: &BuildContext<'_>,
    problems: &mut Vec<BuildProblem>,
) -> Build {
    let limit = context.limit.min(LONGEST_TIMEOUT).0.as_secs().max(1);
    let within = |own: Option<cloudbuild::config::Duration>| {
        let own = own.map_or(limit, |own| own.get().as_secs().max(1));
        format!("{}s", own.min(limit))
    };
    let mut substitutions = config.substitutions.clone();
    substitutions.extend(spec.substitutions.clone());
    // The config's own timeouts may be shorter than the stage's, never longer.
    let whole = json!({
        "timeout": within(config.timeout),
        "queueTtl": within(config.queue_ttl),
        "substitutions": substitutions,
        "tags": config.tags,
        "serviceAccount": config.service_account.as_deref().or(context.account).unwrap_or_default(),
        "images": config.images,
    });
    let mut build: Build = read("config", &whole, problems);
    build.steps = (config.steps.iter().enumerate())
        .map(|(index, step)| read::<BuildStep>(&format!("steps[{index}]"), step, problems))
        .collect();
    build.secrets = (config.secrets.iter().enumerate())
        .map(|(index, secret)| read::<Secret>(&format!("secrets[{index}]"), secret, problems))
        .collect();
    build.available_secrets = (config.available_secrets.as_ref())
        .map(|secrets| read::<Secrets>("availableSecrets", secrets, problems));
    build.artifacts =
        config.artifacts.as_ref().map(|artifacts| read::<Artifacts>("artifacts", artifacts, problems));
    // As in local builds, files go to Burnin's bucket, and the bucket in the config is ignored.
    if let Some(objects) = build.artifacts.as_mut().and_then(|artifacts| artifacts.objects.as_mut()) {
        objects.location = format!("gs://{}/{}/", context.bucket, context.outputs);
    }
    if let Some(options) = &config.options {
        let read: BuildOptions = read("options", options, problems);
        check_options(options, &read, problems);
        build.options = Some(read);
    }
    if is_automapped(config) {
        // Without this option the API rejects a substitution that no field uses; its documentation does not state whether a script's
        // environment is a use. Burnin's own check has already rejected unused names.
        let options = build.options.get_or_insert_default();
        if options.substitution_option == SubstitutionOption::default() {
            options.substitution_option = SubstitutionOption::AllowLoose;
        }
    }
    build.source = match (&context.source, &spec.repository) {
        (Some(object), _) => Some(
            Source::new()
                .set_storage_source(StorageSource::new().set_bucket(context.bucket).set_object(object)),
        ),
        (None, Some(repository)) => Some(fetched(repository)),
        (None, None) => None,
    };
    let logging = config.options.as_ref().and_then(|options| options.logging.as_deref());
    build.logs_bucket = match (&config.logs_bucket, logging) {
        (Some(bucket), _) => bucket.clone(),
        (None, Some("CLOUD_LOGGING_ONLY" | "NONE")) => String::new(),
        (None, _) => format!("gs://{}/{}", context.log_bucket, context.logs),
    };
    build
}

/// A repository that Cloud Build fetches itself: by its URL without credentials, or by its connection.
fn fetched(repository: &SourceRepository) -> Source {
    let SourceRepository { url, connection, revision } = repository;
    match connection {
        Some(name) => Source::new()
            .set_connected_repository(ConnectedRepository::new().set_repository(name).set_revision(revision)),
        None => Source::new().set_git_source(GitSource::new().set_url(url).set_revision(revision)),
    }
}

/// Whether a step receives substitutions as environment variables.
fn is_automapped(config: &BuildConfig) -> bool {
    let all = config.options.as_ref().is_some_and(|options| options.automap_substitutions == Some(true));
    all || config.steps.iter().any(|step| step.automap_substitutions == Some(true))
}

/// Checks rules that Cloud Build enforces only after the start, or interprets differently from local builds.
fn check(config: &BuildConfig, spec: &BuildSpec, problems: &mut Vec<BuildProblem>) {
    let steps = config.steps.len();
    if steps == 0 || steps > MOST_STEPS {
        problems.push(problem("steps", format!("expected 1 to {MOST_STEPS} steps, found {steps}")));
    }
    let mut values = config.substitutions.clone();
    values.extend(spec.substitutions.clone());
    for (name, value) in &values {
        let path = format!("substitutions.{name}");
        if !substitution::is_user_name(name) {
            problems.push(problem(&path, "expected an underscore, then capitals, digits and underscores"));
        }
        if value.len() > LONGEST_VALUE {
            problems.push(problem(
                &path,
                format!("expected at most {LONGEST_VALUE} bytes, found {}", value.len()),
            ));
        }
    }
    let options = config.options.clone().unwrap_or_default();
    if options.dynamic_substitutions == Some(true) {
        for (name, _) in spec.substitutions.iter().filter(|(_, value)| value.contains('$')) {
            let why = "contains a dollar sign, which Cloud Build would expand under dynamicSubstitutions";
            problems.push(problem(format!("substitutions.{name}"), why));
        }
    }
    if options.pool.is_some() && options.worker_pool.is_some() {
        problems.push(problem("options.workerPool", "deprecated; use options.pool"));
    }
    check_tags(config, &values, problems);
}

fn check_tags(config: &BuildConfig, values: &BTreeMap<String, String>, problems: &mut Vec<BuildProblem>) {
    if config.tags.len() + 3 > MOST_TAGS {
        let most = MOST_TAGS - 3;
        problems.push(problem(
            "tags",
            format!("expected at most {most}, in addition to Burnin's, found {}", config.tags.len()),
        ));
    }
    for (index, tag) in config.tags.iter().enumerate() {
        let path = format!("tags[{index}]");
        let written = substitution::expand(tag, values);
        if written.starts_with(tags::OURS) || tag.starts_with(tags::OURS) {
            problems.push(problem(
                &path,
                format!("tags that begin with `{}` are reserved for Burnin", tags::OURS),
            ));
        } else if !tag.contains('$') && !tags::legal(tag) {
            problems.push(problem(
                &path,
                format!("expected at most 128 letters, digits, `_`, `.` and `-`, found `{tag}`"),
            ));
        }
    }
}

/// The API's enums accept any string; a misspelled value must be rejected before submission.
fn check_options(options: &ConfigOptions, read: &BuildOptions, problems: &mut Vec<BuildProblem>) {
    let words = [
        ("logging", &options.logging, read.logging.value()),
        ("logStreamingOption", &options.log_streaming_option, read.log_streaming_option.value()),
        (
            "defaultLogsBucketBehavior",
            &options.default_logs_bucket_behavior,
            read.default_logs_bucket_behavior.value(),
        ),
        ("requestedVerifyOption", &options.requested_verify_option, read.requested_verify_option.value()),
        ("machineType", &options.machine_type, read.machine_type.value()),
    ];
    for (field, word, number) in words {
        if let (Some(word), None) = (word, number) {
            problems
                .push(problem(format!("options.{field}"), format!("Cloud Build does not support {word:?}")));
        }
    }
    for (index, hash) in read.source_provenance_hash.iter().enumerate() {
        if hash.value().is_none() {
            let path = format!("options.sourceProvenanceHash[{index}]");
            problems.push(problem(path, format!("Cloud Build does not support {hash}")));
        }
    }
}

/// Converts one part to the API's type; records a problem and returns the default on failure.
fn read<T: DeserializeOwned + Default>(
    path: &str,
    part: &impl Serialize,
    problems: &mut Vec<BuildProblem>,
) -> T {
    let read = serde_json::to_value(part).and_then(serde_json::from_value::<T>);
    read.unwrap_or_else(|error| {
        problems.push(problem(path, format!("rejected by Cloud Build's API: {error}")));
        T::default()
    })
}

fn problem(path: impl Into<String>, message: impl Into<String>) -> BuildProblem {
    BuildProblem { path: path.into(), message: message.into() }
}
