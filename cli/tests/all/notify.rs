//! Channels: test messages, and notices of failed nightly runs.

use std::{fs, net::TcpListener};

use crate::support::{TestProject, receiver::Receiver, serving::ServerProcess, wait_for};
use serde_json::json;

/// A project with a notifying workflow whose runs fail: no host reaches the floor.
fn project() -> TestProject {
    let project = TestProject::new("", "");
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    let notify =
        "notify:\n  - webhook: {target: pager}\n  - slack: {webhook: ops-channel, on: [recovered]}\n";
    project.write("w.yaml", &format!("{workflow}{notify}"));
    project.write("criteria.yaml", "name: impossible\nfloors: [{size_bytes: 1024, busbw: 1000000}]\n");
    project
}

#[test]
fn a_test_message_is_delivered_or_the_error_reported() {
    let project = project();
    let receiver = Receiver::start();
    let test = |channel: &str| {
        let output = project.burnin(&["notify", "test", channel, "--workflows", "."]);
        let message = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), message)
    };
    let channel = |name: &str, text: &str| project.write(&format!("data/channels/{name}"), text);
    let (exit, message) = test("pager");
    assert_eq!(exit, 64);
    for missing in
        ["the url of `pager` is not set: set BURNIN_CHANNEL_PAGER_URL", "the key of `pager` is not set"]
    {
        assert!(message.contains(missing), "{message}");
    }
    channel("pager.url", &receiver.url);
    channel("pager.key", "a signature by one of the two keys");
    assert_eq!(test("pager"), (0, "webhook pager: delivered, status 204 No Content\n".to_owned()));
    channel("ops-channel.url", &receiver.url);
    assert_eq!(test("ops-channel"), (0, "slack ops-channel: delivered, status 204 No Content\n".to_owned()));
    let requests = receiver.requests();
    let (head, body) = &requests[0];
    assert!(head.to_ascii_lowercase().contains("x-burnin-signature: v1="), "{head}");
    assert_eq!((&body["schema"], &body["target"]), (&json!("burnin/notice-test/v1"), &json!("pager")));
    assert!(requests[1].1["text"].as_str().unwrap().starts_with("Test message of `burnin notify test`"));
    // Channels that fail: a closed port, an address that must not receive tokens, a name that no workflow uses.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    channel("ops-channel.url", &format!("http://{}/s3cret", closed.local_addr().unwrap()));
    drop(closed);
    let (exit, message) = test("ops-channel");
    assert!(
        exit == 3 && message.contains("slack ops-channel: connection failed") && !message.contains("s3cret"),
        "{message}"
    );
    channel("ops-channel.url", "http://hooks.example/s3cret");
    let (exit, message) = test("ops-channel");
    assert!(exit == 64 && message.contains("expected https://") && !message.contains("s3cret"), "{message}");
    let (exit, message) = test("unknown");
    assert_eq!(exit, 64);
    assert!(
        message.contains("no workflow in . uses a channel `unknown`; channels in use: ops-channel, pager"),
        "{message}"
    );
    assert_eq!(
        project.burnin(&["notify", "test", "pager", "--workflows", "nowhere"]).status.code(),
        Some(64)
    );
}

#[test]
fn a_failure_is_reported_if_the_earlier_failure_was_not_reported() {
    let project = project();
    let receiver = Receiver::start();
    let output = project.burnin(&["run", "w.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let before = project.run();
    let mut command = project.command(&["up", "--port", "0", "--workflows", "."]);
    command.env("BURNIN_CHANNEL_PAGER_URL", &receiver.url).env("BURNIN_CHANNEL_PAGER_KEY", "a key");
    let up = ServerProcess::new(command);
    wait_for("the notifier to start", || project.data().join("notices/since.json").exists());
    let run = up.begin("lab", "night");
    assert_eq!(up.follow(&run).last().map(String::as_str), Some("closed"));
    wait_for("the notice", || !receiver.requests().is_empty());
    let (_, notice) = &receiver.requests()[0];
    assert_eq!(
        (&notice["news"], &notice["run"], &notice["first_run"]),
        (&json!("failed"), &json!(run), &json!(before))
    );
    // A second failure is not reported to a channel that received the first failure.
    let second = up.begin("lab", "second-night");
    up.follow(&second);
    let mark = project.data().join(format!("notices/{second}/ended.json"));
    wait_for("the notices to be decided", || mark.exists());
    up.end("-TERM");
    assert_eq!(receiver.requests().len(), 1);
}

#[test]
fn a_channel_without_an_address_is_an_error_at_each_notice() {
    let project = project();
    let up = ServerProcess::of(&project);
    let run = up.begin("lab", "1");
    up.follow(&run);
    let attempt = project.data().join(format!("notices/{run}/webhook-pager/said-1.json"));
    wait_for("the first attempt", || attempt.exists());
    let logged = up.end("-TERM");
    let error = logged.lines().find(|line| line.contains("a notice cannot be sent")).unwrap_or_default();
    assert!(
        error.contains("ERROR")
            && error.contains("the url of `pager` is not set: set BURNIN_CHANNEL_PAGER_URL"),
        "{logged}"
    );
}
