//! Hardware evidence of the nodes, taken in real pods. An `nvidia-smi` simulates the GPUs; the kernel log is the host's.

use std::collections::BTreeSet;

use super::bed::{KubernetesBed, passed, printed};

const WORKFLOW: &str = "tests/testbed/kubernetes/evidence.yaml";

/// Text of the reason with this code in the verdict of the last run.
fn reason(bed: &KubernetesBed, code: &str) -> String {
    let shown = bed.document(&["show", "latest"]);
    let reasons = shown["reasons"].as_array().unwrap_or_else(|| panic!("{shown:#}"));
    let reason = reasons.iter().find(|reason| reason["code"] == code);
    reason.unwrap_or_else(|| panic!("{code} is not in {reasons:#?}"))["text"].as_str().unwrap().to_owned()
}

/// Nodes whose evidence is in the log. `moment`: `before` or `after` the program. The evidence of each node must appear exactly once.
fn nodes_with_evidence(log: &str, moment: &str) -> Vec<String> {
    let end = format!(" {moment} end complete");
    let lines = log.lines().filter_map(|line| line.strip_prefix("burnin evidence: ")?.strip_suffix(&end));
    let (count, nodes) = (lines.clone().count(), lines.collect::<BTreeSet<_>>());
    assert_eq!(count, nodes.len(), "one process of each node collects evidence: {log}");
    nodes.into_iter().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn one_process_on_each_node_collects_evidence_that_is_judged() {
    let bed = KubernetesBed::new();
    let image = bed.image("image-evidence");
    passed(&bed.run(WORKFLOW, &[&image]).output().unwrap());
    // The evidence has the scheduler's names of the nodes, not the names of the pods.
    let log = bed.kept("benchmark.log") + &bed.kept("node-1.log");
    for moment in ["before", "after"] {
        assert_eq!(nodes_with_evidence(&log, moment), ["n1", "n3"], "{moment}: {log}");
    }
    // A privileged pod reads the kernel log of its node.
    for node in ["n1", "n3"] {
        assert!(log.contains(&format!("burnin evidence: {node} before kernel lines ")), "{log}");
    }
    let unchanged = reason(&bed, "HARDWARE_UNCHANGED");
    assert!(unchanged.contains("2 nodes and 4 GPUs"), "{unchanged}");
    assert!(unchanged.contains("maximum during the job: 62 C, 699 W, 1980 MHz"), "{unchanged}");

    let output = bed.run(WORKFLOW, &[&image, "environment.BED_BAD_NODE=n3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    let finding = reason(&bed, "HARDWARE_FINDING");
    assert!(finding.contains("ECC_UNCORRECTABLE") && finding.contains("rose from 0 to 3"), "{finding}");
    let suspect = &bed.document(&["show", "latest"])["suspects"][0];
    assert_eq!((&suspect["host"], &suspect["gpu"]), (&"n3".into(), &1.into()), "{suspect}");
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
}

#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn mpirun_starts_one_probe_on_each_node() {
    let bed = KubernetesBed::new();
    let image = bed.image("image-mpi");
    let mpi = ["launch=mpi", "programs=/third_party/nccl-tests/build", "socket_interface=eth0"];
    passed(&bed.run(WORKFLOW, &[&[image.as_str()], &mpi[..]].concat()).output().unwrap());
    // mpirun writes the output of all ranks to the log of the first pod.
    let log = bed.kept("benchmark.log");
    for moment in ["before", "after"] {
        assert_eq!(nodes_with_evidence(&log, moment), ["n1", "n3"], "{moment}: {log}");
    }
    let unchanged = reason(&bed, "HARDWARE_UNCHANGED");
    assert!(unchanged.contains("2 nodes and 4 GPUs"), "{unchanged}");
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
}

/// dmesg needs the capability CAP_SYSLOG where `kernel.dmesg_restrict` is set (Linux, `Documentation/admin-guide/sysctl/kernel.rst`), and a
/// container has it only if it is privileged.
#[test]
#[ignore = "needs a Kubernetes cluster; start it with .ci/kubernetes.sh"]
fn a_kernel_log_that_a_pod_must_not_read_is_missing_evidence() {
    let bed = KubernetesBed::new();
    if std::fs::read_to_string("/proc/sys/kernel/dmesg_restrict").unwrap().trim() == "0" {
        println!("not tested: every process of this host may read the kernel log");
        return;
    }
    let image = bed.image("image-evidence");
    let output = bed.run(WORKFLOW, &[&image, "privileged=false"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    let missing = reason(&bed, "EVIDENCE_MISSING");
    for node in ["n1", "n3"] {
        let refused = format!(
            "{node}: kernel log before the job: dmesg: read kernel buffer failed: Operation not permitted"
        );
        assert!(missing.contains(&refused), "{missing}");
    }
    assert_eq!(bed.remaining_objects(), "", "after the end of the run");
}
