//! At most one job per command, after lost responses, crashes and duplicate jobs.

use std::time::{Duration, Instant};

use cluster_api::Scheduler;

use crate::bed::{SlurmBed, ended, wrapper};

/// Each start of the benchmark adds a letter per rank.
fn counting(bed: &SlurmBed, name: &str) -> cluster_api::JobSpec {
    let count = bed.count_file(name).display().to_string();
    bed.job(name, &format!("printf x >>'{count}'; sleep 1"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_submission_with_a_lost_response_is_found() {
    let bed = SlurmBed::new("lost-answer");
    let lossy = bed.shared.join("lossy");
    wrapper(
        &lossy,
        "sbatch",
        "/usr/bin/sbatch \"$@\" >/dev/null\n\
         echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1",
    );
    let job = counting(&bed, "lost-answer");
    let number = bed.jobs().with_commands(&lossy).submit(&job).await.expect("Slurm accepted the job");
    assert_eq!(bed.jobs().submit(&job).await.unwrap(), number);
    assert_eq!(ended(&bed.jobs(), &job).await.state, "COMPLETED");
    assert_eq!((bed.numbers("lost-answer"), bed.started_ranks("lost-answer")), (vec![number], 4));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_lost_submission_is_repeated() {
    let bed = SlurmBed::new("never-arrived");
    let unreachable = bed.shared.join("deaf");
    wrapper(
        &unreachable,
        "sbatch",
        "echo 'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)' >&2; exit 1",
    );
    let job = counting(&bed, "never-arrived");
    let refused = bed.jobs().with_commands(&unreachable).submit(&job).await;
    assert!(matches!(refused, Err(service::PortError::Transient(why)) if why.contains("Unable to contact")));
    bed.jobs().submit(&job).await.unwrap();
    assert_eq!(ended(&bed.jobs(), &job).await.state, "COMPLETED");
    assert_eq!(bed.started_ranks("never-arrived"), 4);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn only_one_of_two_jobs_with_the_same_name_runs_the_benchmark() {
    let bed = SlurmBed::new("twice");
    let job = counting(&bed, "twice");
    // Each submission calls sbatch twice, as in a race of two agents that found no job.
    let twice = bed.shared.join("twice");
    wrapper(&twice, "sbatch", "/usr/bin/sbatch \"$@\" >/dev/null; exec /usr/bin/sbatch \"$@\"");
    let jobs = bed.jobs().with_commands(&twice);
    jobs.submit(&job).await.unwrap();
    let end = ended(&jobs, &job).await;
    assert_eq!(end.state, "COMPLETED", "{}", bed.run("scontrol --oneliner show job | grep 'JobName=twice '"));
    bed.wait_for("no job of the name remains", || bed.run("squeue -h -n twice").is_empty());
    assert_eq!((bed.numbers("twice").len(), bed.started_ranks("twice")), (2, 4));

    // Both copies of the job start; the claim lets only one run the benchmark.
    let job = counting(&bed, "both");
    bed.jobs().submit(&job).await.unwrap();
    let (folder, script) = (bed.folder("both"), bed.folder("both").join("job.sh"));
    bed.run(&format!(
        "cd / && sbatch --parsable -N4 --job-name=both --partition=main --output=/dev/null \"{}\"",
        script.display().to_string().replace('$', "\\$").replace('"', "\\\"")
    ));
    bed.wait_for("both have ended", || bed.run("squeue -h -n both").is_empty());
    assert_eq!(ended(&bed.jobs(), &job).await.state, "COMPLETED");
    assert_eq!((bed.numbers("both").len(), bed.started_ranks("both")), (2, 4));
    assert_eq!(
        std::fs::read_dir(folder.join("refused")).unwrap().count(),
        1,
        "the second job is recorded as refused"
    );
}

/// The controller's response is older than the start of the job: the response lists the job as waiting, and the claim exists
/// when the marks are read.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_job_that_starts_during_a_request_continues() {
    let bed = SlurmBed::new("starts");
    for submits_again in [false, true] {
        let name = if submits_again { "starts-again" } else { "starts" };
        let earlier = bed.job(&format!("before-{name}"), "sleep 4");
        bed.jobs().submit(&earlier).await.unwrap();
        let job = counting(&bed, name);
        bed.jobs().submit(&job).await.unwrap();
        let claim = bed.folder(name).join("claim").display().to_string().replace('\'', "'\\''");
        let (late, waited) =
            (bed.shared.join(format!("late-{name}")), bed.root.join(format!("waited-{name}")));
        let script = format!(
            "said=$(/usr/bin/scontrol \"$@\")\nstatus=$?\ncase $said in\n*JobName={name}\\ *JobState=PENDING*)\n  \
             until [ -L '{claim}' ]; do sleep 0.1; done\n  : >'{}' ;;\nesac\nprintf '%s\\n' \"$said\"\nexit $status",
            waited.display()
        );
        wrapper(&late, "scontrol", &script);
        let jobs = bed.jobs().with_commands(&late);
        if submits_again {
            jobs.submit(&job).await.unwrap();
        }
        assert_eq!(ended(&jobs, &job).await.state, "COMPLETED", "{name}");
        assert!(waited.exists(), "{name}: no response was older than the start of the job");
        assert_eq!((bed.numbers(name).len(), bed.started_ranks(name)), (1, 4), "{name}");
    }
}

/// Each submission is dropped at a different time, as when its agent is killed. The duration of a submission depends on the
/// machine, so the times are fractions of a measured one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn an_agent_crash_during_a_submission_leaves_one_job() {
    let bed = SlurmBed::new("dies");
    let measured = bed.job("measured", "true");
    let start = Instant::now();
    bed.jobs().submit(&measured).await.unwrap();
    let mut whole = start.elapsed();
    ended(&bed.jobs(), &measured).await;

    let mut cut_first = 0;
    for moment in 0..16u32 {
        let name = format!("dies-{moment}");
        let job = counting(&bed, &name);
        for attempt in 0..3 {
            let (jobs, job) = (bed.jobs(), job.clone());
            let start = Instant::now();
            let submission = tokio::spawn(async move {
                let accepted = jobs.submit(&job).await;
                (accepted, start.elapsed())
            });
            tokio::time::sleep(whole * moment / 16).await;
            submission.abort();
            match submission.await {
                Err(_) => cut_first += u32::from(attempt == 0),
                // Measure only the first call, which submits the job: later calls find the job and take less time.
                Ok((_, took)) if attempt == 0 => whole = took,
                Ok(_) => {}
            }
        }
        let jobs = bed.jobs();
        jobs.submit(&job).await.unwrap();
        assert_eq!(ended(&jobs, &job).await.state, "COMPLETED");
        bed.wait_for("no job of the name remains", || bed.run(&format!("squeue -h -n {name}")).is_empty());
        assert_eq!(bed.started_ranks(&name), 4, "moment {moment}: {:?}", bed.numbers(&name));
    }
    assert!(cut_first >= 8, "expected at least 8 of 16 submissions to be interrupted, found {cut_first}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn a_cancel_before_its_submission_prevents_the_job() {
    let bed = SlurmBed::new("overtakes");
    for moment in 0..8u64 {
        let name = format!("overtakes-{moment}");
        let job = counting(&bed, &name);
        let (jobs, submitted) = (bed.jobs(), job.clone());
        let submission = tokio::spawn(async move { jobs.submit(&submitted).await });
        tokio::time::sleep(Duration::from_millis(moment * 5)).await;
        bed.jobs().cancel(&job.cluster, &name).await.unwrap();
        _ = submission.await;
        assert_eq!(ended(&bed.jobs(), &job).await.state, "CANCELLED");
        bed.wait_for("no job of the name remains", || bed.run(&format!("squeue -h -n {name}")).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn the_result_is_known_after_the_controller_purged_the_job() {
    let bed = SlurmBed::new("forgotten");
    let (good, bad) = (counting(&bed, "forgotten-good"), bed.job("forgotten-bad", "exit 9"));
    for job in [&good, &bad] {
        bed.jobs().submit(job).await.unwrap();
        bed.wait_for("the job has recorded its end", || bed.folder(&job.name).join("end.json").exists());
    }
    bed.wait_for("no job is left in the queue", || bed.run("squeue -h").is_empty());
    // The controller reports ended jobs to the accounting with a delay. If it is killed before that, the jobs stay
    // open, and the next controller closes them as CANCELLED.
    if bed.run("scontrol show config").contains("accounting_storage/slurmdbd") {
        for (job, state) in [(&good, "COMPLETED"), (&bad, "FAILED")] {
            let recorded = format!("sacct -n -X -P -o state --name={}", job.name);
            bed.wait_for("the accounting records the end of the job", || bed.run(&recorded).contains(state));
        }
    }
    bed.kill("slurmctld");
    bed.start_controller("-c");
    assert_eq!(bed.run("squeue -h -t all"), "", "the controller has no saved state");
    let (well, badly) = (ended(&bed.jobs(), &good).await, ended(&bed.jobs(), &bad).await);
    assert_eq!((well.state.as_str(), well.exit_code), ("COMPLETED", Some(0)));
    assert_eq!((badly.state.as_str(), badly.exit_code), ("FAILED", Some(9)));
    bed.jobs().submit(&good).await.expect("the controller accepts a job with a reused id");
    assert_eq!(
        (bed.numbers("forgotten-good").len(), bed.started_ranks("forgotten-good")),
        (0, 4),
        "it is not submitted again"
    );
}
