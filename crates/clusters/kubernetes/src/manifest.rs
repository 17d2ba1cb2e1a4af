//! Kubernetes objects of a job. Pure: the same job always produces the same objects.

use std::collections::BTreeMap;

use cluster_api::{JobSpec, program};
use k8s_openapi::{
    api::{
        batch::v1::{self as batch, JobTemplateSpec, SuccessPolicyRule},
        core::v1::{
            Affinity, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, LocalObjectReference,
            ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSpec, PodTemplateSpec,
            ResourceRequirements, Secret, SecretVolumeSource, SecurityContext, Toleration, Volume,
            VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
    },
};
use model::{Class, Failure};
use serde::Serialize;

use crate::{
    Kubernetes, Launch, Topology,
    apiserver::HOSTNAME,
    names::{CONTAINER, FENCE, JOB, LABEL, REPLICATED, SSH, name},
    script,
};

const JOBSET: &str = "jobset.x-k8s.io/v1alpha2";
/// After a failure, Kubernetes reports the container's last output as its termination message.
const FALLBACK: &str = "FallbackToLogsOnError";

/// JobSet 0.11 copies the priority of each pod into a label, and Kubernetes rejects a label that begins with a minus sign: pods below
/// the default priority are never created (`pkg/webhooks/pod_mutating_webhook.go`, `Default`; kubernetes-sigs/jobset#1280). It does not
/// change pods with this annotation. The annotation has no other effect on a JobSet without exclusive placement.
const WITHOUT_PRIORITY_LABEL: &str = "alpha.jobset.sigs.k8s.io/node-selector";

/// Mount path of the folder that the plugin container fills.
const PLUGIN: &str = "/plugin";
/// Lifetime of a pod beyond the job's limit, for start-up and shutdown, seconds.
const SLACK: u64 = 1800;
/// Time to live of an ended JobSet that is not deleted, seconds.
const KEPT: u64 = 86_400;
/// Grace period of a pod that yields, seconds. The preempting pod waits until the grace period ends.
const YIELD_GRACE: i64 = 5;

/// The fields of a JobSet that a job sets (kubernetes-sigs/jobset, v0.9.1, `api/jobset/v1alpha2/jobset_types.go`).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSetManifest {
    api_version: &'static str,
    kind: &'static str,
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    spec: JobSetSpec,
}

