//! A kind of cluster, for crates that work with every kind.

use std::sync::Arc;

use ledger::Store;
use model::{Cluster, ClusterAccess, Node, System};
use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use service::PortError;

use crate::{
    layout::{ClusterLayout, Substitution},
    provider::ClusterStatus,
    scheduler::Scheduler,
    settings::{FileReader, Settings, SettingsProblems},
};

/// A kind of cluster that accepts jobs.
#[async_trait::async_trait]
pub trait ClusterKind: Send + Sync {
    /// Name, schema and rules of the kind's settings.
    fn form(&self) -> SettingsForm;

    /// Whether an external system may offer a cluster of this kind (`dev.burnin.cluster.offered.v1`).
    fn can_be_offered(&self) -> bool {
        true
    }

    /// Whether build steps may provision a cluster of this kind (`cluster.rent.deployed`).
    fn can_be_deployed(&self) -> bool {
        true
    }

    /// Whether a program runs in a container image, so that a check may name its own (`image`).
    fn runs_containers(&self) -> bool {
        false
    }

    /// The scheduler of clusters of this kind. `store`: bucket of the images and of the jobs' records.
    fn scheduler(&self, store: Arc<dyn Store>) -> Arc<dyn Scheduler>;

    /// Whether an existing cluster accepts a job with these settings. `name`: name of the cluster in its own system.
    ///
    /// # Errors
    /// Returns an error if a request fails. If the cluster cannot run the job, the error is permanent and names the
    /// missing part.
    async fn probe(&self, name: &str, system: &System) -> Result<ClusterStatus, PortError>;

    /// Describes an existing cluster only from its settings, without a request: this host may be unable to reach the cluster, unlike the
    /// cluster's agent. If the cluster lacks a requirement, the first job fails.
    ///
    /// # Errors
    /// Returns an error with a message if the settings do not decide the number of nodes.
    fn unchecked(&self, name: &str, system: &System) -> Result<Cluster, String> {
        let layout = (self.form().layout)(system.settings());
        let layout = layout.ok_or("the settings do not decide the number of nodes")?;
        let node = |number| Node {
            name: Node::placeholder(number),
            slots: layout.ranks_per_node,
            gpus: layout.gpus_per_node,
        };
        Ok(Cluster {
            name: name.to_owned(),
            nodes: (0..layout.nodes as usize).map(node).collect(),
            access: ClusterAccess::new(system.kind(), system.settings()),
        })
    }
}

/// Derives the settings of a re-test from a cluster's settings, the drained nodes and their partners: [`Settings::for_retest`].
pub type RetestSettings = fn(&Value, &[String], &[String]) -> Result<Value, String>;

/// The settings of one kind, without their type.
#[derive(Clone, Copy)]
pub struct SettingsForm {
    /// Name of the kind in workflow files, offers and the ledger.
    pub kind: &'static str,
    /// The kind in one sentence, for schemas.
    pub description: &'static str,
    /// JSON schema of the settings.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Replaces the paths of files in the settings by the contents of the files: [`Settings::inline`].
    pub inline: fn(&mut Value, FileReader<'_>) -> SettingsProblems,
    /// Fills in the defaults, without checking the values.
    pub read: fn(&Value) -> Result<Value, String>,
    /// Checks settings and fills in the defaults.
    pub complete: fn(&Value) -> Result<Value, SettingsProblems>,
    /// The settings with the default in every optional field.
    pub defaults: fn() -> Value,
    /// Placement of the ranks; `None` if the settings do not decide it.
    pub layout: fn(&Value) -> Option<ClusterLayout>,
    /// Settings that build steps may also receive.
    pub substitutions: fn(&Value) -> Vec<Substitution>,
    /// Settings for a re-test of drained nodes (first list) with good partners (second list): [`Settings::for_retest`].
    pub for_retest: RetestSettings,
}

impl SettingsForm {
    /// The name, texts and functions of the settings type `S`.
    pub const fn of<S: Settings>() -> Self {
        Self {
            kind: S::KIND,
            description: S::DESCRIPTION,
            schema: |generator| generator.subschema_for::<S>(),
            inline: S::inline,
            read: |given| {
                S::deserialize(given)
                    .map(|settings| to_value(&settings.completed()))
                    .map_err(|error| error.to_string())
            },
            complete: |given| S::checked(given).map(|settings| to_value(&settings)),
            defaults: || {
                let least: Result<S, _> = serde_json::from_str(S::LEAST);
                least.map(|settings| to_value(&settings.completed())).unwrap_or_default()
            },
            layout: |settings| S::deserialize(settings).ok()?.layout(),
            substitutions: |settings| {
                S::deserialize(settings).map(|settings| settings.substitutions()).unwrap_or_default()
            },
            for_retest: |settings, nodes, partners| {
                let settings = S::deserialize(settings).map_err(|error| error.to_string())?;
                settings.for_retest(nodes, partners).map(|settings| to_value(&settings))
            },
        }
    }
}

fn to_value(settings: &impl serde::Serialize) -> Value {
    // Serialization fails only for maps with non-string keys, which no settings have.
    serde_json::to_value(settings).unwrap_or_default()
}
