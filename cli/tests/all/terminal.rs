//! Output at several terminal widths, and in a pipe.

use std::{path::Path, process::Command};

use crate::support::TestProject;

/// Widths in columns; `None` is a pipe.
const WIDTHS: [Option<usize>; 4] = [Some(60), Some(80), Some(120), None];

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/nccl/h200").join(name).display().to_string()
}

/// Output of a command at a width, without the path of the checkout.
fn shown(mut command: Command, width: Option<usize>) -> String {
    command.env_remove("COLUMNS").env("TZ", "UTC");
    if let Some(width) = width {
        command.env("COLUMNS", width.to_string());
    }
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(0..=2)), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

/// Checks that each line fits the width, and that no line break separates a number from its unit.
fn fits(text: &str, width: Option<usize>) {
    let width = width.unwrap_or(usize::MAX);
    for line in text.lines() {
        let path = line.split_whitespace().any(|word| word.starts_with('/') && word.len() > width / 2);
        assert!(line.chars().count() <= width || path, "{} of {width} columns: {line}", line.chars().count());
        let next = |unit: &str| line.trim_start().starts_with(unit);
        assert!(!["% ", "GB/s", "MiB", "GiB"].into_iter().any(next), "a unit without its number: {line}");
    }
}

/// Compares the output at each width with a snapshot.
fn compared(name: &str, command: impl Fn() -> Command, plain: impl Fn(String) -> String) {
    let mut all = String::new();
    for width in WIDTHS {
        let text = shown(command(), width);
        fits(&text, width);
        let width = width.map_or_else(|| "a pipe".to_owned(), |width| format!("{width} columns"));
        all += &format!("--- {width}\n{}", plain(text));
    }
    insta::assert_snapshot!(name, all);
}

fn burnin(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.current_dir(folder).args(arguments);
    command
}

/// Copies of the sample logs, with short names, and a baseline.
fn logs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    let names =
        ["healthy-1.log", "healthy-2.log", "healthy-3.log", "degraded-proto-ll.log", "pair-healthy-0,1.log"];
    for name in names {
        std::fs::copy(data(name), folder.path().join("logs").join(name)).unwrap();
    }
    let healthy = (1..=5).map(|run| data(&format!("healthy-{run}.log")));
    let mut learn = burnin(folder.path(), &["baseline", "--save", "base.json"]);
    assert!(learn.args(healthy).output().unwrap().status.success());
    folder
}

#[test]
fn judged_logs_fit_the_terminal() {
    let folder = logs();
    let judge = |log: &'static str| {
        let folder = folder.path().to_owned();
        move || burnin(&folder, &["judge", "--baseline", "base.json", log])
    };
    compared("judge_many", judge("logs"), |text| text);
    compared("judge_one", judge("logs/degraded-proto-ll.log"), |text| text);
}

#[test]
fn compared_and_parsed_logs_fit_the_terminal() {
    let folder = logs();
    let (slow, fast) = ("logs/degraded-proto-ll.log", "logs/healthy-1.log");
    compared("compare", || burnin(folder.path(), &["compare", slow, fast]), |text| text);
    compared("parse", || burnin(folder.path(), &["parse", fast]), |text| text);
}

#[test]
fn plans_fit_the_terminal() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    // The size of the source archive changes with the quickstart's programs.
    let plain = |text: String| -> String {
        text.split_inclusive('\n').filter(|line| !line.contains("archive")).collect()
    };
    compared("plan", || burnin(&folder, &["plan", "quickstart.yaml"]), plain);
}

#[test]
fn runs_and_their_reports_fit_the_terminal() {
    let project = TestProject::new("", "");
    assert!(project.burnin(&["run", "w.yaml", "-q"]).status.success());
    let run = project.run();
    // Ids, times and measurements differ in each run.
    let digits =
        |text: &str| -> String { text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect() };
    let plain = |text: String| digits(&text.replace(&run, "lab-00000000"));
    compared("runs", || project.command(&["runs"]), plain);
    for width in WIDTHS {
        let text = shown(project.command(&["show", &run]), width);
        fits(&text, width);
        assert!(text.contains("\nPASS  ") && !text.contains("Next:"), "{text}");
    }
}

