use cloudbuild::{BuildStatus, Secret};
use serde_json::json;

use crate::bed::BuildHost;

#[tokio::test]
async fn every_line_names_its_step() {
    let bed = BuildHost::new();
    let outcome = bed
        .run(json!({"steps": [
            {"name": "bash", "id": "talk", "script": "echo one; echo two >&2; printf '\\n\\303\\250\\377 three'"},
            {"name": "bash", "script": "echo four"},
        ]}))
        .await;
    assert_eq!(outcome.status, BuildStatus::Success);
    let expected = b"starting build \"\"\n\
        Starting Step #0 - \"talk\"\n\
        Step #0 - \"talk\": one\n\
        Step #0 - \"talk\": two\n\
        Step #0 - \"talk\": \n\
        Step #0 - \"talk\": \xc3\xa8\xff three\n\
        Finished Step #0 - \"talk\"\n\
        Starting Step #1\n\
        Step #1: four\n\
        Finished Step #1\n\
        DONE\n";
    let log = std::fs::read(&outcome.log).unwrap();
    assert_eq!(log, expected, "{}", bed.log());
}

#[tokio::test]
async fn the_log_grows_while_a_step_runs() {
    let bed = BuildHost::new();
    // The step ends only after its first line was read from the log.
    let config = json!({"timeout": "20s", "steps": [
        {"name": "bash", "id": "a", "script": "echo early; until [ -f seen ]; do sleep 0.01; done"}]});
    let (outcome, ()) = tokio::join!(bed.run(config), async {
        while !std::fs::read_to_string(&bed.request.log).unwrap_or_default().contains("\"a\": early\n") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        std::fs::write(bed.path("seen"), "").unwrap();
    });
    assert_eq!(outcome.status, BuildStatus::Success, "{}", bed.log());
}

#[tokio::test]
async fn secrets_are_masked_in_output_divided_at_any_position() {
    let mut bed = BuildHost::new();
    bed.inputs.secrets.insert("token".to_owned(), Secret::new("hunter2-and-more"));
    let script =
        "printf 'a hunter2-'; sleep 0.2; printf 'and'; sleep 0.2; echo '-more b'; echo \"x${TOKEN}x\"";
    let outcome = bed
        .run(json!({
            "steps": [
                {"name": "bash", "id": "s", "secretEnv": ["TOKEN"], "script": script},
                {"name": "bash", "id": "same", "secretEnv": ["TOKEN"],
                 "script": "for i in $(seq 20000); do printf %s \"$TOKEN\"; done; echo"},
            ],
            "availableSecrets": {"secretManager": [
                {"versionName": "projects/p/secrets/token/versions/latest", "env": "TOKEN"}]},
        }))
        .await;
    assert_eq!(outcome.status, BuildStatus::Success);
    let output = bed.output();
    assert_eq!(output[..2], ["a *** b", "x***x"]);
    assert!(!bed.log().contains("hunter2"));
    assert_eq!(output[2..].concat(), "***".repeat(20000));
}

#[tokio::test]
async fn step_output_beyond_the_log_limit_is_dropped() {
    let mut bed = BuildHost::new();
    bed.request.log_limit = 2000;
    let outcome =
        bed.run(json!({"steps": [{"name": "bash", "id": "a", "script": "seq 100000; exit 3"}]})).await;
    assert_eq!(outcome.steps[0].exit_code, Some(3), "a full log does not block the step");
    let log = bed.log();
    assert!(log.len() < 2400, "{}", log.len());
    assert_eq!(log.matches("[log limit of 2000 bytes reached: further output is dropped]\n").count(), 1);
    assert!(log.ends_with("FAILURE\n"), "the log still records the end: {log}");
}
