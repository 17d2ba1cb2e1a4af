//! Outages around a run: full disks, missing programs, deleted folders, damaged ledgers, unsafe folders.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{TestProject, signal, wait_for};

/// Short timeouts, because a run waits `patience` plus `grace` for its ledger.
const LIMITS: &[&str] = &["--set", "limits.patience=1s", "--set", "limits.grace=2s"];

fn start(project: &TestProject, more: &[&str]) -> Child {
    let mut command = project.command(&[&["run", "w.yaml"], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The first line on standard error that contains `text`, and the time until then.
fn line(run: &mut Child, text: &str) -> (String, Duration) {
    let started = Instant::now();
    let mut lines = BufReader::new(run.stderr.as_mut().unwrap()).lines();
    let found = lines.by_ref().map(Result::unwrap).find(|line| line.contains(text));
    (found.unwrap_or_else(|| panic!("no line contains {text:?}")), started.elapsed())
}

/// Replaces the ledger's folder by a file: no record can be written, as on a full disk.
fn break_ledger(project: &TestProject) {
    fs::rename(project.data().join("ledger"), project.data().join("ledger.kept")).unwrap();
    fs::write(project.data().join("ledger"), "not a folder").unwrap();
}

#[test]
fn an_unwritable_ledger_is_reported_and_the_cluster_released_without_it() {
    let project = TestProject::new("sleep 60", "");
    let mut run = start(&project, &[LIMITS, &["--set", "limits.job=8s"]].concat());
    wait_for("the job to start", || project.path("counts/rank-0").exists());
    break_ledger(&project);
    let (_, took) = line(&mut run, "  ! ledger:");
    assert!(took < Duration::from_secs(5), "{took:?}");
    let mut rest = String::new();
    run.stderr.as_mut().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(3), "{rest}");
    assert!(
        rest.contains("deleting the clusters without it") && rest.contains("all its clusters are deleted"),
        "{rest}"
    );
    project.assert_nothing_left();

    // With the ledger restored the run completes: no step runs twice.
    fs::remove_file(project.data().join("ledger")).unwrap();
    fs::rename(project.data().join("ledger.kept"), project.data().join("ledger")).unwrap();
    let resumed = project.burnin(&["run", "--resume"]);
    let stderr = String::from_utf8_lossy(&resumed.stderr);
    assert!(matches!(resumed.status.code(), Some(2 | 3)), "expected neither pass nor fail: {stderr}");
    assert_eq!(project.counts()[0], ("builds".to_owned(), 1));
    project.assert_nothing_left();
}

/// Interrupts a run after `breaks` made its ledger unusable.
fn interrupted(breaks: impl Fn(&TestProject, &Child)) {
    let project = TestProject::new("sleep 60", "");
    let mut run = start(&project, &[]);
    wait_for("the job to start", || project.path("counts/rank-0").exists());
    breaks(&project, &run);
    let started = Instant::now();
    signal("-INT", run.id());
    let mut stderr = String::new();
    run.stderr.as_mut().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(3), "{stderr}");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}: {stderr}", started.elapsed());
    project.assert_nothing_left();
}

#[test]
fn an_interrupt_ends_the_run_without_a_ledger() {
    interrupted(|project, _| break_ledger(project));
}

/// Simulates a full disk: the process cannot write files, but can read them.
fn fill_disk(run: &Child) {
    let pid = run.id().to_string();
    let limited = Command::new("prlimit").args(["--fsize=0:0", "--pid", &pid]).status();
    assert!(limited.unwrap().success(), "prlimit");
}

#[test]
fn a_full_disk_ends_the_run_although_its_ledger_is_readable() {
    let project = TestProject::new("sleep 2", "");
    let mut run = start(&project, LIMITS);
    wait_for("the job to start", || project.path("counts/rank-0").exists());
    fill_disk(&run);
    let started = Instant::now();
    let mut stderr = String::new();
    run.stderr.as_mut().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(3), "{stderr}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}: {stderr}", started.elapsed());
    assert!(stderr.contains("deleting the clusters without it"), "{stderr}");
    project.assert_nothing_left();

    let resumed = project.burnin(&["run", "--resume"]);
    let stderr = String::from_utf8_lossy(&resumed.stderr);
    assert!(matches!(resumed.status.code(), Some(0 | 2 | 3)), "{stderr}");
    assert_eq!(project.counts()[0], ("builds".to_owned(), 1));
    project.assert_nothing_left();
}

#[test]
fn an_interrupt_ends_the_run_on_a_full_disk() {
    interrupted(|_, run| fill_disk(run));
}

#[test]
fn deleting_the_data_folder_ends_the_run_and_its_nodes() {
    let project = TestProject::new("sleep 60", "");
    let mut run = start(&project, LIMITS);
    wait_for("the job to start", || project.path("counts/rank-0").exists());
    // The run may write files during the deletion, so the deletion is retried.
    wait_for("the folder to be deleted", || {
        fs::remove_dir_all(project.data()).is_ok() || !project.data().exists()
    });
    assert_eq!(run.wait().unwrap().code(), Some(3));
    project.assert_nothing_left();
}