#[test]
fn a_plan_prints_the_submission_of_each_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    let script = |workflow: &str| shown(burnin(&folder, &["plan", "--script", workflow]), None);
    let slurm = script("slurm.yaml");
    assert!(slurm.contains("'sbatch' '--parsable' '--job-name=slurm-00000000-job-1'"), "{slurm}");
    assert!(slurm.contains("#!/bin/bash\n# slurm-00000000-job-1, written by Burnin."), "{slurm}");
    let hosts = script("hosts.yaml");
    assert!(hosts.contains("exec \"$mpirun\"") && hosts.contains("node-4 slots=1"), "{hosts}");
    let quickstart = script("quickstart.yaml");
    for check in ["# all-reduce: ", "# memory: ", "# product: "] {
        assert!(quickstart.contains(check), "{quickstart}");
    }
    let logs = script("a4-testbed-logs.yaml");
    assert!(logs.contains("no job is submitted"), "{logs}");
}

#[test]
fn completions_list_runs_workflows_and_checks() {
    let project = TestProject::new("", "");
    assert!(project.burnin(&["run", "w.yaml", "-q"]).status.success());
    let run = project.run();
    project.write("workflows/nightly.yaml", "name: nightly\n");
    let complete = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command
            .current_dir(project.folder.path())
            .env("BURNIN_DATA", project.data())
            .env("BURNIN_COMPLETE", "bash");
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string()).env("_CLAP_IFS", "\n");
        let output = command.arg("--").args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = complete(&["burnin", "show", "la"]);
    assert_eq!(shown.lines().collect::<Vec<_>>(), ["latest", &run]);
    assert!(complete(&["burnin", "run", ""]).lines().any(|word| word == "workflows/nightly.yaml"));
    let names = complete(&["burnin", "runs", "--workflow", ""]);
    assert_eq!(names.lines().collect::<Vec<_>>(), ["lab", "nightly"]);
    let script = String::from_utf8(project.burnin(&["completions", "zsh"]).stdout).unwrap();
    assert!(script.contains("BURNIN_COMPLETE") && script.contains("#compdef burnin"), "{script}");
}

#[test]
fn followed_logs_show_a_running_job_until_the_run_is_closed() {
    // Rank 0 prints its table, and the job continues for up to 1 s.
    let project = TestProject::new("sleep 1", "");
    let mut run = project.start();
    crate::support::wait_for("the run to exist", || project.records() > 0);
    let followed = project.burnin(&["logs", "latest", "--follow"]);
    let text = String::from_utf8(followed.stdout).unwrap();
    assert_eq!(followed.status.code(), Some(0), "{}", String::from_utf8_lossy(&followed.stderr));
    assert!(text.contains("==> 1/node-0.log <==\n"), "{text}");
    assert_eq!(text.matches("Avg bus bandwidth").count(), 1, "every line is printed once: {text}");
    assert!(run.wait().unwrap().success());
    // The output for a closed run is the same, and the command ends.
    let again = project.burnin(&["logs", "latest", "--follow"]);
    assert!(String::from_utf8(again.stdout).unwrap().contains("Avg bus bandwidth"));
    let unknown = project.burnin(&["logs", "latest", "--check", "memory"]);
    assert_eq!(unknown.status.code(), Some(64));
    let stderr = String::from_utf8(unknown.stderr).unwrap();
    assert!(stderr.contains("no check `memory`: it has a single benchmark"), "{stderr}");
}

#[test]
fn a_cancelled_run_names_the_user_who_cancelled_it() {
    let project = TestProject::new("sleep 60", "");
    let mut run = project.start();
    crate::support::wait_for("the job to start", || project.path("counts/rank-0").exists());
    let cancelled =
        project.command(&["cancel", "latest", "--reason", "wrong image"]).env("USER", "ada").output();
    assert!(cancelled.unwrap().status.success());
    assert_eq!(run.wait().unwrap().code(), Some(4));
    let text = shown(project.command(&["show", "latest"]), None);
    assert!(
        text.contains("CANCELLED") && text.contains("cancelled by ada") && text.contains("wrong image"),
        "{text}"
    );
    assert!(!text.contains("abandoned") && !text.contains("heard"), "{text}");
    project.assert_nothing_left();
}
