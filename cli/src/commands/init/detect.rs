//! Detects a scheduler, GPUs and benchmark programs on this host. Each program is called once, with a timeout; a
//! missing or hanging one is not an error.

use std::{
    env,
    ffi::OsStr,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::args::InitKind;

/// Maximum time for one program: `sinfo` retries for minutes if its controller does not answer.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum output read from one program, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A Slurm partition with usable nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    pub nodes: u32,
    pub gpus_per_node: u32,
    pub is_default: bool,
}

/// GPU nodes of the current Kubernetes context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubernetesNodes {
    pub context: String,
    pub nodes: u32,
    pub gpus_per_node: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Detected {
    pub partition: Option<Partition>,
    /// Value of `srun --mpi` that this host supports and that starts MPI programs.
    pub mpi: Option<&'static str>,
    pub kubernetes: Option<KubernetesNodes>,
    /// Names of this host's GPUs.
    pub gpus: Vec<String>,
    /// Folder of nccl-tests on the PATH.
    pub nccl_tests: Option<PathBuf>,
    pub mpirun: Option<PathBuf>,
    pub rustc: bool,
    pub home: Option<PathBuf>,
    pub current: PathBuf,
    /// Project of gcloud's configuration.
    pub project: Option<String>,
}

impl Detected {
    /// With a kind, detects only the parts of the host that the kind uses; otherwise all parts.
    pub fn on_this_host(kind: Option<InitKind>) -> Self {
        let any = kind.is_none();
        let slurm = any || kind == Some(InitKind::Slurm);
        let kubernetes = any || kind == Some(InitKind::Kubernetes);
        let google = matches!(kind, Some(InitKind::A3Mega | InitKind::A4));
        Self {
            partition: slurm.then(partition).flatten(),
            mpi: slurm.then(mpi).flatten(),
            kubernetes: kubernetes.then(kubernetes_nodes).flatten(),
            gpus: gpus(),
            nccl_tests: on_path("all_reduce_perf").and_then(|path| Some(path.parent()?.to_owned())),
            mpirun: on_path("mpirun"),
            rustc: on_path("rustc").is_some(),
            home: env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            current: env::current_dir().unwrap_or_default(),
            project: google.then(project).flatten(),
        }
    }

    /// The default kind.
    pub const fn suggested(&self) -> InitKind {
        if self.partition.is_some() { InitKind::Slurm } else { InitKind::Quickstart }
    }

    /// Detected schedulers, GPUs and project, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(Partition { name, nodes, gpus_per_node, .. }) = &self.partition {
            let gpus = if *gpus_per_node > 0 {
                format!(" with {} each", report::count(*gpus_per_node, "GPU"))
            } else {
                String::new()
            };
            lines.push(format!("Slurm: partition {name}, {}{gpus}", report::count(*nodes, "node")));
        }
        if let Some(KubernetesNodes { context, nodes, gpus_per_node }) = &self.kubernetes {
            let nodes = match (nodes, gpus_per_node) {
                (0, _) => ", no node with GPUs found".to_owned(),
                (nodes, gpus) => {
                    format!(", {} with {} each", report::count(*nodes, "node"), report::count(*gpus, "GPU"))
                }
            };
            lines.push(format!("Kubernetes: context {context}{nodes}"));
        }
        match self.gpus.first() {
            Some(name) => {
                lines.push(format!("this host: {} ({name})", report::count(self.gpus.len() as u64, "GPU")))
            }
            None => lines.push("this host: no GPU".to_owned()),
        }
        if let Some(folder) = &self.nccl_tests {
            lines.push(format!("nccl-tests: {}", folder.display()));
        }
        if let Some(project) = &self.project {
            lines.push(format!("gcloud: project {project}"));
        }
        lines
    }
}

fn partition() -> Option<Partition> {
    parse_partitions(&output("sinfo", &["--noheader", "--format=%P|%a|%D|%G"])?)
}

/// The default partition if it has GPUs, else the partition with most GPUs, else the default partition.
fn parse_partitions(text: &str) -> Option<Partition> {
    let mut all: Vec<Partition> = Vec::new();
    for line in text.lines() {
        let fields: Vec<_> = line.trim().split('|').collect();
        let [name, "up", nodes, gres] = fields[..] else { continue };
        let is_default = name.ends_with('*');
        let name = name.trim_end_matches('*');
        let (Ok(nodes), true) = (nodes.parse::<u32>(), is_name(name)) else { continue };
        let gpus_per_node = gres.split(',').filter_map(gpus_of_gres).sum::<u32>().min(64);
        // `sinfo` prints one line for each kind of node in a partition.
        match all.iter_mut().find(|known| known.name == name) {
            Some(known) if gpus_per_node > known.gpus_per_node => {
                (known.nodes, known.gpus_per_node) = (nodes, gpus_per_node);
            }
            Some(known) if gpus_per_node == known.gpus_per_node => known.nodes += nodes,
            Some(_) => {}
            None => all.push(Partition { name: name.to_owned(), nodes, gpus_per_node, is_default }),
        }
    }
    all.retain(|partition| partition.nodes > 0);
    all.into_iter().max_by_key(|it| {
        (it.gpus_per_node > 0, it.is_default, it.gpus_per_node * it.nodes.min(4096), it.nodes)
    })
}

