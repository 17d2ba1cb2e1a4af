//! The Kubernetes backend on a real API server, with the real definitions of JobSet and Kueue, Kubernetes' job and
//! garbage controllers, and only the permissions of the manifest: `.ci/kubernetes.sh`. The tests simulate JobSet's
//! controller, the scheduler and the kubelet.

use std::{path::PathBuf, process::Command, sync::Arc};

use cluster_api::{JobStatus, Scheduler, Settings, scheduler_conformance};
use cluster_kubernetes::{ApiAccess, KubernetesJobs};
use futures::{FutureExt, future::poll_fn};
use kubernetes_standin::{ControllerSettings, KubernetesControllers, PodLogs};
use ledger::{MemoryStore, Store};
use model::{Cluster, Drained};
use serde_json::{Value, json};
use service::PortError;

use crate::bed::{self, ended, final_status, text, wait_for};

/// A real cluster, with stand-ins for the components that the test simulates.
struct RealCluster {
    folder: PathBuf,
    store: Arc<dyn Store>,
    _world: KubernetesControllers,
    _kubelet: tokio::task::JoinHandle<()>,
    _programs: tempfile::TempDir,
}

impl RealCluster {
    async fn new(program: &str) -> Self {
        let folder =
            PathBuf::from(std::env::var("BURNIN_KUBERNETES_BED").expect("a variable of .ci/kubernetes.sh"));
        let programs = tempfile::tempdir().unwrap();
        let file = programs.path().join("all_reduce_perf");
        std::fs::write(&file, format!("#!/bin/bash\n{program}\n")).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let controller_settings = ControllerSettings {
            endpoint: read("endpoint"),
            token: Some(read("admin-token")),
            programs: programs.path().to_owned(),
            has_controllers: true,
            ..ControllerSettings::default()
        };
        let logs = PodLogs::default();
        let kubelet = logs.serve("127.0.0.1:10255").await.unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        Self {
            folder,
            store,
            _world: KubernetesControllers::start(controller_settings, logs),
            _kubelet: kubelet,
            _programs: programs,
        }
    }

    fn cluster(&self, mut more: Value) -> Cluster {
        let path = self.folder.join("kubeconfig").display().to_string();
        if more["namespace"].is_null() {
            more["namespace"] = json!("burnin");
        }
        let settings = bed::settings(ApiAccess::Kubeconfig { path: Some(path), context: None }, more);
        Cluster { name: "real".into(), nodes: vec![], access: Settings::access(&settings) }
    }

    fn jobs(&self) -> KubernetesJobs {
        KubernetesJobs::new(Arc::clone(&self.store))
    }

