//! Every field of a config in the API's form, and rejected values by field.

use build_service::cloud_build::translate::{BuildContext, translate};
use model::{BuildSpec, SourceRepository, Span};
use serde_json::{Value, json};

fn context() -> BuildContext<'static> {
    BuildContext {
        limit: Span::from_secs(1800),
        bucket: "bucket",
        source: None,
        outputs: "builds/r-image-1/1/files".to_owned(),
        logs: "builds/r-image-1/1".to_owned(),
        log_bucket: "bucket",
        account: None,
    }
}

fn build(config: Value) -> BuildSpec {
    BuildSpec { config, source: None, repository: None, substitutions: Default::default() }
}

fn translated(config: Value) -> Value {
    serde_json::to_value(translate(&build(config), &context()).unwrap()).unwrap()
}

fn problems(config: Value, values: &[(&str, &str)]) -> Vec<String> {
    let mut spec = build(config);
    spec.substitutions = values.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    translate(&spec, &context()).unwrap_err().into_iter().map(|problem| problem.path).collect()
}

/// A config that sets every field.
fn everything() -> Value {
    json!({
        "steps": [
            {
                "name": "gcr.io/cloud-builders/docker", "id": "image", "args": ["build", "-t", "$_TAG", "."],
                "entrypoint": "bash", "env": ["A=b"], "secretEnv": ["TOKEN"], "dir": "src", "waitFor": ["-"],
                "timeout": "1.5s", "allowFailure": true, "allowExitCodes": [3, 4],
                "automapSubstitutions": true, "volumes": [{"name": "vol", "path": "/vol"}],
            },
            {"name": "bash", "script": "echo $$HOME"},
        ],
        "timeout": "1200s", "queueTtl": "60s", "logsBucket": "gs://logs",
        "substitutions": {"_TAG": "us-docker.pkg.dev/p/r/nccl:7"},
        "tags": ["nightly"], "serviceAccount": "projects/p/serviceAccounts/b@p.iam.gserviceaccount.com",
        "secrets": [{"kmsKeyName": "projects/p/key", "secretEnv": {"OLD": "c2VjcmV0"}}],
        "availableSecrets": {
            "secretManager": [{"versionName": "projects/p/secrets/t/versions/1", "env": "TOKEN"}],
            "inline": [{"kmsKeyName": "projects/p/key", "envMap": {"K": "c2VjcmV0"}}],
        },
        "artifacts": {"objects": {"location": "gs://theirs/", "paths": ["made", "out/*.so"]}},
        "images": ["$_TAG"],
        "options": {
            "env": ["C=d"], "secretEnv": ["TOKEN"], "substitutionOption": "ALLOW_LOOSE",
            "dynamicSubstitutions": true, "automapSubstitutions": true,
            "volumes": [{"name": "all", "path": "/all"}], "machineType": "E2_HIGHCPU_32", "diskSizeGb": "200",
            "logging": "GCS_ONLY", "logStreamingOption": "STREAM_ON",
            "defaultLogsBucketBehavior": "REGIONAL_USER_OWNED_BUCKET",
            "pool": {"name": "projects/p/locations/l/workerPools/w"}, "pubsubTopic": "projects/p/topics/t",
            "requestedVerifyOption": "VERIFIED", "sourceProvenanceHash": ["SHA256"],
        },
    })
}

/// The fields `gitSource` and `connectedRepository` of `Source` (google.devtools.cloudbuild.v1).
#[test]
fn a_repository_is_fetched_by_cloud_build() {
    let steps = json!({"steps": [{"name": "bash", "script": "true"}]});
    let url = "https://github.com/acme/images".to_owned();
    let revision = "a".repeat(40);
    let repository = SourceRepository { url: url.clone(), connection: None, revision: revision.clone() };
    let connection = "projects/p/locations/l/connections/c/repositories/acme-images";
    let connected = SourceRepository { connection: Some(connection.to_owned()), ..repository.clone() };
    let source = |repository| {
        let spec = BuildSpec { repository: Some(repository), ..build(steps.clone()) };
        serde_json::to_value(translate(&spec, &context()).unwrap()).unwrap()["source"].clone()
    };
    assert_eq!(source(repository), json!({"gitSource": {"url": url, "revision": revision}}));
    let expected = json!({"connectedRepository": {"repository": connection, "revision": revision}});
    assert_eq!(source(connected), expected);
}

