//! Kubernetes objects of a job. Pure: the same job always gives the same objects.

use std::collections::BTreeMap;

use cluster_api::JobSpec;
use model::{Class, Failure};
use serde_json::{Map, Value, json};

use crate::{
    Kubernetes, Launch, Topology,
    apiserver::HOSTNAME,
    names::{CONTAINER, FENCE, JOB, LABEL, REPLICATED, name},
    script,
};

/// Mount path of the folder that the plugin container fills.
const PLUGIN: &str = "/plugin";
/// Lifetime of a pod beyond the job's limit, for start-up and shutdown, seconds.
const SLACK: u64 = 1800;
/// Time to live of an ended JobSet that is not deleted, seconds.
const KEPT: u64 = 86_400;

/// JobSet of a job.
///
/// # Errors
/// Returns an error if the job's programs are files instead of a container image.
pub fn jobset(job: &JobSpec, settings: &Kubernetes) -> Result<Value, Failure> {
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
    let kept = settings.keep_on_failure.map_or(0, |kept| kept.0.as_secs());
    let life = job.limit.0.as_secs() + SLACK + kept;
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
            // The first pod decides the job's result: the others only serve it and are ended with it.
            spec["successPolicy"] = json!({"rules": [{"succeededIndexes": "0", "succeededCount": 1}]});
        }
        vec![replicated(REPLICATED.to_owned(), spec)]
    } else {
        if settings.launch == Launch::Mpi {
            success["targetReplicatedJobs"] = json!([format!("{REPLICATED}0")]);
        }
        // Kueue's topology scheduling uses a pod's node selector and ignores node affinity.
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
            // Kueue starts the JobSet when all its pods fit.
            "suspend": settings.queue.is_some(),
            "ttlSecondsAfterFinished": KEPT,
            "network": {"enableDNSHostnames": true, "publishNotReadyAddresses": true, "subdomain": name},
            // The benchmark's output is the result: never restart.
            "failurePolicy": {"maxRestarts": 0},
            "successPolicy": success,
            "replicatedJobs": replicated_jobs,
        },
    }))
}

/// A JobSet without pods that reserves the name of a cancelled job.
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

/// Secret with a job's ssh keys, owned by its JobSet.
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

/// Labels and annotations of all objects of a job: an annotation where the value is not a valid label.
fn marks(job: &JobSpec, name: &str) -> (Map<String, Value>, Map<String, Value>) {
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

fn pod(job: &JobSpec, settings: &Kubernetes, name: &str, life: u64) -> Result<Value, Failure> {
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
        // NCCL's ranks on one node use shared memory; a container has only 64 MiB by default.
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
    let environment: Vec<Value> = script::environment(settings, name)
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
        // One pod per node: two pods on one node would not test the network.
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

/// The image of the image stage, or the one in the settings.
fn image(job: &JobSpec, settings: &Kubernetes) -> Result<String, Failure> {
    let wrong = |message: &str| Err(Failure::new(Class::Input, "IMAGE", message.to_owned()));
    match (&job.image, &settings.image) {
        (Some(image), _) if image.files.is_empty() && !image.reference.ends_with('/') => {
            let named = image.reference.contains('@');
            Ok(if named { image.reference.clone() } else { format!("{}@{}", image.reference, image.digest) })
        }
        (Some(_), None) => wrong("image: expected a container image, found a set of files"),
        (_, Some(image)) => Ok(image.clone()),
        (None, None) => {
            wrong("cluster.existing.system.kubernetes.image: missing; set it, or add an image stage")
        }
    }
}
