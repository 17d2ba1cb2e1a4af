//! The Kubernetes backend against a stand-in for the API server and its controllers.

mod bed;
mod nodes;
mod once;
mod output;
mod real;

use bed::{KubernetesBed, ended, final_status, text, wait_for};
use cluster_api::{JobSpec, JobStatus, Scheduler, Settings, scheduler_conformance};
use cluster_kubernetes::{Kubernetes, manifest, names};
use model::Class;
use serde_json::json;
use service::PortError;

const SECOND: &str = "echo \"rank $BURNIN_RANK of $BURNIN_RANKS: $*\"; sleep 1";

#[tokio::test(flavor = "multi_thread")]
async fn the_kubernetes_scheduler_conforms() {
    let bed = KubernetesBed::new(SECOND).await;
    let cluster = bed.cluster(json!({}));
    scheduler_conformance::scheduler(&bed.jobs(), &cluster, |name| bed.job(name, json!({}))).await;
    assert_eq!(bed.created_jobsets("one"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kubernetes_scheduler_conforms_with_a_queue() {
    let bed = KubernetesBed::new(SECOND).await;
    let settings = json!({"queue": "a4", "topology": {"preferred": "cloud.google.com/gce-topology-block"}});
    let cluster = bed.cluster(settings.clone());
    scheduler_conformance::scheduler(&bed.jobs(), &cluster, |name| bed.job(name, settings.clone())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_each_node_runs_once_in_each_pod() {
    let bed = KubernetesBed::new("true").await;
    // The program runs once for any number of ranks and any launcher.
    for settings in [json!({"ranks_per_node": 2}), json!({"launch": "mpi", "queue": "a4"})] {
        let cluster = bed.cluster(settings.clone());
        let job = |name: &str| bed.job(name, settings.clone());
        let jobs =
            cluster_kubernetes::KubernetesJobs::new(std::sync::Arc::new(ledger::MemoryStore::default()));
        scheduler_conformance::program_of_each_node(&jobs, &cluster, job).await;
        for name in ["each-node", "each-node-fails"] {
            bed::wait_for("the job is deleted", async || jobs.release(&cluster, name).await.is_ok()).await;
        }
    }
}

/// The pods of the stand-in share one address, so only one pod can have an ssh server: this pod connects to itself and has no
/// partner.
#[tokio::test(flavor = "multi_thread")]
async fn a_pair_program_is_started_by_ssh_with_every_rank_launcher() {
    let argv = ["true", "{peer}"].map(str::to_owned).into();
    let read = model::OutputFormat::Format("key-value".to_owned());
    let command = model::CommandLine { argv, every: model::Every::Pair, rounds: None, image: None, read };
    if !has_ssh_server() {
        return;
    }
    for (name, settings) in [("ranks", json!({"nodes": 1})), ("mpi", json!({"nodes": 1, "launch": "mpi"}))] {
        let bed = KubernetesBed::new("true").await; // each bed has its own ssh port
        let program = model::Program::Command(command.clone());
        let (jobs, job) = (bed.jobs(), JobSpec { program, ..bed.job(name, settings) });
        jobs.submit(&job).await.unwrap();
        let end = ended(&jobs, &job).await;
        let log = text(&jobs, &job, "benchmark.log").await;
        assert_eq!((end.state.as_str(), end.exit_code), ("COMPLETED", Some(0)), "{log}");
        assert!(log.contains("pod 0 answers") && log.contains("\nburnin pairs: node-"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rank_of_every_pod_runs_once_and_each_pod_has_a_file() {
    let bed = KubernetesBed::new("echo \"rank $BURNIN_RANK of $BURNIN_RANKS\"").await;
    let (jobs, job) = (bed.jobs(), bed.job("ranks", json!({"nodes": 2, "ranks_per_node": 2})));
    jobs.submit(&job).await.unwrap();
    assert_eq!(ended(&jobs, &job).await.exit_code, Some(0));
    let files = jobs.outputs(&job.cluster, "ranks").await.unwrap();
    let names: Vec<_> = files.files.iter().map(|file| file.name.as_str()).collect();
    assert!(names.starts_with(&["benchmark.log", "node-1.log"]), "{names:?}");
    assert_eq!(files.others, []);
    let all = text(&jobs, &job, "benchmark.log").await + &text(&jobs, &job, "node-1.log").await;
    for rank in 0..4 {
        assert_eq!(all.matches(&format!("rank {rank} of 4\n")).count(), 1, "{all}");
    }
    let ends: serde_json::Value = serde_json::from_str(&text(&jobs, &job, "outputs.json").await).unwrap();
    let benchmark = text(&jobs, &job, "benchmark.log").await;
    assert_eq!(ends["benchmark.log"]["sha256"], ledger::Digest::of(benchmark.as_bytes()).sha256);
    assert_eq!(ends["benchmark.log"]["whole"], true);
}

/// Whether this user can start an ssh server; if not, prints the reason.
fn has_ssh_server() -> bool {
    let there = |program: &str| {
        ["/usr/bin/", "/usr/sbin/"]
            .iter()
            .any(|folder| std::path::Path::new(&format!("{folder}{program}")).exists())
    };
    let has = ["ssh", "ssh-keygen", "sshd"].iter().all(|program| there(program))
        && rustix::process::geteuid().is_root();
    if !has {
        eprintln!("skipped: no OpenSSH server is installed, or this user is not root");
    }
    has
}

/// One pod that connects to itself by real ssh, with the job's own keys. Only `mpirun` is simulated: it prints its
/// arguments, and starts the ranks' script once.
#[tokio::test(flavor = "multi_thread")]
async fn mpi_pods_connect_over_ssh_before_the_benchmark() {
    if !has_ssh_server() {
        return;
    }
    let bed = KubernetesBed::new("echo \"measured $A with $NCCL_DEBUG: $*\"").await;
    let mpirun = "#!/bin/bash\necho \"mpirun: $*\" | head -1; cat \"$3\"\nwhile [[ $1 != bash ]]; do shift; done; exec \"$@\"\n";
    std::fs::write(bed.root.path().join("mpirun"), mpirun).unwrap();
    std::fs::set_permissions(
        bed.root.path().join("mpirun"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let settings =
        json!({"nodes": 1, "ranks_per_node": 8, "launch": "mpi", "environment": {"A": "it's $(x)"}});
    let (jobs, job) = (bed.jobs(), bed.job("mpi", settings));
    jobs.submit(&job).await.unwrap();
    let end = ended(&jobs, &job).await;
    jobs.outputs(&job.cluster, "mpi").await.unwrap();
    let log = text(&jobs, &job, "benchmark.log").await;
    assert_eq!(end.exit_code, Some(0), "{log}");
    assert!(log.contains("pod 0 answers: ") && log.contains("127.0.0.1 slots=8\n"), "{log}");
    assert!(log.contains("measured it's $(x) with INFO: -b 8 -e 64"), "{log}");
    jobs.release(&job.cluster, "mpi").await.unwrap();
    assert!(bed.api.list("/secrets").is_empty(), "the keys are deleted with the job");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_has_the_exit_code_of_the_first_failed_rank() {
    let bed = KubernetesBed::new("[ \"$BURNIN_RANK\" = 1 ] && exit 3; sleep 30").await;
    let (jobs, job) = (bed.jobs(), bed.job("fails", json!({})));
    jobs.submit(&job).await.unwrap();
    let end = ended(&jobs, &job).await;
    assert_eq!((end.state.as_str(), end.exit_code), ("FAILED", Some(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_failed_job_are_kept_for_inspection() {
    let bed = KubernetesBed::new("exit 3").await;
    let (jobs, job) = (bed.jobs(), bed.job("kept", json!({"nodes": 2, "keep_on_failure": "10m"})));
    jobs.submit(&job).await.unwrap();
    let mut releases = Vec::new();
    wait_for("both pods are kept", async || {
        assert_eq!(jobs.poll(&job.cluster, "kept").await.unwrap(), JobStatus::Active);
        let output = text_of_outputs(&jobs, &job).await;
        let kept =
            |line: &str| Some(line.split_once("kept for inspection for 600 s at most; touch ")?.1.to_owned());
        releases = output.lines().filter_map(kept).collect();
        releases.len() == 2
    })
    .await;
    for file in &releases {
        std::fs::write(file.trim_end_matches(" ends it"), "").unwrap();
    }
    assert_eq!(ended(&jobs, &job).await.exit_code, Some(3), "the exit code is that of the benchmark");

    // A deletion does not wait for the inspection, and tests that locate a bad node keep no pods.
    let job = bed.job("deleted", json!({"nodes": 2, "keep_on_failure": "10m"}));
    jobs.submit(&job).await.unwrap();
    wait_for("a pod is kept", async || {
        jobs.poll(&job.cluster, "deleted").await.unwrap();
        text_of_outputs(&jobs, &job).await.contains("kept for inspection")
    })
    .await;
    jobs.cancel(&job.cluster, "deleted").await.unwrap();
    jobs.release(&job.cluster, "deleted").await.unwrap();
    let left = bed.api.list("/pods");
    let ours = |pod: &&serde_json::Value| pod["metadata"]["annotations"][names::JOB] == "deleted";
    assert_eq!(left.iter().filter(ours).count(), 0, "{left:?}");
    let pair = jobs.part(&job.cluster, &["a", "b"]).unwrap();
    assert_eq!(Kubernetes::of(&pair).unwrap().keep_on_failure, None);
    let passed = KubernetesBed::new("true").await;
    let (jobs, job) = (passed.jobs(), passed.job("passed", json!({"nodes": 2, "keep_on_failure": "10m"})));
    jobs.submit(&job).await.unwrap();
    assert_eq!(ended(&jobs, &job).await.exit_code, Some(0), "pods of a successful job are not kept");
}

#[tokio::test]
async fn the_deadline_of_pods_includes_their_retention_period() {
    let bed = KubernetesBed::new("true").await;
    let life = |more| {
        let job = bed.job("life", more);
        let made = manifest::jobset(&job, &Kubernetes::of(&job.cluster).unwrap()).unwrap();
        let made = serde_json::to_value(made).unwrap();
        let spec = &made["spec"]["replicatedJobs"][0]["template"]["spec"];
        let pod = &spec["template"]["spec"]["activeDeadlineSeconds"];
        assert_eq!(&spec["activeDeadlineSeconds"], pod);
        pod.as_u64().unwrap()
    };
    assert_eq!(life(json!({"keep_on_failure": "30m"})), life(json!({})) + 1800);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_cause_in_a_termination_message_decides_the_failure() {
    let glibc = "echo \"/lib/x86_64-linux-gnu/libc.so.6: version \\`GLIBC_2.34' not found (required by libnccl-net.so)\" >&2; exit 1";
    let bed = KubernetesBed::new(glibc).await;
    let (jobs, job) = (bed.jobs(), bed.job("glibc", json!({})));
    jobs.submit(&job).await.unwrap();
    let end = final_status(&jobs, &job).await;
    assert!(
        matches!(&end, Err(PortError::Permanent(why)) if why.code == "GLIBC_MISMATCH" && why.class == Class::Input && why.message.contains("GLIBC_2.34")),
        "{end:?}"
    );
    let again = jobs.poll(&job.cluster, "glibc").await;
    assert_eq!(format!("{again:?}"), format!("{end:?}"), "the end state is final");
    assert!(text_of_outputs(&jobs, &job).await.contains("GLIBC_2.34"), "the output of the job is kept");
}

async fn text_of_outputs(jobs: &dyn Scheduler, job: &cluster_api::JobSpec) -> String {
    let mut all = String::new();
    for file in jobs.outputs(&job.cluster, &job.name).await.unwrap().files {
        all += &text(jobs, job, &file.name).await;
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_reports_the_reason_and_starts_when_it_fits() {
    let bed = KubernetesBed::new("true").await;
    bed.controllers.hold(true);
    let (jobs, job) = (bed.jobs(), bed.job("waits", json!({"queue": "a4"})));
    jobs.submit(&job).await.unwrap();
    wait_for("Kueue reports the reason", async || {
        assert_eq!(jobs.poll(&job.cluster, "waits").await.unwrap(), JobStatus::Active);
        let notes = cluster_kubernetes::job_notes::JobNotes::of(&bed.store, "waits");
        notes.waiting().await.unwrap().iter().any(|line| line.contains(" QUOTA: couldn't assign flavors"))
    })
    .await;
    bed.controllers.hold(false);
    assert_eq!(ended(&jobs, &job).await.state, "COMPLETED");
    assert!(text(&jobs, &job, "waiting.log").await.contains("insufficient unused quota"));
}

/// While a job waits, Kueue is replaced by a release that no longer serves the first API version.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_is_read_in_the_served_version() {
    for (name, first, second) in [("upgraded", "v1beta1", "v1beta2"), ("reverted", "v1beta2", "v1beta1")] {
        let bed = KubernetesBed::new("true").await;
        bed.controllers.hold(true);
        bed.api.serve_kueue(&[first]);
        let (jobs, job) = (bed.jobs(), bed.job(name, json!({"queue": "a4"})));
        jobs.submit(&job).await.unwrap();
        let notes = cluster_kubernetes::job_notes::JobNotes::of(&bed.store, name);
        wait_for("the job's reason for waiting is read", async || {
            assert_eq!(jobs.poll(&job.cluster, name).await.unwrap(), JobStatus::Active);
            let lines = notes.waiting().await.unwrap();
            lines.iter().any(|line| line.contains(" QUOTA: couldn't assign flavors"))
        })
        .await;
        bed.api.serve_kueue(&[second]);
        bed.controllers.evict(name);
        let end = final_status(&jobs, &job).await;
        assert!(matches!(&end, Ok(JobStatus::Lost { code, .. }) if code == "PREEMPTED"), "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_does_not_start_in_time_is_deleted() {
    let bed = KubernetesBed::new("true").await;
    bed.controllers.hold(true);
    let (jobs, job) = (bed.jobs(), bed.job("late", json!({"queue": "a4", "begin_within": "1s"})));
    jobs.submit(&job).await.unwrap();
    let end = final_status(&jobs, &job).await;
    assert!(
        matches!(&end, Err(PortError::Permanent(why)) if why.class == Class::Infrastructure && ["QUOTA", "ADMISSION_TIMEOUT"].contains(&why.code.as_str())),
        "{end:?}"
    );
    wait_for("the objects of the job are deleted", async || {
        bed.api.list("jobset.x-k8s.io/jobsets").is_empty()
    })
    .await;
    bed.controllers.hold(false);
    jobs.submit(&job).await.unwrap();
    assert_eq!(
        (bed.created_jobsets("late"), final_status(&jobs, &job).await.is_err()),
        (1, true),
        "the job is not started again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preempted_job_is_lost_and_never_restarted() {
    let bed = KubernetesBed::new("sleep 30").await;
    let (jobs, job) = (bed.jobs(), bed.job("preempted", json!({"queue": "a4"})));
    jobs.submit(&job).await.unwrap();
    let runs = |pod: &serde_json::Value| pod["status"]["phase"] == "Running";
    wait_for("its pods run", async || {
        _ = jobs.poll(&job.cluster, "preempted").await;
        bed.api.list("/pods").iter().filter(|pod| runs(pod)).count() == 2
    })
    .await;
    bed.controllers.evict("preempted");
    let end = final_status(&jobs, &job).await;
    assert!(matches!(&end, Ok(JobStatus::Lost { code, .. }) if code == "PREEMPTED"), "{end:?}");
    jobs.release(&job.cluster, "preempted").await.unwrap();
    assert_eq!((bed.api.list("/pods").len(), bed.created_jobsets("preempted")), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yielding_job_ends_if_it_is_preempted_or_finds_no_free_nodes() {
    let bed = KubernetesBed::new("sleep 30").await;
    let yields = |more: serde_json::Value| {
        let mut all =
            json!({"queue": "a4", "yields": true, "pod_priority_class": "idle", "begin_within": "1s"});
        all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        all
    };
    let jobs = bed.jobs();
    let refused = bed.job("refused", yields(json!({})));
    let why = jobs.submit(&refused).await;
    assert!(
        matches!(&why, Err(PortError::Permanent(why)) if why.class == Class::Input && why.message.contains("no PriorityClass idle")),
        "{why:?}"
    );
    assert_eq!(bed.created_jobsets("refused"), 0);
    bed.api.priority_class("idle", &json!({"value": -1000, "preemptionPolicy": "Never"}));

    let preempted = bed.job("preempted-idle", yields(json!({"begin_within": "30s"})));
    jobs.submit(&preempted).await.unwrap();
    let runs = |pod: &serde_json::Value| pod["status"]["phase"] == "Running";
    wait_for("its pods run", async || {
        _ = jobs.poll(&preempted.cluster, "preempted-idle").await;
        bed.api.list("/pods").iter().filter(|pod| runs(pod)).count() == 2
    })
    .await;
    let pod = &bed.api.list("/pods")[0];
    let (spec, annotations) = (&pod["spec"], &pod["metadata"]["annotations"]);
    assert_eq!(
        (&spec["priorityClassName"], &spec["terminationGracePeriodSeconds"]),
        (&json!("idle"), &json!(5))
    );
    // JobSet 0.11 would add a label that no API server accepts.
    assert_eq!(annotations["alpha.jobset.sigs.k8s.io/node-selector"], "true");
    bed.controllers.evict("preempted-idle");
    let end = final_status(&jobs, &preempted).await;
    assert!(matches!(&end, Ok(JobStatus::Yielded { .. })), "{end:?}");
    let again = final_status(&bed.jobs(), &preempted).await;
    assert!(matches!(&again, Ok(JobStatus::Yielded { .. })), "the recorded end is final: {again:?}");

    bed.controllers.hold(true);
    let waits = bed.job("waits-idle", yields(json!({})));
    jobs.submit(&waits).await.unwrap();
    let end = final_status(&jobs, &waits).await;
    assert!(matches!(&end, Ok(JobStatus::Yielded { why }) if why.contains("within 1s")), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_deletes_all_objects_and_keeps_the_output() {
    let bed = KubernetesBed::new("echo done").await;
    let (jobs, job) = (bed.jobs(), bed.job("gone", json!({})));
    jobs.submit(&job).await.unwrap();
    ended(&jobs, &job).await;
    let before = text_of_outputs(&jobs, &job).await;
    jobs.release(&job.cluster, "gone").await.unwrap();
    for kind in ["jobset.x-k8s.io/jobsets", "batch/jobs", "/pods", "/services"] {
        assert_eq!(bed.api.list(kind), [] as [serde_json::Value; 0], "{kind}");
    }
    jobs.release(&job.cluster, "gone").await.unwrap();
    assert_eq!(jobs.submit(&job).await.unwrap(), "default/gone", "an ended job is not started again");
    assert_eq!(
        (bed.created_jobsets("gone"), ended(&bed.jobs(), &job).await.state.as_str()),
        (1, "COMPLETED")
    );
    assert_eq!(text_of_outputs(&bed.jobs(), &job).await, before, "the output of the job is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_other_owners_are_not_touched() {
    let bed = KubernetesBed::new("true").await;
    let key = ("jobset.x-k8s.io/jobsets".to_owned(), "default".to_owned(), "theirs".to_owned());
    let theirs = json!({"metadata": {"name": "theirs"}, "spec": {"suspend": true, "replicatedJobs": [{"name": "n", "replicas": 0}]}});
    bed.api.change(|objects| objects.create(&key, theirs)).unwrap();
    let (jobs, job) = (bed.jobs(), bed.job("theirs", json!({})));
    for refused in [
        jobs.submit(&job).await.map(drop),
        jobs.poll(&job.cluster, "theirs").await.map(drop),
        jobs.cancel(&job.cluster, "theirs").await,
        jobs.release(&job.cluster, "theirs").await,
    ] {
        assert!(
            matches!(&refused, Err(PortError::Permanent(why)) if why.code == "NAME_TAKEN"),
            "{refused:?}"
        );
    }
    assert_eq!(bed.api.list("jobset.x-k8s.io/jobsets").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_jobset_is_reported() {
    let bed = KubernetesBed::new("true").await;
    bed.api.fault("POST", "jobsets", kubernetes_standin::Fault::Refused(404));
    let refused = bed.jobs().submit(&bed.job("none", json!({}))).await;
    assert!(matches!(&refused, Err(PortError::Permanent(why)) if why.code == "NOT_FOUND"), "{refused:?}");
    let none =
        bed.jobs().poll(&bed.cluster(json!({"access": {"kubeconfig": {"path": "/nowhere"}}})), "none").await;
    assert!(
        matches!(&none, Err(PortError::Permanent(why)) if why.code == "CREDENTIALS" && why.message.contains("/nowhere")),
        "{none:?}"
    );
}
