//! Machines reached by ssh, as configured in a workflow.

mod rules;

use std::collections::BTreeMap;

use cluster_api::{ClusterLayout, FileReader, Settings, SettingsProblems};
use model::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hostfile;

/// Machines reached by ssh from the agent's machine; Open MPI's `mpirun` there starts the ranks. ssh's own configuration
/// (`~/.ssh/config`, agent, known hosts) applies where nothing else is set; ssh never prompts for a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// The machines; a job uses all of them.
    #[serde(default)]
    pub hosts: Vec<Host>,
    /// A hostfile of Open MPI instead of `hosts`, relative to the workflow file: a host per line, with `slots=N` ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostfile: Option<String>,
    /// Number of hosts, computed from `hosts` or `hostfile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// User on the hosts; default: from ssh's own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// ssh port of the hosts; default: from ssh's own configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Private key for ssh on the agent's machine, absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_file: Option<String>,
    /// Further options of ssh, each `Name=value` as in ssh_config.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_options: Vec<String>,
    /// Processes per host, 1 to 64, each with one GPU if the host has GPUs.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub ranks_per_node: u32,
    /// GPUs per host; `None`: the benchmark runs on CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub gpus_per_node: Option<u32>,
    /// Folder for jobs and images, on the agent's machine and on every host. It need not be shared. Burnin creates it,
    /// and refuses a folder that other users can write to.
    #[serde(default = "work_folder")]
    pub work_folder: String,
    /// Folder with the benchmark programs on the hosts, for workflows without an image. Default: search `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<String>,
    /// Shell file on the hosts that sets up the network, sourced before each rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Environment variables of the ranks. They override the profile, and are also set while the profile runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Value of `NCCL_DEBUG`.
    #[serde(default = "info")]
    pub nccl_debug: String,
    /// Installation folder and options of Open MPI.
    #[serde(default)]
    pub mpi: Mpi,
    /// Port of rank 0 for programs that use `BURNIN_RENDEZVOUS` instead of MPI; rank N listens on this port + N.
    #[serde(default = "rank_port")]
    #[schemars(range(min = 1024))]
    pub rank_port: u16,
    /// Maximum time without a response from a host during a job; after this time the host is reported as lost.
    #[serde(default = "silent_after")]
    pub silent_after: Span,
}

/// A machine, and its exceptions from the common settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Name in results and messages.
    pub name: String,
    /// Host name or address for ssh; default: `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// User on this host; default: the common `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// ssh port of this host; default: the common `port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Private key for this host; default: the common `identity_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_file: Option<String>,
    /// Processes on this host, 1 to 64; default: `ranks_per_node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub ranks: Option<u32>,
    /// GPUs of this host, 1 to 64; default: `gpus_per_node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub gpus: Option<u32>,
}

/// Open MPI on the agent's machine and on the hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mpi {
    /// Installation folder, with `bin/mpirun`; the same path on every host. Default: search `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Options of `mpirun`. NCCL uses MPI only to start, so TCP is the default.
    pub options: Vec<String>,
}

impl Default for Mpi {
    fn default() -> Self {
        let options = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "coll", "^hcoll"];
        Self { folder: None, options: options.map(str::to_owned).into() }
    }
}

const fn one() -> u32 {
    1
}
fn work_folder() -> String {
    "/var/tmp/burnin".to_owned()
}
fn info() -> String {
    "INFO".to_owned()
}
const fn rank_port() -> u16 {
    29_400
}
const fn silent_after() -> Span {
    Span::from_secs(60)
}

impl Host {
    /// Host name or address for ssh and Open MPI.
    pub fn address(&self) -> &str {
        self.address.as_ref().unwrap_or(&self.name)
    }
}

impl Hosts {
    /// The host's own number of ranks, or else the settings' `ranks_per_node`.
    pub fn ranks(&self, host: &Host) -> u32 {
        host.ranks.unwrap_or(self.ranks_per_node)
    }

    /// The settings for only these hosts.
    #[must_use]
    pub fn part(&self, names: &[&str]) -> Self {
        let hosts: Vec<_> = names
            .iter()
            .filter_map(|name| self.hosts.iter().find(|host| host.name == *name))
            .cloned()
            .collect();
        Self { hosts, nodes: None, ..self.clone() }.completed()
    }
}

impl Settings for Hosts {
    const KIND: &'static str = "hosts";
    const DESCRIPTION: &'static str = "Machines reached by ssh; Open MPI's mpirun starts the ranks.";
    const LEAST: &'static str = r#"{"hosts": [{"name": "host"}]}"#;

    fn inline(settings: &mut Value, read: FileReader<'_>) -> SettingsProblems {
        let Some(path) = settings.get("hostfile").and_then(Value::as_str).map(str::to_owned) else {
            return Vec::new();
        };
        let wrong = |why: String| vec![("hostfile".to_owned(), why)];
        if settings.get("hosts").is_some() {
            return wrong("cannot be combined with `hosts`; remove one of them".to_owned());
        }
        let hosts = read(path.as_ref())
            .and_then(|text| hostfile::parse(&text).map_err(|why| format!("{path}: {why}")));
        match hosts {
            Ok(hosts) => {
                settings["hosts"] = hosts.into();
                settings.as_object_mut().map(|settings| settings.shift_remove("hostfile"));
                Vec::new()
            }
            Err(why) => wrong(why),
        }
    }

