//! The objects of a job. Pure: the same job always gives the same ones.

use std::collections::BTreeMap;

use apiserver::HOSTNAME;
use ledger::Digest;
use model::{Class, Failure, Kubernetes, Launch, Topology};
use serde_json::{Map, Value, json};

use super::script;
use crate::port::Job;

/// The name of the replicated job; pods are `{jobset}-{this}-0-{index}-{random}`. Where nodes are named each has a
/// replicated job of its own, and its number is behind this: pods are `{jobset}-{this}{number}-0-0-{random}`.
pub const REPLICATED: &str = "n";
/// The container that is measured.
pub const CONTAINER: &str = "benchmark";
/// Whose job it is, in full: what an object must carry to be taken for ours.
pub const JOB: &str = "burnin.dev/job";
/// On a JobSet that only keeps its name from being used.
pub const FENCE: &str = "burnin.dev/cancelled";
/// The label by which everything of a job is found.
pub const LABEL: &str = "burnin-job";
/// Where the plugin's container finds the folder that it fills.
const PLUGIN: &str = "/plugin";
/// Longest name of a JobSet: its pods' names must be names of DNS.
const LONGEST: usize = 44;
/// What a pod gets on top of the job's limit, to be reached and to end, seconds.
const SLACK: u64 = 1800;
/// How long an ended JobSet can be looked at, should nobody take it away, seconds.
const KEPT: u64 = 86_400;

/// The JobSet of a job. Names that are too long are cut, and told apart by a digest.
pub fn name(job: &str) -> String {
    let clean: String = job
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .collect();
    let starts = clean.starts_with(|first: char| first.is_ascii_lowercase());
    if clean == job && starts && clean.len() <= LONGEST && !clean.ends_with('-') {
        return clean;
    }
    let kept: String = clean.chars().take(LONGEST - 11).collect();
    format!("j-{}-{}", kept.trim_matches('-'), &Digest::of(job.as_bytes()).sha256[..8])
}

/// The JobSet of a job.
///
/// # Errors
/// When the job cannot be one: its programs are files and no container image.
pub fn jobset(job: &Job, settings: &Kubernetes) -> Result<Value, Failure> {
    let name = name(&job.name);
    let (labels, annotations) = marks(job, &name);
    let mut top = labels.clone();
    let mut put = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            top.insert(key.to_owned(), json!(value));
        }
    };
    put("kueue.x-k8s.io/queue-name", &settings.queue);
    put("kueue.x-k8s.io/priority-class", &settings.priority_class);
    let life = job.limit.0.as_secs() + SLACK;
    let pods = |count: u32, pod: Value| {
        json!({
            "completionMode": "Indexed", "parallelism": count, "completions": count,
            "backoffLimit": 0, "activeDeadlineSeconds": life,
            "template": {"metadata": {"labels": labels, "annotations": pod_annotations(settings, &annotations)},
                         "spec": pod},
        })
    };
    let replicated = |name: String, spec: Value| json!({"name": name, "replicas": 1, "template": {"metadata": {"labels": labels}, "spec": spec}});
    let whole = pod(job, settings, &name, life)?;
    let mut success = json!({"operator": "All"});
    let replicated_jobs: Vec<Value> = if settings.only_nodes.is_empty() {
        let mut spec = pods(settings.nodes, whole);
        if settings.launch == Launch::Mpi {
            // The first pod's word is the job's: the others, which wait, are ended with it.
            spec["successPolicy"] = json!({"rules": [{"succeededIndexes": "0", "succeededCount": 1}]});
        }
        vec![replicated(REPLICATED.to_owned(), spec)]
    } else {
        if settings.launch == Launch::Mpi {
            success["targetReplicatedJobs"] = json!([format!("{REPLICATED}0")]);
        }
        // Kueue's topology heeds a pod's node selector, and no affinity to nodes.
        let on = |(number, node): (usize, &String)| {
            let mut pod = whole.clone();
            pod["nodeSelector"][HOSTNAME] = json!(node);
            let environment = pod["containers"][0]["env"].as_array_mut();
            environment
                .into_iter()
                .for_each(|all| all.push(json!({"name": "BURNIN_INDEX", "value": number.to_string()})));
            replicated(format!("{REPLICATED}{number}"), pods(1, pod))
        };
        settings.only_nodes.iter().enumerate().map(on).collect()
    };
    Ok(json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": top, "annotations": annotations},
        "spec": {
            // Kueue lets it begin when all of it fits.
            "suspend": settings.queue.is_some(),
            "ttlSecondsAfterFinished": KEPT,
            "network": {"enableDNSHostnames": true, "publishNotReadyAddresses": true, "subdomain": name},
            // What a benchmark said is a result: nothing is begun again.
            "failurePolicy": {"maxRestarts": 0},
            "successPolicy": success,
            "replicatedJobs": replicated_jobs,
        },
    }))
}

