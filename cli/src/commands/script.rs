//! `burnin plan --script`: the submission of each check, rendered by the code that submits it.

use std::{path::Path, sync::Arc};

use cluster_api::{JobSpec, Scheduler};
use cluster_deployed::Deployed;
use clusters::Schedulers;
use ledger::{MemoryStore, Store};
use model::{
    Attempt, Cluster, ClusterAccess, ClusterSpec, CommandId, Image, ImageSpec, Node, PROCESSES, RunId, Stage,
    System, Verb, Workflow,
};
use service::{Clock, PortError, SystemClock};
use workflow::{Override, Resolved};

use crate::{
    commands::{note, plan::warn, print_plain},
    exit::{CliError, Exit},
};

/// Prints the scripts, manifests and command lines of all checks.
pub fn script(path: &Path, values: Option<&Path>, set: &[Override]) -> Result<Exit, CliError> {
    let Resolved { workflow, warnings, .. } =
        workflow::resolve_with_values(path, values, set).map_err(CliError::files)?;
    warn(&warnings);
    let cannot = |why: &str| CliError::usage(format!("{}: {why}", path.display()));
    let run: RunId = format!("{}-{DIGEST}", workflow.name.trim_end_matches('-'))
        .parse()
        .map_err(|error| cannot(&format!("{error}")))?;
    let Some(spec) = &workflow.cluster else {
        return Err(cannot("cluster: missing, so no job is submitted; add a cluster"));
    };
    let cluster = cluster(spec, &run);
    let image = image(&workflow, &cluster, &run);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let schedulers = Schedulers::new(&store);
    let mut placeholders = vec![format!("run id {run}")];
    placeholders.extend(image.is_some().then(|| "digest of the image".to_owned()));
    let is_deployed = Deployed::of(spec.system()).is_some();
    placeholders.extend(is_deployed.then(|| "settings that the deployment supplies".to_owned()));
    note(format_args!("placeholders, which each run replaces: {}", placeholders.join(", ")));
    for check in workflow.check_indices() {
        let Some(benchmark) = workflow.benchmark_of(check) else { continue };
        let limit = lifecycle::job_limit(workflow.job_limit(check), workflow.limits.grace);
        let attempt = Attempt::first_of(check);
        let id = CommandId { run: run.clone(), stage: Stage::Job, attempt, verb: Verb::Start };
        let job = JobSpec::of_command(
            &id,
            (&cluster, image.as_ref()),
            (&benchmark.program, &benchmark.environment, benchmark.criteria.evidence.is_taken()),
            limit,
            SystemClock.now(),
        );
        let texts = schedulers.submission(&job).map_err(|error| match error {
            PortError::Permanent(failure) => cannot(&failure.message),
            other => cannot(&format!("{other:?}")),
        })?;
        let name = workflow.check(check).map_or(workflow.name.as_str(), |check| check.name.as_str());
        if texts.is_empty() {
            print_plain(&format!("# {name}: no job is submitted; existing logs are read\n"));
        }
        for text in texts {
            print_plain(&format!("# {name}: {}\n{}\n", text.name, text.text));
        }
    }
    Ok(Exit::Pass)
}

/// Placeholder for the part of a run's id that differs in each run.
const DIGEST: &str = "00000000";

/// The cluster as the workflow describes it. Settings that only a deployment supplies have their defaults.
fn cluster(spec: &ClusterSpec, run: &RunId) -> Cluster {
    let deployed = Deployed::of(spec.system()).map(|deployed| deployed.system);
    let system: &System = deployed.as_ref().unwrap_or(spec.system());
    let node = |number: u32| Node::new(format!("node-{number}"), 1);
    let nodes = (0..system.nodes()).map(node).collect();
    let access = match system.kind() {
        PROCESSES => ClusterAccess::processes(&format!("CLUSTER/{run}")),
        kind => ClusterAccess::new(kind, system.settings()),
    };
    let name = match spec {
        ClusterSpec::Existing { name, .. } => name.clone(),
        ClusterSpec::Provisioned(_) => run.to_string(),
    };
    Cluster { name, nodes, access }
}

/// The image of a run. A build's digest is known only after the build: zeros replace it.
fn image(workflow: &Workflow, cluster: &Cluster, run: &RunId) -> Option<Image> {
    match workflow.image.as_ref()? {
        ImageSpec::Prebuilt(image) => Some(image.clone()),
        ImageSpec::Build(_) => {
            let container = cluster.access.kind() == "kubernetes";
            let reference = if container { "IMAGE".to_owned() } else { format!("artefacts/{run}/image/1/") };
            let digest = format!("sha256:{}", "0".repeat(64));
            Some(Image { reference, digest, files: Vec::new(), manifest_sha256: None })
        }
    }
}
