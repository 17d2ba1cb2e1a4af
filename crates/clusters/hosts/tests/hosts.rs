//! The hosts scheduler with real sshd and real Open MPI. `.ci/hosts.sh` starts four ssh hosts in separate namespaces
//! and runs these tests in their network, one after the other; elsewhere they are ignored.

use std::{
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use cluster_api::{ClusterStatus, JobSpec, JobStatus, Scheduler, Settings, scheduler_conformance};
use cluster_hosts::{Hosts, HostsJobs, probe};
use ledger::{Digest, MemoryStore, Store};
use model::{Cluster, FileDigest, Image, JobEnd, Node, Span};
use serde_json::{Value, json};
use service::PortError;

const TIMEOUT: Duration = Duration::from_secs(120);
/// A benchmark that writes output and runs for about 1 s.
const ABOUT_A_SECOND: &str = "echo \"rank $BURNIN_RANK of $BURNIN_RANKS on $(hostname): $*\"; sleep 1";

struct HostsBed {
    dir: PathBuf,
    work: tempfile::TempDir,
}

impl HostsBed {
    fn new() -> Self {
        let dir = PathBuf::from(std::env::var_os("BURNIN_HOSTS_BED").expect("run by .ci/hosts.sh"));
        let bed = Self { dir, work: tempfile::tempdir_in("/var/tmp").unwrap() };
        for host in ["h1", "h2", "h3", "h4"] {
            bed.run(&format!("{}/mend {host}", bed.dir.display()));
        }
        bed
    }

    fn run(&self, line: &str) -> String {
        let output = Command::new("bash").args(["-c", line]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned()
    }

    fn on(&self, host: &str, line: &str) -> String {
        self.run(&format!("{}/on {host} bash -c '{line}'", self.dir.display()))
    }

    fn address(&self, host: &str) -> String {
        std::fs::read_to_string(self.dir.join(format!("pid/{host}.address"))).unwrap().trim().to_owned()
    }

    fn settings(&self, names: &[&str], more: &Value) -> Hosts {
        let hosts: Vec<_> =
            names.iter().map(|name| json!({"name": name, "address": self.address(name)})).collect();
        let mut all = json!({
            "hosts": hosts, "user": "ops", "identity_file": self.dir.join("ssh/id"), "work_folder": self.work.path(),
            "ssh_options": [format!("UserKnownHostsFile={}", self.dir.join("ssh/known_hosts").display()), "StrictHostKeyChecking=accept-new"],
            "silent_after": "6s",
        });
        all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        Hosts::checked(&all).unwrap()
    }

    fn cluster(&self, names: &[&str], more: &Value) -> Cluster {
        let hosts = self.settings(names, more);
        let nodes = names.iter().map(|name| Node::new(*name, 1)).collect();
        Cluster { name: "bed".into(), nodes, access: hosts.access() }
    }

    /// Processes of any job on the hosts and on this machine.
    fn remaining_processes(&self) -> String {
        let find = "grep -lsaz ^BURNIN_JOB= /proc/[0-9]*/environ | cut -d/ -f3";
        let hosts = ["h1", "h2", "h3", "h4"].map(|host| self.on(host, find));
        let here = self.run(&format!(
            "{find} | while read -r p; do [[ -e /proc/$p/exe ]] && readlink /proc/$p/exe; done"
        ));
        format!("{} {here}", hosts.join(" ")).trim().to_owned()
    }

    fn wait_for(&self, what: &str, done: impl Fn() -> bool) {
        let started = Instant::now();
        while !done() {
            assert!(started.elapsed() < TIMEOUT, "timeout after {} s: {what}", TIMEOUT.as_secs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Creates the scheduler and an image; `program` is the shell text of the benchmark.
async fn jobs(program: &str) -> (HostsJobs, Image) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let text = format!("#!/bin/bash\n{program}\n");
    store.create("image/all_reduce_perf", text.clone().into()).await.unwrap();
    let Digest { size_bytes, sha256, .. } = Digest::of(text.as_bytes());
    let file = FileDigest { name: "all_reduce_perf".into(), size_bytes, sha256: sha256.clone() };
    let image = Image {
        reference: "image/".into(),
        digest: format!("sha256:{sha256}"),
        files: vec![file],
        manifest_sha256: None,
    };
    (HostsJobs::new(store), image)
}

fn job(name: &str, cluster: &Cluster, image: Option<&Image>) -> JobSpec {
    JobSpec {
        name: name.to_owned(),
        cluster: cluster.clone(),
        image: image.cloned(),
        program: scheduler_conformance::program(),
        limit: Span::from_secs(60),
        environment: Default::default(),
        evidence: false,
        labels: [("burnin-run".to_owned(), "r-1".to_owned())].into(),
    }
}

async fn final_status(jobs: &HostsJobs, job: &JobSpec) -> JobStatus {
    let started = Instant::now();
    loop {
        match jobs.poll(&job.cluster, &job.name).await {
            Ok(JobStatus::Active) | Err(PortError::Transient(_)) => {}
            Ok(status) => return status,
            Err(error) => panic!("{}: {error:?}", job.name),
        }
        assert!(started.elapsed() < TIMEOUT, "timeout: {} has not ended", job.name);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn ended(jobs: &HostsJobs, job: &JobSpec) -> JobEnd {
    match final_status(jobs, job).await {
        JobStatus::Ended(end) => end,
        other => panic!("{}: {other:?}", job.name),
    }
}

async fn lost(jobs: &HostsJobs, job: &JobSpec) -> (String, String) {
    match final_status(jobs, job).await {
        JobStatus::Lost { code, why } => (code, why),
        other => panic!("{}: {other:?}", job.name),
    }
}

async fn text(jobs: &HostsJobs, job: &JobSpec, file: &str) -> String {
    let mut text = String::new();
    let mut body = jobs.output(&job.cluster, &job.name, file).await.expect("a file");
    tokio::io::AsyncReadExt::read_to_string(&mut body, &mut text).await.unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn the_hosts_scheduler_conforms() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs(ABOUT_A_SECOND).await;
    let cluster = bed.cluster(&["h1", "h2", "h3"], &json!({}));
    scheduler_conformance::scheduler(&jobs, &cluster, |name| job(name, &cluster, Some(&image))).await;
    let folder = bed.work.path().join("jobs/one/output");
    scheduler_conformance::folder(&jobs, &cluster, "one", &folder).await;
    assert_eq!(bed.remaining_processes(), "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn a_program_of_each_host_runs_without_mpi() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs(ABOUT_A_SECOND).await;
    let no_mpi = json!({"mpi": {"folder": "/no/mpi"}});
    let cluster = bed.cluster(&["h1", "h2", "h3"], &no_mpi);
    let of = |name: &str| job(name, &cluster, Some(&image));
    scheduler_conformance::program_of_each_node(&jobs, &cluster, of).await;

    // The image contains the program; a cancelled program leaves no process on any host.
    let argv = vec!["all_reduce_perf".to_owned()];
    let read = model::OutputFormat::Format("key-value".to_owned());
    let command = model::CommandLine { argv, every: model::Every::Node, rounds: None, image: None, read };
    let (slow, image) = self::jobs("echo started; sleep 600").await;
    let program = model::Program::Command(command);
    let job = JobSpec { program, ..job("cancelled", &cluster, Some(&image)) };
    slow.submit(&job).await.unwrap();
    let started = || std::fs::read_to_string(bed.work.path().join("jobs/cancelled/output/node-h2.log"));
    bed.wait_for("the job runs", || started().is_ok_and(|text| text.contains("started")));
    slow.cancel(&job.cluster, &job.name).await.unwrap();
    assert_eq!(ended(&slow, &job).await.state, "CANCELLED");
    bed.wait_for("no process is left", || bed.remaining_processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn a_program_of_pairs_runs_on_both_hosts_of_each_pair() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs(ABOUT_A_SECOND).await;
    let cluster = bed.cluster(&["h1", "h2", "h3"], &json!({"mpi": {"folder": "/no/mpi"}}));
    let of = |name: &str| job(name, &cluster, Some(&image));
    scheduler_conformance::program_of_each_pair(&jobs, &cluster, of).await;
    assert_eq!(bed.remaining_processes(), "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn every_host_runs_its_ranks_and_an_exit_code_is_kept() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs(&format!("{ABOUT_A_SECOND}; [[ $BURNIN_RANK != 2 ]] || exit 7")).await;
    let mut settings = serde_json::to_value(bed.settings(&["h1", "h2"], &json!({}))).unwrap();
    settings["hosts"][0]["ranks"] = json!(2);
    let cluster = Cluster {
        access: model::ClusterAccess::new("hosts", settings),
        ..bed.cluster(&["h1", "h2"], &json!({}))
    };
    let job = job("ranks", &cluster, Some(&image));
    jobs.submit(&job).await.unwrap();
    let end = ended(&jobs, &job).await;
    assert_eq!((end.state.as_str(), end.exit_code), ("FAILED", Some(7)));
    let log = text(&jobs, &job, "benchmark.log").await;
    for line in ["rank 0 of 3 on h1:", "rank 1 of 3 on h1:", "rank 2 of 3 on h2:"] {
        assert!(log.contains(line), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn an_unreachable_host_and_a_wrong_key_are_named_before_the_start() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs(ABOUT_A_SECOND).await;
    bed.run(&format!("{}/cut h3", bed.dir.display()));
    let cluster = bed.cluster(&["h1", "h3"], &json!({"ssh_options": [
        format!("UserKnownHostsFile={}", bed.dir.join("ssh/known_hosts").display()), "StrictHostKeyChecking=accept-new", "ConnectTimeout=3"]}));
    let one = job("unreachable", &cluster, Some(&image));
    jobs.submit(&one).await.unwrap();
    let (code, why) = lost(&jobs, &one).await;
    assert!(
        code == "LAUNCH_FAILED" && why.contains("h3: ssh: connect") && !why.contains("h1"),
        "{code} {why}"
    );
    let hosts = Hosts::of(&cluster).unwrap();
    let ClusterStatus::Broken(why) = probe::probe("lab", &hosts).await.unwrap() else { panic!() };
    assert!(why.starts_with("lab: h3: ssh: connect"), "{why}");
    bed.run(&format!("{}/mend h3", bed.dir.display()));

    let key = bed.work.path().join("other-key");
    bed.run(&format!("ssh-keygen -q -t ed25519 -N '' -f {}", key.display()));
    let mut settings = serde_json::to_value(bed.settings(&["h1", "h2"], &json!({}))).unwrap();
    settings["hosts"][1]["identity_file"] = json!(key);
    let cluster = Cluster { access: model::ClusterAccess::new("hosts", settings), ..cluster };
    let two = job("wrong-key", &cluster, None);
    jobs.submit(&two).await.unwrap();
    let (code, why) = lost(&jobs, &two).await;
    assert!(
        code == "LAUNCH_FAILED" && why.contains("h2: ") && why.contains("Permission denied"),
        "{code} {why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn missing_software_on_one_host_is_named() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs(ABOUT_A_SECOND).await;
    // The setting names a folder of Open MPI that does not exist on this host.
    let folder = bed.work.path().join("mpi");
    bed.run(&format!("mkdir -p {0}/bin && ln -s $(type -P mpirun) {0}/bin/mpirun", folder.display()));
    let cluster = bed.cluster(&["h1", "h2"], &json!({"mpi": {"folder": folder}}));
    bed.on(
        "h1",
        &format!(
            "mkdir -p {0}/bin && ln -s /usr/bin/orted {0}/bin/orted && chown -R ops {1}",
            folder.display(),
            bed.work.path().display()
        ),
    );
    let one = job("no-mpi", &cluster, Some(&image));
    jobs.submit(&one).await.unwrap();
    let (code, why) = lost(&jobs, &one).await;
    assert!(code == "LAUNCH_FAILED" && why.starts_with("h2: Open MPI is not in"), "{code} {why}");

    let two = job("no-program", &bed.cluster(&["h1", "h2"], &json!({"programs": "/nowhere"})), None);
    jobs.submit(&two).await.unwrap();
    let (code, why) = lost(&jobs, &two).await;
    assert!(
        code == "LAUNCH_FAILED" && why.contains("h1: the program /nowhere/all_reduce_perf is missing"),
        "{code} {why}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn a_work_folder_of_another_user_on_a_host_is_refused() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs(ABOUT_A_SECOND).await;
    bed.on("h2", &format!("mkdir -p {0} && chown nobody {0}", bed.work.path().display()));
    let job = job("foreign", &bed.cluster(&["h1", "h2"], &json!({})), Some(&image));
    jobs.submit(&job).await.unwrap();
    let (code, why) = lost(&jobs, &job).await;
    assert!(
        code == "LAUNCH_FAILED" && why.contains("h2: ") && why.contains("only this user"),
        "{code} {why}"
    );
    assert!(!why.contains("h1: "), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn a_host_lost_during_the_job_is_named_and_no_process_is_left() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs("echo begun; sleep 600").await;
    let job = job("lost", &bed.cluster(&["h1", "h2", "h3"], &json!({})), Some(&image));
    jobs.submit(&job).await.unwrap();
    let log = bed.work.path().join("jobs/lost/output/benchmark.log");
    bed.wait_for("the ranks run", || {
        std::fs::read_to_string(&log).unwrap_or_default().matches("begun").count() == 3
    });
    bed.run(&format!("{}/cut h2", bed.dir.display()));
    let (code, why) = lost(&jobs, &job).await;
    assert!(
        code == "NODE_LOST" && why.contains("h2") && !why.contains("h1") && !why.contains("h3"),
        "{code} {why}"
    );
    bed.run(&format!("{}/mend h2", bed.dir.display()));
    // The daemon on the lost host ends the rank when the connection to mpirun is lost.
    bed.wait_for("no process is left", || {
        bed.remaining_processes().is_empty() || bed.on("h2", "pgrep -c orted") != "0"
    });
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn a_cancelled_job_leaves_no_process_on_any_host() {
    let bed = HostsBed::new();
    // The ranks ignore signals, and their child processes have their own sessions.
    let (jobs, image) =
        jobs("trap '' TERM INT HUP; setsid sleep 601 & echo begun; while :; do sleep 1; done").await;
    let job = job("cancelled", &bed.cluster(&["h1", "h2"], &json!({})), Some(&image));
    jobs.submit(&job).await.unwrap();
    let log = bed.work.path().join("jobs/cancelled/output/benchmark.log");
    bed.wait_for("the ranks run", || {
        std::fs::read_to_string(&log).unwrap_or_default().matches("begun").count() == 2
    });
    assert_ne!(bed.remaining_processes(), "");
    jobs.cancel(&job.cluster, &job.name).await.unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "CANCELLED");
    assert_eq!(bed.remaining_processes(), "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn a_job_continues_after_its_agent_ends_and_runs_once() {
    let bed = HostsBed::new();
    let (first, image) = jobs("echo begun; sleep 3").await;
    let job = job("resumed", &bed.cluster(&["h1", "h2"], &json!({})), Some(&image));
    let handle = first.submit(&job).await.unwrap();
    drop(first);
    let (second, _) = jobs("true").await;
    assert_eq!(second.submit(&job).await.unwrap(), handle);
    assert_eq!(ended(&second, &job).await.state, "COMPLETED");
    assert_eq!(text(&second, &job, "benchmark.log").await.matches("begun").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn a_job_with_a_killed_launcher_is_lost_and_leaves_no_process() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs("echo begun; sleep 600").await;
    let job = job("killed", &bed.cluster(&["h1", "h2"], &json!({})), Some(&image));
    jobs.submit(&job).await.unwrap();
    let folder = bed.work.path().join("jobs/killed");
    let log = folder.join("output/benchmark.log");
    bed.wait_for("the ranks run", || {
        std::fs::read_to_string(&log).unwrap_or_default().matches("begun").count() == 2
    });
    let claim = std::fs::read_link(folder.join("claim")).unwrap();
    bed.run(&format!("kill -KILL {}", claim.display().to_string().split('.').next().unwrap()));
    let (code, why) = lost(&jobs, &job).await;
    assert!(code == "LAUNCHER_LOST" && !why.contains("may still run"), "{code} {why}");
    assert_eq!(bed.remaining_processes(), "");
    let mode = std::fs::metadata(folder.join("job.sh")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o755);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs hosts with ssh; start them with .ci/hosts.sh"]
async fn the_time_limit_ends_a_job() {
    let bed = HostsBed::new();
    let (jobs, image) = jobs("sleep 600").await;
    let job = JobSpec {
        limit: Span::from_secs(3),
        ..job("limit", &bed.cluster(&["h1", "h2"], &json!({})), Some(&image))
    };
    jobs.submit(&job).await.unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "TIMEOUT");
    assert_eq!(bed.remaining_processes(), "");
}
