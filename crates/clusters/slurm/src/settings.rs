//! A Slurm cluster, as configured in a workflow.

use std::collections::BTreeMap;

use cluster_api::{
    ClusterLayout, Settings, SettingsProblems, Substitution,
    settings::{self, ProblemList, not_a_path, not_in_range, shown},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum length of any name in Slurm, bytes.
const LONGEST: usize = 128;

/// Slurm options of a job and the launch of its ranks. The cluster decides everything not set here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slurm {
    /// Nodes of the job, 1 to 4096 (`--nodes`).
    #[schemars(range(min = 1, max = 4096))]
    pub nodes: u32,
    /// Processes per node, each with one GPU if GPUs are requested, 1 to 64 (`--ntasks-per-node`).
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub ranks_per_node: u32,
    /// A folder that the agent's host and every node share under this path, without `%` and `\`. It contains
    /// images, marks and output of jobs.
    pub shared_folder: String,
    /// Partition (`--partition`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `--account`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `--qos`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// `--reservation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// `--constraint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// The only nodes the job may use (`--nodelist`). With `yields` the run uses only the idle nodes of this
    /// list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_list: Option<String>,
    /// Nodes of `node_list` that are drained by Burnin and re-tested: while a job runs, they are in a reservation for it and accept no
    /// other job. `burnin retest` sets it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub retest: Vec<String>,
    /// Yield to other jobs: use nodes that are idle when the run begins, the longest idle nodes first, at the lowest priority,
    /// and end without a verdict if fewer nodes are idle than requested, or another job needs them. Slurm must be configured to
    /// preempt jobs of this partition or QOS, and to end them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub yields: bool,
    /// `--gpus-per-node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub gpus_per_node: Option<u32>,
    /// Memory per node, MiB; 0 means all of it (`--mem`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Allow no other job on the same nodes (`--exclusive`). A benchmark that shares its nodes also measures
    /// the other work.
    #[serde(default = "yes")]
    pub exclusive: bool,
    /// Bootstrap of the ranks (`srun --mpi`): `pmix`, `pmi2`, `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<String>,
    /// Shell file on the nodes that sets up the network, sourced before the ranks start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Folder with the benchmark programs on the nodes, for workflows without an image. Default: search
    /// `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<String>,
    /// Value of `NCCL_DEBUG`; each process writes one file.
    #[serde(default = "info")]
    pub nccl_debug: String,
    /// Environment variables of the ranks. They are set before `profile` is sourced, which may need them, and again
    /// directly before the benchmark, so that they override profile and image; LD_LIBRARY_PATH is extended.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
}

const fn one() -> u32 {
    1
}
const fn yes() -> bool {
    true
}
fn is_false(value: &bool) -> bool {
    !value
}
fn info() -> String {
    "INFO".to_owned()
}

impl Slurm {
    /// The names in `node_list` if it consists of names and the job uses all of them.
    pub fn listed_nodes(&self) -> Option<Vec<&str>> {
        let names: Vec<_> = self.node_list.as_deref()?.split(',').collect();
        let plain = !self.node_list.as_deref()?.contains(['[', ']']);
        (plain && names.len() == self.nodes as usize).then_some(names)
    }
}

impl Settings for Slurm {
    const KIND: &'static str = "slurm";
    const DESCRIPTION: &'static str = "A Slurm cluster.";
    const LEAST: &'static str = r#"{"nodes": 1, "shared_folder": ""}"#;

