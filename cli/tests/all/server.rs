//! `burnin --server`: the same commands against a server, with the same output and exit codes as on this machine.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Output,
};

use crate::support::{TestProject, serving::ServerProcess};
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
    let project = TestProject::new("", "");
    let up = ServerProcess::of(&project);
    let url = format!("http://{}", up.address);
    let on_server = |arguments: &[&str]| ended(&project.burnin(&[&["--server", &url], arguments].concat()));

    let (status, shown, stderr) = on_server(&["run", "lab"]);
    assert_eq!(status, 0, "{stderr}");
    let run = stderr.strip_prefix("run ").and_then(|rest| rest.split_once(' ')).unwrap().0.to_owned();
    assert!(shown.contains("PASS") && shown.contains("16 B"), "{shown}");
    let here = project.burnin(&["run", "w.yaml"]);
    let (status, shown_here, stderr_here) = ended(&here);
    assert_eq!((status, stages(&stderr)), (0, stages(&stderr_here)), "{stderr}\n{stderr_here}");
    // Plateau lines are ignored: the report omits them for a bandwidth below the printed precision.
    let lines = |text: &str| text.lines().filter(|line| !line.contains(" plateau ")).count();
    assert_eq!(
        lines(&shown) + 1,
        lines(&shown_here),
        "the outputs differ in more than the path of the report\n{shown}\n{shown_here}"
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
    // The server and this machine share a data folder here, so both print the same output.
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
        assert_eq!(on_server(arguments), ended(&project.burnin(arguments)), "{arguments:?}");
    }
    assert!(
        on_server(&["logs", &run, log]).1.contains("nThread"),
        "the server returns the content of the log"
    );

    // Ages change between two calls, so only lines without ages are compared.
    let explained = on_server(&["explain", &run]);
    assert!(explained.0 == 0 && explained.1.starts_with(&run), "{explained:?}");
    for line in ["  owed     nothing", "  driven   no: the run is closed", "closed: completed"] {
        assert!(explained.1.contains(line), "{line}: {explained:?}");
    }
    let code = on_server(&["explain", "BELOW_FLOOR"]);
    assert_eq!(code, ended(&project.burnin(&["explain", "BELOW_FLOOR"])));

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
        (&["logs", &run, "no.log"], "has no log `no.log`"),
    ] {
        let (status, _, stderr) = on_server(arguments);
        assert!(status == 64 && stderr.contains(expected), "{arguments:?}: {status} {stderr}");
    }
    up.end("-TERM");
    let (status, _, stderr) = on_server(&["runs"]);
    assert!(status == 3 && stderr.contains("Connection refused"), "{status} {stderr}");
}

#[test]
fn local_commands_ignore_a_server_of_the_environment() {
    let project = TestProject::new("", "");
    let server = "http://127.0.0.1:9";
    let with_variable = |arguments: &[&str]| {
        ended(&project.command(arguments).env("BURNIN_SERVER", server).output().unwrap())
    };
    for local in [&["check", "w.yaml"][..], &["plan", "w.yaml"], &["schema"], &["completions", "bash"]] {
        let (status, _, stderr) = with_variable(local);
        assert_eq!(status, 0, "{local:?}: {stderr}");
    }
    // These commands work on a server or on a data folder, so they do not ignore the variable.
    for (unclear, expected, message) in [
        (&["runs"][..], 3, "Connection refused"),
        (&["audit", "lab-00000000"], 64, "works on files or on a data folder"),
        (&["sweep"], 64, "works on files or on a data folder"),
    ] {
        let (status, _, stderr) = with_variable(unclear);
        assert!(status == expected && stderr.contains(message), "{unclear:?}: {status} {stderr}");
    }
    let (status, _, stderr) = ended(&project.burnin(&["--server", server, "check", "w.yaml"]));
    assert!(status == 64 && stderr.contains("works on files"), "{status} {stderr}");
}

#[test]
fn a_run_that_fails_on_a_server_has_the_stages_and_exit_code_of_a_local_run() {
    // One run has wrong data; in the other the benchmark does not start.
    for prelude in ["export BURNIN_FAULT=corrupt:1", "exit 7"] {
        let project = TestProject::new(prelude, ", attempts: 1");
        let up = ServerProcess::of(&project);
        let url = format!("http://{}", up.address);
        let (status, _, stderr) = ended(&project.burnin(&["--server", &url, "run", "lab"]));
        let (status_here, _, stderr_here) = ended(&project.burnin(&["run", "w.yaml"]));
        assert_ne!(status, 0, "{prelude}\n{stderr}");
        assert_eq!(
            (status, stages(&stderr)),
            (status_here, stages(&stderr_here)),
            "{prelude}\n{stderr}\n{stderr_here}"
        );
        up.end("-TERM");
    }
}

