//! From a config as it is written to a build as the API takes it. Pure.
//!
//! Our types carry Cloud Build's own names, and so do the API's; what is left to do here is to add what is Burnin's, and
//! to refuse what would be understood differently or not at all, by the name of its field.

use std::collections::BTreeMap;

use ::model::{BuildSpec, Span};
use cloudbuild::{Config, Problem, config::Options, substitution};
use google_cloud_build_v1::model::{
    Artifacts, Build, BuildOptions, BuildStep, Secret, Secrets, Source, StorageSource,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::tags;
use crate::limit;

/// Cloud Build's limits.
const MOST_STEPS: usize = 300;
const MOST_TAGS: usize = 64;
const LONGEST_VALUE: usize = 4000;
const LONGEST_TIMEOUT: Span = Span::from_secs(24 * 3600);

/// Where the parts of a build lie, and how long it may take.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// The longest it may take, and wait before it begins.
    pub limit: Span,
    /// The bucket, without `gs://`.
    pub bucket: &'a str,
    /// The gzipped source archive's object, where there is a source.
    pub source: Option<String>,
    /// A folder in the bucket for its files, without a slash at its end.
    pub outputs: String,
    /// A folder in the bucket for its log, unless the config says where.
    pub logs: String,
}

/// The build that a config describes.
///
/// # Errors
/// Everything that is wrong with it.
pub fn translate(spec: &BuildSpec, frame: &Frame<'_>) -> Result<Build, Vec<Problem>> {
    let config: Config = serde_json::from_value(limit::within(frame.limit, &spec.config))
        .map_err(|error| vec![problem("config", format!("not a Cloud Build config: {error}"))])?;
    let mut problems = Vec::new();
    check(&config, spec, &mut problems);
    let build = assemble(&config, spec, frame, &mut problems);
    if problems.is_empty() { Ok(build) } else { Err(problems) }
}

fn assemble(config: &Config, spec: &BuildSpec, frame: &Frame<'_>, problems: &mut Vec<Problem>) -> Build {
    let gs = |folder: &str| format!("gs://{}/{folder}", frame.bucket);
    let limit = frame.limit.min(LONGEST_TIMEOUT).0.as_secs().max(1);
    let within = |own: Option<cloudbuild::config::Duration>| {
        let own = own.map_or(limit, |own| own.get().as_secs().max(1));
        format!("{}s", own.min(limit))
    };
    let mut substitutions = config.substitutions.clone();
    substitutions.extend(spec.substitutions.clone());
    // The config's own timeout may be shorter, never longer than the stage's; nor may it wait for longer.
    let whole = json!({
        "timeout": within(config.timeout),
        "queueTtl": within(config.queue_ttl),
        "substitutions": substitutions,
        "tags": config.tags,
        "serviceAccount": config.service_account.clone().unwrap_or_default(),
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
    // As on this host: files go to Burnin's bucket, whatever bucket the config names.
    if let Some(objects) = build.artifacts.as_mut().and_then(|artifacts| artifacts.objects.as_mut()) {
        objects.location = gs(&frame.outputs) + "/";
    }
    if let Some(options) = &config.options {
        let read: BuildOptions = read("options", options, problems);
        known(options, &read, problems);
        build.options = Some(read);
    }
    build.source = frame.source.as_ref().map(|object| {
        Source::new().set_storage_source(StorageSource::new().set_bucket(frame.bucket).set_object(object))
    });
    let logging = config.options.as_ref().and_then(|options| options.logging.as_deref());
    build.logs_bucket = match (&config.logs_bucket, logging) {
        (Some(bucket), _) => bucket.clone(),
        (None, Some("CLOUD_LOGGING_ONLY" | "NONE")) => String::new(),
        (None, _) => gs(&frame.logs),
    };
    build
}

/// What Cloud Build would say only after the build was begun, or would understand in another way than this host.
fn check(config: &Config, spec: &BuildSpec, problems: &mut Vec<Problem>) {
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
            problems.push(problem(&path, format!("longer than {LONGEST_VALUE} bytes")));
        }
    }
    let options = config.options.clone().unwrap_or_default();
    if options.dynamic_substitutions == Some(true) {
        for (name, _) in spec.substitutions.iter().filter(|(_, value)| value.contains('$')) {
            let why = "holds a dollar sign, which Cloud Build would expand under dynamicSubstitutions";
            problems.push(problem(format!("substitutions.{name}"), why));
        }
    }
    if options.pool.is_some() && options.worker_pool.is_some() {
        problems.push(problem("options.workerPool", "the old spelling of options.pool; leave it out"));
    }
    check_tags(config, &values, problems);
}

fn check_tags(config: &Config, values: &BTreeMap<String, String>, problems: &mut Vec<Problem>) {
    if config.tags.len() + 3 > MOST_TAGS {
        problems.push(problem("tags", format!("at most {} beside Burnin's own", MOST_TAGS - 3)));
    }
    for (index, tag) in config.tags.iter().enumerate() {
        let path = format!("tags[{index}]");
        let written = substitution::expand(tag, values);
        if written.starts_with(tags::OURS) || tag.starts_with(tags::OURS) {
            problems.push(problem(&path, format!("tags that begin with `{}` are Burnin's own", tags::OURS)));
        } else if !tag.contains('$') && !tags::legal(tag) {
            problems.push(problem(&path, "expected at most 128 letters, digits, `_`, `.` and `-`"));
        }
    }
}

/// The API's types take any word where they expect one of a list; a mistyped one must not go as far as the cloud.
fn known(options: &Options, read: &BuildOptions, problems: &mut Vec<Problem>) {
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
            problems.push(problem(format!("options.{field}"), format!("Cloud Build knows no {word:?}")));
        }
    }
    for (index, hash) in read.source_provenance_hash.iter().enumerate() {
        if hash.value().is_none() {
            let path = format!("options.sourceProvenanceHash[{index}]");
            problems.push(problem(path, format!("Cloud Build knows no {hash}")));
        }
    }
}

/// One part in the API's type, or in its default with a problem noted.
fn read<T: DeserializeOwned + Default>(path: &str, part: &impl Serialize, problems: &mut Vec<Problem>) -> T {
    let read = serde_json::to_value(part).and_then(serde_json::from_value::<T>);
    read.unwrap_or_else(|error| {
        problems.push(problem(path, format!("Cloud Build's API does not take it: {error}")));
        T::default()
    })
}

fn problem(path: impl Into<String>, message: impl Into<String>) -> Problem {
    Problem { path: path.into(), message: message.into() }
}
