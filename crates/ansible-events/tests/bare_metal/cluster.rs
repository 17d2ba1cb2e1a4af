//! Provisions a Slurm cluster on bare-metal hosts, and releases it. The gate runs a benchmark between the two tests.

use std::collections::BTreeMap;

use cloudbuild::BuildStatus;
use serde::Deserialize;

use crate::agent;
use crate::bed::{ACCOUNT, AnsibleBed};

#[derive(Deserialize)]
struct ReadyCluster {
    nodes: Vec<ReadyNode>,
    slurm: cluster_slurm::Slurm,
}

#[derive(Deserialize)]
struct ReadyNode {
    name: String,
    slots: u32,
}

/// Every playbook of the provisioning, in order.
const PLAYS: [&str; 8] = ["reach", "hosts", "share", "slurm", "validate", "programs", "cluster", "agent"];

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn a_cluster_is_provisioned() {
    let bed = AnsibleBed::new();
    bed.credentials(ACCOUNT);
    let workspace = bed.workspace_with_agent();
    let ran = workspace.run("provision.yaml");
    assert_eq!(ran.status, BuildStatus::Success, "{}", ran.log);
    for play in PLAYS {
        let findings = workspace.findings(play);
        assert!(findings.is_success(), "{play}: {:?}", findings.problems());
    }
    agent::assert_installed(&bed);
    let changed = workspace.findings("slurm");
    assert!(changed.hosts.values().all(|host| host.changed > 0), "{changed:#?}");
    assert_eq!(
        bed.on("login", "hostname") + &bed.on("dgx04", "hostname"),
        "login\ndgx04\n",
        "host names are unchanged"
    );

    let fence = bed.on("login", "scontrol show config | grep PMIxCollFence");
    assert!(fence.contains("ring"), "{fence}");

    bed.leave("cluster.json", &workspace.read("cluster.json"));
    let cluster: ReadyCluster = serde_json::from_str(&workspace.read("cluster.json")).unwrap();
    let nodes: Vec<_> = cluster.nodes.iter().map(|node| (node.name.as_str(), node.slots)).collect();
    assert_eq!(nodes, [("dgx01", 2), ("dgx02", 2), ("dgx03", 2), ("dgx04", 2)]);
    assert_eq!(cluster_api::Settings::problems(&cluster.slurm), []);
    assert_eq!(cluster.slurm.shared_folder, "/mnt/shared/burnin-dgx");
    let commit = bed.file("nccl-tests.commit");
    let programs = format!("/mnt/shared/burnin-dgx/nccl-tests-{}/build", commit.trim());
    assert_eq!(cluster.slurm.programs.as_deref(), Some(programs.as_str()));
    assert_eq!(
        (cluster.slurm.nodes, cluster.slurm.ranks_per_node, cluster.slurm.gpus_per_node),
        (4, 2, Some(2))
    );

    // The munge key is only on the hosts.
    let keys: BTreeMap<_, _> = bed
        .hosts()
        .into_iter()
        .map(|host| (bed.on(&host, "base64 -w0 /etc/munge/munge.key"), host))
        .collect();
    assert_eq!(keys.len(), 1, "all hosts have the same key: {:?}", keys.values());
    let key = keys.keys().next().unwrap();
    assert!(key.len() > 1000);
    let logs = PLAYS.map(|play| workspace.read(&format!("events/{play}.jsonl"))).concat() + &ran.log;
    assert!(!logs.contains(&key[..40]));

    repeat_without_changes(&bed);
    success_requires_a_complete_run(&bed);
}

/// A second run changes no host. The ssh key is a secret of the simulated cloud instead of a file.
fn repeat_without_changes(bed: &AnsibleBed) {
    let workspace =
        bed.workspace_with_agent().set("_SSH_KEY", "projects/my-project/secrets/dgx-ssh/versions/1");
    let ran = workspace.run("provision.yaml");
    assert_eq!(ran.status, BuildStatus::Success, "{}", ran.log);
    for play in PLAYS {
        let findings = workspace.findings(play);
        assert!(findings.is_success() && findings.unchanged(), "{play}: {findings:#?}");
    }
    agent::assert_installed(bed);
}