#[test]
fn every_field_reaches_the_api_unchanged() {
    let mut expected = everything();
    // As in local builds, files go to Burnin's bucket, and the bucket in the config is ignored.
    expected["artifacts"]["objects"]["location"] = "gs://bucket/builds/r-image-1/1/files/".into();
    // The client serializes enum values as numbers, which ProtoJSON accepts as well as names.
    for (field, number) in [
        ("substitutionOption", 1),
        ("machineType", 6),
        ("logging", 2),
        ("logStreamingOption", 1),
        ("defaultLogsBucketBehavior", 1),
        ("requestedVerifyOption", 1),
    ] {
        expected["options"][field] = number.into();
    }
    expected["options"]["sourceProvenanceHash"] = json!([1]);
    assert_eq!(ordered(translated(everything())), ordered(expected));
}

#[test]
fn the_apis_types_contain_all_fields_except_the_pubsub_topic() {
    // The API's types keep unknown fields in `_unknown_fields`; `pubsubTopic` is the only expected unknown field.
    let build = translate(&build(everything()), &context()).unwrap();
    let debug = format!("{build:?}");
    assert_eq!(debug.matches("_unknown_fields: {\"").count(), 1, "{debug}");
    assert!(debug.contains("_unknown_fields: {\"pubsubTopic\""), "{debug}");
    assert_eq!(build.steps[0].allow_exit_codes, [3, 4]);
    assert_eq!(build.options.unwrap().disk_size_gb, 200);
}

#[test]
fn a_build_has_the_timeout_of_its_stage_and_logs_next_to_its_files() {
    let built = translated(json!({"steps": [{"name": "bash"}], "timeout": "86400s"}));
    assert_eq!(built["timeout"], "1800s", "the timeout is at most that of the stage");
    assert_eq!(built["queueTtl"], "1800s", "the queue's timeout is at most that of the stage");
    assert_eq!(built["logsBucket"], "gs://bucket/builds/r-image-1/1");
    let quiet = json!({"steps": [{"name": "bash"}], "options": {"logging": "CLOUD_LOGGING_ONLY"}});
    assert_eq!(
        translated(quiet)["logsBucket"],
        Value::Null,
        "with `CLOUD_LOGGING_ONLY` the build has no log bucket"
    );
}

#[test]
fn builds_use_their_account_and_its_log_bucket() {
    let account = "projects/p/serviceAccounts/image@p.iam.gserviceaccount.com";
    let context = BuildContext { log_bucket: "logs", account: Some(account), ..context() };
    let of = |config: Value| serde_json::to_value(translate(&build(config), &context).unwrap()).unwrap();
    let built = of(json!({"steps": [{"name": "bash"}]}));
    assert_eq!(
        (&built["serviceAccount"], &built["logsBucket"]),
        (&account.into(), &"gs://logs/builds/r-image-1/1".into())
    );
    // Values in the config take precedence over the defaults of the service.
    let built = of(
        json!({"steps": [{"name": "bash"}], "serviceAccount": "projects/p/serviceAccounts/b", "logsBucket": "gs://l"}),
    );
    assert_eq!(
        (&built["serviceAccount"], &built["logsBucket"]),
        (&"projects/p/serviceAccounts/b".into(), &"gs://l".into())
    );
}

#[test]
fn a_substitution_that_only_a_script_uses_is_accepted() {
    const ALLOW_LOOSE: u64 = 1;
    let script = |more: Value| {
        let mut config =
            json!({"steps": [{"name": "bash", "script": "echo $_A"}], "substitutions": {"_A": "1"}});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        translated(config)["options"]["substitutionOption"].as_u64()
    };
    assert_eq!(script(json!({"options": {"automapSubstitutions": true}})), Some(ALLOW_LOOSE));
    let step = json!([{"name": "bash", "script": "echo $_A", "automapSubstitutions": true}]);
    assert_eq!(script(json!({"steps": step})), Some(ALLOW_LOOSE));
    assert_eq!(script(json!({})), None, "without automapped substitutions the config's option is kept");
}

