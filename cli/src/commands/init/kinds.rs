//! Files of each target of `burnin init`. Examples come from `workflows/` of the repository; only the parts that depend on
//! the host are written here.

use std::{fmt::Write, path::Path};

use rust_embed::Embed;

use crate::{
    args::{InitKind, SchemaKind},
    commands::init::detect::{Detected, KubernetesNodes},
    exit::{CliError, Exit},
};

/// Files of the repository. Git ignores some files in these folders, such as a private inventory: only known names are embedded.
#[derive(Embed)]
#[folder = "../workflows/"]
#[include = "*.yaml"]
#[include = "criteria/*.yaml"]
#[include = "values/a3-mega.yaml"]
#[include = "values/a4-gke-testbed.yaml"]
#[include = "values/dgx-slurm-perf.yaml"]
#[include = "quickstart/*.rs"]
#[include = "quickstart/*.yaml"]
#[include = "a3-mega/*"]
#[include = "a4-gke-testbed/*"]
#[include = "dgx-slurm-perf/*"]
#[exclude = "*__pycache__*"]
#[exclude = "*.venv*"]
#[exclude = "*/cluster/*.json"]
#[exclude = "*/cluster/deployment.*"]
#[exclude = "*/cluster/kubeconfig"]
#[exclude = "dgx-slurm-perf/inventory"]
#[exclude = "dgx-slurm-perf/*.json"]
#[exclude = "dgx-slurm-perf/events*"]
#[exclude = "dgx-slurm-perf/agent-program"]
#[exclude = "dgx-slurm-perf/ssh_key"]
#[exclude = "dgx-slurm-perf/state*"]
struct RepositoryFiles;

/// `pins.json` is embedded separately: the patterns above exclude it together with the files that runs write into the same folder.
const A4_PINS: (&str, &[u8]) = (
    "a4-gke-testbed/cluster/pins.json",
    include_bytes!("../../../../workflows/a4-gke-testbed/cluster/pins.json"),
);

/// Schema files next to the workflows, which editors find by a relative path.
const SCHEMAS: [(&str, &str); 4] = [
    ("schemas/workflow.json", include_str!("../../../../schemas/workflow.json")),
    ("schemas/suite.json", include_str!("../../../../schemas/suite.json")),
    ("schemas/criteria.json", include_str!("../../../../schemas/criteria.json")),
    ("schemas/build.json", include_str!("../../../../schemas/build.json")),
];

/// Placeholder digest of an example image; no registry has an image with this digest.
const NO_DIGEST: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// A file to write; its name is relative to the folder of the workflows.
#[derive(Debug)]
pub struct NewFile {
    pub name: String,
    pub content: Vec<u8>,
}

#[derive(Debug)]
pub struct StarterFile {
    pub files: Vec<NewFile>,
    /// Name of the workflow's file.
    pub workflow: String,
    /// Files that the user should read or edit.
    edited: Vec<String>,
    /// Commands that the user runs next; `{folder}` stands for the folder's path.
    pub next: Vec<String>,
}

impl StarterFile {
    fn new(workflow: &str) -> Self {
        let files = SCHEMAS.map(|(name, text)| NewFile { name: name.to_owned(), content: text.into() });
        Self {
            files: files.into(),
            workflow: workflow.to_owned(),
            edited: vec![workflow.to_owned()],
            next: vec![],
        }
    }

    pub fn edited(&self, name: &str) -> bool {
        self.edited.iter().any(|edited| edited == name)
    }

    fn add(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.files.push(NewFile { name: name.to_owned(), content: content.into() });
    }

    /// Adds files of the repository whose names begin with `prefix`.
    fn add_all(&mut self, prefix: &str) -> Result<(), CliError> {
        let names: Vec<_> = RepositoryFiles::iter().filter(|name| name.starts_with(prefix)).collect();
        if names.is_empty() {
            return Err(missing(prefix));
        }
        for name in names {
            let content = relocated(&name, read(&name)?);
            self.add(&name, content);
        }
        Ok(())
    }

    /// Next commands if the workflow can run unchanged.
    fn ready(&mut self) {
        self.next = vec![
            format!("burnin plan {{folder}}/{}", self.workflow),
            format!("burnin run {{folder}}/{}", self.workflow),
        ];
    }

