//! Runs that yield to other jobs: the real scheduler and the real Kueue preempt the pods of these runs.

use std::{process::Output, time::Duration, time::Instant};

use serde_json::{Value, json};

use super::bed::{HANGS, KubernetesBed, MOST_OF_A_NODE, printed};

const IDLE: &str = "workflows/idle-kubernetes.yaml";
/// CPU request of a user's pod, which does not fit on a node together with a pod of [`MOST_OF_A_NODE`].
const USERS_CPU: &str = "1500m";

/// Creates the priority class of `workflows/idle-kubernetes.yaml` and the permission to list classes. Dropping it deletes them and the
/// pods of users.
struct Shared<'a>(&'a KubernetesBed);

impl<'a> Shared<'a> {
    fn new(bed: &'a KubernetesBed) -> Self {
        let shared = Self(bed);
        bed.create(&class_of_the_workflow());
        // This binding is the one in workflows/a4-gke-testbed/rbac.yaml.
        bed.kubectl("create clusterrolebinding burnin-yields --clusterrole=burnin-yields --serviceaccount=burnin:burnin");
        shared
    }

    /// Creates the pod of another user, without a priority class, for one node.
    fn user_pod(&self, node: &str) {
        let container = json!({"name": "user", "image": self.0.read("image"), "command": ["sleep", "infinity"],
            "resources": {"requests": {"cpu": USERS_CPU}}});
        let spec = json!({"nodeSelector": {"kubernetes.io/hostname": node}, "terminationGracePeriodSeconds": 0,
            "containers": [container]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("user-{node}")}, "spec": spec});
        self.0.create(&pod.to_string());
    }

    /// Whether a pod of a user runs on each of these nodes.
    fn run(&self, nodes: &[&str]) -> bool {
        let pods = self.0.pods("default");
        nodes.iter().all(|node| {
            pods.iter().any(|pod| {
                pod["metadata"]["name"] == format!("user-{node}") && pod["status"]["phase"] == "Running"
            })
        })
    }

    /// Identity of each pod of a user, and the number of its restarts.
    fn states(&self) -> Vec<Value> {
        let of = |pod: &Value| {
            json!([
                pod["metadata"]["uid"],
                pod["status"]["containerStatuses"][0]["restartCount"],
                pod["status"]["phase"]
            ])
        };
        self.0.pods("default").iter().map(of).collect()
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.0.kubectl("delete pods --all -n default --grace-period=0 --force");
        self.0.kubectl("delete priorityclass burnin-idle --ignore-not-found");
        self.0.kubectl("delete clusterrolebinding burnin-yields --ignore-not-found");
    }
}

/// The manifest in the comment of the shipped workflow.
fn class_of_the_workflow() -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(IDLE);
    let text = std::fs::read_to_string(folder).unwrap();
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    assert!(lines.contains(&"kind: PriorityClass"), "{text}");
    lines.join("\n")
}

/// Checks that the run yielded, for a reason with these words, and left no object.
fn yielded(bed: &KubernetesBed, output: &Output, words: &[&str]) {
    let text = printed(output);
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((output.status.code(), &document["conclusion"]), (Some(4), &"yielded".into()), "{text}");
    for word in words {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    bed.wait_for("no object is left", || bed.remaining_objects().is_empty());
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn the_pod_of_another_user_preempts_a_run_that_yields() {
    let bed = KubernetesBed::new();
    let shared = Shared::new(&bed);
    let run =
        bed.run(IDLE, &[&bed.image("image"), "namespace=burnin", MOST_OF_A_NODE, HANGS]).spawn().unwrap();
    // The first check has ended, the second check waits for its ranks.
    let hangs = |pod: &Value| {
        let command = pod["spec"]["containers"][0]["command"].to_string();
        command.contains("all_reduce_perf") && pod["status"]["phase"] == "Running"
    };
    bed.wait_for("both pods of the second check run", || {
        bed.pods("burnin").iter().filter(|pod| hangs(pod)).count() == 2
    });
    let pod = bed.pods("burnin").remove(0);
    assert_eq!(
        (&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]),
        (&json!(-1_000_000), &json!("Never")),
        "{pod}"
    );
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    let begun = Instant::now();
    shared.user_pod(node);
    bed.wait_for("the pod of the user runs", || shared.run(&[node]));
    println!("the pod of the user runs after {:.1} s", begun.elapsed().as_secs_f64());
    assert!(begun.elapsed() < Duration::from_secs(30), "the pods that yield end within 5 s");
    let output = run.wait_with_output().unwrap();
    yielded(&bed, &output, &["preempt", &format!("on node {node}")]);
    let states = shared.states();
    assert_eq!((states.len(), &states[0][1], &states[0][2]), (1, &json!(0), &json!("Running")), "{states:?}");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_run_that_yields_takes_no_node_from_other_users() {
    let bed = KubernetesBed::new();
    let shared = Shared::new(&bed);
    let nodes = ["n1", "n2", "n3"];
    nodes.iter().for_each(|node| shared.user_pod(node));
    bed.wait_for("the pods of the users run", || shared.run(&nodes));
    let before = shared.states();
    let settings = [&bed.image("image"), "namespace=burnin", MOST_OF_A_NODE, "begin_within=10s"];
    let output = bed.run(IDLE, &settings).output().unwrap();
    yielded(&bed, &output, &["0 of 2 pods started within 10s", "Insufficient cpu"]);
    assert_eq!(shared.states(), before);
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_job_of_another_user_in_the_queue_preempts_a_run_that_yields() {
    let bed = KubernetesBed::new();
    let _shared = Shared::new(&bed);
    let yields = ["yields=true", "pod_priority_class=burnin-idle"];
    let output = bed.disturbed(&[&[HANGS, "queue=bed", MOST_OF_A_NODE], &yields[..]].concat(), |_| {
        bed.create(&bed.jobset_of_another_user(None));
    });
    yielded(&bed, &output, &["reempt"]);
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_class_that_does_not_yield_is_refused() {
    let bed = KubernetesBed::new();
    let image = bed.image("image");
    let run = || bed.run(IDLE, &[&image, "namespace=burnin"]).output().unwrap();
    bed.failed(&run(), "PERMISSION_DENIED", &["burnin-yields", "priorityclasses"]);
    let shared = Shared::new(&bed);
    for (changes, expected) in [
        (Some(("value: -1000000", "value: 1")), "has the value 1, which is not below all others"),
        (Some(("preemptionPolicy: Never", "")), "preemptionPolicy: Never"),
        (None, "no PriorityClass burnin-idle exists"),
    ] {
        bed.kubectl("delete priorityclass burnin-idle --ignore-not-found");
        if let Some((from, to)) = changes {
            bed.create(&class_of_the_workflow().replace(from, to));
        }
        bed.failed(&run(), "PRIORITY_CLASS", &[expected]);
    }
    drop(shared);
}