/// A JobSet that keeps the name of a job that must not begin: it has no pods, and never will.
pub fn fence(job: &str, settings: &Kubernetes) -> Value {
    let name = name(job);
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": {LABEL: name},
                     "annotations": {JOB: job, FENCE: "true"}},
        "spec": {"suspend": true, "replicatedJobs": [{"name": REPLICATED, "replicas": 0, "template": {"spec": {
            "backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never",
                "containers": [{"name": "none", "image": "registry.invalid/none"}]}}}}}]},
    })
}

/// The keys of a job's ssh, which go with its JobSet.
pub fn keys(job: &str, settings: &Kubernetes, uid: &str, user: &str, host: &str) -> Value {
    let name = name(job);
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
        "metadata": {
            "name": format!("{name}-ssh"), "namespace": settings.namespace, "labels": {LABEL: name}, "annotations": {JOB: job},
            "ownerReferences": [{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": uid}],
        },
        "stringData": {"user": user, "host": host},
    })
}

/// What every object of a job bears: labels where Kubernetes takes the value for one, annotations otherwise.
fn marks(job: &Job, name: &str) -> (Map<String, Value>, Map<String, Value>) {
    let mut labels: Map<String, Value> = [(LABEL.to_owned(), json!(name))].into_iter().collect();
    let mut annotations: Map<String, Value> = [(JOB.to_owned(), json!(job.name))].into_iter().collect();
    for (key, value) in &job.labels {
        let value = value
            .parse::<model::Timestamp>()
            .map_or_else(|_| value.clone(), |moment| moment.as_millis().div_euclid(1000).to_string());
        let letters = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        let edges = [value.bytes().next(), value.bytes().last()]
            .iter()
            .all(|edge| edge.is_some_and(|byte| byte.is_ascii_alphanumeric()));
        if letters && edges && value.len() <= 63 {
            labels.insert(key.clone(), json!(value));
        } else {
            annotations.insert(format!("burnin.dev/{}", key.trim_start_matches("burnin-")), json!(value));
        }
    }
    (labels, annotations)
}

fn pod_annotations(settings: &Kubernetes, ours: &Map<String, Value>) -> Map<String, Value> {
    let mut all: Map<String, Value> =
        settings.annotations.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    all.extend(ours.clone());
    all.insert("kubectl.kubernetes.io/default-container".to_owned(), json!(CONTAINER));
    let mut topology = |request: &str, level: &str| {
        all.insert(format!("kueue.x-k8s.io/podset-{request}-topology"), json!(level));
    };
    match &settings.topology {
        Some(Topology::Required(level)) => topology("required", level),
        Some(Topology::Preferred(level)) => topology("preferred", level),
        Some(Topology::Unconstrained) => topology("unconstrained", "true"),
        None => {}
    }
    all
}

