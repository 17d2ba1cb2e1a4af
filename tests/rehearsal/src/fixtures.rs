//! Files of the operator: workflows with their criteria, build configs and sources; logs and Slurm's commands on the agents' hosts.

use std::{collections::BTreeMap, fmt::Write as _, fs, os::unix::fs::PermissionsExt};

use model::Timestamp;
use serde_json::json;
use service::Clock as _;
use sha2::{Digest, Sha256};

use crate::deployment::Rehearsal;

#[derive(Clone, Copy)]
pub enum FixtureImage {
    None,
    /// A build pushes the image to a registry.
    Pushed,
    /// A build produces the image's files from the pushed commit.
    FromCommit,
}

#[derive(Clone, Copy)]
pub enum FixtureCluster {
    /// Logs with correct results.
    Correct,
    /// Logs with wrong elements.
    Wrong,
    /// An existing Slurm cluster: only its agent has Slurm's commands.
    Slurm,
    /// Deployed and destroyed by steps.
    Deployed,
}

/// Trigger of all workflows that a push starts.
pub const ON_PUSH: &str = "on: {push: [{repository: acme/images, branches: [main]}]}";
/// `notify` for a push: the channel, and the status of the commit.
pub const NOTIFY_COMMIT: &str = "notify: [webhook: {target: ops}, github: {}]";

/// Number of measurements in the log of each run: two sizes, each out of place and in place.
pub const MEASUREMENTS: usize = 4;

/// Shared files of all workflows.
pub struct FixtureFiles {
    bucket: String,
    systems: BTreeMap<&'static str, String>,
    deployed: String,
}

fn context(error: std::io::Error) -> String {
    error.to_string()
}

/// A table of nccl-tests from two nodes of eight GPUs, with this number of wrong elements.
fn log(wrong: u32) -> String {
    let mut text = "# nThread 1 nGpus 1 minBytes 2097152 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 \
                    validation: 1 graph: 0\n#\n# Using devices\n"
        .to_owned();
    for rank in 0..16 {
        let (node, device) = (rank / 8, rank % 8);
        _ = writeln!(
            text,
            "#  Rank {rank:>2} Group  0 Pid   2724 on    any-{node} device  {device} [0000:{device:02}:00] NVIDIA H100"
        );
    }
    text += "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
             #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n";
    for (size, count, time) in [(2_097_152.0, 524_288, 100.0), (4_194_304.0, 1_048_576, 190.0)] {
        let algorithm = size / time / 1000.0;
        let sample = format!("{time:>8.2} {algorithm:>7.2} {:>7.2} {wrong:>6}", algorithm * 1.875);
        _ = writeln!(text, "{size:>12}{count:>14}     float     sum      -1 {sample} {sample}");
    }
    text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 40.36\n#\n"
}

impl FixtureFiles {
    /// Writes the shared files: objects into the bucket, logs and commands onto the agents' hosts.
    ///
    /// # Errors
    /// Returns an error if a local file cannot be written.
    pub fn write(rehearsal: &Rehearsal) -> Result<Self, String> {
        let bucket = rehearsal.plan.bucket("artefacts");
        let mut systems = BTreeMap::new();
        for (cluster, wrong) in [("c-1", 0), ("c-2", 7)] {
            let folder = rehearsal.folder().join(format!("logs-{cluster}"));
            fs::create_dir_all(&folder).map_err(context)?;
            fs::write(folder.join("all_reduce.log"), log(wrong)).map_err(context)?;
            let system = format!(
                "{{existing: {{name: {cluster}, system: {{logs: {{folder: {}, nodes: 2}}}}}}}}",
                folder.display()
            );
            systems.insert(cluster, system);
        }
        let (programs, shared) = (rehearsal.folder().join("bin"), rehearsal.folder().join("shared"));
        for folder in [&programs, &shared] {
            fs::create_dir_all(folder).map_err(context)?;
        }
        for command in ["sbatch", "squeue", "scontrol", "srun", "sacct", "scancel", "sinfo"] {
            let path = programs.join(command);
            fs::write(&path, include_str!("files/slurm.sh")).map_err(context)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(context)?;
        }
        let slurm = format!("{{nodes: 2, ranks_per_node: 8, shared_folder: {}}}", shared.display());
        systems.insert("slurm", format!("{{existing: {{name: c-1, system: {{slurm: {slurm}}}}}}}"));
        let deployed = r#"{rent: {deployed: {deploy: {config: steps/deploy.yaml, source: source, substitutions: {_LEAVES_CLUSTER: '{"nodes": [{"name": "n-0", "slots": 8}, {"name": "n-1", "slots": 8}], "slurm": {"shared_folder": "SHARED"}}'}}, destroy: {config: steps/destroy.yaml, source: source, substitutions: {_LEAVES_GONE: '{"left": [], "evidence": "all lists are empty"}'}}, slurm: {nodes: 2, ranks_per_node: 8, shared_folder: /set/by/the/deployment}}}}"#;
        let deployed = deployed.replace("SHARED", &shared.display().to_string());
        for (name, content) in [
            ("criteria/any.yaml", include_str!("files/criteria.yaml")),
            ("steps/files.yaml", include_str!("files/files.yaml")),
            ("steps/image.yaml", include_str!("files/image.yaml")),
            ("steps/deploy.yaml", include_str!("files/deploy.yaml")),
            ("steps/destroy.yaml", include_str!("files/destroy.yaml")),
            ("source/readme", "no source is needed\n"),
        ] {
            rehearsal.storage.put(&bucket, &format!("workflows/{name}"), content);
        }
        Ok(Self { bucket, systems, deployed })
    }

