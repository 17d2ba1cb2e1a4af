//! At most one JobSet per command, after crashes and lost responses.

use cluster_api::{JobStatus, Scheduler};
use cluster_kubernetes::job_notes::JobNotes;
use futures::{FutureExt, future::poll_fn};
use kubernetes_standin::Fault;
use serde_json::json;

use crate::bed::{KubernetesBed, ended, wait_for};

const COUNTED: &str = "echo begun";

async fn start_count(bed: &KubernetesBed, job: &cluster_api::JobSpec) -> usize {
    let mut count = 0;
    for file in bed.jobs().outputs(&job.cluster, &job.name).await.unwrap().files {
        count += crate::bed::text(&bed.jobs(), job, &file.name).await.matches("begun\n").count();
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_creates_no_second_jobset() {
    let bed = KubernetesBed::new(COUNTED).await;
    let faults = [
        Fault::CutBefore,
        Fault::CutAfter,
        Fault::Late,
        Fault::LandsAndAnswers(500),
        Fault::LandsAndAnswers(504),
        Fault::Refused(503),
        Fault::Refused(429),
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let job = bed.job(&format!("lost-{number}"), json!({}));
        bed.api.fault("POST", "jobsets", fault);
        // After a failed attempt another process submits without a delay.
        while bed.jobs().submit(&job).await.is_err() {}
        let jobs = bed.jobs();
        jobs.submit(&job).await.unwrap();
        assert_eq!(ended(&jobs, &job).await.state, "COMPLETED", "{fault:?}");
        assert_eq!((bed.created_jobsets(&job.name), start_count(&bed, &job).await), (1, 2), "{fault:?}");
    }
}

/// An agent that is interrupted at any await: its future is polled `polls` times and dropped.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_crash_at_any_point_leaves_one_jobset() {
    let bed = KubernetesBed::new(COUNTED).await;
    let (mut died, mut ended_well) = (0, 0);
    for polls in 0..60u32 {
        let job = bed.job(&format!("dies-{polls}"), json!({}));
        let cut = {
            let jobs = bed.jobs();
            let mut submission = Box::pin(jobs.submit(&job));
            let mut left = polls;
            let cut = poll_fn(|context| {
                if left == 0 {
                    return std::task::Poll::Ready(None);
                }
                left -= 1;
                submission.poll_unpin(context).map(Some)
            });
            let cut = cut.await;
            eprintln!("{polls} polls: {cut:?}");
            cut.is_none()
        };
        died += u32::from(cut);
        ended_well += u32::from(!cut);
        let jobs = bed.jobs();
        jobs.submit(&job).await.unwrap();
        assert_eq!(
            ended(&jobs, &job).await.state,
            "COMPLETED",
            "the job resubmitted after {polls} polls completes"
        );
        assert_eq!(
            (bed.created_jobsets(&job.name), start_count(&bed, &job).await),
            (1, 2),
            "one JobSet exists after {polls} polls"
        );
        // After four completed submissions, later interruption points are beyond the end of a submission. On a busy machine a single poll
        // may do most of the work.
        if ended_well == 4 {
            break;
        }
    }
    assert!(died >= 4, "interrupted submissions: expected at least 4, found {died}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_submissions_create_one_jobset() {
    let bed = KubernetesBed::new(COUNTED).await;
    let job = bed.job("at-once", json!({}));
    let all = futures::future::join_all((0..8).map(|_| {
        let (jobs, job) = (bed.jobs(), job.clone());
        async move { jobs.submit(&job).await.unwrap() }
    }));
    assert!(all.await.iter().all(|handle| handle == "default/at-once"));
    assert_eq!(ended(&bed.jobs(), &job).await.state, "COMPLETED");
    assert_eq!((bed.created_jobsets("at-once"), start_count(&bed, &job).await), (1, 2));
}

/// The submission's request arrives after the cancel, which has already taken the name.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_its_submission_prevents_the_job() {
    let bed = KubernetesBed::new(COUNTED).await;
    for fault in [Fault::Late, Fault::CutAfter, Fault::CutBefore] {
        let job = bed.job(&format!("overtaken-{fault:?}").to_lowercase(), json!({}));
        bed.api.fault("POST", "jobsets", fault);
        _ = bed.jobs().submit(&job).await;
        while bed.jobs().cancel(&job.cluster, &job.name).await.is_err() {}
        assert_eq!(ended(&bed.jobs(), &job).await.state, "CANCELLED", "{fault:?}");
        bed.jobs().submit(&job).await.unwrap();
        wait_for("no pod is left", async || bed.api.list("/pods").is_empty()).await;
        assert_eq!(ended(&bed.jobs(), &job).await.state, "CANCELLED", "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_any_point_of_a_submission_cancels_the_job() {
    let bed = KubernetesBed::new("sleep 30").await;
    for polls in 0..24u32 {
        let job = bed.job(&format!("crossed-{polls}"), json!({}));
        let jobs = bed.jobs();
        let mut submission = Box::pin(jobs.submit(&job));
        let mut left = polls;
        let cut = poll_fn(|context| {
            if left == 0 {
                return std::task::Poll::Ready(None);
            }
            left -= 1;
            submission.poll_unpin(context).map(Some)
        });
        let done = cut.await;
        bed.jobs().cancel(&job.cluster, &job.name).await.unwrap();
        if done.is_none() {
            submission.await.unwrap(); // the submission resumes
        }
        assert_eq!(
            ended(&bed.jobs(), &job).await.state,
            "CANCELLED",
            "the job cancelled after {polls} polls does not run"
        );
        wait_for("no pod is left", async || bed.api.list("/pods").is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobset_deleted_externally_is_lost_and_not_restarted() {
    let bed = KubernetesBed::new("sleep 30").await;
    let (jobs, job) = (bed.jobs(), bed.job("deleted", json!({})));
    jobs.submit(&job).await.unwrap();
    let key = ("jobset.x-k8s.io/jobsets".to_owned(), "default".to_owned(), "deleted".to_owned());
    bed.api.change(|objects| objects.delete(&key, &json!({"propagationPolicy": "Background"}))).unwrap();
    wait_for("the job is reported as lost", async || {
        matches!(jobs.poll(&job.cluster, "deleted").await, Ok(JobStatus::Lost { code, .. }) if code == "DELETED")
    })
    .await;
    jobs.submit(&job).await.unwrap();
    assert_eq!(bed.created_jobsets("deleted"), 1);
    assert!(JobNotes::of(&bed.store, "deleted").recorded_end().await.unwrap().is_some());
}

/// Cancels a running job while the deletion request or its response is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_with_a_lost_response_still_ends_the_job() {
    let bed = KubernetesBed::new("sleep 30").await;
    for fault in
        [Fault::CutBefore, Fault::CutAfter, Fault::Late, Fault::LandsAndAnswers(500), Fault::Refused(429)]
    {
        let job = bed.job(&format!("ends-{fault:?}").to_lowercase(), json!({}));
        let jobs = bed.jobs();
        jobs.submit(&job).await.unwrap();
        let runs = |pod: &serde_json::Value| pod["status"]["phase"] == "Running";
        wait_for("both pods of the job run", async || {
            bed.api.list("/pods").iter().filter(|pod| runs(pod)).count() == 2
        })
        .await;
        bed.api.fault("DELETE", "jobsets", fault);
        assert!(jobs.cancel(&job.cluster, &job.name).await.is_err(), "{fault:?}");
        // The next poll ends the job.
        assert_eq!(ended(&bed.jobs(), &job).await.state, "CANCELLED", "{fault:?}");
        wait_for("no pod is left", async || bed.api.list("/pods").is_empty()).await;
        assert_eq!(
            bed.api.creations("jobs", &format!("{}-n-0", cluster_kubernetes::names::name(&job.name))),
            1
        );
        assert!(bed.api.list("jobset.x-k8s.io/jobsets").is_empty(), "no object reserves its name: {fault:?}");
    }
}
