//! Checks of a config, and the content of its plan.

use std::collections::BTreeMap;

use cloudbuild::plan::{Action, FailureTolerance};
use cloudbuild::{BuildConfig, Inputs, Plan, Secret, config, plan};
use serde_json::{Value, json};

fn check(config: Value, inputs: &Inputs) -> Result<Plan, Vec<String>> {
    let config: BuildConfig = serde_json::from_value(config).expect("a config");
    plan::check(&config, inputs).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn problems(config: Value) -> Vec<String> {
    check(config, &Inputs::default()).map(|_| Vec::new()).unwrap_or_else(|problems| problems)
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn args(plan: &Plan, step: usize) -> Vec<String> {
    match &plan.steps[step].action {
        Action::Command(command) => [vec![command.tool.clone()], command.args.clone()].concat(),
        Action::Script(_) => panic!("a script"),
    }
}

#[test]
fn a_complete_config_results_in_a_plan() {
    let inputs = Inputs {
        substitutions: map(&[("_WHO", "you")]),
        built_ins: map(&[("PROJECT_ID", "p1"), ("BUILD_ID", "b1")]),
        secrets: BTreeMap::from([("token".to_owned(), Secret::new("hunter2"))]),
        ..Inputs::default()
    };
    let plan = check(
        json!({
            "steps": [
                {"name": "gcr.io/cloud-builders/gcloud", "id": "a", "args": ["--project=$PROJECT_ID", "$COMMIT_SHA", "$$x"],
                 "allowFailure": true, "allowExitCodes": [3]},
                {"name": "ubuntu", "id": "b", "waitFor": ["-"], "script": "echo $_WHO", "env": ["WHO=${_WHO}", "EQ=a=b"],
                 "secretEnv": ["TOKEN"], "dir": "/workspace/x/../y", "timeout": "1.5s", "allowFailure": true},
                {"name": "tools/helm", "waitFor": ["b"], "automapSubstitutions": true},
                {"name": "helm", "entrypoint": "true"},
            ],
            "substitutions": {"_WHO": "me", "_BUCKET": "logs"},
            "options": {"env": ["ALL=1"], "machineType": "E2_HIGHCPU_8", "logging": "CLOUD_LOGGING_ONLY"},
            "availableSecrets": {"secretManager": [
                {"versionName": "projects/$PROJECT_ID/secrets/token/versions/latest", "env": "TOKEN"}]},
            "artifacts": {"objects": {"location": "gs://$_BUCKET/", "paths": ["out/*"]}, "images": ["i/$BUILD_ID"]},
            "images": ["i/other"],
            "tags": ["nightly"],
        }),
        &inputs,
    )
    .expect("a plan");
    assert_eq!(plan.timeout.as_secs(), 3600);
    assert_eq!(args(&plan, 0), ["gcloud", "--project=p1", "", "$x"]);
    assert_eq!(plan.steps[0].tolerance, FailureTolerance::ExitCodes(vec![3]));
    assert_eq!(plan.steps[1].action, Action::Script("echo $_WHO".to_owned()));
    assert_eq!(plan.steps[1].tolerance, FailureTolerance::Everything);
    assert_eq!(plan.steps[1].dir.to_str(), Some("y"));
    let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    assert_eq!(plan.steps[1].env, [("ALL", "1"), ("WHO", "you"), ("EQ", "a=b")].map(pair));
    assert_eq!(plan.steps[1].secret_env, [("TOKEN".to_owned(), Secret::new("hunter2"))]);
    assert!(
        plan.steps[2].env.contains(&pair(("_WHO", "you")))
            && plan.steps[2].env.contains(&pair(("TAG_NAME", "")))
    );
    let waits: Vec<&[usize]> = plan.steps.iter().map(|step| &step.wait_for[..]).collect();
    assert_eq!(waits, [&[][..], &[], &[1], &[0, 1, 2]]);
    assert_eq!(plan.images, ["i/other", "i/b1"]);
    assert_eq!(plan.objects.as_ref().unwrap().location, "gs://logs/");
    assert!(!format!("{plan:?} {inputs:?}").contains("hunter2"), "the debug output contains a secret");
}

#[test]
fn all_problems_are_reported_together() {
    let found = problems(json!({
        "steps": [
            {"name": "helm", "id": "-"},
            {"name": "helm", "id": "a", "waitFor": ["nobody", "b"]},
            {"name": "helm", "id": "a", "args": ["$_MISSING", "$HOME", "${_SET:-x}"]},
            {"name": "helm", "id": "b", "env": ["NOEQUALS", "=x"], "dir": "../x", "timeout": "7200s"},
            {"name": "bash", "id": "c", "args": ["-c", "echo $_SET"]},
            {"name": "bash", "script": "true", "args": ["x"], "secretEnv": ["S1", "S2"]},
            {"name": "helm", "volumes": [{"name": "v", "path": "/v"}], "timeout": "0s"},
        ],
        "substitutions": {"_SET": "1", "_UNUSED": "2", "lower": "3", "_NUL": "\0"},
        "availableSecrets": {"secretManager": [{"versionName": "projects/p/secrets/s1/versions/1", "env": "S1"}]},
        "artifacts": {"objects": {"location": "bucket", "paths": ["/etc/*", "a/../../x", "[", "ok", "ok"]},
                      "pythonPackages": [{}]},
        "secrets": [{}],
    }));
    let expected = [
        ("substitutions._NUL", "NUL"),
        ("substitutions.lower", "underscore"),
        ("steps[0].id", "`-` is reserved"),
        ("steps[1].waitFor[0]", "\"nobody\" is not the id of a step"),
        ("steps[1].waitFor[1]", "\"b\" is not the id of an earlier step; move it up"),
        ("steps[2].id", "\"a\" is already the id of step 1"),
        ("steps[2].args[0]", "$_MISSING has no value"),
        ("steps[2].args[1]", "written $$HOME"),
        ("steps[2].args[2]", "the shell expansion ${_SET:-x}"),
        ("steps[3].timeout", "at most 3600s"),
        ("steps[3].env[0]", "expected KEY=VALUE"),
        ("steps[3].env[1]", "expected KEY=VALUE"),
        ("steps[3].dir", "is outside the workspace"),
        ("steps[4].args[1]", "step 4 (c) would insert the value of a substitution into a shell script"),
        ("steps[5].script", "not both"),
        ("steps[5].secretEnv", "step 5: the secret variable S1 needs projects/p/secrets/s1/versions/1"),
        ("steps[5].secretEnv", "step 5: the secret variable S2 is not declared"),
        ("steps[6].volumes", "cannot mount volumes"),
        ("steps[6].timeout", "above 0s"),
        ("artifacts.pythonPackages", "cannot upload packages"),
        ("artifacts.objects.location", "gs://"),
        ("artifacts.objects.paths[0]", "is outside the workspace"),
        ("artifacts.objects.paths[1]", "is outside the workspace"),
        ("artifacts.objects.paths[2]", "is not a glob"),
        ("artifacts.objects.paths[4]", "listed twice"),
        ("secrets", "availableSecrets"),
        ("substitutions._NUL", "not used"),
        ("substitutions._UNUSED", "not used"),
        ("substitutions.lower", "not used"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((path, part), found) in expected.iter().zip(&found) {
        assert!(found.starts_with(&format!("{path}: ")) && found.contains(part), "{path} {part}: {found}");
    }
}

#[test]
fn allow_loose_permits_missing_and_unused_substitutions() {
    let config = |option: &str| {
        json!({
            "steps": [{"name": "echo", "args": ["a${_MISSING}b"]}],
            "substitutions": {"_UNUSED": "x"},
            "options": {"substitutionOption": option},
        })
    };
    assert_eq!(args(&check(config("ALLOW_LOOSE"), &Inputs::default()).unwrap(), 0), ["echo", "ab"]);
    assert_eq!(problems(config("MUST_MATCH")).len(), 2);
}

#[test]
fn automapped_substitutions_are_accepted_without_another_use() {
    let config = json!({
        "steps": [{"name": "bash", "script": "true"}],
        "substitutions": {"_A": "x"},
        "options": {"automapSubstitutions": true},
    });
    assert!(check(config.clone(), &Inputs::default()).is_ok());
    let mut off = config;
    off["steps"][0]["automapSubstitutions"] = json!(false);
    assert_eq!(problems(off).len(), 1);
}

#[test]
fn dynamic_substitutions_resolve_defaults_and_leave_overrides_literal() {
    let config = json!({
        "steps": [{"name": "echo", "args": ["$_IMAGE"]}],
        "substitutions": {"_IMAGE": "$_REPO/${_NAME}:$BUILD_ID", "_REPO": "r/$_NAME", "_NAME": "n"},
        "options": {"dynamicSubstitutions": true},
    });
    let mut inputs = Inputs { built_ins: map(&[("BUILD_ID", "b")]), ..Inputs::default() };
    assert_eq!(args(&check(config.clone(), &inputs).unwrap(), 0), ["echo", "r/n/n:b"]);
    inputs.substitutions = map(&[("_NAME", "$_REPO")]);
    assert_eq!(args(&check(config.clone(), &inputs).unwrap(), 0), ["echo", "r/$_REPO/$_REPO:b"]);

    let mut ring = config.clone();
    ring["substitutions"]["_NAME"] = json!("$_IMAGE");
    assert!(problems(ring).iter().any(|problem| problem.contains("refers to itself")));

    let mut literal = config;
    literal["options"] = json!({"substitutionOption": "ALLOW_LOOSE"});
    let plan = check(literal, &Inputs::default()).unwrap();
    assert_eq!(
        args(&plan, 0),
        ["echo", "$_REPO/${_NAME}:$BUILD_ID"],
        "without the option a value is literal"
    );
}

#[test]
fn unknown_fields_and_invalid_values_are_rejected() {
    let table = [
        (json!({"steps": [{"name": "a", "waitfor": ["-"]}]}), "waitfor"),
        (json!({"steps": [], "timeout": "1h"}), "seconds"),
        (json!({"steps": [], "timeout": 300}), "string"),
        (json!({"steps": [], "options": {"substitutionOption": "LOOSE"}}), "LOOSE"),
        (json!({}), "steps"),
    ];
    for (text, part) in table {
        let error = serde_json::from_value::<BuildConfig>(text).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_config_round_trips_through_json_and_has_a_schema() {
    let text = json!({"steps": [{"name": "a", "allowExitCodes": [1], "timeout": "1.5s"}], "queueTtl": "60s"});
    let config: BuildConfig = serde_json::from_value(text.clone()).unwrap();
    assert_eq!(serde_json::to_value(&config).unwrap(), text);
    let schema = config::schema();
    assert_eq!(schema["additionalProperties"], json!(false));
    assert!(schema["$defs"]["Step"]["properties"]["allowExitCodes"].is_object());
}
