//! Checks an existing Slurm cluster: it responds, and has enough nodes for the job.

use std::{ffi::OsString, io::ErrorKind, time::Duration};

use cluster_api::{ClusterStatus, Settings};
use model::{Cluster, Node};
use service::PortError;
use supervisor::run_program;

use crate::{
    Slurm,
    yields::{self, IdleNodes, SlurmReports},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Requests the nodes of the partition from the controller.
///
/// # Errors
/// Returns an error if the controller request fails.
pub async fn probe(name: &str, slurm: &Slurm) -> Result<ClusterStatus, PortError> {
    if let Some((field, problem)) = slurm.problems().first() {
        return Ok(ClusterStatus::Broken(format!("{name}: {field}: {problem}")));
    }
    let mut argv = ["sinfo", "--noheader", "--Node", "--format=%N"].map(str::to_owned).to_vec();
    argv.extend(slurm.partition.as_ref().map(|partition| format!("--partition={partition}")));
    let answer = match run_program(&argv, &[("LC_ALL", OsString::from("C"))], LIMIT).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(ClusterStatus::Broken(format!("{error}; Slurm's commands must be on the PATH")));
        }
        answer => answer.map_err(PortError::transient)?,
    };
    if !answer.good {
        return Err(PortError::Transient(answer.stderr));
    }
    if slurm.yields {
        return Ok(idle(name, slurm, &SlurmReports::request().await?));
    }
    Ok(nodes(name, slurm, &answer.stdout))
}

/// State of a cluster for a run that yields: ready with the idle nodes, otherwise busy or broken with the reason.
fn idle(name: &str, slurm: &Slurm, reports: &SlurmReports) -> ClusterStatus {
    match yields::idle_nodes(slurm, reports) {
        IdleNodes::TooFew(why) => ClusterStatus::Busy(format!("{name}: {why}")),
        IdleNodes::NotPreemptible(why) => ClusterStatus::Broken(format!("{name}: {why}")),
        IdleNodes::Chosen(names) => {
            let slurm = Slurm { node_list: Some(names.join(",")), ..slurm.clone() };
            let node = |name| Node { name, slots: slurm.ranks_per_node, gpus: slurm.gpus_per_node };
            let nodes = names.into_iter().map(node).collect();
            ClusterStatus::Ready(Cluster { name: name.to_owned(), nodes, access: slurm.access() })
        }
    }
}

/// The nodes for a job. Slurm chooses them when the job starts, so they are known only if the job uses all nodes of the partition or
/// of `node_list`.
fn nodes(name: &str, slurm: &Slurm, output: &str) -> ClusterStatus {
    let mut there: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    there.sort_unstable();
    there.dedup();
    let (requested, found) = (usize::try_from(slurm.nodes).unwrap_or(usize::MAX), there.len());
    if found < requested {
        let partition = slurm
            .partition
            .as_ref()
            .map_or("the default partition".to_owned(), |name| format!("partition {name}"));
        return ClusterStatus::Broken(format!(
            "{name}: {requested} nodes requested, {partition} has {found}; lower `nodes`"
        ));
    }
    let listed = slurm.listed_nodes();
    if let Some(absent) = listed.iter().flatten().find(|node| there.binary_search(node).is_err()) {
        return ClusterStatus::Broken(format!(
            "{name}: node_list: Slurm has no node {absent} in this partition; correct `node_list`"
        ));
    }
    let name_of =
        |number: usize| match (listed.as_deref().and_then(|listed| listed.get(number)), there.get(number)) {
            (Some(node), _) => (*node).to_owned(),
            (None, Some(node)) if found == requested => (*node).to_owned(),
            _ => Node::placeholder(number),
        };
    let node =
        |number| Node { name: name_of(number), slots: slurm.ranks_per_node, gpus: slurm.gpus_per_node };
    let nodes = (0..requested).map(node).collect();
    ClusterStatus::Ready(Cluster { name: name.to_owned(), nodes, access: slurm.access() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> Slurm {
        serde_json::from_str(r#"{"nodes": 4, "ranks_per_node": 8, "shared_folder": "/home/burnin"}"#).unwrap()
    }

    #[test]
    fn the_nodes_are_known_if_the_job_uses_all_of_them() {
        // sinfo lists a node once per partition.
        let ClusterStatus::Ready(cluster) = nodes("lab", &four(), "n1\nn1\nn2\nn3\nn4\n") else { panic!() };
        assert_eq!(
            cluster.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(),
            ["n1", "n2", "n3", "n4"]
        );
        assert_eq!((cluster.slots(), cluster.name.as_str()), (32, "lab"));
        assert_eq!(Slurm::of(&cluster).unwrap(), four());
    }

    #[test]
    fn the_nodes_are_unknown_if_the_job_uses_some_of_them() {
        let ClusterStatus::Ready(cluster) = nodes("lab", &four(), "n1\nn2\nn3\nn4\nn5\n") else { panic!() };
        assert_eq!(cluster.nodes[0].name, "any-0");
    }

    #[test]
    fn the_nodes_of_a_list_are_known_and_must_exist() {
        let listed = |list: &str| Slurm { nodes: 2, node_list: Some(list.to_owned()), ..four() };
        let ClusterStatus::Ready(cluster) = nodes("lab", &listed("n3,n1"), "n1\nn2\nn3\n") else { panic!() };
        assert_eq!(cluster.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n3", "n1"]);
        let ClusterStatus::Ready(cluster) = nodes("lab", &listed("n[1-3]"), "n1\nn2\nn3\n") else { panic!() };
        assert_eq!(cluster.nodes[0].name, "any-0", "only Slurm expands a list");
        let ClusterStatus::Broken(why) = nodes("lab", &listed("n1,n9"), "n1\nn2\nn3\n") else { panic!() };
        assert_eq!(why, "lab: node_list: Slurm has no node n9 in this partition; correct `node_list`");
    }

    #[test]
    fn a_cluster_with_too_few_nodes_is_reported() {
        let ClusterStatus::Broken(why) = nodes("lab", &four(), "n1\n") else { panic!() };
        assert_eq!(why, "lab: 4 nodes requested, the default partition has 1; lower `nodes`");
    }
}