impl JobSetManifest {
    fn new(metadata: ObjectMeta, spec: JobSetSpec) -> Self {
        Self { api_version: JOBSET, kind: "JobSet", metadata, spec }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct JobSetSpec {
    suspend: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds_after_finished: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<NetworkSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_policy: Option<FailurePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success_policy: Option<SuccessPolicy>,
    replicated_jobs: Vec<ReplicatedJob>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NetworkSpec {
    #[serde(rename = "enableDNSHostnames")]
    enable_dns_hostnames: bool,
    publish_not_ready_addresses: bool,
    subdomain: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailurePolicy {
    max_restarts: u32,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SuccessPolicy {
    operator: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_replicated_jobs: Option<Vec<String>>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicatedJob {
    name: String,
    replicas: u32,
    template: JobTemplateSpec,
}

/// Builds the JobSet of a job.
///
/// # Errors
/// Returns an error if the job's programs are files instead of a container image.
pub fn jobset(job: &JobSpec, settings: &Kubernetes) -> Result<JobSetManifest, Failure> {
    let name = name(&job.name);
    let (labels, annotations) = marks(job, &name);
    let kept = settings.keep_on_failure.map_or(0, |kept| kept.0.as_secs());
    let life = seconds(job.limit.0.as_secs() + SLACK + kept);
    let whole = pod(job, settings, &name, life)?;
    let pods = |count: u32, pod: PodSpec| {
        let annotations = pod_annotations(settings, &annotations);
        let metadata = ObjectMeta {
            labels: Some(labels.clone()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        batch::JobSpec {
            completion_mode: Some("Indexed".to_owned()),
            parallelism: Some(count.cast_signed()),
            completions: Some(count.cast_signed()),
            backoff_limit: Some(0),
            active_deadline_seconds: Some(life),
            template: PodTemplateSpec { metadata: Some(metadata), spec: Some(pod) },
            ..batch::JobSpec::default()
        }
    };
    let replicated = |name: String, spec: batch::JobSpec| {
        let metadata = ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() };
        let template = JobTemplateSpec { metadata: Some(metadata), spec: Some(spec) };
        ReplicatedJob { name, replicas: 1, template }
    };
    let (per_node, uses_ssh) = (program::is_per_node(&job.program), uses_ssh(job, settings));
    let mut success = SuccessPolicy { operator: "All", target_replicated_jobs: None };
    let replicated_jobs = if settings.only_nodes.is_empty() {
        let mut spec = pods(settings.nodes, whole);
        if per_node {
            // A node whose program fails does not end the others (Kubernetes: "Backoff limit per index").
            (spec.backoff_limit, spec.backoff_limit_per_index) = (None, Some(0));
        } else if uses_ssh {
            // The first pod decides the job's result: the others only accept its ssh connections and are ended with it.
            let first =
                SuccessPolicyRule { succeeded_indexes: Some("0".to_owned()), succeeded_count: Some(1) };
            spec.success_policy = Some(batch::SuccessPolicy { rules: vec![first] });
        }
        vec![replicated(REPLICATED.to_owned(), spec)]
    } else {
        if uses_ssh {
            success.target_replicated_jobs = Some(vec![format!("{REPLICATED}0")]);
        }
        // Kueue's topology scheduling uses a pod's node selector and ignores node affinity.
        let on = |(number, node): (usize, &String)| {
            let mut pod = whole.clone();
            pod.node_selector.get_or_insert_default().insert(HOSTNAME.to_owned(), node.clone());
            for container in &mut pod.containers {
                container.env.get_or_insert_default().push(variable("BURNIN_INDEX", number.to_string()));
            }
            replicated(format!("{REPLICATED}{number}"), pods(1, pod))
        };
        settings.only_nodes.iter().enumerate().map(on).collect()
    };
    let mut of_jobset = annotations.clone();
    if uses_ssh {
        of_jobset.insert(SSH.to_owned(), "true".to_owned());
    }
    let mut top = labels.clone();
    let kueue = [("queue-name", &settings.queue), ("priority-class", &settings.priority_class)];
    top.extend(
        kueue.into_iter().filter_map(|(key, value)| Some((format!("kueue.x-k8s.io/{key}"), value.clone()?))),
    );
    Ok(JobSetManifest::new(
        metadata(name.clone(), settings, top, of_jobset),
        JobSetSpec {
            // Kueue starts the JobSet when all its pods fit.
            suspend: settings.queue.is_some(),
            ttl_seconds_after_finished: Some(KEPT),
            network: Some(NetworkSpec {
                enable_dns_hostnames: true,
                publish_not_ready_addresses: true,
                subdomain: name,
            }),
            // The benchmark's output is the result: never restart.
            failure_policy: Some(FailurePolicy { max_restarts: 0 }),
            success_policy: Some(success),
            replicated_jobs,
        },
    ))
}

/// A JobSet without pods that reserves the name of a cancelled job.
pub fn fence(job: &str, settings: &Kubernetes) -> JobSetManifest {
    let name = name(job);
    let none = Container {
        name: "none".to_owned(),
        image: Some("registry.invalid/none".to_owned()),
        ..Container::default()
    };
    let pod =
        PodSpec { restart_policy: Some("Never".to_owned()), containers: vec![none], ..PodSpec::default() };
    let spec = batch::JobSpec {
        backoff_limit: Some(0),
        template: PodTemplateSpec { metadata: None, spec: Some(pod) },
        ..batch::JobSpec::default()
    };
    let template = JobTemplateSpec { metadata: None, spec: Some(spec) };
    let labels = [(LABEL.to_owned(), name.clone())].into();
    let annotations = [(JOB.to_owned(), job.to_owned()), (FENCE.to_owned(), "true".to_owned())].into();
    JobSetManifest::new(
        metadata(name, settings, labels, annotations),
        JobSetSpec {
            suspend: true,
            replicated_jobs: vec![ReplicatedJob { name: REPLICATED.to_owned(), replicas: 0, template }],
            ..JobSetSpec::default()
        },
    )
}

/// Secret with a job's ssh keys, owned by its JobSet.
pub fn keys(job: &str, settings: &Kubernetes, uid: &str, user: &str, host: &str) -> Secret {
    let name = name(job);
    let owner = OwnerReference {
        api_version: JOBSET.to_owned(),
        kind: "JobSet".to_owned(),
        name: name.clone(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let labels = [(LABEL.to_owned(), name.clone())].into();
    let annotations = [(JOB.to_owned(), job.to_owned())].into();
    let metadata = metadata(format!("{name}-ssh"), settings, labels, annotations);
    Secret {
        metadata: ObjectMeta { owner_references: Some(vec![owner]), ..metadata },
        type_: Some("Opaque".to_owned()),
        immutable: Some(true),
        string_data: Some(
            [("user", user), ("host", host)].map(|(name, key)| (name.to_owned(), key.to_owned())).into(),
        ),
        ..Secret::default()
    }
}

fn metadata(name: String, settings: &Kubernetes, labels: KeyValues, annotations: KeyValues) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(settings.namespace.clone()),
        labels: Some(labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

/// Labels or annotations by key.
type KeyValues = BTreeMap<String, String>;

/// Labels and annotations of all objects of a job: a value that is not a valid label becomes an annotation.
fn marks(job: &JobSpec, name: &str) -> (KeyValues, KeyValues) {
    let mut labels = KeyValues::from([(LABEL.to_owned(), name.to_owned())]);
    let mut annotations = KeyValues::from([(JOB.to_owned(), job.name.clone())]);
    for (key, value) in &job.labels {
        let value = value
            .parse::<model::Timestamp>()
            .map_or_else(|_| value.clone(), |moment| moment.as_millis().div_euclid(1000).to_string());
        let letters = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        let edges = [value.bytes().next(), value.bytes().last()]
            .iter()
            .all(|edge| edge.is_some_and(|byte| byte.is_ascii_alphanumeric()));
        if letters && edges && value.len() <= 63 {
            labels.insert(key.clone(), value);
        } else {
            annotations.insert(format!("burnin.dev/{}", key.trim_start_matches("burnin-")), value);
        }
    }
    (labels, annotations)
}

fn pod_annotations(settings: &Kubernetes, ours: &KeyValues) -> KeyValues {
    let mut all: KeyValues =
        settings.annotations.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    all.extend(ours.clone());
    all.insert("kubectl.kubernetes.io/default-container".to_owned(), CONTAINER.to_owned());
    if settings.pod_priority_class.is_some() {
        all.insert(WITHOUT_PRIORITY_LABEL.to_owned(), "true".to_owned());
    }
    let topology = match &settings.topology {
        Some(Topology::Required(level)) => Some(("required", level.as_str())),
        Some(Topology::Preferred(level)) => Some(("preferred", level.as_str())),
        Some(Topology::Unconstrained) => Some(("unconstrained", "true")),
        None => None,
    };
    let key = |request| format!("kueue.x-k8s.io/podset-{request}-topology");
    all.extend(topology.map(|(request, level)| (key(request), level.to_owned())));
    all
}

fn pod(job: &JobSpec, settings: &Kubernetes, name: &str, life: i64) -> Result<PodSpec, Failure> {
    let image = image(job, settings)?;
    let (volumes, mounts): (Vec<_>, Vec<_>) = volumes(job, settings, name).into_iter().unzip();
    let mut command =
        vec!["bash".to_owned(), "-c".to_owned(), script::script(job, settings), "burnin".to_owned()];
    // Each rank has one GPU.
    command.extend(program::words(&job.program, settings.programs.as_deref(), 1));
    let environment = script::environment(settings, name).into_iter();
    let container = Container {
        name: CONTAINER.to_owned(),
        image: Some(image),
        command: Some(command),
        env: Some(environment.map(|(name, value)| variable(name, value)).chain([node_name()]).collect()),
        volume_mounts: Some(mounts),
        resources: Some(resources(settings)),
        termination_message_policy: Some(FALLBACK.to_owned()),
        security_context: settings
            .privileged
            .then(|| SecurityContext { privileged: Some(true), ..SecurityContext::default() }),
        ..Container::default()
    };
    let plugin = settings.plugin.as_ref().map(|plugin| Container {
        name: "plugin".to_owned(),
        image: Some(plugin.image.clone()),
        command: Some(plugin.command.clone()),
        volume_mounts: Some(vec![mounted("plugin", PLUGIN)]),
        termination_message_policy: Some(FALLBACK.to_owned()),
        ..Container::default()
    });
    // One pod per node: two pods on one node would not test the network.
    let apart = PodAffinityTerm {
        label_selector: Some(LabelSelector {
            match_labels: Some([(LABEL.to_owned(), name.to_owned())].into()),
            ..LabelSelector::default()
        }),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    let anti = PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![apart]),
        ..PodAntiAffinity::default()
    };
    let tolerations = settings.tolerate.iter().map(|key| Toleration {
        key: Some(key.clone()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    });
    let selector: KeyValues =
        settings.node_selector.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(PodSpec {
        restart_policy: Some("Never".to_owned()),
        active_deadline_seconds: Some(life),
        termination_grace_period_seconds: Some(if settings.yields { YIELD_GRACE } else { 30 }),
        priority_class_name: settings.pod_priority_class.clone(),
        containers: vec![container],
        init_containers: plugin.map(|plugin| vec![plugin]),
        volumes: Some(volumes),
        affinity: Some(Affinity { pod_anti_affinity: Some(anti), ..Affinity::default() }),
        service_account_name: settings.service_account.clone(),
        image_pull_secrets: (settings.image_pull_secret.as_ref())
            .map(|secret| vec![LocalObjectReference { name: secret.clone() }]),
        node_selector: (!selector.is_empty()).then_some(selector),
        tolerations: (!settings.tolerate.is_empty()).then(|| tolerations.collect()),
        host_network: settings.host_network.then_some(true),
        dns_policy: settings.host_network.then(|| "ClusterFirstWithHostNet".to_owned()),
        ..PodSpec::default()
    })
}

/// Whether the first pod starts the program in the others by ssh.
fn uses_ssh(job: &JobSpec, settings: &Kubernetes) -> bool {
    let of_ranks = settings.launch == Launch::Mpi && !program::is_per_node(&job.program);
    of_ranks || program::rounds_of_pairs(&job.program).is_some()
}

/// Volumes of the benchmark's container, each with its mount.
fn volumes(job: &JobSpec, settings: &Kubernetes, name: &str) -> Vec<(Volume, VolumeMount)> {
    let mut all = Vec::new();
    let mut mount = |path: &str, volume: Volume| all.push((volume.clone(), mounted(&volume.name, path)));
    if uses_ssh(job, settings) {
        let secret = SecretVolumeSource {
            secret_name: Some(format!("{name}-ssh")),
            default_mode: Some(0o400),
            ..SecretVolumeSource::default()
        };
        mount(script::KEYS, Volume { name: "keys".to_owned(), secret: Some(secret), ..Volume::default() });
    }
    let empty = |name: &str, medium: Option<&str>| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: medium.map(str::to_owned),
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    };
    if settings.gpus_per_node.is_some() {
        // NCCL's ranks on one node use shared memory; a container has only 64 MiB by default.
        mount("/dev/shm", empty("memory", Some("Memory")));
    }
    if let Some(plugin) = &settings.plugin {
        mount(&plugin.folder, empty("plugin", None));
    }
    all
}

fn mounted(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn variable(name: &str, value: String) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value), value_from: None }
}

fn node_name() -> EnvVar {
    let field =
        ObjectFieldSelector { field_path: "spec.nodeName".to_owned(), ..ObjectFieldSelector::default() };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: "BURNIN_NODE_NAME".to_owned(), value: None, value_from: Some(source) }
}

fn resources(settings: &Kubernetes) -> ResourceRequirements {
    let quantities = |all: [Option<(&str, String)>; 2]| {
        let all = all.into_iter().flatten();
        Some(all.map(|(name, quantity)| (name.to_owned(), Quantity(quantity))).collect())
    };
    ResourceRequirements {
        limits: quantities([
            settings.gpus_per_node.map(|gpus| ("nvidia.com/gpu", gpus.to_string())),
            settings.memory_mib.map(|memory| ("memory", format!("{memory}Mi"))),
        ]),
        requests: quantities([settings.cpu_millis.map(|cpus| ("cpu", format!("{cpus}m"))), None]),
        ..ResourceRequirements::default()
    }
}

/// Seconds as the API's signed integer; saturates.
fn seconds(span: u64) -> i64 {
    i64::try_from(span).unwrap_or(i64::MAX)
}

/// The image of the image stage, or else the image in the settings.
fn image(job: &JobSpec, settings: &Kubernetes) -> Result<String, Failure> {
    let wrong = |message: &str| Err(Failure::new(Class::Input, "IMAGE", message.to_owned()));
    if let Some(own) = job.program.command().and_then(|command| command.image.as_ref()) {
        return Ok(own.clone());
    }
    match (&job.image, &settings.image) {
        (Some(image), _) if image.files.is_empty() && !image.reference.ends_with('/') => {
            let named = image.reference.contains('@');
            Ok(if named { image.reference.clone() } else { format!("{}@{}", image.reference, image.digest) })
        }
        (Some(_), None) => {
            wrong("image: expected a container image, found a set of files; build a container image")
        }
        (_, Some(image)) => Ok(image.clone()),
        (None, None) => {
            wrong("cluster.existing.system.kubernetes.image: missing; set it, or add an image stage")
        }
    }
}