#[test]
fn a_source_is_an_object_of_the_bucket() {
    let context = BuildContext { source: Some("sources/ab.tar.gz".to_owned()), ..context() };
    let built = translate(&build(json!({"steps": [{"name": "bash"}]})), &context).unwrap();
    let built = serde_json::to_value(built).unwrap();
    assert_eq!(
        built["source"],
        json!({"storageSource": {"bucket": "bucket", "object": "sources/ab.tar.gz"}})
    );
}

#[test]
fn the_workflows_values_override_those_of_the_config() {
    let mut spec = build(json!({"steps": [{"name": "bash"}], "substitutions": {"_A": "1", "_B": "2"}}));
    spec.substitutions = [("_B".to_owned(), "$(id)".to_owned())].into_iter().collect();
    let built = translate(&spec, &context()).unwrap();
    assert_eq!((built.substitutions["_A"].as_str(), built.substitutions["_B"].as_str()), ("1", "$(id)"));
}

#[test]
fn unsupported_fields_are_rejected_by_name() {
    let step = || json!([{"name": "bash"}]);
    let table = [
        (json!({"steps": []}), "steps"),
        (json!({"steps": step(), "stepz": 1}), "config"),
        (json!({"steps": [{"name": "a"}, {"name": "b", "volumes": [5]}]}), "steps[1]"),
        (json!({"steps": step(), "secrets": [{"secretEnv": {"A": "not base64!"}}]}), "secrets[0]"),
        (
            json!({"steps": step(), "availableSecrets": {"inline": [{"kmsKeyName": "k", "envMap": {"A": "%"}}]}}),
            "availableSecrets",
        ),
        (json!({"steps": step(), "artifacts": {"npmPackages": [5]}}), "artifacts"),
        (json!({"steps": step(), "options": {"diskSizeGb": "much"}}), "options"),
        (json!({"steps": step(), "options": {"logging": "GCS_ONLYY"}}), "options.logging"),
        (json!({"steps": step(), "options": {"machineType": "HUGE"}}), "options.machineType"),
        (
            json!({"steps": step(), "options": {"sourceProvenanceHash": ["CRC"]}}),
            "options.sourceProvenanceHash[0]",
        ),
        (json!({"steps": step(), "options": {"pool": {}, "workerPool": "w"}}), "options.workerPool"),
        (json!({"steps": step(), "substitutions": {"A": "b"}}), "substitutions.A"),
        (json!({"steps": step(), "substitutions": {"_A": "b".repeat(4001)}}), "substitutions._A"),
        (json!({"steps": step(), "tags": ["a b"]}), "tags[0]"),
        (json!({"steps": step(), "tags": ["fine", "burnin.other.image.1"]}), "tags[1]"),
        (
            json!({"steps": step(), "tags": ["${_T}other.image.1"], "substitutions": {"_T": "burnin."}}),
            "tags[0]",
        ),
    ];
    for (config, field) in table {
        assert_eq!(problems(config.clone(), &[]), [field], "{config}");
    }
    let dynamic = json!({"steps": step(), "options": {"dynamicSubstitutions": true}});
    assert_eq!(problems(dynamic, &[("_A", "$PROJECT_ID")]), ["substitutions._A"]);
    let all = json!({"steps": [], "tags": ["a b"], "options": {"logging": "X"}});
    assert_eq!(problems(all, &[]).len(), 3, "all problems are reported together");
}

/// Sorts fields, writes numbers as text and omits empty values: these forms are equal in proto's JSON.
fn ordered(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, ordered(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
        }
        Value::Array(items) => items.into_iter().map(ordered).collect(),
        Value::Number(number) => number.to_string().into(),
        other => other,
    }
}