    /// Next commands if the user must first enter values.
    fn after_editing(&mut self, files: &[&str]) {
        let files: Vec<_> = files.iter().map(|file| format!("{{folder}}/{file}")).collect();
        let first = format!("$EDITOR {}", files.join(" "));
        self.ready();
        self.next.insert(0, first);
    }
}

pub fn schema(kind: SchemaKind) -> &'static str {
    let name = match kind {
        SchemaKind::Workflow => "schemas/workflow.json",
        SchemaKind::Suite => "schemas/suite.json",
        SchemaKind::Criteria => "schemas/criteria.json",
        SchemaKind::Build => "schemas/build.json",
    };
    SCHEMAS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
}

pub fn starter(kind: InitKind, detected: &Detected) -> Result<StarterFile, CliError> {
    match kind {
        InitKind::Quickstart => quickstart(detected),
        InitKind::Slurm => slurm(detected),
        InitKind::Kubernetes => kubernetes(detected),
        InitKind::Hosts => hosts(detected),
        InitKind::A3Mega => deployed(&A3_MEGA, detected),
        InitKind::A4 => deployed(&A4, detected),
        InitKind::Dgx => deployed(&DGX, detected),
        InitKind::Logs => logs(detected),
    }
}

fn quickstart(detected: &Detected) -> Result<StarterFile, CliError> {
    let mut starter = StarterFile::new("quickstart.yaml");
    starter.add_all("quickstart.yaml")?;
    starter.add_all("quickstart/")?;
    for criteria in ["this-machine", "node-memory", "node-product"] {
        starter.add_all(&format!("criteria/{criteria}.yaml"))?;
    }
    starter.ready();
    if !detected.rustc {
        let install = "install Rust (rustup.rs): the quickstart compiles its benchmark with rustc, which is not on the PATH";
        starter.next.insert(0, install.to_owned());
    }
    Ok(starter)
}

fn slurm(detected: &Detected) -> Result<StarterFile, CliError> {
    let mut starter = StarterFile::new("slurm.yaml");
    let partition = detected.partition.clone();
    let gpus = partition.as_ref().map_or(0, |partition| partition.gpus_per_node);
    let all = partition.as_ref().map_or(4, |partition| partition.nodes);
    let nodes = all.min(4);
    let mut text = header(
        "Validates an existing Slurm cluster: sbatch and srun start the benchmark. docs/CLUSTERS.md describes the fields.",
    );
    text += "name: slurm\ndescription: Validates an existing Slurm cluster; the cluster is not released.\n";
    text += &image(gpus);
    text += "\ncluster:\n  existing:\n    # The cluster's name in reports and in its history.\n    name: here\n    system:\n      slurm:\n";
    _ = match &partition {
        Some(found) => writeln!(
            text,
            "        # Nodes of the job. The partition has {}.\n        nodes: {nodes}\n        partition: {}",
            found.nodes,
            quoted(&found.name)
        ),
        None => writeln!(
            text,
            "        # Nodes of the job; `sinfo` on this host reported no partition.\n        nodes: {nodes}\n        # partition: gpu"
        ),
    };
    text += &ranks(gpus);
    if let Some(mpi) = detected.mpi.filter(|_| gpus > 0) {
        _ = writeln!(
            text,
            "        # nccl-tests built with MPI; other kinds: srun --mpi=list\n        mpi: {mpi}"
        );
    }
    let home = detected.home.as_deref().and_then(plain_path).unwrap_or("/home/burnin");
    let shared = if home.ends_with("/burnin") {
        home.to_owned()
    } else {
        format!("{}/burnin", home.trim_end_matches('/'))
    };
    _ = writeln!(
        text,
        "        # A folder that this host and every node mount under this path.\n        shared_folder: {}",
        quoted(&shared)
    );
    text += &programs(detected, gpus);
    text += "        # account: my-account\n        # environment: {NCCL_IB_TC: \"106\"}\n";
    text += &benchmark("slurm", nodes, gpus);
    starter.add("slurm.yaml", text);
    add_criteria(&mut starter, "slurm", gpus)?;
    if partition.is_some() {
        starter.ready()
    } else {
        starter.after_editing(&["slurm.yaml"])
    }
    Ok(starter)
}