    fn completed(mut self) -> Self {
        self.nodes = self.nodes.or(u32::try_from(self.hosts.len()).ok());
        self
    }

    fn problems(&self) -> SettingsProblems {
        rules::problems(self)
    }

    fn for_retest(&self, nodes: &[String], partners: &[String]) -> Result<Self, String> {
        let names: Vec<_> = nodes.iter().chain(partners).map(String::as_str).collect();
        Ok(self.part(&names))
    }

    /// `None` if hosts have different numbers of ranks.
    fn layout(&self) -> Option<ClusterLayout> {
        let first = self.hosts.first()?;
        let same = self.hosts.iter().all(|host| self.ranks(host) == self.ranks(first));
        let gpus = |host: &Host| host.gpus.or(self.gpus_per_node);
        let same_gpus = self.hosts.iter().all(|host| gpus(host) == gpus(first));
        same.then(|| ClusterLayout {
            nodes: u32::try_from(self.hosts.len()).unwrap_or(u32::MAX),
            ranks_per_node: self.ranks(first),
            gpus_per_node: gpus(first).filter(|_| same_gpus),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(settings: Value) -> Hosts {
        serde_json::from_value(settings).unwrap()
    }

    fn fields(settings: Value) -> Vec<String> {
        read(settings).problems().into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn an_empty_list_a_duplicate_and_shell_characters_are_reported_with_their_field() {
        assert_eq!(fields(json!({})), ["hosts"]);
        for again in ["n1", "N1"] {
            assert_eq!(fields(json!({"hosts": [{"name": "n1"}, {"name": again}]})), ["hosts[1].name"]);
        }
        let with_address =
            |address: &str| json!({"hosts": [{"name": "n1"}, {"name": "n2", "address": address}]});
        assert_eq!(fields(with_address("N1")), ["hosts[1].address"], "the address of n1 is its name");
        assert!(fields(with_address("n3")).is_empty());
        for name in ["-oProxyCommand=x", "n1;reboot", "$(reboot)", "n 1", "n1\n", ""] {
            assert_eq!(fields(json!({"hosts": [{"name": name}]})), ["hosts[0].name"], "{name}");
            assert_eq!(
                fields(json!({"hosts": [{"name": "n", "address": name}]})),
                ["hosts[0].address"],
                "{name}"
            );
        }
        assert_eq!(fields(json!({"hosts": [{"name": "n1"}], "nodes": 2})), ["nodes"]);
    }

    #[test]
    fn every_invalid_field_is_reported() {
        let wrong = json!({
            "hosts": [{"name": "n1", "address": "fd00::1", "user": "-x", "port": 0, "identity_file": "key", "ranks": 9, "gpus": 8}],
            "user": "a b", "port": 0, "identity_file": "/a%b", "ssh_options": ["ProxyJump"], "ranks_per_node": 0,
            "gpus_per_node": 65, "work_folder": "x", "programs": "x", "profile": "x", "environment": {"A B": ""},
            "nccl_debug": "A B", "mpi": {"folder": "x", "options": ["a\nb"]}, "rank_port": 80, "silent_after": "1s",
        });
        let expected = [
            "hosts[0].user",
            "hosts[0].port",
            "hosts[0].identity_file",
            "hosts[0].ranks",
            "user",
            "port",
            "identity_file",
            "ssh_options",
            "ranks_per_node",
            "gpus_per_node",
            "work_folder",
            "programs",
            "profile",
            "environment.A B",
            "nccl_debug",
            "mpi.folder",
            "mpi.options",
            "rank_port",
            "silent_after",
        ];
        assert_eq!(fields(wrong), expected);
    }

    #[test]
    fn a_hostfile_is_read_once_and_replaces_the_list() {
        let mut settings = json!({"hostfile": "hosts.txt", "user": "me"});
        let problems = Hosts::inline(&mut settings, &mut |path| {
            assert_eq!(path.to_str(), Some("hosts.txt"));
            Ok("n1 slots=2\nn2 slots=2\n".to_owned())
        });
        assert_eq!(problems, []);
        let hosts = read(settings).completed();
        assert_eq!(hosts.layout(), Some(ClusterLayout { nodes: 2, ranks_per_node: 2, gpus_per_node: None }));
        let mut both = json!({"hostfile": "x", "hosts": []});
        assert_eq!(
            Hosts::inline(&mut both, &mut |_| unreachable!("the hostfile is not read"))[0].0,
            "hostfile"
        );
        assert_eq!(fields(json!({"hostfile": "x"})), ["hostfile"]);
    }

    #[test]
    fn hosts_may_have_different_numbers_of_ranks() {
        let hosts = read(json!({"hosts": [{"name": "a", "ranks": 2}, {"name": "b"}], "ranks_per_node": 4}));
        assert_eq!((hosts.problems(), hosts.layout()), (vec![], None));
        assert_eq!(hosts.part(&["b"]).layout().map(|layout| layout.ranks_per_node), Some(4));
    }
}