/// The nodes' program is deleted during the image build.
#[test]
fn a_missing_program_is_reported_within_seconds_and_the_limit_applies() {
    let project = TestProject::new("", "");
    let program = project.path("burnin-copy");
    fs::copy(env!("CARGO_BIN_EXE_burnin"), &program).unwrap();
    let mut command = Command::new(&program);
    command
        .current_dir(project.folder.path())
        .arg("--data")
        .arg(project.data())
        .args(["run", "w.yaml"])
        .args(LIMITS);
    command.args([
        "--set",
        "limits.cluster=4s",
        "--set",
        "image.build.substitutions._SLOW=1s",
        "--set",
        "limits.attempts=1",
    ]);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the build to start", || project.path("counts/builds").exists());
    fs::remove_file(program).unwrap();
    let (printed, took) = line(&mut run, "  ! cluster.create");
    assert!(printed.contains("No such file") && took < Duration::from_secs(6), "{took:?}: {printed}");
    assert_eq!(run.wait().unwrap().code(), Some(3));
    project.assert_nothing_left();
}

#[test]
fn a_damaged_ledger_is_reported_by_run() {
    let project = TestProject::new("", "");
    assert_eq!(project.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let record = project.data().join("ledger").join(project.run()).join("0000000003.json");
    let text = fs::read(&record).unwrap();
    fs::write(&record, &text[..text.len() / 2]).unwrap();
    let listed = project.burnin(&["runs"]);
    let stderr = String::from_utf8_lossy(&listed.stderr).into_owned();
    assert_eq!(listed.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains(&format!("run {} is damaged", project.run())), "{stderr}");
    let listed = crate::support::json(&project.burnin(&["runs", "--output", "json"]));
    assert!(listed["damaged"][project.run()].is_string(), "{listed}");
}

/// A job can read the environment of its parent process, which has no variable of the operator.
#[test]
fn a_job_does_not_see_the_operators_environment() {
    let project =
        TestProject::new(r"tr '\0' '\n' < /proc/$PPID/environ; tr '\0' '\n' < /proc/self/environ", "");
    let output =
        project.command(&["run", "w.yaml"]).env("DATABASE_URL", "postgres:kept-by-the-operator").output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    let found =
        Command::new("grep").args(["-rl", "kept-by-the-operator"]).arg(project.data()).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
}

#[test]
fn folders_writable_by_others_are_neither_created_nor_used() {
    let project = TestProject::new("", "");
    let script = format!("umask 000; exec '{}' --data data run w.yaml", env!("CARGO_BIN_EXE_burnin"));
    let run = Command::new("bash").args(["-c", &script]).current_dir(project.folder.path()).output().unwrap();
    assert_eq!(run.status.code(), Some(0));
    let found =
        Command::new("find").arg(project.data()).args(["-perm", "/022", "!", "-type", "l"]).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "", "writable by others");

    fs::set_permissions(project.data().join("host"), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = project.burnin(&["run", "w.yaml"]);
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(64) && stderr.contains("others can write to it"), "{stderr}");
}

/// A limit on open files or on the file size ends the command with a documented exit code, neither with 101 nor by a signal. A run that
/// cannot release its cluster retries and reports why; a second interrupt ends it.
#[test]
fn system_limits_end_with_a_documented_exit_code() {
    let project = TestProject::new("", "");
    for limit in ["ulimit -f 1", "ulimit -n 16", "ulimit -n 17"] {
        let script = format!(
            "{limit}; exec '{}' --data data run w.yaml --set limits.image=3s --set limits.patience=1s --set limits.grace=1s",
            env!("CARGO_BIN_EXE_burnin")
        );
        let errors = fs::File::create(project.path("errors")).unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(project.folder.path()).stdin(Stdio::null());
        let mut run = command.stdout(Stdio::null()).stderr(errors).spawn().unwrap();
        let started = Instant::now();
        let mut ended = run.try_wait().unwrap();
        while ended.is_none() && started.elapsed() < Duration::from_secs(30) {
            if started.elapsed() > Duration::from_secs(8) {
                signal("-INT", run.id());
            }
            std::thread::sleep(Duration::from_millis(500));
            ended = run.try_wait().unwrap();
        }
        let printed = fs::read_to_string(project.path("errors")).unwrap();
        let Some(ended) = ended else {
            run.kill().unwrap();
            panic!("{limit}: the run continues after interrupts: {printed}");
        };
        // The number of open files differs between hosts, so the run may succeed with the largest limit.
        assert!(matches!(ended.code(), Some(0 | 3 | 4 | 64)), "{limit}: {ended:?} {printed}");
        assert!(
            ended.success() || printed.contains("error:") || printed.contains("  ! "),
            "{limit}: {printed}"
        );
        drop(fs::remove_dir_all(project.data()));
    }
}

/// Read-only commands also work on a read-only medium.
#[test]
fn read_only_commands_change_no_file() {
    let project = TestProject::new("", "");
    assert_eq!(project.burnin(&["run", "w.yaml"]).status.code(), Some(0));
    let run = project.run();
    let list = || {
        let found =
            Command::new("find").arg(project.data()).args(["-printf", "%p %T@ %s\n"]).output().unwrap();
        let mut lines: Vec<_> = String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    fs::remove_dir_all(project.data().join(".drafts")).unwrap();
    let before = list();
    for arguments in [&["runs"][..], &["show", &run], &["explain", &run], &["replay", &run]] {
        assert_eq!(project.burnin(arguments).status.code(), Some(0), "{arguments:?}");
        assert_eq!(list(), before, "{arguments:?}");
    }
}