fn success_requires_a_complete_run(bed: &AnsibleBed) {
    let workspace = bed.workspace();
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let why = |variables: &str| {
        let (code, output) = workspace.python(&["play.py", "validate", "--extra-vars", variables]);
        assert_eq!(code, Some(2), "{variables}: {output}");
        workspace.findings("validate").failure.unwrap().message
    };
    // The MPI type `pmi2` is unsupported: Debian's Open MPI supports only PMIx.
    let message = why("mpi=pmi2");
    assert!(message.contains("expected 8 tasks, found 0"), "{message}");
    let message = why("gpu_probe=nvidia-smi");
    assert!(message.contains("expected 8 tasks, found 0") && message.contains("nvidia-smi"), "{message}");

    // Each task is a separate MPI world: every rank succeeds, but the ranks are not one job.
    let probe = "/mnt/shared/burnin-dgx/mpi_world_check.py";
    let alone = format!(
        "cd /mnt/shared && srun -N4 --ntasks-per-node=2 --mpi=none env -i OMPI_MCA_ess_singleton_isolated=1 \
         python3 {probe} rank mpi none 2>/dev/null | python3 {probe} judge 4 2 0"
    );
    let output = bed.on("login", &alone);
    assert!(output.contains("expected one world of 8 ranks, found worlds of 1"), "{output}");

    // A benchmark needs a working program.
    let why_no_programs = |variables: &str| {
        let (code, output) = workspace.python(&["play.py", "programs", "--extra-vars", variables]);
        assert_eq!(code, Some(2), "{variables}: {output}");
        workspace.findings("programs").failure.unwrap().message
    };
    let message = why_no_programs("nccl_tests=/mnt/shared/nothing");
    assert!(message.contains("/mnt/shared/nothing/all_reduce_perf does not work on one node"), "{message}");
    let message = why_no_programs(&format!("nccl_tests_commit={}", "0".repeat(40)));
    assert!(message.contains("nccl-tests cannot be built:") && message.contains("not our ref"), "{message}");
    bed.on("login", "mkdir -p /mnt/shared/silent && printf '#!/bin/sh\n' >/mnt/shared/silent/all_reduce_perf && chmod -R a+rx /mnt/shared/silent");
    let message = why_no_programs("nccl_tests=/mnt/shared/silent");
    bed.on("login", "rm -r /mnt/shared/silent");
    assert!(message.contains("(exit code 0)"), "a missing result is a failure: {message}");

    bed.on("login", "scontrol update nodename=dgx02 state=drain reason='a fan'");
    let message = why("validate_patience=2");
    bed.on("login", "scontrol update nodename=dgx02 state=resume");
    assert!(message.contains("expected 4 idle nodes; not idle: dgx02 drained"), "{message}");
    assert!(message.contains("a fan"), "{message}");
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn the_cluster_is_released() {
    let bed = AnsibleBed::new();
    let setting = "cd /mnt/shared/burnin-dgx && mkdir -p jobs/left && cd jobs/left && sbatch --parsable -N2 --wrap 'srun sleep 600' && \
                   cd /tmp && sbatch --parsable -N1 -w dgx04 --output=/dev/null --wrap 'exec sleep 600' && \
                   scontrol update nodename=dgx03 state=drain reason='burnin: looked slow' && \
                   scontrol update nodename=dgx01 state=drain reason='another admin'";
    let jobs: Vec<_> = bed.on("login", setting).lines().map(str::to_owned).collect();
    let [ours, others] = &jobs[..] else { panic!("{jobs:?}") };
    let running =
        format!("until [ \"$(squeue -h -t R -o %i -j {ours},{others} | wc -l)\" = 2 ]; do sleep 0.2; done");
    bed.on("login", &format!("timeout 30 bash -c '{running}'"));

    // The release must not remove the agent of another cluster.
    let other = "--labels=burnin-cluster=other";
    let create = [
        "pubsub",
        "subscriptions",
        "create",
        "other-agent",
        "--project=my-project",
        "--topic=burnin-agent",
        other,
    ];
    bed.gcloud(&create);
    let workspace = bed.workspace_with_agent();
    let ran = workspace.run("release.yaml");
    assert_eq!(ran.status, BuildStatus::Success, "{}", ran.log);
    assert_eq!(bed.cloud(), ["subscription other-agent"]);
    bed.gcloud(&["pubsub", "subscriptions", "delete", "other-agent", "--project=my-project", "--quiet"]);
    assert_eq!(bed.on("login", "squeue -h -o %i").trim(), others, "{}", ran.log);
    let reasons = bed.on("login", "sinfo -h -R -o '%E %N'");
    assert_eq!(reasons, "another admin dgx01\n");
    assert_eq!(bed.on("login", "ls -A /mnt/shared"), "");

    // A repeated release has no effect, even with another administrator's job in the queue.
    let workspace = bed.workspace_with_agent();
    assert_eq!(workspace.run("release.yaml").status, BuildStatus::Success);
    assert!(workspace.findings("release").is_success() && workspace.findings("release").unchanged());
    agent::assert_absent(&bed, &workspace);

    bed.on("login", &format!("scancel {others}; scontrol update nodename=dgx01 state=resume"));
    let gone = format!("until [ -z \"$(squeue -h -o %i -j {others} 2>/dev/null)\" ]; do sleep 0.2; done");
    bed.on("login", &format!("timeout 30 bash -c '{gone}'"));
    let workspace = bed.workspace().set("_STOP_SLURM", "true");
    let ran = workspace.run("release.yaml");
    assert_eq!(ran.status, BuildStatus::Success, "{}", ran.log);
    for host in bed.hosts() {
        let left = bed.on(&host, "for i in $(seq 100); do pgrep -a 'slurm|munge' >/dev/null || break; sleep 0.1; done; pgrep -a 'slurm|munge'");
        assert_eq!(left, "", "{host}");
    }
}
