//! The Slurm scheduler on a real Slurm. `.ci/slurm.sh` starts a Slurm cluster and runs these tests, one after the
//! other, on its controller's host; elsewhere they are ignored.

mod bed;
mod faults;
mod hostile;
mod once;

use bed::{SlurmBed, ended, text};
use cluster_api::{JobStatus, Scheduler, scheduler_conformance};
use model::Class;

/// A benchmark that writes output and runs for about 1 s.
const ABOUT_A_SECOND: &str = "echo \"rank $SLURM_PROCID of $SLURM_NTASKS: $*\"; sleep 1";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn the_slurm_scheduler_conforms() {
    let bed = SlurmBed::new("conformance");
    let cluster = bed.job("programs", ABOUT_A_SECOND).cluster;
    let job = |name: &str| cluster_api::JobSpec {
        name: name.into(),
        cluster: cluster.clone(),
        ..bed.job("programs", ABOUT_A_SECOND)
    };
    scheduler_conformance::scheduler(&bed.jobs(), &cluster, job).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_program_of_each_node_runs_once_on_each_node() {
    let bed = SlurmBed::new("each");
    let cluster = bed.cluster_with(|slurm| slurm.ranks_per_node = 2);
    let job = |name: &str| cluster_api::JobSpec { cluster: cluster.clone(), ..bed.job(name, "true") };
    scheduler_conformance::program_of_each_node(&bed.jobs(), &cluster, job).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_program_of_pairs_runs_on_both_nodes_of_each_pair() {
    let bed = SlurmBed::new("pairs");
    let cluster = bed.cluster_with(|slurm| slurm.ranks_per_node = 2);
    let job = |name: &str| cluster_api::JobSpec { cluster: cluster.clone(), ..bed.job(name, "true") };
    scheduler_conformance::program_of_each_pair(&bed.jobs(), &cluster, job).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn every_node_runs_its_rank_and_a_failure_is_reported() {
    let bed = SlurmBed::new("failure");
    let jobs = bed.jobs();
    // Slurm kills the other ranks when one fails, and output that srun has not yet forwarded is lost: the failing rank waits
    // until all four lines are in the log.
    let script = "echo \"on $(hostname)\"; [ $SLURM_PROCID = 2 ] && \
                  until [ \"$(grep -c ': on n' output/benchmark.log)\" -ge 4 ]; do sleep 0.1; done && exit 7; sleep 60";
    let mut job = bed.job("fails", script);
    // A unique duration, which identifies the process of the job's timer.
    job.limit = model::Span::from_secs(1217);
    jobs.submit(&job).await.unwrap();
    let end = ended(&jobs, &job).await;
    assert_eq!((end.state.as_str(), end.exit_code), ("FAILED", Some(7)));
    bed.wait_for("no timer is left", || bed.run("pgrep -f '^sleep 1217$'").is_empty());
    let log = text(&jobs, &job, "benchmark.log").await;
    for node in 0..4 {
        assert!(log.contains(&format!("{node}: on n{}", node + 1)), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn impossible_jobs_are_refused_with_slurms_reason() {
    let bed = SlurmBed::new("never");
    let jobs = bed.jobs();
    for (name, change) in [
        (
            "too-many-nodes",
            (|slurm: &mut cluster_slurm::Slurm| slurm.nodes = 9) as fn(&mut cluster_slurm::Slurm),
        ),
        ("no-such-partition", |slurm| slurm.partition = Some("nowhere".into())),
        ("no-such-feature", |slurm| slurm.constraint = Some("h100".into())),
    ] {
        let mut job = bed.job(name, "true");
        job.cluster = bed.cluster_with(change);
        let submitted = jobs.submit(&job).await;
        // Slurm 22.05 accepts a job that is too large and never starts the job; Slurm 24.11 rejects it.
        let refused = match submitted {
            Err(service::PortError::Permanent(failure)) => failure,
            Err(other) => panic!("{name}: {other:?}"),
            Ok(_) => loop {
                match jobs.poll(&job.cluster, name).await {
                    Err(service::PortError::Permanent(failure)) => break failure,
                    Ok(JobStatus::Active) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
                    other => panic!("{name}: {other:?}"),
                }
            },
        };
        assert_eq!(refused.class, Class::Input, "{name}");
        assert!(refused.message.len() > 20, "{name}: {}", refused.message);
        bed.wait_for("the job is not in the queue", || bed.run(&format!("squeue -h -n {name}")).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn the_reason_for_waiting_is_in_the_output() {
    let bed = SlurmBed::new("waits");
    let jobs = bed.jobs();
    bed.run("scontrol update nodename=n2 state=drain reason=fans");
    let job = bed.job("waits", "true");
    jobs.submit(&job).await.unwrap();
    let waiting = bed.folder("waits").join("output/waiting.log");
    let started = std::time::Instant::now();
    let text = || std::fs::read_to_string(&waiting).unwrap_or_default();
    // Slurm sets the reason in its next scheduling cycle, and uses several names for the reason of this test.
    let words = ["UnavailableNodes", "Resources", "DRAINED", "ReqNodeNotAvail"];
    while !words.iter().any(|word| text().contains(word)) {
        assert_eq!(jobs.poll(&job.cluster, &job.name).await.unwrap(), JobStatus::Active);
        assert!(started.elapsed().as_secs() < 90, "no reason is reported: {}", text());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(
        jobs.outputs(&job.cluster, &job.name)
            .await
            .unwrap()
            .files
            .iter()
            .any(|file| file.name == "waiting.log")
    );
    jobs.cancel(&job.cluster, &job.name).await.unwrap();
    assert_eq!(ended(&jobs, &job).await.state, "CANCELLED");
}
