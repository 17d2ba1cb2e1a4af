//! Settings of the kind `logs`.

use cluster_api::{
    ClusterLayout, Settings, SettingsProblems,
    settings::{ProblemList, not_a_path, not_in_range, shown},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Logs of a benchmark that another program ran. No job is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// Folder of the logs on the agent's host, absolute.
    pub folder: String,
    /// Number of nodes that ran the benchmark, 1 to 4096.
    #[schemars(range(min = 1, max = 4096))]
    pub nodes: u32,
    /// Processes per node, 1 to 64.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 64))]
    pub ranks_per_node: u32,
    /// The benchmark's log below the folder, such as `all_reduce/slurm-17.out`; all files by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

const fn eight() -> u32 {
    8
}

impl Settings for LogSettings {
    const KIND: &'static str = "logs";
    const DESCRIPTION: &'static str = "Logs of a benchmark that another program ran.";
    const LEAST: &'static str = r#"{"folder": "/logs", "nodes": 1}"#;

    fn problems(&self) -> SettingsProblems {
        let mut problems = ProblemList::default();
        problems.add("folder", not_a_path(&self.folder));
        problems.add("nodes", not_in_range(self.nodes, 4096));
        problems.add("ranks_per_node", not_in_range(self.ranks_per_node, 64));
        problems.add_if_set("file", &self.file, not_a_file_below);
        problems.into_problems()
    }

    fn layout(&self) -> Option<ClusterLayout> {
        Some(ClusterLayout { nodes: self.nodes, ranks_per_node: self.ranks_per_node, gpus_per_node: None })
    }
}

fn not_a_file_below(file: &str) -> Option<String> {
    let bad = file.split('/').any(|part| matches!(part, "" | "." | ".."));
    bad.then(|| format!("expected a path below `folder`, such as slurm-17.out; found `{}`", shown(file)))
}
