//! The kinds of clusters that accept jobs, one line each.
//!
//! A kind is a crate next to this one: its settings, the probe of an existing cluster, and its scheduler. Everything else works with
//! [`KINDS`]: workflow files and their schema, offers, the agent and the provisioner.

mod schedulers;

use cluster_api::{ClusterKind, ClusterLayout};
use model::System;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

pub use schedulers::Schedulers;

/// Every kind of cluster; a new kind adds one line.
pub static KINDS: [&dyn ClusterKind; 5] = [
    &cluster_local::LocalKind,
    &cluster_slurm::SlurmKind,
    &cluster_kubernetes::KubernetesKind,
    &cluster_hosts::HostsKind,
    &cluster_logs::LogsKind,
];

pub fn kind(name: &str) -> Option<&'static dyn ClusterKind> {
    KINDS.into_iter().find(|kind| kind.form().kind == name)
}

/// Names of the kinds that meet `condition`, for messages.
pub fn names(condition: impl Fn(&dyn ClusterKind) -> bool) -> Vec<&'static str> {
    KINDS.into_iter().filter(|kind| condition(*kind)).map(|kind| kind.form().kind).collect()
}

/// Placement of the ranks on a cluster; `None` if its settings do not decide it.
pub fn layout(system: &System) -> Option<ClusterLayout> {
    kind(system.kind()).and_then(|kind| (kind.form().layout)(system.settings()))
}

/// A cluster for a re-test of `nodes`, with `partners`.
///
/// # Errors
/// Returns an error with a message if jobs of this kind, or with these settings, cannot be sent to these nodes.
pub fn for_retest(system: &System, nodes: &[String], partners: &[String]) -> Result<System, String> {
    let kind = kind(system.kind()).ok_or_else(|| {
        format!("{}: unknown kind of cluster; use the version of Burnin that started the run", system.kind())
    })?;
    let form = kind.form();
    let settings = (form.for_retest)(system.settings(), nodes, partners)?;
    match (form.complete)(&settings) {
        Ok(settings) => Ok(System::new(form.kind, settings)),
        Err(problems) => {
            let problems: Vec<_> =
                problems.iter().map(|(field, problem)| format!("{field}: {problem}")).collect();
            Err(problems.join("; "))
        }
    }
}

/// Schema of an object whose one field is a kind that meets `condition`, with the kind's settings.
pub fn schema(generator: &mut SchemaGenerator, condition: impl Fn(&dyn ClusterKind) -> bool) -> Schema {
    let one = |kind: &dyn ClusterKind| {
        let form = kind.form();
        let settings = (form.schema)(generator);
        json!({
            "description": form.description,
            "type": "object",
            "properties": {form.kind: settings},
            "additionalProperties": false,
            "required": [form.kind],
        })
    };
    let kinds: Vec<Value> = KINDS.into_iter().filter(|kind| condition(*kind)).map(one).collect();
    json_schema!({"oneOf": kinds})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_minimal_settings_round_trip() {
        let mut names = names(|_| true);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
        for kind in KINDS {
            let form = kind.form();
            let least = (form.defaults)();
            assert_eq!(System::new(form.kind, &least).nodes(), 1, "{}: settings state `nodes`", form.kind);
            assert_eq!((form.read)(&least).as_ref(), Ok(&least), "stored settings round trip");
            let layout = (form.layout)(&least);
            assert!(layout.is_none_or(|layout| layout.nodes == 1), "{}", form.kind);
            let problems = (form.complete)(&json!({"unknown": 1})).unwrap_err();
            assert!(problems[0].1.contains("unknown"), "{}: {problems:?}", form.kind);
        }
        assert!(kind("none").is_none());
    }

    #[test]
    fn settings_without_named_nodes_or_with_a_partition_that_yields_are_refused_for_a_re_test() {
        let retest = |kind: &str, settings: Value| {
            let (node, partner) = (["n3".to_owned()], ["n1".to_owned()]);
            for_retest(&System::new(kind, settings), &node, &partner)
        };
        let logs = (cluster_logs::LogsKind.form().defaults)();
        let problem = retest("logs", logs).unwrap_err();
        assert_eq!(problem, "jobs on clusters of kind logs cannot be sent to named nodes");
        let slurm =
            |yields: bool| json!({"nodes": 2, "shared_folder": "/s", "partition": "idle", "yields": yields});
        let problem = retest("slurm", slurm(true)).unwrap_err();
        assert!(problem.contains("`idle`") && problem.contains("--workflow"), "{problem}");
        let kept = retest("slurm", slurm(false)).unwrap();
        assert_eq!(kept.settings()["partition"], "idle");
    }
}
