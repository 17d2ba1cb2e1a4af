//! Broken pipes and full output devices do not end a run or leave a cluster behind, and a lost result is reported.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
};

use crate::support::{TestProject, json, signal, wait_for};

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_closed_standard_error_does_not_end_the_run() {
    let project = TestProject::new("", "");
    let mut command = project.command(&["run", "w.yaml", "--output", "json"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(run.stderr.take().unwrap()).read_line(&mut first).unwrap(); // the pipe is closed here
    assert!(first.starts_with("run lab-"), "{first}");
    let output = run.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &json(&output)["verdict"]), (Some(0), &"pass".into()));
    assert_eq!(project.entries().len(), 12);
    project.assert_nothing_left();
}

#[test]
fn a_full_output_device_does_not_change_the_result_of_a_run() {
    let project = TestProject::new("", "");
    let mut command = project.command(&["run", "w.yaml", "--log", "debug"]);
    let status = command.stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
    assert_eq!(project.entries().len(), 12);
    project.assert_nothing_left();

    let project = TestProject::new("export BURNIN_FAULT=corrupt:1", "");
    let output = project.command(&["run", "w.yaml"]).stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "the exit code is that of the verdict");
    assert!(text(&output.stderr).contains("cannot write standard output: No space left"));
}

#[test]
fn a_command_with_lost_output_fails() {
    let project = TestProject::new("", "");
    assert_eq!(project.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let run = project.run();
    let log = project.data().join("artefacts").join(&run).join("logs/1/1/node-0.log");
    let log = log.to_str().unwrap();
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["runs"],
        vec!["plan", "w.yaml"],
        vec!["explain", &run],
        vec!["replay", &run],
        vec!["completions", "bash"],
    ];
    for form in ["human", "json", "csv", "markdown", "junit", "html"] {
        commands.push(vec!["show", &run, "--output", form]);
        commands.push(vec!["judge", "--criteria", "criteria.yaml", "--output", form, log]);
    }
    for form in ["table", "json", "csv"] {
        commands.push(vec!["parse", "--output", form, log]);
    }
    for arguments in commands {
        let output = project.command(&arguments).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cannot write standard output: No space left"), "{arguments:?}: {stderr}");
        let output = closed(project.command(&arguments));
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// The output of a command whose standard output is a closed pipe.
fn closed(mut command: Command) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stdout(writer).stderr(Stdio::piped()).output().unwrap()
}

/// A closed terminal sends SIGHUP, often twice: once by the kernel and once by the shell.
#[test]
fn a_hangup_cancels_and_releases_everything() {
    let project = TestProject::new("sleep 60", "");
    let run = project.start();
    wait_for("the job to start", || project.path("counts/rank-0").exists());
    signal("-HUP", run.id());
    signal("-HUP", run.id());
    let output = run.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &json(&output)["conclusion"]), (Some(4), &"cancelled".into()));
    project.assert_nothing_left();
}

/// File names and workflows from external sources reach the terminal without escape sequences.
#[test]
fn external_text_cannot_control_the_terminal() {
    let project = TestProject::new("", "");
    let hostile = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}name";
    let workflow = fs::read_to_string(project.path("w.yaml")).unwrap();
    project.write("h.yaml", &format!("{workflow}description: \"\\e[31mred \\u009b2J \\u202eleft\"\n"));
    let file = format!("{hostile}.yaml");
    project.write(&file, "name: [\n");
    let log = format!("{hostile}.log");
    project.write(&log, "no table\n");
    let set = format!("description={hostile}");
    for arguments in [
        &["plan", "h.yaml"][..],
        &["check", &file],
        &["plan", "w.yaml", "--set", &set],
        &["check", "w.yaml", "--set", &format!("{hostile}=1")],
        &["parse", &log],
        &["parse", "--output", "json", &log],
        &["judge", "--criteria", "criteria.yaml", &log],
        &["show", hostile],
    ] {
        let output = project.burnin(arguments);
        let shown = text(&output.stdout) + &text(&output.stderr);
        let is_control = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!shown.is_empty() && !shown.contains(is_control), "{arguments:?}: {shown:?}");
    }
}

/// A spreadsheet takes a cell that begins with an equals sign for a formula.
#[test]
fn a_log_name_is_never_a_spreadsheet_formula() {
    let project = TestProject::new("", "");
    assert_eq!(project.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let log = project.data().join("artefacts").join(project.run()).join("logs/1/1/node-0.log");
    fs::copy(log, project.path("=1+1.log")).unwrap();
    for arguments in [
        &["parse", "--output", "csv", "=1+1.log"][..],
        &["judge", "--criteria", "criteria.yaml", "--output", "csv", "=1+1.log"],
    ] {
        let shown = text(&project.burnin(arguments).stdout);
        let cells: Vec<_> = shown.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
        assert!(!cells.is_empty() && cells.iter().all(|cell| *cell == "'=1+1.log"), "{shown}");
    }
}