/// Number of GPUs in Slurm's generic resources of a node, such as `gpu:8` or `gpu:h100:8(S:0-1)`.
fn gpus_of_gres(gres: &str) -> Option<u32> {
    let gres = gres.trim().split('(').next()?;
    let mut parts = gres.split(':');
    (parts.next()? == "gpu").then_some(())?;
    parts.next_back()?.parse().ok()
}

/// Whether a workflow accepts the name; other names are not detected, so that the user enters them.
fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.len() <= 63
        && text.chars().all(letter)
}

fn mpi() -> Option<&'static str> {
    let kinds = output("srun", &["--mpi=list"])?;
    ["pmix", "pmi2"].into_iter().find(|kind| kinds.split_whitespace().any(|word| word == *kind))
}

fn kubernetes_nodes() -> Option<KubernetesNodes> {
    let context = output("kubectl", &["config", "current-context"])?.trim().to_owned();
    // A context may have any name; only a printable name fits into the comment and the field.
    if context.is_empty() || context.len() > 200 || !context.chars().all(|c| c.is_ascii_graphic()) {
        return None;
    }
    let columns = "custom-columns=GPUS:.status.allocatable.nvidia\\.com/gpu";
    let nodes = output("kubectl", &["get", "nodes", "--request-timeout=3s", "--no-headers", "-o", columns]);
    let (nodes, gpus_per_node) = parse_gpu_nodes(&nodes.unwrap_or_default());
    Some(KubernetesNodes { context, nodes, gpus_per_node })
}

/// Number of the nodes that have the most GPUs, and the number of GPUs of each of these nodes.
fn parse_gpu_nodes(text: &str) -> (u32, u32) {
    let gpus: Vec<u32> = text
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .filter(|gpus| (1..=64).contains(gpus))
        .collect();
    let most = gpus.iter().max().copied().unwrap_or(0);
    (gpus.iter().filter(|gpus| **gpus == most).count() as u32, most)
}

fn gpus() -> Vec<String> {
    let names = output("nvidia-smi", &["--query-gpu=name", "--format=csv,noheader"]).unwrap_or_default();
    names.lines().map(report::single_line).filter(|name| !name.is_empty()).take(64).collect()
}

fn project() -> Option<String> {
    let project = output("gcloud", &["config", "get-value", "project"])?.trim().to_owned();
    let letters = project.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let begins = project.starts_with(|c: char| c.is_ascii_lowercase()) && !project.ends_with('-');
    (letters && begins && (6..=30).contains(&project.len())).then_some(project)
}

/// The first executable file of this name on the `PATH`.
fn on_path(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_absolute() && is_program(path))
}

/// Standard output of a program that ends successfully within [`TIMEOUT`].
fn output(program: &str, arguments: &[impl AsRef<OsStr>]) -> Option<String> {
    let program = on_path(program)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let out = child.stdout.take()?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        out.take(MAX_BYTES).read_to_end(&mut text).map(|_| text)
    });
    let until = Instant::now() + TIMEOUT;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(10)),
            _ => {
                let _ = child.kill(); // ignored: the process has already ended
                let _ = child.wait();
                return None; // children of the program may keep the pipe open: the reader thread is abandoned
            }
        }
    };
    // A child process may keep the pipe open after the program has ended.
    while !reader.is_finished() {
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let text = reader.join().ok()?.ok()?;
    ended.then(|| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_with_gpus_is_chosen_and_its_gpus_are_counted() {
        let text =
            "cpu*|up|40|(null)\ngpu|up|4|gpu:h100:8(S:0-1)\ngpu|up|2|gpu:h100:8(S:0-1)\nold|down|90|gpu:8\n";
        let gpu = Partition { name: "gpu".into(), nodes: 6, gpus_per_node: 8, is_default: false };
        assert_eq!(parse_partitions(text), Some(gpu));
        let cpu = Partition { name: "cpu".into(), nodes: 40, gpus_per_node: 0, is_default: true };
        assert_eq!(parse_partitions("cpu*|up|40|(null)\n"), Some(cpu));
        let mixed = parse_partitions("all*|up|40|(null)\nall*|up|3|gpu:4,nvme:1\n").unwrap();
        assert_eq!((mixed.nodes, mixed.gpus_per_node), (3, 4));
    }

    #[test]
    fn names_that_a_workflow_would_refuse_are_not_detected() {
        for text in [
            "",
            "x\n",
            "a b|up|4|gpu:8\n",
            "$(reboot)|up|4|gpu:8\n",
            "gpu|up|many|gpu:8\n",
            "\u{1b}[31m|up|1|x\n",
        ] {
            assert_eq!(parse_partitions(text), None, "{text:?}");
        }
    }

    #[test]
    fn nodes_without_gpus_are_not_counted() {
        assert_eq!(parse_gpu_nodes("8\n8\n<none>\n4\n"), (2, 8));
        assert_eq!(parse_gpu_nodes("<none>\n9999\n"), (0, 0));
    }
}