fn kubernetes(detected: &Detected) -> Result<StarterFile, CliError> {
    let mut starter = StarterFile::new("kubernetes.yaml");
    let found = detected.kubernetes.clone().unwrap_or_default();
    let KubernetesNodes { context, nodes: all, gpus_per_node: gpus } = found;
    let nodes = if all == 0 { 4 } else { all.min(4) };
    let mut text = header(
        "Validates an existing Kubernetes cluster: one job is one JobSet, which must be installed. docs/CLUSTERS.md describes the\n\
         # fields, and which permissions are needed. A `burnin` without the feature `kubernetes` can plan this workflow, but not run it.",
    );
    text += "name: kubernetes\ndescription: Validates an existing Kubernetes cluster; the cluster is not released.\n";
    text += "\ncluster:\n  existing:\n    # The cluster's name in reports and in its history.\n    name: here\n    system:\n      kubernetes:\n";
    if !context.is_empty() {
        _ = writeln!(text, "        access:\n          kubeconfig: {{context: {}}}", quoted(&context));
    }
    let of = if all > 0 { format!(" The cluster has {all} with GPUs.") } else { String::new() };
    _ = writeln!(
        text,
        "        # Number of pods, each on its own node.{of}\n        nodes: {nodes}\n        namespace: default\n        # queue: my-local-queue"
    );
    text += &ranks(gpus);
    if gpus > 0 {
        text += "        # The first pod starts all ranks with mpirun over ssh: the image needs Open MPI and OpenSSH.\n        launch: mpi\n";
    } else {
        text += "        cpu_millis: 500\n        memory_mib: 256\n        # With GPUs: gpus_per_node, ranks_per_node and `launch: mpi`.\n";
    }
    let contains =
        if gpus > 0 { "bash, Open MPI, OpenSSH and nccl-tests" } else { "bash and all_reduce_perf" };
    _ = writeln!(
        text,
        "        # EXAMPLE, replace it: an image with {contains}, by its digest.\n        image: registry.example/nccl-tests@{NO_DIGEST}\n        # programs: /opt/nccl-tests/build"
    );
    text += &benchmark("kubernetes", nodes, gpus);
    starter.add("kubernetes.yaml", text);
    add_criteria(&mut starter, "kubernetes", gpus)?;
    starter.after_editing(&["kubernetes.yaml"]);
    Ok(starter)
}

fn hosts(detected: &Detected) -> Result<StarterFile, CliError> {
    let mut starter = StarterFile::new("hosts.yaml");
    let gpus = detected.gpus.len() as u32;
    let mut text = header(
        "Validates machines reached by ssh, without a password; mpirun on this machine starts the ranks, so Open MPI is needed here\n\
         # and on every host. docs/CLUSTERS.md describes the fields.",
    );
    text += "name: hosts\ndescription: Validates machines reached by ssh; they are left unchanged.\n";
    text += &image(gpus);
    text += "\ncluster:\n  existing:\n    # Name of these machines in reports and in their history.\n    name: here\n    system:\n      hosts:\n";
    text += "        # One host per line with its ranks. Or `hosts`, a list of {name, address, user, port, identity_file}.\n        hostfile: hosts.txt\n";
    if gpus > 0 {
        _ = writeln!(text, "        # The number of GPUs of this machine.\n        gpus_per_node: {gpus}");
    } else {
        text += "        # gpus_per_node: 8\n";
    }
    text += &programs(detected, gpus);
    text += &benchmark("hosts", 4, gpus);
    let ranks = gpus.max(1);
    starter.add("hosts.yaml", text);
    starter.add(
        "hosts.txt",
        format!(
            "# EXAMPLE, replace it. One host per line, as in Open MPI's hostfile: its name or address for ssh, and its ranks.\n\
             node-1 slots={ranks}\nnode-2 slots={ranks}\nnode-3 slots={ranks}\nnode-4 slots={ranks}\n"
        ),
    );
    add_criteria(&mut starter, "hosts", gpus)?;
    starter.edited.push("hosts.txt".to_owned());
    starter.after_editing(&["hosts.txt"]);
    if detected.mpirun.is_none() {
        starter.next.insert(0, "install Open MPI: mpirun is not on the PATH of this machine".to_owned());
    }
    Ok(starter)
}