    fn kubectl(&self, words: &str) -> String {
        let mut command = Command::new("kubectl");
        let command =
            command.arg("--kubeconfig").arg(self.folder.join("admin")).args(words.split_whitespace());
        let output = command.output().unwrap();
        assert!(output.status.success(), "kubectl {words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// All objects in the namespace that a job may have left.
    fn remaining_objects(&self) -> String {
        self.kubectl("get jobsets,jobs,pods,services,secrets,pvc -n burnin -o name")
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server; start it with .ci/kubernetes.sh"]
async fn jobs_on_a_real_api_server_conform() {
    let real = RealCluster::new("echo \"rank $BURNIN_RANK of $BURNIN_RANKS: $*\"; sleep 1").await;
    let cluster = real.cluster(json!({}));
    scheduler_conformance::scheduler(&real.jobs(), &cluster, |name| bed::job(name, cluster.clone())).await;
    for name in ["one", "two", "three"] {
        wait_for("the job's deletion is confirmed", async || {
            real.jobs().release(&cluster, name).await.is_ok()
        })
        .await;
    }
    assert_eq!(real.remaining_objects(), "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server; start it with .ci/kubernetes.sh"]
async fn every_manifest_is_accepted_by_jobset() {
    let real = RealCluster::new("true").await;
    let plugin = json!({"image": format!("registry.example/gib@sha256:{}", "1".repeat(64)), "command": ["/install.sh"], "folder": "/usr/local/gib"});
    let all = json!({
        "nodes": 2, "ranks_per_node": 8, "gpus_per_node": 8, "memory_mib": 1024, "cpu_millis": 500, "queue": "a4",
        "priority_class": "high", "topology": {"required": "cloud.google.com/gce-topology-block"}, "launch": "mpi",
        "plugin": plugin, "profile": "/usr/local/gib/scripts/set_nccl_env.sh", "service_account": "testbed",
        "image_pull_secret": "registry", "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-b200"},
        "tolerate": ["nvidia.com/gpu"], "annotations": {"networking.gke.io/default-interface": "eth0"},
        "privileged": true, "host_network": true, "socket_interface": "eth0", "environment": {"A": "it's $(x)"}
    });
    let mut job = bed::job("everything", real.cluster(all));
    job.labels.insert("burnin-odd".into(), "no label: at all".into());
    real.jobs().submit(&job).await.unwrap();
    let made: Value = serde_json::from_str(&real.kubectl("get jobset everything -n burnin -o json")).unwrap();
    let pod = &made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "8");
    assert_eq!(
        pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"],
        "cloud.google.com/gce-topology-block"
    );
    assert_eq!(made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "a4");
    // Kubernetes' job controller receives the objects that JobSet would create.
    wait_for("the job of the JobSet and its pods are created", async || {
        real.kubectl("get pods -n burnin -l burnin-job=everything -o name").lines().count() == 2
    })
    .await;
    // The secret with the keys is owned by the JobSet and deleted with it.
    let secret: Value =
        serde_json::from_str(&real.kubectl("get secret everything-ssh -n burnin -o json")).unwrap();
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], made["metadata"]["uid"]);
    real.jobs().cancel(&job.cluster, "everything").await.unwrap();
    // The job is cancelled, or has failed before that, because this host has no mpirun.
    _ = final_status(&real.jobs(), &job).await;
    wait_for("the job's deletion is confirmed", async || {
        real.jobs().release(&job.cluster, "everything").await.is_ok()
    })
    .await;
    assert_eq!(real.remaining_objects(), "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server; start it with .ci/kubernetes.sh"]
async fn an_agent_crash_at_any_point_leaves_one_real_jobset() {
    let real = RealCluster::new("echo begun").await;
    let mut ended_well = 0;
    for polls in 0..60u32 {
        let job = bed::job(&format!("dies-{polls}"), real.cluster(json!({})));
        let jobs = real.jobs();
        let mut submission = Box::pin(jobs.submit(&job));
        let mut left = polls;
        let cut = poll_fn(|context| {
            if left == 0 {
                return std::task::Poll::Ready(None);
            }
            left -= 1;
            submission.poll_unpin(context).map(Some)
        });
        let cut = cut.await.is_none();
        drop(submission);
        real.jobs().submit(&job).await.unwrap();
        assert_eq!(
            ended(&real.jobs(), &job).await.state,
            "COMPLETED",
            "the job resubmitted after {polls} polls completes"
        );
        let mut begun = 0;
        for file in real.jobs().outputs(&job.cluster, &job.name).await.unwrap().files {
            begun += text(&real.jobs(), &job, &file.name).await.matches("begun\n").count();
        }
        assert_eq!(begun, 2, "each rank starts once after {polls} polls");
        wait_for("the job's deletion is confirmed", async || {
            real.jobs().release(&job.cluster, &job.name).await.is_ok()
        })
        .await;
        real.jobs().submit(&job).await.unwrap();
        assert_eq!(real.remaining_objects(), "", "the job is not started again");
        ended_well += u32::from(!cut);
        if ended_well == 2 {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server; start it with .ci/kubernetes.sh"]
async fn missing_permissions_and_refusals_are_reported() {
    let real = RealCluster::new("true").await;
    let cluster = real.cluster(json!({"namespace": "kube-system"}));
    let refused = real.jobs().submit(&bed::job("elsewhere", cluster)).await;
    assert!(
        matches!(&refused, Err(PortError::Permanent(why)) if why.code == "PERMISSION_DENIED" && why.message.contains("jobset")),
        "{refused:?}"
    );
    let none = real.jobs().poll(&real.cluster(json!({})), "never").await.unwrap();
    assert_eq!(none, JobStatus::Absent);
}

/// Deletes cluster-wide objects that a test created.
struct Created<'a>(&'a RealCluster, &'static str);

impl Drop for Created<'_> {
    fn drop(&mut self) {
        self.0.kubectl(&format!("delete --ignore-not-found {}", self.1));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server; start it with .ci/kubernetes.sh"]
async fn a_node_is_drained_and_returned_with_the_roles_of_the_manifest() {
    let real = RealCluster::new("true").await;
    let (jobs, cluster) = (real.jobs(), real.cluster(json!({})));
    let node = || serde_json::from_str::<Value>(&real.kubectl("get node node-1 -o json")).unwrap();
    let reason = Drained::reason(&"night-1".parse().unwrap());
    let refused = jobs.drain(&cluster, "node-1", &reason).await;
    assert!(
        matches!(&refused, Err(PortError::Permanent(why)) if why.code == "NOT_DRAINED" && why.message.contains("burnin-drain")),
        "{refused:?}"
    );
    assert_eq!(node()["spec"]["unschedulable"], Value::Null);
    let _binding = Created(&real, "clusterrolebinding/burnin-drain");
    real.kubectl(
        "create clusterrolebinding burnin-drain --clusterrole=burnin-drain --serviceaccount=burnin:burnin",
    );
    jobs.drain(&cluster, "node-1", &reason).await.unwrap();
    jobs.drain(&cluster, "node-1", &reason).await.unwrap();
    let drained = node();
    assert_eq!(
        (&drained["spec"]["unschedulable"], &drained["metadata"]["annotations"]["burnin.dev/drained"]),
        (&json!(true), &json!(reason))
    );
    jobs.return_node(&cluster, "node-1").await.unwrap();
    jobs.return_node(&cluster, "node-1").await.unwrap();
    let returned = node();
    assert_eq!(
        (&returned["spec"]["unschedulable"], &returned["metadata"]["annotations"]["burnin.dev/drained"]),
        (&Value::Null, &Value::Null)
    );
    // An administrator cordons the node, so Burnin must not return it to service.
    real.kubectl("cordon node-1");
    let kept = jobs.return_node(&cluster, "node-1").await;
    assert!(
        matches!(&kept, Err(PortError::Permanent(why)) if why.message == "node-1 is cordoned, without a reason; uncordon it with `kubectl uncordon node-1`"),
        "{kept:?}"
    );
    real.kubectl("uncordon node-1");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Kubernetes API server; start it with .ci/kubernetes.sh"]
async fn only_the_lowest_priority_class_yields() {
    let real = RealCluster::new("true").await;
    let yields = |name: &str| {
        bed::job(name, real.cluster(json!({"yields": true, "pod_priority_class": "burnin-idle"})))
    };
    let refused = async |name: &str| match real.jobs().submit(&yields(name)).await {
        Err(PortError::Permanent(why)) => format!("{}: {}", why.code, why.message),
        other => panic!("{other:?}"),
    };
    let message = refused("without-permission").await;
    assert!(message.starts_with("PERMISSION_DENIED") && message.contains("burnin-yields"), "{message}");
    let _binding = Created(&real, "clusterrolebinding/burnin-yields");
    real.kubectl(
        "create clusterrolebinding burnin-yields --clusterrole=burnin-yields --serviceaccount=burnin:burnin",
    );
    let message = refused("without-class").await;
    assert!(
        message.starts_with("PRIORITY_CLASS") && message.contains("no PriorityClass burnin-idle"),
        "{message}"
    );
    let _class = Created(&real, "priorityclass/burnin-idle");
    // Kubernetes' own classes are above all others; a class without `preemptionPolicy` preempts.
    for (arguments, expected) in [
        ("--value=-1000000", "may preempt other pods"),
        ("--value=1 --preemption-policy=Never", "has the value 1, which is not below"),
    ] {
        real.kubectl(&format!("create priorityclass burnin-idle {arguments}"));
        let message = refused("refused").await;
        assert!(message.starts_with("PRIORITY_CLASS") && message.contains(expected), "{message}");
        real.kubectl("delete priorityclass burnin-idle");
    }
    real.kubectl("create priorityclass burnin-idle --value=-1000000 --preemption-policy=Never");
    let job = yields("idle");
    real.jobs().submit(&job).await.unwrap();
    // The API server's admission sets both fields of the pods from their class.
    let mut pods = Vec::new();
    wait_for("the pods of the job are created", async || {
        let list: Value =
            serde_json::from_str(&real.kubectl("get pods -n burnin -l burnin-job=idle -o json")).unwrap();
        pods = list["items"].as_array().cloned().unwrap();
        pods.len() == 2
    })
    .await;
    for pod in pods {
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["priority"], &spec["preemptionPolicy"]),
            (&json!(-1_000_000), &json!("Never")),
            "{spec}"
        );
    }
    assert_eq!(ended(&real.jobs(), &job).await.state, "COMPLETED");
    wait_for("the job's deletion is confirmed", async || {
        real.jobs().release(&job.cluster, "idle").await.is_ok()
    })
    .await;
    assert_eq!(real.remaining_objects(), "");
}