    fn problems(&self) -> SettingsProblems {
        let mut found = ProblemList::default();
        found.add("nodes", not_in_range(self.nodes, 4096));
        found.add("ranks_per_node", not_in_range(self.ranks_per_node, 64));
        found.add("gpus_per_node", self.gpus_per_node.and_then(|gpus| not_in_range(gpus, 64)));
        // A comma separates several names; `=` and white space end a value in some of Slurm's files.
        let names = [
            ("partition", &self.partition, ""),
            ("account", &self.account, ""),
            ("qos", &self.qos, ""),
            ("reservation", &self.reservation, ""),
            ("constraint", &self.constraint, "&|!*()[],"),
            ("node_list", &self.node_list, "[],"),
            ("mpi", &self.mpi, ""),
        ];
        for (field, name, beside) in names {
            found.add(field, name.as_deref().and_then(|name| not_a_name(name, beside)));
        }
        let bad = self.retest.iter().find_map(|node| not_a_name(node, ""));
        found.add(
            "retest",
            bad.or_else(|| {
                (self.retest.len() > 64)
                    .then(|| format!("expected at most 64 nodes, found {}", self.retest.len()))
            }),
        );
        let both = !self.retest.is_empty() && self.reservation.is_some();
        found.add(
            "retest",
            both.then(|| "cannot be combined with `reservation`; remove one of them".to_owned()),
        );
        // The idle nodes are chosen only by their state.
        let chosen = [("reservation", &self.reservation), ("constraint", &self.constraint)];
        for (field, _) in chosen.iter().filter(|(_, value)| self.yields && value.is_some()) {
            found.add("yields", Some(format!("cannot be combined with `{field}`; use a separate partition")));
        }
        let ranges = self.yields && self.node_list.as_ref().is_some_and(|list| list.contains('['));
        found.add(
            "node_list",
            ranges.then(|| {
                "expected names separated by commas, without ranges, because `yields` is set".to_owned()
            }),
        );
        found.add("nccl_debug", not_a_name(&self.nccl_debug, ""));
        found.add("shared_folder", not_a_path(&self.shared_folder));
        // Slurm expands `\` and `%` in any part of an output path.
        let misread = self.shared_folder.contains(['\\', '%']);
        let found_one =
            || format!("expected a path without \\ and %, found `{}`", shown(&self.shared_folder));
        found.add("shared_folder", misread.then(found_one));
        found.add("profile", self.profile.as_deref().and_then(not_a_path));
        found.add("programs", self.programs.as_deref().and_then(not_a_path));
        for (name, value) in &self.environment {
            let field = format!("environment.{}", shown(name));
            found.add(&field, not_a_variable(name, value));
        }
        found.into_problems()
    }

    fn for_retest(&self, nodes: &[String], partners: &[String]) -> Result<Self, String> {
        // Users' jobs would preempt jobs in the partition or QOS of a run that yields, also while the nodes are resumed. So a re-test drops
        // the QOS, and Slurm's default QOS applies. A partition cannot be dropped, because Slurm's default partition may lack the nodes.
        if let Some(partition) = self.partition.as_deref().filter(|_| self.yields) {
            return Err(format!(
                "a re-test cannot use the partition `{partition}` of a run that yields, because users' jobs would preempt it; add \
                 --workflow NAME with a workflow that does not yield and uses a partition with these nodes"
            ));
        }
        let names = [nodes, partners].concat();
        let count = u32::try_from(names.len()).map_err(|error| error.to_string())?;
        // A job can use only one reservation, and a re-test needs its own.
        Ok(Self {
            qos: self.qos.clone().filter(|_| !self.yields),
            nodes: count,
            node_list: Some(names.join(",")),
            retest: nodes.to_vec(),
            reservation: None,
            yields: false,
            ..self.clone()
        })
    }

    fn layout(&self) -> Option<ClusterLayout> {
        let Self { nodes, ranks_per_node, gpus_per_node, .. } = *self;
        Some(ClusterLayout { nodes, ranks_per_node, gpus_per_node })
    }

    fn substitutions(&self) -> Vec<Substitution> {
        vec![
            Substitution::number("_NODES", "nodes", Some(self.nodes)),
            Substitution::number("_RANKS_PER_NODE", "ranks_per_node", Some(self.ranks_per_node)),
            Substitution::number("_GPUS", "gpus_per_node", self.gpus_per_node),
            Substitution::text("_PARTITION", "partition", self.partition.as_deref()),
            Substitution::text("_MPI", "mpi", self.mpi.as_deref()),
        ]
    }
}