fn logs(detected: &Detected) -> Result<StarterFile, CliError> {
    let mut starter = StarterFile::new("logs.yaml");
    let current = plain_path(&detected.current).unwrap_or("/var/tmp");
    let mut text = header(
        "Judges and stores logs of nccl-tests that another program wrote, like the logs of a run. Starts no job.",
    );
    text += "name: logs\ndescription: Judges existing logs; starts no job.\n";
    text += "\ncluster:\n  existing:\n    # The cluster's name in reports and in its history.\n    name: here\n    system:\n      logs:\n";
    _ = writeln!(
        text,
        "        # The logs' folder, an absolute path.\n        folder: {}",
        quoted(&format!("{}/logs", current.trim_end_matches('/')))
    );
    text += "        # The shape of the job that wrote the logs.\n        nodes: 2\n        ranks_per_node: 8\n        # The log below the folder; without it all files.\n        # file: all_reduce.log\n";
    text += &benchmark("logs", 1, 8);
    starter.add("logs.yaml", text);
    add_criteria(&mut starter, "logs", 8)?;
    starter.after_editing(&["logs.yaml"]);
    Ok(starter)
}

/// A workflow whose build steps deploy a cluster.
struct Deployment {
    workflow: &'static str,
    folder: &'static str,
    values: &'static str,
    criteria: &'static str,
    /// The reference to the values in the repository's file, and in the new file.
    passed: (&'static str, &'static str),
    /// Values that a deployment requires. Each is marked as an example.
    examples: &'static [(&'static str, &'static str)],
}

const TOOLS: (&str, &str) = ("_TOOLS", "registry.example/burnin/tools:1");

const A3_MEGA: Deployment = Deployment {
    workflow: "a3-mega-slurm.yaml",
    folder: "a3-mega/",
    values: "values/a3-mega.yaml",
    criteria: "criteria/a3-mega.yaml",
    passed: (
        "Your values: copy values/a3-mega.yaml and pass it with --values.",
        "Your values: values/a3-mega.yaml.",
    ),
    examples: &[
        TOOLS,
        ("_PROJECT", "example-project"),
        ("_REGION", "us-central1"),
        ("_ZONE", "us-central1-a"),
        ("_STATE_BUCKET", "example-terraform-state"),
        ("_RESERVATION", "example-reservation"),
    ],
};

const A4: Deployment = Deployment {
    workflow: "a4-gke-testbed.yaml",
    folder: "a4-gke-testbed/",
    values: "values/a4-gke-testbed.yaml",
    criteria: "criteria/a4.yaml",
    passed: (
        "Your values: copy values/a4-gke-testbed.yaml and pass it with --values; it also\n# names the plug-in's image.",
        "Your values: values/a4-gke-testbed.yaml; it also\n# names the plug-in's image.",
    ),
    examples: &[
        TOOLS,
        ("_PROJECT", "example-project"),
        ("_REGION", "us-central1"),
        ("_ZONE", "us-central1-b"),
        ("_RESERVATION", "example-reservation"),
        ("_TERRAFORM_BUCKET", "example-terraform-state"),
        ("_REPOSITORY", "us-docker.pkg.dev/example-project/burnin"),
        ("_BASE", "registry.example/nccl-base@{digest}"),
        ("_JOBSET_CHART", "oci://registry.example/charts/jobset@{digest}"),
        ("_KUEUE_CHART", "oci://registry.example/charts/kueue@{digest}"),
        ("_GIB_IMAGE", "registry.example/burnin/gib@{digest}"),
    ],
};

const DGX: Deployment = Deployment {
    workflow: "dgx-slurm-perf.yaml",
    folder: "dgx-slurm-perf/",
    values: "values/dgx-slurm-perf.yaml",
    criteria: "criteria/dgx-1.yaml",
    passed: (
        "Your\n# values: copy values/dgx-slurm-perf.yaml and pass it with --values.",
        "Your\n# values: values/dgx-slurm-perf.yaml.",
    ),
    examples: &[],
};