fn pod(job: &Job, settings: &Kubernetes, name: &str, life: u64) -> Result<Value, Failure> {
    let image = image(job, settings)?;
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    let mut mount = |volume: &str, path: &str, source: Value| {
        let mut volume_spec = json!({"name": volume});
        volume_spec
            .as_object_mut()
            .into_iter()
            .for_each(|spec| spec.extend(source.as_object().cloned().unwrap_or_default()));
        volumes.push(volume_spec);
        mounts.push(json!({"name": volume, "mountPath": path}));
    };
    if settings.launch == Launch::Mpi {
        mount(
            "keys",
            script::KEYS,
            json!({"secret": {"secretName": format!("{name}-ssh"), "defaultMode": 0o400}}),
        );
    }
    if settings.gpus_per_node.is_some() {
        // NCCL's ranks of one node meet in shared memory; a container gets 64 MiB of it.
        mount("memory", "/dev/shm", json!({"emptyDir": {"medium": "Memory"}}));
    }
    let init = settings.plugin.as_ref().map(|plugin| {
        mount("plugin", &plugin.folder, json!({"emptyDir": {}}));
        json!([{"name": "plugin", "image": plugin.image, "command": plugin.command,
                "volumeMounts": [{"name": "plugin", "mountPath": PLUGIN}],
                "terminationMessagePolicy": "FallbackToLogsOnError"}])
    });
    let mut command = vec!["bash".to_owned(), "-c".to_owned(), script::script(settings), "burnin".to_owned()];
    command.extend(script::command(&job.workload, settings));
    let environment: Vec<Value> = script::told(settings, name)
        .into_iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let mut container = json!({
        "name": CONTAINER, "image": image, "command": command, "env": environment, "volumeMounts": mounts,
        "resources": resources(settings), "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    if settings.privileged {
        container["securityContext"] = json!({"privileged": true});
    }
    let mut pod = json!({
        "restartPolicy": "Never", "activeDeadlineSeconds": life, "terminationGracePeriodSeconds": 30,
        "containers": [container], "volumes": volumes,
        // One pod a node, or there is no network between them.
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {LABEL: name}}, "topologyKey": "kubernetes.io/hostname"}]}},
    });
    let mut put = |field: &str, value: Option<Value>| {
        if let Some(value) = value {
            pod[field] = value;
        }
    };
    put("initContainers", init);
    put("serviceAccountName", settings.service_account.as_ref().map(|account| json!(account)));
    put("imagePullSecrets", settings.image_pull_secret.as_ref().map(|secret| json!([{"name": secret}])));
    put("nodeSelector", (!settings.node_selector.is_empty()).then(|| json!(settings.node_selector)));
    let tolerations = settings.tolerate.iter().map(|key| json!({"key": key, "operator": "Exists"}));
    put("tolerations", (!settings.tolerate.is_empty()).then(|| tolerations.collect()));
    put("hostNetwork", settings.host_network.then(|| json!(true)));
    put("dnsPolicy", settings.host_network.then(|| json!("ClusterFirstWithHostNet")));
    Ok(pod)
}

fn resources(settings: &Kubernetes) -> Value {
    let mut limits = BTreeMap::new();
    let mut requests = BTreeMap::new();
    if let Some(gpus) = settings.gpus_per_node {
        limits.insert("nvidia.com/gpu", gpus.to_string());
    }
    if let Some(memory) = settings.memory_mib {
        limits.insert("memory", format!("{memory}Mi"));
    }
    if let Some(cpus) = settings.cpu_millis {
        requests.insert("cpu", format!("{cpus}m"));
    }
    json!({"limits": limits, "requests": requests})
}

/// The image stage's, or the one that the settings name.
fn image(job: &Job, settings: &Kubernetes) -> Result<String, Failure> {
    let wrong = |message: &str| Err(Failure::new(Class::Input, "IMAGE", message.to_owned()));
    match (&job.image, &settings.image) {
        (Some(image), _) if image.files.is_empty() && !image.reference.ends_with('/') => {
            let named = image.reference.contains('@');
            Ok(if named { image.reference.clone() } else { format!("{}@{}", image.reference, image.digest) })
        }
        (Some(_), None) => wrong("image: pods need a container image; this one is a set of files"),
        (_, Some(image)) => Ok(image.clone()),
        (None, None) => wrong("cluster.existing.system.kubernetes.image: pods need one, or an image stage"),
    }
}
