//! `burnin --server`: the same commands against a server, with the same output and exit codes as on this machine.

use std::process::Output;

use crate::support::{Lab, serving::Up};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn ended(output: &Output) -> (i32, String, String) {
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Names of the stages that standard error shows as ended. Teardown and verdict run at the same time.
fn stages(stderr: &str) -> Vec<&str> {
    let stages = ["image", "cluster", "job", "logs", "verdict", "results", "teardown"];
    let mut ended: Vec<_> = stderr
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| stages.contains(word))
        .collect();
    ended.sort_unstable();
    ended
}

#[test]
fn commands_on_a_server_behave_like_local_ones() {
    let lab = Lab::new("", "");
    let up = Up::of(&lab);
    let url = format!("http://{}", up.address);
    let on_server = |arguments: &[&str]| ended(&lab.burnin(&[&["--server", &url], arguments].concat()));

    let (status, shown, stderr) = on_server(&["run", "lab"]);
    assert_eq!(status, 0, "{stderr}");
    let run = stderr.strip_prefix("run ").and_then(|rest| rest.split_once(' ')).unwrap().0.to_owned();
    assert!(shown.contains("PASS") && shown.contains("16 B"), "{shown}");
    let here = lab.burnin(&["run", "w.yaml"]);
    let (status, shown_here, stderr_here) = ended(&here);
    assert_eq!((status, stages(&stderr)), (0, stages(&stderr_here)), "{stderr}\n{stderr_here}");
    // Plateau lines are ignored: the report omits them for a bandwidth below the printed precision.
    let lines = |text: &str| text.lines().filter(|line| !line.contains(" plateau ")).count();
    assert_eq!(
        lines(&shown) + 1,
        lines(&shown_here),
        "all but the path of the report\n{shown}\n{shown_here}"
    );

    let (status, document, _) = on_server(&["run", "lab", "--output", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(
        (status, &document["schema"], &document["verdict"]),
        (0, &json!("burnin/run/v1"), &json!("pass"))
    );
    let second = document["run"].as_str().unwrap();

    let (_, logs, _) = on_server(&["logs", &run]);
    let log = logs.split_whitespace().next().unwrap();
    // The server and this machine share a data folder here, so both give the same output.
    for arguments in [
        &["runs", "--output", "json"][..],
        &["runs"],
        &["show", &run, "--output", "markdown"],
        &["show", &run, "--output", "csv"],
        &["show", &run, "--output", "json"],
        &["replay", &run],
        &["logs", &run],
        &["logs", &run, log],
    ] {
        assert_eq!(on_server(arguments), ended(&lab.burnin(arguments)), "{arguments:?}");
    }
    assert!(on_server(&["logs", &run, log]).1.contains("nThread"), "the log");

    // Ages change between two calls.
    let explained = on_server(&["explain", &run]);
    assert!(explained.0 == 0 && explained.1.starts_with(&run), "{explained:?}");
    for line in ["  owed     nothing", "  driven   no: the run is closed", "closed: completed"] {
        assert!(explained.1.contains(line), "{line}: {explained:?}");
    }
    let code = on_server(&["explain", "BELOW_FLOOR"]);
    assert_eq!(code, ended(&lab.burnin(&["explain", "BELOW_FLOOR"])));

    let pinned = on_server(&["baseline", "pin", &run, "--why", "repaired"]);
    assert_eq!((pinned.0, pinned.1), (0, format!("lab: {run} pinned\n")));
    let (_, pins, _) = on_server(&["baseline", "pins"]);
    assert!(pins.contains(&format!("pinned {run} by")) && pins.contains("repaired"), "{pins}");
    assert_eq!(on_server(&["baseline", "unpin", "lab"]).0, 0);

    // A prefix of an id identifies its run.
    let (status, report, stderr) = on_server(&["show", &run[..run.len() - 2]]);
    assert!(status == 0 && report.starts_with(&run), "{report}{stderr}");

    let (status, _, stderr) = on_server(&["cancel", second]);
    assert!(status == 0 && stderr.contains("has already ended: completed"), "{stderr}");
    for (arguments, expected) in [
        (&["show", "lab-zz"][..], "no run lab-zz"), // ids end in hexadecimal digits
        (&["run", "other"], "no workflow `other`; available: lab"),
        (&["run", "w.yaml"], "expected the name of a workflow"),
        (&["run", "lab", "--set", "limits.job=1m"], "does not allow overriding"),
        (&["handover", &run], "works on files or on a data folder"),
        (&["replay", "lab-00000000"], "no run lab-00000000"),
        (&["logs", &run, "no.log"], "no such log"),
    ] {
        let (status, _, stderr) = on_server(arguments);
        assert!(status == 64 && stderr.contains(expected), "{arguments:?}: {status} {stderr}");
    }
    up.end("-TERM");
    let (status, _, stderr) = on_server(&["runs"]);
    assert!(status == 3 && stderr.contains("Connection refused"), "{status} {stderr}");
}

#[test]
fn tokens_are_neither_sent_unencrypted_nor_printed() {
    let lab = Lab::new("", "");
    let up = Up::of(&lab);
    let url = format!("http://{}", up.address);
    // Without the data folder of the server the command has no token.
    let mut command = lab.command(&["--server", &url, "runs"]);
    let (status, _, stderr) =
        ended(&command.env("BURNIN_DATA", "elsewhere").args(["--data", "elsewhere"]).output().unwrap());
    assert!(status == 64 && stderr.contains("set BURNIN_TOKEN"), "{status} {stderr}");
    let (status, _, stderr) =
        ended(&lab.command(&["--server", &url, "runs"]).env("BURNIN_TOKEN", "wrong").output().unwrap());
    assert!(
        status == 64 && stderr.contains("set BURNIN_TOKEN") && !stderr.contains("wrong"),
        "{status} {stderr}"
    );
    for (url, expected) in
        [("http://gateway.example", "unencrypted"), ("ftp://h", "expected https"), ("h:p", "expected https")]
    {
        let (status, _, stderr) = ended(&lab.burnin(&["--server", url, "runs"]));
        assert!(status == 64 && stderr.contains(expected), "{url}: {stderr}");
    }
    up.end("-TERM");
}