fn deployed(deployment: &Deployment, detected: &Detected) -> Result<StarterFile, CliError> {
    let Deployment { workflow, folder, values, criteria, passed, examples } = deployment;
    let mut starter = StarterFile::new(workflow);
    starter.add_all(folder)?;
    starter.add_all(criteria)?;
    if *folder == A4.folder {
        starter.add(A4_PINS.0, A4_PINS.1);
    }
    let text = text(workflow)?;
    // Two nodes make one pair, which cannot identify a bad node.
    let renamed = text
        .replace(passed.0, passed.1)
        .replace("\nlocate: {}\n", "\n# With three nodes or more:\n# locate: {}\n");
    let (top, rest) = renamed.split_once("\ncluster:\n").ok_or_else(|| missing(workflow))?;
    let named = format!("{top}values: {values}\n\ncluster:\n{rest}");
    starter.add(workflow, relocated(workflow, named.into()));
    let project = detected.project.as_deref();
    starter.add(values, filled(&self::text(values)?, workflow, examples, project));
    starter.edited.push((*values).to_owned());
    let inventory = format!("{folder}inventory");
    if *folder == DGX.folder {
        starter.add(&inventory, read("dgx-slurm-perf/inventory.example")?);
        starter.edited.push(inventory.clone());
        starter.after_editing(&[&inventory, values]);
    } else {
        starter.after_editing(&[values]);
    }
    Ok(starter)
}

/// The values file with an example for each required value, so that the workflow loads.
fn filled(text: &str, workflow: &str, examples: &[(&str, &str)], project: Option<&str>) -> String {
    let mut new = format!("# Your values for ../{workflow}, which names this file.\n");
    if !examples.is_empty() {
        new += "# Replace every EXAMPLE: a run with an EXAMPLE value fails at deployment.\n";
    }
    // The header of the shipped file describes how to copy the file, so the header is omitted.
    let mut lines = text.lines().peekable();
    while lines.next_if(|line| !line.starts_with("# A name that begins with _")).is_some() {}
    for line in lines {
        let example =
            line.strip_suffix(':').and_then(|name| examples.iter().find(|(known, _)| *known == name));
        _ = match example {
            Some((name @ "_PROJECT", _)) if project.is_some() => {
                writeln!(new, "{name}: {} # of gcloud's configuration", project.unwrap_or_default())
            }
            Some((name, value)) => {
                writeln!(new, "{name}: {} # EXAMPLE", value.replace("{digest}", NO_DIGEST))
            }
            None if line.ends_with(NO_DIGEST) => writeln!(new, "{line} # EXAMPLE"),
            None => writeln!(new, "{line}"),
        };
    }
    new
}

fn header(what: &str) -> String {
    format!("# yaml-language-server: $schema=schemas/workflow.json\n# {what}\n")
}

/// The quickstart's image for clusters without GPUs.
fn image(gpus: u32) -> String {
    if gpus > 0 {
        return "\n# No `image`: the nodes have nccl-tests, see `programs` below.\n".to_owned();
    }
    "\n# A small benchmark for CPUs, compiled with rustc on this host. With nccl-tests on the nodes: remove `image`, and set `programs`\n\
     # and `gpus_per_node` below.\n\
     image:\n  build:\n    config: quickstart/image.yaml\n    source: quickstart\n"
        .to_owned()
}

fn ranks(gpus: u32) -> String {
    if gpus == 0 {
        return String::new();
    }
    format!("        # One process per GPU.\n        ranks_per_node: {gpus}\n        gpus_per_node: {gpus}\n")
}

/// Folder of nccl-tests on the nodes.
fn programs(detected: &Detected, gpus: u32) -> String {
    let found = detected.nccl_tests.as_deref().and_then(plain_path).filter(|_| gpus > 0);
    match found {
        Some(folder) => format!("        # Folder of nccl-tests on the nodes, as on this host.\n        programs: {}\n", quoted(folder)),
        None => "        # Folder of nccl-tests on the nodes. Default: the PATH of the nodes.\n        # programs: /opt/nccl-tests/build\n".to_owned(),
    }
}

