//! Checks that every host responds to ssh.

use cluster_api::{ClusterStatus, Settings};
use model::{Cluster, Node};
use service::PortError;

use crate::{
    settings::{Host, Hosts},
    ssh,
};

/// Maximum number of hosts that a message names.
const NAMED: usize = 8;

/// Connects to all hosts concurrently.
///
/// # Errors
/// Returns an error if this machine cannot write its temporary folder.
pub async fn probe(name: &str, hosts: &Hosts) -> Result<ClusterStatus, PortError> {
    if let Some((field, problem)) = hosts.problems().first() {
        return Ok(ClusterStatus::Broken(format!("{name}: {field}: {problem}")));
    }
    if let Err(PortError::Permanent(failure)) = crate::folder::ensure_owned(hosts) {
        return Ok(ClusterStatus::Broken(format!("{name}: {}", failure.message)));
    }
    let config = crate::folder::ssh_config(hosts).map_err(PortError::transient)?;
    let mut silent = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for host in &hosts.hosts {
        let (config, host) = (config.clone(), host.name.clone());
        tasks.spawn(async move {
            let answer = ssh::run(&config, &host, "exit 0").await;
            answer.err().map(|why| format!("{host}: {why}"))
        });
    }
    while let Some(answer) = tasks.join_next().await {
        silent.extend(answer.map_err(PortError::transient)?);
    }
    if !silent.is_empty() {
        return Ok(ClusterStatus::Broken(format!("{name}: {}", listed(silent))));
    }
    Ok(ClusterStatus::Ready(cluster(name, hosts)))
}

pub fn cluster(name: &str, hosts: &Hosts) -> Cluster {
    let node = |host: &Host| Node {
        name: host.name.clone(),
        slots: hosts.ranks(host),
        gpus: host.gpus.or(hosts.gpus_per_node),
    };
    Cluster { name: name.to_owned(), nodes: hosts.hosts.iter().map(node).collect(), access: hosts.access() }
}

/// Joins the reasons of all hosts, sorted; beyond `NAMED` hosts only the number of the remaining hosts is stated.
pub fn listed(mut reasons: Vec<String>) -> String {
    reasons.sort();
    let more = reasons.len().saturating_sub(NAMED);
    reasons.truncate(NAMED);
    let text = reasons.join("; ");
    match more {
        0 => text,
        1 => format!("{text}; and 1 more host"),
        _ => format!("{text}; and {more} more hosts"),
    }
}
