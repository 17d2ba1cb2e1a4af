//! State of a job from recorded objects of a real API server, JobSet and Kueue, and from the same objects with other
//! reasons of Kubernetes.

use std::{fs, path::Path};

use cluster_kubernetes::state::{self, JobFinding, JobObjects, derive, known_failure};
use cluster_kubernetes::{
    Kubernetes, Topology,
    objects::{Conditions, JobSet, KueueWorkload},
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use model::{Class, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Objects of a job as JSON, so that tests can change them.
#[derive(Clone, Debug)]
struct Recorded {
    jobset: Value,
    pods: Vec<Value>,
    jobs: Vec<Value>,
    workload: Option<Value>,
    events: Vec<Value>,
}

impl Recorded {
    fn read(&self) -> JobObjects {
        JobObjects {
            jobset: typed(&self.jobset),
            pods: self.pods.iter().map(typed).collect(),
            jobs: self.jobs.iter().map(typed).collect(),
            workload: self.workload.as_ref().map(typed),
            events: self.events.iter().map(typed).collect(),
        }
    }
}

fn typed<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"))
}

/// The recorded watch of a scenario.
fn stream(scenario: &str, kind: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kubernetes-1.32");
    let file = folder.join(format!("{scenario}.{kind}.watch.jsonl"));
    // No pod existed in this scenario, so it has no watch of pods.
    let none = (scenario, kind) == ("quota-pending-then-deleted", "pods");
    let text = if none { String::new() } else { fs::read_to_string(file).unwrap() };
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All objects as recorded up to the first change of a JobSet that `last` matches.
fn recorded_until(scenario: &str, last: impl Fn(&Value) -> bool) -> Recorded {
    let jobsets = stream(scenario, "jobsets");
    let jobset = jobsets.iter().map(|event| &event["object"]).find(|object| last(object)).unwrap().clone();
    let version =
        |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let until = version(&jobset);
    let newest = |kind: &str| {
        let mut found = std::collections::BTreeMap::new();
        for event in stream(scenario, kind) {
            let object = event["object"].clone();
            if version(&object) <= until {
                found.insert(object["metadata"]["uid"].as_str().unwrap().to_owned(), object);
            }
        }
        found.into_values().collect::<Vec<_>>()
    };
    let (pods, jobs, workload) = (newest("pods"), newest("jobs"), newest("workloads").pop());
    Recorded { jobset, pods, jobs, workload, events: newest("events") }
}

/// Every recorded object can be read, including the fields that decisions use.
#[test]
fn every_line_of_the_recorded_watches_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kubernetes-1.32");
    let mut read = std::collections::BTreeMap::<String, usize>::new();
    let (mut reserved, mut ended) = (0, 0);
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some((_, kind)) = name.strip_suffix(".watch.jsonl").and_then(|name| name.split_once('.')) else {
            continue;
        };
        for line in fs::read_to_string(&path).unwrap().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let object = &event["object"];
            let uid = match kind {
                "pods" => typed::<Pod>(object).metadata.uid,
                "jobs" => typed::<Job>(object).metadata.uid,
                "events" => typed::<Event>(object).metadata.uid,
                "jobsets" => {
                    let jobset: JobSet = typed(object);
                    assert_eq!(
                        jobset.status.terminal_state.as_deref(),
                        object["status"]["terminalState"].as_str()
                    );
                    ended += usize::from(state::has_ended(&jobset));
                    jobset.metadata.uid
                }
                "workloads" => {
                    let workload: KueueWorkload = typed(object);
                    let conditions = workload.status.conditions.as_ref().map_or(0, Vec::len);
                    assert_eq!(
                        conditions,
                        object["status"]["conditions"].as_array().map_or(0, Vec::len),
                        "{line}"
                    );
                    reserved += usize::from(workload.holds("QuotaReserved").is_some());
                    workload.metadata.uid
                }
                other => panic!("{name}: expected objects of a known kind, found {other}"),
            };
            assert_eq!(uid.as_deref(), object["metadata"]["uid"].as_str(), "{name}: {line}");
            *read.entry(kind.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(read.len(), 5, "{read:?}");
    assert!(reserved > 0 && ended > 0, "{read:?}");
}

#[test]
fn unknown_fields_and_values_are_accepted() {
    let jobset: JobSet = typed(
        &json!({"kind": "JobSet", "new": {"a": 1}, "status": {"terminalState": "Paused", "newer": []}}),
    );
    assert!(state::has_ended(&jobset), "an unknown end state is treated as an end state");
    let workload: KueueWorkload = typed(
        &json!({"metadata": {}, "status": {"conditions": [{"type": "New", "status": "Maybe", "x": 1}]}}),
    );
    assert!(workload.condition("New").is_some() && workload.holds("New").is_none());
    let pod: Pod = typed(&json!({"metadata": {}, "status": {"phase": "Resting", "new": true}}));
    assert!(!state::began(&pod));
}

fn settings() -> Kubernetes {
    serde_json::from_value(json!({"nodes": 2, "queue": "a4-high"})).unwrap()
}

fn at(known: &Recorded) -> JobFinding {
    let now = "2026-11-20T19:02:30.000Z".parse::<Timestamp>().unwrap();
    derive(&known.read(), &settings(), now)
}

fn terminal(object: &Value) -> bool {
    object["status"]["terminalState"].is_string()
}

#[test]
fn a_completed_job_is_recognized() {
    let known = recorded_until("success", terminal);
    let JobFinding::Ended(end) = at(&known) else { panic!("{:?}", at(&known)) };
    assert_eq!((end.state.as_str(), end.exit_code), ("COMPLETED", Some(0)));
    assert_eq!(end.started_at.unwrap().to_string(), "2026-11-20T19:01:41.000Z");
}

#[test]
fn the_states_of_a_starting_job_are_recognized() {
    let mut codes = Vec::new();
    for event in stream("success", "jobsets") {
        let version = event["object"]["metadata"]["resourceVersion"].clone();
        let known = recorded_until("success", |object| object["metadata"]["resourceVersion"] == version);
        codes.push(match at(&known) {
            JobFinding::Waiting { code, .. } => code.to_owned(),
            JobFinding::Active => "going".to_owned(),
            JobFinding::Ended(end) => end.state,
            other => panic!("{other:?}"),
        });
    }
    codes.dedup();
    assert_eq!(codes, ["WAITING", "going", "COMPLETED"]);
}

/// One recorded object of each kind.
fn recorded(scenario: &str) -> Recorded {
    let file = format!("tests/data/kubernetes-1.32/{scenario}.objects.json");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let of = |kind: &str| all[kind].as_array().cloned().unwrap_or_default();
    let (jobset, workload) = (of("jobsets").pop().unwrap(), of("workloads").pop());
    Recorded { jobset, pods: of("pods"), jobs: of("jobs"), workload, events: of("events") }
}

/// The kubelet of a node was killed, so its pod cannot be deleted. Kubernetes waits for the deletion before the job, and then the JobSet,
/// fails.
#[test]
fn a_pod_on_an_unreachable_node_is_lost_at_once() {
    let known = recorded("node-lost");
    assert!(known.jobset["status"]["terminalState"].is_null());
    let JobFinding::Lost { code, why } = at(&known) else { panic!("{:?}", at(&known)) };
    assert_eq!(code, "NODE_LOST");
    assert!(why.contains("-n-0-0-cg8fh on node n3: Taint manager"), "{why}");
    assert!(state::node_lost(&typed(&known.pods[0])));
}

/// Kueue's message for three pods in one block of two nodes, each with room for one.
#[test]
fn an_unsatisfied_topology_is_reported_as_the_reason_for_waiting() {
    let known = recorded("topology-too-large");
    let created =
        known.jobset["metadata"]["creationTimestamp"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let JobFinding::Waiting { code, why } = derive(&known.read(), &settings(), created) else {
        panic!("{known:?}")
    };
    assert_eq!(code, "TOPOLOGY");
    assert!(why.contains("topology \"bed\""), "{why}");
}

/// JobSet 0.11 labeled the pods with their priority -1000000, and the API server rejected the pods. The job's events report this.
#[test]
fn pods_that_the_api_server_rejects_fail_at_once() {
    let known = recorded("negative-priority");
    let JobFinding::Failed(failure) = at(&known) else { panic!("{:?}", at(&known)) };
    assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "POD_INVALID"));
    assert!(failure.message.contains("metadata.labels: Invalid value: \"-1000000\""), "{}", failure.message);
}

/// Two pods of half a node each: Kueue assigned both to one node, where only one may run.
#[test]
fn two_pods_assigned_to_one_node_fail_at_once() {
    let mut settings = settings();
    let known = recorded("two-on-one-node");
    let created =
        known.jobset["metadata"]["creationTimestamp"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let waits = derive(&known.read(), &settings, created);
    assert!(
        matches!(waits, JobFinding::Waiting { code: "UNSCHEDULABLE", .. }),
        "without a required topology the pods wait: {waits:?}"
    );
    settings.topology = Some(Topology::Required("bed/block".to_owned()));
    let JobFinding::Failed(why) = derive(&known.read(), &settings, created) else { panic!("{known:?}") };
    assert_eq!((why.class, why.code.as_str()), (Class::Input, "TOPOLOGY"));
    assert!(why.message.contains("more than half of a node"), "{}", why.message);
}

/// Burnin submits JobSets without restarts; JobSets with restarts are read as well.
#[test]
fn a_failed_job_has_the_exit_code_of_its_first_pod() {
    let known = recorded_until("failure-one-restart", terminal);
    let JobFinding::Ended(end) = at(&known) else { panic!("{:?}", at(&known)) };
    assert_eq!((end.state.as_str(), end.exit_code, end.signal), ("FAILED", Some(3), None));
}

#[test]
fn a_job_with_recreated_pods_is_lost() {
    let known = recorded_until("failure-one-restart", |object| {
        object["status"]["restarts"] == 1 && object["status"]["replicatedJobsStatus"][0]["ready"] == 1
    });
    assert!(matches!(at(&known), JobFinding::Lost { code, .. } if code == "RESTARTED"), "{:?}", at(&known));
}

#[test]
fn a_request_above_the_maximum_quota_fails() {
    let known =
        recorded_until("quota-pending-then-deleted", |object| object["status"]["conditions"].is_array());
    let JobFinding::Failed(failure) = at(&known) else { panic!("{:?}", at(&known)) };
    assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "QUOTA"));
    assert!(failure.message.contains("maximum capacity (40 > 32)"), "{}", failure.message);
}