fn benchmark(criteria: &str, nodes: u32, gpus: u32) -> String {
    let (sizes, iterations) = if gpus > 0 { (("8", "8G"), 20) } else { (("16", "16M"), 20) };
    let file = if gpus > 0 { criteria } else { "this-machine" };
    let mut text = format!(
        "\nbenchmark:\n  workload:\n    collective: all_reduce\n    min_bytes: {}\n    max_bytes: {}\n    step_factor: {}\n    iterations: {iterations}\n    warmup_iterations: 5\n  criteria: criteria/{file}.yaml\n",
        sizes.0,
        sizes.1,
        if gpus > 0 { 2 } else { 4 },
    );
    if nodes > 2 {
        text += "\n# If the verdict is fail: test pairs of nodes until the bad one is located.\n";
        text += if gpus > 0 {
            "locate: {}\n"
        } else {
            "# On CPUs good pairs differ widely.\nlocate: {tolerance: 0.5}\n"
        };
    }
    text += "\nlimits: {image: 5m, cluster: 5m, job: 30m, logs: 5m, results: 1m, verdict: 1m, patience: 30s, grace: 1m}\n";
    text += "\n# To start it every night, by `burnin up` (docs/TRIGGERS.md):\n# on:\n#   schedule: [{cron: \"30 2 * * *\", zone: Etc/UTC, window: 4h}]\n";
    text
}

fn add_criteria(starter: &mut StarterFile, name: &str, gpus: u32) -> Result<(), CliError> {
    if gpus == 0 {
        starter.add_all("criteria/this-machine.yaml")?;
        return if name == "kubernetes" { Ok(()) } else { starter.add_all("quickstart/") };
    }
    let file = format!("criteria/{name}.yaml");
    starter.add(
        &file,
        format!(
            "# yaml-language-server: $schema=../schemas/criteria.json\n\
             # The data must be correct and complete; any speed is accepted at first. After five passed runs the cluster's own past\n\
             # bounds the speed. To bound it earlier, replace `data_only` by one of:\n\
             #   floors: [{{size_bytes: 8G, busbw: 300}}]        # GB/s\n\
             #   line_rate: 400                                # GB/s of a node's network, one direction; needs `ranks_per_node`\n\
             #   ranks_per_node: 8\n\
             name: {name}\n\
             source: a rule of `burnin init`; it needs no measurement\n\
             data_only: true\n"
        ),
    );
    starter.edited.push(file);
    Ok(())
}

/// The path, if it needs no quoting in YAML or in a shell.
fn plain_path(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let letter = |c: char| c.is_ascii_alphanumeric() || "/_.-+@".contains(c);
    (path.is_absolute() && text.len() < 512 && text.chars().all(letter)).then_some(text)
}

/// Text as a YAML string. Every JSON string is a YAML string. Words that YAML can only read as strings need no quotes.
fn quoted(text: &str) -> String {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/_-".contains(c));
    let other = ["true", "false", "null"].contains(&text.to_ascii_lowercase().as_str());
    if word && !other { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// Adapts the schema line of a file of the repository to a folder that contains `schemas/`, not one next to `schemas/`.
fn relocated(name: &str, content: Vec<u8>) -> Vec<u8> {
    if !name.ends_with(".yaml") {
        return content;
    }
    match String::from_utf8(content) {
        Ok(text) => text.replacen("$schema=../", "$schema=", 1).into(),
        Err(error) => error.into_bytes(),
    }
}

fn read(name: &str) -> Result<Vec<u8>, CliError> {
    RepositoryFiles::get(name).map(|file| file.data.into_owned()).ok_or_else(|| missing(name))
}

fn text(name: &str) -> Result<String, CliError> {
    String::from_utf8(read(name)?).map_err(|_| missing(name))
}

/// Error for a file that is not embedded. A test reads every file of every kind, so a release never reports it.
fn missing(name: &str) -> CliError {
    CliError {
        problems: vec![],
        message: format!(
            "the file {name} is missing in this program; report this with the output of `burnin --version`"
        ),
        exit: Exit::Infrastructure,
    }
}