fn not_a_name(name: &str, beside: &str) -> Option<String> {
    let good =
        |letter: char| letter.is_ascii_alphanumeric() || "_.@:+-".contains(letter) || beside.contains(letter);
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric() || "_([!".contains(first));
    let bad = !begins || name.len() > LONGEST || !name.chars().all(good);
    bad.then(|| {
        format!(
            "expected at most {LONGEST} letters, digits and any of _.@:+-{beside}, beginning with a letter, a digit or _, found `{}`",
            shown(name)
        )
    })
}

fn not_a_variable(name: &str, value: &str) -> Option<String> {
    // Slurm's own variables control srun: use the dedicated fields instead.
    if ["SLURM_", "SBATCH_", "SRUN_"].iter().any(|prefix| name.starts_with(prefix)) {
        return Some("is reserved by Slurm; use the dedicated field, if one exists".to_owned());
    }
    settings::not_a_variable(name, value, LONGEST)
}

#[cfg(test)]
mod tests {
    use model::{Cluster, ClusterAccess};

    use super::*;

    fn minimal() -> Slurm {
        serde_json::from_str(r#"{"nodes": 2, "shared_folder": "/home/burnin"}"#).unwrap()
    }

    #[test]
    fn the_access_round_trips_all_settings() {
        let mut slurm = minimal();
        slurm.environment.insert("A".into(), "it's \"$(x)\"\n".into());
        let cluster = Cluster { name: "lab".into(), nodes: vec![], access: slurm.access() };
        assert_eq!(Slurm::of(&cluster).unwrap(), slurm);
        let other = Cluster { access: ClusterAccess::processes("/folder"), ..cluster.clone() };
        assert!(Slurm::of(&other).is_err());
        assert!(Slurm::of(&Cluster { access: ClusterAccess::new("slurm", ()), ..cluster }).is_err());
    }

    #[test]
    fn a_re_test_runs_on_its_nodes_and_partners_in_its_own_reservation() {
        let slurm = Slurm { nodes: 4, reservation: Some("maintenance".into()), ..minimal() };
        let retest = slurm.for_retest(&["n3".to_owned()], &["n1".to_owned()]).unwrap();
        assert_eq!((retest.problems(), retest.nodes, retest.reservation.clone()), (vec![], 2, None));
        assert_eq!(retest.listed_nodes(), Some(vec!["n3", "n1"]));
        let idle = Slurm {
            yields: true,
            partition: Some("idle".into()),
            qos: Some("preemptible".into()),
            ..minimal()
        };
        let refused = idle.for_retest(&["n3".to_owned()], &["n1".to_owned()]).unwrap_err();
        assert!(refused.contains("partition `idle`") && refused.contains("--workflow NAME"), "{refused}");
        let by_qos = Slurm { partition: None, ..idle.clone() };
        let by_qos = by_qos.for_retest(&["n3".to_owned()], &["n1".to_owned()]).unwrap();
        assert_eq!((by_qos.yields, by_qos.partition, by_qos.qos), (false, None, None));
        let named =
            Slurm { yields: false, ..idle }.for_retest(&["n3".to_owned()], &["n1".to_owned()]).unwrap();
        assert_eq!(named.partition.as_deref(), Some("idle"), "an ordinary run's partition is kept");
        let both = Slurm { reservation: Some("maintenance".into()), ..retest };
        assert_eq!(both.problems()[0].0, "retest");
    }

    #[test]
    fn every_invalid_field_is_reported() {
        assert_eq!(minimal().problems(), []);
        let mut slurm = minimal();
        slurm.nodes = 0;
        slurm.partition = Some("a,b".into());
        slurm.qos = Some("--uid=0".into());
        slurm.shared_folder = "home".into();
        slurm.profile = Some("/etc/a\nb".into());
        slurm.environment.insert("A B".into(), String::new());
        slurm.environment.insert("SLURM_NTASKS".into(), "9".into());
        let fields: Vec<_> = slurm.problems().into_iter().map(|(field, _)| field).collect();
        assert_eq!(
            fields,
            [
                "nodes",
                "partition",
                "qos",
                "shared_folder",
                "profile",
                "environment.A B",
                "environment.SLURM_NTASKS"
            ]
        );
    }
}
