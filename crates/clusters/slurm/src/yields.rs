//! Clusters whose jobs yield to other jobs: idle nodes only, at the lowest priority, and preempted by any other job.
//!
//! Slurm enforces this: it removes a job that has not started within [`START_WITHIN`], and preempts a running one. The
//! configuration of the cluster must allow the preemption, which is checked before each job. The rules are those of
//! `src/plugins/preempt/{partition_prio,qos}` and `src/interfaces/preempt.c`.

use std::{ffi::OsString, time::Duration};

use model::{Class, Failure};
use service::PortError;
use supervisor::run_program;

use crate::{Slurm, state::field};

/// Maximum time from the submission to the start of a job, minutes. The nodes were idle shortly before.
pub const START_WITHIN: u64 = 2;
/// The largest value that `sbatch --nice` accepts: all other pending jobs are started first.
pub const NICEST: i64 = 2_147_483_645;

const LIMIT: Duration = Duration::from_secs(60);
/// Flags of running cloud nodes; a powered-down node would have to be created first.
const RUNNING_FLAGS: [&str; 2] = ["CLOUD", "DYNAMIC_NORM"];

/// Result of the search for idle nodes for a run that yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdleNodes {
    /// The requested number of nodes: the longest idle nodes, so that successive runs measure different
    /// nodes.
    Chosen(Vec<String>),
    /// The reason, with the requested and the found number of nodes.
    TooFew(String),
    /// Reason why other jobs cannot preempt the run's jobs.
    NotPreemptible(String),
}

/// Output of the commands that determine the nodes.
#[derive(Clone, Debug, Default)]
pub struct SlurmReports {
    /// Output of `scontrol show config`.
    pub config: String,
    /// Output of `scontrol --oneliner show partition`.
    pub partitions: String,
    /// Output of `scontrol --oneliner show node`.
    pub nodes: String,
    /// Output of `sacctmgr --noheader --parsable2 show qos format=name,preempt,preemptmode`; empty without
    /// `preempt/qos`.
    pub qos: String,
}

impl SlurmReports {
    /// Runs the commands and returns their output.
    ///
    /// # Errors
    /// Returns an error if a command fails.
    pub async fn request() -> Result<Self, PortError> {
        let config = output(&["scontrol", "show", "config"]).await?;
        let by_qos = setting(&config, "PreemptType") == "preempt/qos";
        let qos = ["sacctmgr", "--noheader", "--parsable2", "show", "qos", "format=name,preempt,preemptmode"];
        Ok(Self {
            partitions: output(&["scontrol", "--oneliner", "show", "partition"]).await?,
            nodes: output(&["scontrol", "--oneliner", "show", "node"]).await?,
            qos: if by_qos { output(&qos).await? } else { String::new() },
            config,
        })
    }
}

async fn output(argv: &[&str]) -> Result<String, PortError> {
    let argv: Vec<_> = argv.iter().map(|&word| word.to_owned()).collect();
    let answer =
        run_program(&argv, &[("LC_ALL", OsString::from("C"))], LIMIT).await.map_err(PortError::transient)?;
    if answer.good { Ok(answer.stdout) } else { Err(PortError::Transient(answer.stderr)) }
}

/// Checks before each job that other jobs preempt it: the configuration may have changed, and a host that cannot reach the controller
/// has not checked it.
///
/// # Errors
/// Returns a permanent error if other jobs do not preempt it, or an error if a command fails.
pub async fn check(slurm: &Slurm) -> Result<(), PortError> {
    match idle_nodes(slurm, &SlurmReports::request().await?) {
        IdleNodes::NotPreemptible(why) => {
            Err(PortError::Permanent(Failure::new(Class::Input, "NOT_PREEMPTIBLE", why)))
        }
        IdleNodes::Chosen(_) | IdleNodes::TooFew(_) => Ok(()),
    }
}

