//! Infrastructure failures of a job, and how they are reported.

use std::time::{Duration, Instant, SystemTime};

use cluster_api::{ClusterStatus, JobStatus, Scheduler, Settings, shell::quote};
use cluster_slurm::Slurm;
use model::Cluster;

use crate::bed::{SlurmBed, ended, final_status, lost};

/// Waits until the benchmark runs on every node.
fn wait_until_running(bed: &SlurmBed, name: &str) {
    bed.wait_for("the benchmark has begun", || bed.started_ranks(name) == 4);
}

fn long(bed: &SlurmBed, name: &str) -> cluster_api::JobSpec {
    let count = bed.count_file(name).display().to_string();
    bed.job(name, &format!("printf x >>'{count}'; exec sleep 100"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_controller_outage_does_not_affect_a_running_job() {
    let bed = SlurmBed::new("away");
    let jobs = bed.jobs();
    let count = bed.count_file("away").display().to_string();
    // The job runs until the controller responds again.
    let release = bed.shared.join("release-away");
    let wait = format!("until [ -e {} ]; do sleep 0.2; done", quote(&release.display().to_string()));
    let job = bed.job("away", &format!("printf x >>'{count}'; {wait}"));
    let number = jobs.submit(&job).await.unwrap();
    wait_until_running(&bed, "away");
    // The controller saves changed jobs every few seconds. A controller killed before that would lose this job and reuse its
    // number. Another change ensures that the controller saves the running job.
    let began = SystemTime::now();
    bed.run(&format!("scontrol update jobid={number} admincomment=running"));
    let state = bed.root.join("state/job_state");
    let saved = || state.metadata().and_then(|file| file.modified()).is_ok_and(|saved| saved > began);
    bed.wait_for("the controller saved its jobs", saved);
    bed.kill("slurmctld");
    let unanswered = bed.jobs().poll(&job.cluster, &job.name).await;
    assert!(
        matches!(unanswered, Err(service::PortError::Transient(_))),
        "the outcome is unknown: {unanswered:?}"
    );
    bed.start_controller("");
    std::fs::write(release, "").unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "COMPLETED");
    assert_eq!(bed.started_ranks("away"), 4);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_job_that_yields_is_preempted_by_any_other_job() {
    let bed = SlurmBed::new("yields");
    let settings = Slurm { partition: Some("idle".into()), yields: true, ..bed.slurm.clone() };
    let ClusterStatus::Ready(cluster) = probe(&bed, &settings).await else { panic!() };
    assert_eq!(Slurm::of(&cluster).unwrap().listed_nodes().map(|nodes| nodes.len()), Some(4));
    let mut job = long(&bed, "yields");
    let programs = Slurm::of(&job.cluster).unwrap().programs;
    job.cluster = Cluster { access: Slurm { programs, ..Slurm::of(&cluster).unwrap() }.access(), ..cluster };
    bed.jobs().submit(&job).await.unwrap();
    wait_until_running(&bed, "yields");
    bed.run("sbatch --partition=main --nodes=1 --exclusive --output=/dev/null --wrap 'sleep 60'");
    let end = final_status(&bed.jobs(), &job).await;
    assert!(
        matches!(&end, JobStatus::Yielded { why } if why.contains("preempted it for another job")),
        "{end:?}"
    );
    bed.wait_for("the other job runs", || bed.run("squeue -h -p main -o %T") == "RUNNING");
    assert!(
        matches!(final_status(&bed.jobs(), &job).await, JobStatus::Yielded { .. }),
        "the first end state is final"
    );
    assert_eq!(bed.started_ranks("yields"), 4, "the preempted job is not started again");
    // The nodes of the preempted job become idle when their steps have ended; `sinfo` lists them as idle earlier.
    let until = Instant::now() + Duration::from_secs(30);
    let busy = loop {
        let status = probe(&bed, &settings).await;
        let all_idle = matches!(&status, ClusterStatus::Busy(why) if why.contains("partition idle has 3"));
        if all_idle || Instant::now() > until {
            break status;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(matches!(&busy, ClusterStatus::Busy(why) if why.contains("partition idle has 3")), "{busy:?}");
    let refused = probe(&bed, &Slurm { partition: Some("main".into()), ..settings }).await;
    assert!(matches!(&refused, ClusterStatus::Broken(why) if why.contains("PriorityTier")), "{refused:?}");
}

async fn probe(bed: &SlurmBed, settings: &Slurm) -> ClusterStatus {
    let status = cluster_slurm::probe::probe("bed", settings).await;
    status.unwrap_or_else(|error| panic!("{}: {error:?}", bed.root.display()))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn an_unreachable_node_loses_the_job() {
    let bed = SlurmBed::new("cut");
    let job = long(&bed, "cut");
    bed.jobs().submit(&job).await.unwrap();
    wait_until_running(&bed, "cut");
    bed.link(3, "down");
    let (code, why) = lost(&bed.jobs(), &job).await;
    assert!(code == "NODE_FAIL" && why.contains("out of service: n3: "), "{code}: {why}");
    bed.link(3, "up");
    assert_eq!(lost(&bed.jobs(), &job).await, (code, why), "the first end state is final");
    assert_eq!(bed.started_ranks("cut"), 4, "the lost job is not started again");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_dead_node_daemon_loses_the_job() {
    let bed = SlurmBed::new("daemon");
    let job = long(&bed, "daemon");
    bed.jobs().submit(&job).await.unwrap();
    wait_until_running(&bed, "daemon");
    bed.kill("slurmd.n4");
    let (code, why) = lost(&bed.jobs(), &job).await;
    assert_eq!(code, "NODE_FAIL", "{why}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_failed_prolog_is_reported_with_the_drained_node() {
    let bed = SlurmBed::new("prolog");
    let job = long(&bed, "prolog");
    std::fs::write(bed.root.join("fault/prolog.n2"), "1").unwrap();
    bed.jobs().submit(&job).await.unwrap();
    let (code, why) = lost(&bed.jobs(), &job).await;
    assert_eq!(code, "LAUNCH_FAILED", "{why}");
    assert!(why.contains("n2: Prolog error"), "{why}");
    bed.wait_for("no job waits", || bed.run("squeue -h -n prolog").is_empty());
    assert_eq!(bed.started_ranks("prolog"), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn an_external_scancel_ends_the_job_as_cancelled() {
    let bed = SlurmBed::new("scancel");
    let job = long(&bed, "scancel");
    let number = bed.jobs().submit(&job).await.unwrap();
    wait_until_running(&bed, "scancel");
    bed.run(&format!("scancel {number}"));
    let end = ended(&bed.jobs(), &job).await;
    assert_eq!(end.state, "CANCELLED");
    assert_eq!(bed.jobs().submit(&job).await.unwrap(), number, "the job is not submitted again");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_limit_in_seconds_stops_the_job_on_every_node() {
    let bed = SlurmBed::new("limit");
    let mut job = long(&bed, "limit");
    // A unique duration, which identifies the processes of the benchmark. The program starts no process after it: the test bed's
    // proctrack/linuxproc kills children before their parents, and misses a child that a parent starts in between
    // (src/plugins/proctrack/linuxproc/kill_tree.c in Slurm 22.05).
    let count = bed.count_file("limit").display().to_string();
    job.program = bed.job("limit", &format!("printf x >>'{count}'; trap '' TERM; sleep 917; exit 1")).program;
    job.limit = model::Span::from_secs(15);
    bed.jobs().submit(&job).await.unwrap();
    let end = ended(&bed.jobs(), &job).await;
    assert_eq!((end.state.as_str(), end.exit_code, end.signal), ("TIMEOUT", None, None));
    let (Some(started), Some(stopped)) = (end.started_at, end.ended_at) else { panic!("{end:?}") };
    assert!(stopped.since(started).0 < Duration::from_secs(50), "Slurm's own limit is 60 s: {end:?}");
    bed.wait_for("no process of the job is left", || bed.run("pgrep -f '^sleep 917$'").is_empty());
    // On a busy host not every rank may have begun before the limit.
    assert!((1..=4).contains(&bed.started_ranks("limit")), "{}", bed.started_ranks("limit"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_requeued_job_does_not_run_again() {
    let bed = SlurmBed::new("requeue");
    let job = long(&bed, "requeue");
    let number = bed.jobs().submit(&job).await.unwrap();
    wait_until_running(&bed, "requeue");
    // An administrator overrides the job's own setting.
    let refused = bed.run(&format!("scontrol requeue {number}"));
    assert!(refused.contains("disabled"), "Burnin's jobs are not requeueable: {refused}");
    bed.run(&format!("scontrol update jobid={number} requeue=1"));
    bed.run(&format!("scontrol requeue {number}"));
    let (code, why) = lost(&bed.jobs(), &job).await;
    assert_eq!(code, "REQUEUED", "{why}");
    bed.wait_for("no job remains", || bed.run("squeue -h -n requeue").is_empty());
    assert_eq!(bed.started_ranks("requeue"), 4);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_held_job_waits_and_can_be_cancelled() {
    let bed = SlurmBed::new("held");
    bed.run("scontrol update nodename=n1 state=drain reason=test");
    let job = long(&bed, "held");
    let jobs = bed.jobs();
    let number = jobs.submit(&job).await.unwrap();
    bed.run(&format!("scontrol hold {number}"));
    for _ in 0..3 {
        assert_eq!(bed.jobs().poll(&job.cluster, &job.name).await.unwrap(), JobStatus::Active);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let waiting = std::fs::read_to_string(bed.folder("held").join("output/waiting.log")).unwrap();
    assert!(waiting.contains("JobHeld"), "{waiting}");
    jobs.cancel(&job.cluster, &job.name).await.unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "CANCELLED");
}