#[test]
fn tokens_are_neither_sent_unencrypted_nor_printed() {
    let project = TestProject::new("", "");
    let up = ServerProcess::of(&project);
    let url = format!("http://{}", up.address);
    // Without the data folder of the server the command has no token.
    let mut command = project.command(&["--server", &url, "runs"]);
    let (status, _, stderr) =
        ended(&command.env("BURNIN_DATA", "elsewhere").args(["--data", "elsewhere"]).output().unwrap());
    assert!(status == 64 && stderr.contains("set BURNIN_TOKEN"), "{status} {stderr}");
    let (status, _, stderr) =
        ended(&project.command(&["--server", &url, "runs"]).env("BURNIN_TOKEN", "wrong").output().unwrap());
    assert!(
        status == 64 && stderr.contains("set BURNIN_TOKEN") && !stderr.contains("wrong"),
        "{status} {stderr}"
    );
    for (url, expected) in
        [("http://gateway.example", "unencrypted"), ("ftp://h", "expected https"), ("h:p", "expected https")]
    {
        let (status, _, stderr) = ended(&project.burnin(&["--server", url, "runs"]));
        assert!(status == 64 && stderr.contains(expected), "{url}: {stderr}");
    }
    up.end("-TERM");
}

/// A platform in front of a server, like Cloud Run: it answers 429 to every third request, and 401 to tokens other than `valid`. It
/// forwards the others with the server's own token. Returns its URL.
fn platform(server: &str, token: &str, valid: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (server, token) = (server.to_owned(), token.to_owned());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let refused =
                |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let known = lower.contains(&format!("authorization: bearer {valid}\r\n"));
            let response = match (known, number % 3) {
                (_, 0) => refused("429 Too Many Requests").into_bytes(),
                (false, _) => refused("401 Unauthorized").into_bytes(),
                (true, _) => {
                    let (line, headers) = head.split_once("\r\n").unwrap();
                    let kept = headers
                        .lines()
                        .filter(|line| !line.to_ascii_lowercase().starts_with("authorization"));
                    let kept: String =
                        kept.filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
                    let mut upstream = TcpStream::connect(&server).unwrap();
                    write!(
                        upstream,
                        "{line}\r\n{kept}Connection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
                    )
                    .unwrap();
                    upstream.write_all(&body).unwrap();
                    let mut response = Vec::new();
                    upstream.read_to_end(&mut response).unwrap();
                    response
                }
            };
            // The client may have ended.
            _ = stream.write_all(&response);
        }
    });
    url
}

#[test]
fn expired_tokens_and_full_instances_do_not_interrupt_following_a_run() {
    let project = TestProject::new("", "");
    let up = ServerProcess::of(&project);
    let port = up.address.rsplit_once(':').unwrap().1;
    let header = fs::read_to_string(project.data().join(format!("host/up/{port}.header"))).unwrap();
    let url = platform(&up.address, header.trim().rsplit_once(' ').unwrap().1, "renewed");
    let command = |arguments: &[&str]| project.command(&[&["--server", &url], arguments].concat());

    let renewing = "echo called >> renewals; echo renewed";
    let mut run = command(&["run", "lab"]);
    run.env("BURNIN_TOKEN", "expired")
        .env("BURNIN_TOKEN_COMMAND", renewing)
        .current_dir(project.folder.path());
    let (status, shown, stderr) = ended(&run.output().unwrap());
    assert!(status == 0 && shown.contains("PASS"), "{status} {shown} {stderr}");
    assert_eq!(
        fs::read_to_string(project.path("renewals")).unwrap(),
        "called\n",
        "a token is used until it is refused"
    );
    assert!(!stderr.contains("expired") && !stderr.contains("renewed"), "{stderr}");

    let (status, _, stderr) = ended(&command(&["runs"]).env("BURNIN_TOKEN", "expired").output().unwrap());
    assert!(status == 64 && stderr.contains("BURNIN_TOKEN_COMMAND"), "{status} {stderr}");
    for (program, expected) in [("echo no account >&2; exit 3", "no account"), ("true", "expected a token")] {
        let (status, _, stderr) =
            ended(&command(&["runs"]).env("BURNIN_TOKEN_COMMAND", program).output().unwrap());
        assert!(status == 64 && stderr.contains(expected), "{program}: {status} {stderr}");
    }
    up.end("-TERM");
}