/// The nodes for a run with these settings. Pure.
pub fn idle_nodes(slurm: &Slurm, reports: &SlurmReports) -> IdleNodes {
    let partitions: Vec<_> = reports.partitions.lines().filter_map(PartitionPreemption::parsed).collect();
    let own = partitions.iter().find(|partition| match &slurm.partition {
        Some(name) => partition.name == name,
        None => partition.default,
    });
    let Some(own) = own else {
        let name = slurm.partition.as_deref().unwrap_or("default");
        return IdleNodes::NotPreemptible(format!(
            "partition: Slurm has no partition {name}; correct `partition`"
        ));
    };
    if let Err(why) = preemptible(slurm, own, &partitions, reports) {
        return IdleNodes::NotPreemptible(why);
    }
    let by_partition = setting(&reports.config, "PreemptType") == "preempt/partition_prio";
    // Jobs of a partition with the same tier could not preempt this run on nodes that belong to both partitions.
    let equal = |other: &&str| {
        partitions
            .iter()
            .any(|partition| partition.name == *other && other != &own.name && partition.tier <= own.tier)
    };
    let (mut idle, mut shared) = (Vec::new(), None);
    for node in reports.nodes.lines() {
        let name = field(node, "NodeName");
        let in_partition = || field(node, "Partitions").split(',').any(|partition| partition == own.name);
        let listed =
            || slurm.node_list.as_deref().is_none_or(|list| list.split(',').any(|listed| listed == name));
        if name.is_empty() || !in_partition() || !listed() || !is_idle(field(node, "State")) {
            continue;
        }
        match field(node, "Partitions").split(',').find(equal).filter(|_| by_partition) {
            Some(other) => shared = Some((name, other)),
            None => idle.push((idle_since(field(node, "LastBusyTime")), name)),
        }
    }
    idle.sort_unstable();
    let (requested, found) = (slurm.nodes as usize, idle.len());
    if found >= requested {
        return IdleNodes::Chosen(
            idle.into_iter().take(requested).map(|(_, name)| name.to_owned()).collect(),
        );
    }
    if let Some((node, other)) = shared {
        return IdleNodes::NotPreemptible(format!(
            "yields: {node} is also in the partition {other}, whose jobs cannot preempt those of {}; set a PriorityTier of {other} above {}",
            own.name, own.tier
        ));
    }
    let names: Vec<_> = idle.into_iter().map(|(_, name)| name).collect();
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    IdleNodes::TooFew(format!("{requested} idle nodes requested, partition {} has {found}{names}", own.name))
}

/// The fields of a partition that decide preemption.
struct PartitionPreemption<'a> {
    name: &'a str,
    default: bool,
    tier: u32,
    mode: &'a str,
}

impl<'a> PartitionPreemption<'a> {
    fn parsed(line: &'a str) -> Option<Self> {
        let name = field(line, "PartitionName");
        (!name.is_empty()).then(|| Self {
            name,
            default: field(line, "Default") == "YES",
            tier: field(line, "PriorityTier").parse().unwrap_or(1),
            mode: field(line, "PreemptMode"),
        })
    }
}

/// The fields of a QOS that decide preemption.
struct QosRow<'a> {
    name: &'a str,
    preempts: &'a str,
    mode: &'a str,
}

impl<'a> QosRow<'a> {
    fn parsed(line: &'a str) -> Option<Self> {
        let mut cells = line.split('|');
        Some(Self { name: cells.next()?, preempts: cells.next()?, mode: cells.next()? })
    }
}