/// The recorded job before any pod ran, with another first condition of Kueue's Workload.
fn queued(reason: &str, message: &str) -> Recorded {
    let mut known =
        recorded_until("quota-pending-then-deleted", |object| object["status"]["conditions"].is_array());
    let condition = &mut known.workload.as_mut().unwrap()["status"]["conditions"][0];
    assert_eq!(condition["type"], "QuotaReserved", "the recorded condition is replaced");
    (condition["reason"], condition["message"]) = (json!(reason), json!(message));
    known
}

/// The recorded pods, scheduled but not started, with this patch of their status.
fn pending(status: Value) -> Recorded {
    let mut known =
        recorded_until("success", |object| object["status"]["replicatedJobsStatus"][0]["active"] == 1);
    for pod in &mut known.pods {
        for (field, value) in status.as_object().unwrap() {
            pod["status"][field] = value.clone();
        }
    }
    known
}

/// A container that cannot start.
fn stuck(reason: &str, message: &str) -> Recorded {
    pending(
        json!({"containerStatuses": [{"name": "benchmark", "state": {"waiting": {"reason": reason, "message": message}}}]}),
    )
}

/// The recorded failure, with these changes to the last pod's status and to the termination of its container.
fn broken(status: Value, terminated: Value) -> Recorded {
    let mut known = recorded_until("failure-one-restart", terminal);
    let pod = known.pods.last_mut().unwrap();
    for (field, value) in status.as_object().unwrap() {
        pod["status"][field] = value.clone();
    }
    for (field, value) in terminated.as_object().unwrap() {
        pod["status"]["containerStatuses"][0]["state"]["terminated"][field] = value.clone();
    }
    known
}