    /// Writes a workflow that notifies a channel. `triggers`: the workflow's `on`, or empty.
    pub fn notifying(
        &self,
        rehearsal: &Rehearsal,
        name: &str,
        image: FixtureImage,
        cluster: FixtureCluster,
        triggers: &str,
    ) {
        let more = format!("{triggers}\nnotify: [webhook: {{target: ops}}]");
        self.workflow(rehearsal, name, image, cluster, &more);
    }

    /// Writes a workflow. `more`: the workflow's `on` and `notify`, or empty.
    pub fn workflow(
        &self,
        rehearsal: &Rehearsal,
        name: &str,
        image: FixtureImage,
        cluster: FixtureCluster,
        more: &str,
    ) {
        let image = match image {
            FixtureImage::None => "",
            FixtureImage::Pushed => "image: {build: {config: steps/image.yaml, source: source}}",
            FixtureImage::FromCommit => {
                "image: {build: {config: steps/files.yaml, repository: {url: https://github.com/acme/images, revision: main}}}"
            }
        };
        let cluster = match cluster {
            FixtureCluster::Correct => &self.systems["c-1"],
            FixtureCluster::Wrong => &self.systems["c-2"],
            FixtureCluster::Slurm => &self.systems["slurm"],
            FixtureCluster::Deployed => &self.deployed,
        };
        let text = format!(
            r#"name: {name}
{image}
cluster: {cluster}
benchmark:
  workload: {{collective: all_reduce, min_bytes: 2M, max_bytes: 4M, step_factor: 2, iterations: 20, warmup_iterations: 5}}
  criteria: criteria/any.yaml
limits: {{image: 5m, cluster: 5m, job: 5m, logs: 5m, results: 5m, verdict: 5m, lease: 60m, patience: 10s, grace: 30s}}
{more}
"#
        );
        rehearsal.storage.put(&self.bucket, &format!("workflows/{name}.yaml"), text);
    }

    /// Writes a workflow on the cluster with wrong elements. Its schedule was due once, in the previous minute.
    pub fn scheduled(&self, rehearsal: &Rehearsal, name: &str) {
        let now = service::SystemClock.now().as_millis();
        let due = Timestamp::from_millis(now - now.rem_euclid(60_000) - 60_000);
        // For example, `2026-11-25T20:05:00Z` becomes `5 20 25 11 *`.
        let text = due.to_string();
        let number = |from: usize| text.get(from..from + 2).unwrap_or("0").trim_start_matches('0').to_owned();
        let fields = [14, 11, 8, 5].map(number);
        let fields = fields.map(|field| if field.is_empty() { "0".to_owned() } else { field });
        let cron = format!("{} *", fields.join(" "));
        let mut hash = Sha256::new();
        for part in [cron.as_str(), "Etc/UTC"] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hex::encode(hash.finalize());
        // The gateway ignores times before its first read of the schedule.
        let since = Timestamp::from_millis(due.as_millis() - 1000);
        let first = format!("schedules/{name}/since/{}.json", &digest[..12]);
        rehearsal.storage.put(&self.bucket, &first, json!({"since": since}).to_string());
        let triggers = format!("on: {{schedule: [{{cron: '{cron}', zone: Etc/UTC, window: 4h}}]}}");
        self.notifying(rehearsal, name, FixtureImage::None, FixtureCluster::Wrong, &triggers);
    }
}