/// Checks that other jobs preempt a job with these settings, and that the preemption ends it: a suspended job would measure its pause.
fn preemptible(
    slurm: &Slurm,
    own: &PartitionPreemption<'_>,
    partitions: &[PartitionPreemption<'_>],
    reports: &SlurmReports,
) -> Result<(), String> {
    let (mode, what) = match setting(&reports.config, "PreemptType") {
        "preempt/partition_prio" => {
            if !partitions.iter().any(|partition| partition.tier > own.tier) {
                return Err(format!(
                    "yields: no partition has a PriorityTier above {} of {}, so no job preempts its jobs; raise the tiers of the others",
                    own.tier, own.name
                ));
            }
            (own.mode, format!("partition {}", own.name))
        }
        "preempt/qos" => {
            let Some(name) = &slurm.qos else {
                return Err(
                    "yields: with PreemptType=preempt/qos, `qos` must name a QOS that others preempt"
                        .to_owned(),
                );
            };
            let rows: Vec<_> = reports.qos.lines().filter_map(QosRow::parsed).collect();
            let Some(QosRow { mode, .. }) = rows.iter().find(|row| row.name == name) else {
                return Err(format!("qos: Slurm has no QOS {name}; correct `qos`"));
            };
            if !rows.iter().any(|row| row.preempts.split(',').any(|preempted| preempted == name)) {
                return Err(format!(
                    "yields: no QOS preempts {name}; run `sacctmgr modify qos OTHER set preempt={name}` for the QOS of other jobs"
                ));
            }
            let of_cluster = mode.is_empty() || mode.eq_ignore_ascii_case("cluster");
            (if of_cluster { setting(&reports.config, "PreemptMode") } else { *mode }, format!("QOS {name}"))
        }
        other => {
            let other = if other.is_empty() { "none" } else { other };
            return Err(format!(
                "yields: no job preempts another, because PreemptType is {other}; configure preempt/partition_prio or preempt/qos in slurm.conf"
            ));
        }
    };
    let ends =
        mode.split(',').any(|word| ["cancel", "requeue"].iter().any(|end| word.eq_ignore_ascii_case(end)));
    if ends {
        return Ok(());
    }
    Err(format!(
        "yields: preempted jobs must end, but PreemptMode of {what} is {mode}; set CANCEL or REQUEUE"
    ))
}

/// Whether the node is up, accepts jobs and is idle.
fn is_idle(state: &str) -> bool {
    let mut words = state.split('+');
    words.next() == Some("IDLE") && words.all(|flag| RUNNING_FLAGS.contains(&flag))
}

/// Sort key by time; nodes that were never busy are first. Slurm prints local time.
fn idle_since(printed: &str) -> &str {
    if printed.starts_with(|first: char| first.is_ascii_digit()) { printed } else { "" }
}

/// A value of `scontrol show config`.
fn setting<'a>(config: &'a str, name: &str) -> &'a str {
    let value = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == name).then(|| value.trim())
    });
    value.filter(|value| *value != "(null)").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded output of Slurm 22.05 with the configuration of tests/testbed/slurm, shortened.
    fn bed() -> SlurmReports {
        SlurmReports {
            config: "PreemptMode             = CANCEL\nPreemptType             = preempt/partition_prio\n".to_owned(),
            partitions: "PartitionName=main AllowGroups=ALL Default=YES Nodes=n[1-4] PriorityTier=10 PreemptMode=OFF State=UP\n\
                         PartitionName=idle AllowGroups=ALL Default=NO Nodes=n[1-4] PriorityTier=1 PreemptMode=CANCEL State=UP\n"
                .to_owned(),
            nodes: [
                ("n1", "IDLE", "2026-11-25T20:09:44"),
                ("n2", "IDLE", "2026-11-25T20:09:24"),
                ("n3", "ALLOCATED", "2026-11-25T20:09:24"),
                ("n4", "IDLE+CLOUD", "Unknown"),
                ("n5", "IDLE+DRAIN", "2026-11-25T20:09:24"),
                ("n6", "IDLE+CLOUD+POWERED_DOWN", "None"),
                ("n7", "IDLE*", "None"),
            ]
            .map(|(name, state, busy)| {
                format!("NodeName={name} Arch=x86_64 State={state} ThreadsPerCore=1 Partitions=main,idle  LastBusyTime={busy}\n")
            })
            .concat(),
            qos: String::new(),
        }
    }

    fn slurm(more: serde_json::Value) -> Slurm {
        let mut all = serde_json::json!({"nodes": 2, "shared_folder": "/home/burnin", "partition": "idle", "yields": true});
        all.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        serde_json::from_value(all).unwrap()
    }

    fn chosen(names: &[&str]) -> IdleNodes {
        IdleNodes::Chosen(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn the_longest_idle_nodes_are_chosen() {
        let of = |more| idle_nodes(&slurm(more), &bed());
        assert_eq!(of(serde_json::json!({})), chosen(&["n4", "n2"]));
        assert_eq!(of(serde_json::json!({"nodes": 3})), chosen(&["n4", "n2", "n1"]));
        assert_eq!(of(serde_json::json!({"nodes": 1, "node_list": "n1,n3"})), chosen(&["n1"]));
        let why = "4 idle nodes requested, partition idle has 3 (n4, n2, n1)";
        assert_eq!(of(serde_json::json!({"nodes": 4})), IdleNodes::TooFew(why.to_owned()));
    }

    #[test]
    fn a_job_that_others_cannot_preempt_is_refused() {
        let refused = |change: &dyn Fn(&mut SlurmReports), more| {
            let mut reports = bed();
            change(&mut reports);
            match idle_nodes(&slurm(more), &reports) {
                IdleNodes::NotPreemptible(why) => why,
                other => panic!("{other:?}"),
            }
        };
        let none = serde_json::json!({});
        let why = refused(
            &|reports| reports.config = "PreemptType             = (null)\n".to_owned(),
            none.clone(),
        );
        assert!(why.contains("PreemptType is none"), "{why}");
        let why = refused(&|_| {}, serde_json::json!({"partition": "main"}));
        assert!(why.contains("no partition has a PriorityTier above 10 of main"), "{why}");
        let why = refused(&|_| {}, serde_json::json!({"partition": "other"}));
        assert_eq!(why, "partition: Slurm has no partition other; correct `partition`");
        let suspended = |reports: &mut SlurmReports| {
            reports.partitions = reports.partitions.replace("PreemptMode=CANCEL", "PreemptMode=GANG,SUSPEND");
        };
        let why = refused(&suspended, none.clone());
        assert!(why.contains("PreemptMode of partition idle is GANG,SUSPEND"), "{why}");
        let equal = |reports: &mut SlurmReports| {
            reports.partitions += "PartitionName=users Nodes=n[1-4] PriorityTier=1 PreemptMode=OFF\n";
            reports.nodes = reports.nodes.replace("Partitions=main,idle", "Partitions=main,users,idle");
        };
        let why = refused(&equal, none);
        assert!(why.contains("partition users, whose jobs cannot preempt those of idle"), "{why}");
    }

    #[test]
    fn another_qos_must_be_able_to_preempt_the_jobs_and_end_them() {
        let with = |qos: Option<&str>, rows: &str| {
            let mut reports = bed();
            reports.config = "PreemptMode = REQUEUE\nPreemptType = preempt/qos\n".to_owned();
            reports.qos = rows.to_owned();
            idle_nodes(&slurm(serde_json::json!({"qos": qos})), &reports)
        };
        // Recorded output of sacctmgr 22.05.
        let rows = "normal|idle|cluster\nidle||cluster\n";
        assert_eq!(with(Some("idle"), rows), chosen(&["n4", "n2"]));
        for (qos, rows, expected) in [
            (None, rows, "`qos` must name a QOS"),
            (Some("absent"), rows, "Slurm has no QOS absent"),
            (Some("normal"), rows, "no QOS preempts normal"),
            (Some("idle"), "normal|idle|cluster\nidle||suspend\n", "PreemptMode of QOS idle is suspend"),
        ] {
            let found = with(qos, rows);
            assert!(matches!(&found, IdleNodes::NotPreemptible(why) if why.contains(expected)), "{found:?}");
        }
    }
}