fn disrupted(reason: &str, message: &str) -> Recorded {
    let condition =
        json!([{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]);
    broken(json!({"conditions": condition}), json!({}))
}

/// A pod that the kubelet ended. Its graceful node shutdown and its eviction manager set the reason of the status and the condition
/// (pkg/kubelet/nodeshutdown and pkg/kubelet/eviction of Kubernetes 1.26 and later).
fn by_kubelet(reason: &str, message: &str) -> Recorded {
    let condition = json!([{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}]);
    broken(json!({"reason": reason, "message": message, "conditions": condition}), json!({}))
}

fn with_message(message: &str) -> Recorded {
    broken(json!({}), json!({"message": message}))
}

/// Kind and code of a finding.
fn code(known: &Recorded) -> String {
    match at(known) {
        JobFinding::Active => "going".to_owned(),
        JobFinding::Waiting { code, .. } => format!("waits {code}"),
        JobFinding::Ended(end) => format!("ended {} {:?}", end.state, end.exit_code),
        JobFinding::Lost { code, .. } => format!("lost {code}"),
        JobFinding::Failed(failure) => format!("{:?} {}", failure.class, failure.code).to_lowercase(),
    }
}

#[test]
fn every_failure_has_a_code() {
    let evicted = |reason: &str, message: &str| {
        let mut known =
            recorded_until("success", |object| object["status"]["replicatedJobsStatus"][0]["ready"] == 1);
        let conditions = known.workload.as_mut().unwrap()["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "Evicted", "status": "True", "reason": reason, "message": message}));
        known
    };
    let unschedulable = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."}]});
    let cases = [
        ("waits IMAGE_PULL", stuck("ErrImagePull", "dial tcp: i/o timeout")),
        (
            "input image_pull",
            stuck(
                "ImagePullBackOff",
                "Back-off pulling image: rpc error: code = NotFound: failed to resolve: x@sha256:00: not found",
            ),
        ),
        (
            "input image_pull",
            stuck(
                "ErrImagePull",
                "pull access denied, repository does not exist or may require authorization",
            ),
        ),
        ("input image_pull", stuck("InvalidImageName", "couldn't parse image name")),
        ("input container", stuck("CreateContainerConfigError", "secret \"x\" not found")),
        ("input container", stuck("RunContainerError", "exec: \"bash\": executable file not found in $PATH")),
        ("waits UNSCHEDULABLE", pending(unschedulable)),
        (
            "waits QUOTA",
            queued(
                "Pending",
                "couldn't assign flavors to pod set workload: insufficient unused quota for nvidia.com/gpu in flavor a4, 8 more needed",
            ),
        ),
        ("waits QUOTA", queued("WaitingForQuota", "waiting")),
        ("input quota", queued("ExceedsMaxQuota", "more than the quota")),
        (
            "waits TOPOLOGY",
            queued(
                "Pending",
                "topology \"gke-default\" doesn't allow to fit any of 2 pod(s). Total nodes: 4; excluded: resource \"nvidia.com/gpu\": 4",
            ),
        ),
        ("waits TOPOLOGY", queued("TopologyPlacementFailed", "no")),
        (
            "input topology",
            queued("Pending", "no topology domains at level: cloud.google.com/gce-topology-block"),
        ),
        ("input queue", queued("Inadmissible", "LocalQueue a4 doesn't exist")),
        ("lost PREEMPTED", evicted("Preempted", "Preempted to accommodate a workload")),
        ("lost NODE_LOST", evicted("NodeFailures", "node gke-a4-1 is not ready")),
        ("lost EVICTED", evicted("ClusterQueueStopped", "The ClusterQueue is stopped")),
        ("infrastructure admission_timeout", evicted("PodsReadyTimeout", "Exceeded the PodsReady timeout")),
        (
            "lost PREEMPTED",
            disrupted(
                "PreemptionByScheduler",
                "default-scheduler: preempting to accommodate a higher priority pod",
            ),
        ),
        ("lost EVICTED", disrupted("EvictionByEvictionAPI", "Eviction API: evicting")),
        ("lost EVICTED", disrupted("TerminationByKubelet", "The node was low on resource: memory")),
        ("lost EVICTED", by_kubelet("Evicted", "The node was low on resource: memory")),
        ("lost EVICTED", by_kubelet("Preempting", "Preempted in order to admit critical pod")),
        (
            "lost NODE_LOST",
            by_kubelet("Terminated", "Pod was terminated in response to imminent node shutdown."),
        ),
        (
            "lost NODE_LOST",
            disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
        ),
        (
            "lost EVICTED",
            broken(
                json!({"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}),
                json!({}),
            ),
        ),
        (
            "lost NODE_LOST",
            broken(
                json!({"reason": "NodeShutdown", "message": "Pod was terminated in response to imminent node shutdown."}),
                json!({}),
            ),
        ),
        ("ended OUT_OF_MEMORY Some(137)", broken(json!({}), json!({"reason": "OOMKilled", "exitCode": 137}))),
        ("ended TIMEOUT None", broken(json!({"reason": "DeadlineExceeded"}), json!({}))),
        ("infrastructure dns_not_ready", with_message("DNS_NOT_READY DNS does not resolve x-n-0-1.x\n")),
        (
            "infrastructure dns_not_ready",
            with_message("ssh: Could not resolve hostname x-n-0-1.x: Name or service not known"),
        ),
        (
            "infrastructure ssh_refused",
            with_message(
                "SSH_REFUSED x-n-0-1.x: ssh: connect to host x-n-0-1.x port 2222: Connection refused\n",
            ),
        ),
        ("infrastructure ssh_refused", with_message("root@x: Permission denied (publickey).")),
        ("input unfit", with_message("UNFIT the image has no sshd\n")),
        ("input gib_missing", with_message("p:1:1 [0] NCCL WARN Error: network gIB not found.\n")),
        (
            "input gib_missing",
            with_message(
                "gke-1: /usr/local/gib/scripts/set_nccl_env.sh cannot be read: the network plugin is not in the pod\n",
            ),
        ),
        (
            "input glibc_mismatch",
            with_message(
                "NCCL WARN Error: network gIB not found.\n/lib/libc.so.6: version `GLIBC_2.34' not found (required by /usr/local/gib/lib64/libnccl-net.so)\n",
            ),
        ),
        ("input rdma_missing", with_message("p:1:1 [0] NCCL INFO NET/gIB : No device found.\n")),
        (
            "ended FAILED Some(3)",
            with_message("p: Test NCCL failure common.cu:958 'unhandled system error'\n"),
        ),
    ];
    for (expected, known) in cases {
        assert_eq!(code(&known), expected, "{:?}", at(&known));
    }
}

#[test]
fn a_wait_timeout_names_the_reason() {
    let late = "2026-11-20T20:02:30.000Z".parse::<Timestamp>().unwrap();
    for (expected, known) in [
        ("TOPOLOGY", queued("TopologyPlacementFailed", "no")),
        ("IMAGE_PULL", stuck("ErrImagePull", "dial tcp: i/o timeout")),
        ("ADMISSION_TIMEOUT", queued("Pending", "not yet")),
    ] {
        let found = derive(&known.read(), &settings(), late);
        let JobFinding::Failed(failure) = found else { panic!("{expected}: {found:?}") };
        assert_eq!((failure.class, failure.code.as_str()), (Class::Infrastructure, expected));
        assert!(failure.message.starts_with("0 of 2 pods started within 30m"), "{}", failure.message);
    }
}

#[test]
fn an_unknown_termination_message_has_no_code_and_a_long_one_is_cut() {
    assert_eq!(known_failure(""), None);
    assert_eq!(known_failure("all is well"), None);
    let long = format!("{} GLIBC_2.34 not found", "x".repeat(9000));
    assert!(known_failure(&long).is_some_and(|(.., line)| line.len() <= 500));
}
