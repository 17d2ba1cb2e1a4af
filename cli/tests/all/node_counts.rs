//! The shipped criteria judge any number of nodes and any collective: a healthy first run passes, a degraded first run fails.

use std::{fmt::Write, fs, path::Path, process::Command};

use serde_json::Value;

/// A simulated cluster. The time of a message is the sum of the steps of a ring (of a tree for an all-reduce) and of
/// the transfer.
#[derive(Clone, Copy)]
struct SimulatedCluster {
    criteria: &'static str,
    network: &'static str,
    nodes: u64,
    /// Microseconds of a step.
    step: f64,
    /// Bus bandwidth of large messages, GB/s.
    bandwidth: f64,
}

/// Sizes from 8 MiB to 8 GiB.
const SIZES: std::ops::RangeInclusive<u32> = 23..=33;

impl SimulatedCluster {
    /// A log in the format of `common.cu` of nccl-tests 2.19.6.
    fn log(self, collective: &str, sizes: std::ops::RangeInclusive<u32>) -> String {
        let ranks = 8 * self.nodes;
        let n = ranks as f64;
        let factor = match collective {
            "all_reduce" => 2.0 * (n - 1.0) / n,
            "broadcast" | "reduce" | "sendrecv" => 1.0,
            _ => (n - 1.0) / n,
        };
        let mut log = String::from("# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809\n");
        writeln!(log, "# Collective test starting: {collective}_perf\n#\n# Using devices").unwrap();
        for rank in 0..ranks {
            let (node, device) = (rank / 8, rank % 8);
            let at = format!("{device:#04x}");
            writeln!(
                log,
                "#  Rank {rank:2} Group  0 Pid {:6} on    node-{node} device {device:2} [{at}] NVIDIA GPU",
                100 + rank
            )
            .unwrap();
        }
        writeln!(log, "node-0:100:100 [0] NCCL INFO Using network {}", self.network).unwrap();
        log.push_str("#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n");
        log.push_str("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n");
        let steps = if collective == "all_reduce" { 15.0 * (self.nodes as f64).log2() } else { n - 1.0 };
        let mut sum = 0.0;
        for power in sizes.clone() {
            // Every rank has an equal part, a multiple of 16 bytes.
            let size = (1_u64 << power) / (16 * ranks) * 16 * ranks;
            let bytes = size as f64;
            let time = self.step * steps + bytes * factor / self.bandwidth / 1e3;
            let algbw = bytes / time / 1e3;
            let busbw = algbw * factor;
            sum += busbw;
            let half = format!("{time:.2} {algbw:.2} {busbw:.2} 0");
            writeln!(log, "{size} {} float none -1 {half} {half}", size / 4).unwrap();
        }
        writeln!(log, "# Out of bounds values : 0 OK").unwrap();
        writeln!(log, "# Avg bus bandwidth    : {:.4}", sum / sizes.count() as f64).unwrap();
        writeln!(log, "#\n# Collective test concluded: {collective}_perf").unwrap();
        log
    }

    fn judged(self, collective: &str, sizes: std::ops::RangeInclusive<u32>) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("run.log");
        fs::write(&log, self.log(collective, sizes)).unwrap();
        let criteria =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows/criteria").join(self.criteria);
        let output = Command::new(env!("CARGO_BIN_EXE_burnin"))
            .args(["judge", "--output", "json", "--criteria"])
            .args([&criteria, &log])
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn codes(verdict: &Value) -> Vec<&str> {
    verdict["reasons"].as_array().unwrap().iter().map(|reason| reason["code"].as_str().unwrap()).collect()
}

fn text<'a>(verdict: &'a Value, code: &str) -> &'a str {
    let reasons = verdict["reasons"].as_array().unwrap();
    reasons.iter().find(|reason| reason["code"] == code).map_or("", |reason| reason["text"].as_str().unwrap())
}

const A3_MEGA: SimulatedCluster =
    SimulatedCluster { criteria: "a3-mega.yaml", network: "FasTrak", nodes: 2, step: 15.0, bandwidth: 188.5 };

#[test]
fn a_reference_is_scaled_to_the_number_of_nodes() {
    for nodes in [2, 3, 4, 8, 64] {
        let healthy = SimulatedCluster { nodes, ..A3_MEGA };
        let verdict = healthy.judged("all_gather", SIZES);
        assert_eq!(verdict["verdict"], "pass", "{nodes} nodes: {verdict:#}");
        let scaled =
            text(&verdict, "AS_REFERENCE").contains(&format!("scaled from 16 to {} ranks", 8 * nodes));
        assert_eq!(scaled, nodes != 2, "{nodes} nodes: {verdict:#}");

        for bandwidth in [4.0, 94.0] {
            let verdict = SimulatedCluster { bandwidth, ..healthy }.judged("all_gather", SIZES);
            assert!(
                codes(&verdict).contains(&"BELOW_REFERENCE"),
                "{nodes} nodes, {bandwidth} GB/s: {verdict:#}"
            );
            assert_eq!(verdict["verdict"], "fail");
        }
    }
    // One of eight adapters is missing.
    for nodes in [2, 4, 8] {
        let verdict =
            SimulatedCluster { nodes, bandwidth: 188.5 * 7.0 / 8.0, ..A3_MEGA }.judged("all_gather", SIZES);
        assert_eq!(verdict["verdict"], "fail", "{nodes} nodes: {verdict:#}");
    }
    // This network has twice the latency.
    let verdict = SimulatedCluster { nodes: 4, step: 45.0, ..A3_MEGA }.judged("all_gather", SIZES);
    assert_eq!(verdict["verdict"], "fail", "{verdict:#}");
}

/// Two nodes exceed the line rate, larger clusters do not: NVIDIA expects 42 GB/s of a DGX-1 SuperPOD (DeepOps
/// documentation).
#[test]
fn the_bandwidth_of_an_all_reduce_over_many_nodes_falls_to_the_line_rate() {
    let superpod =
        SimulatedCluster { criteria: "dgx-1.yaml", network: "IB", nodes: 10, step: 10.0, bandwidth: 42.5 };
    for nodes in [10, 32] {
        let verdict = SimulatedCluster { nodes, ..superpod }.judged("all_reduce", 20..=29);
        assert_eq!(verdict["verdict"], "pass", "{nodes} nodes: {verdict:#}");
        let verdict = SimulatedCluster { nodes, bandwidth: 30.0, ..superpod }.judged("all_reduce", 20..=29);
        assert_eq!(verdict["verdict"], "fail", "{nodes} nodes: {verdict:#}");
    }
    // The reference of A3 Mega is one point at 16 GiB, which exceeds the line rate.
    for (nodes, healthy) in [(2, 335.0), (4, 240.0), (64, 190.0)] {
        let verdict = SimulatedCluster { nodes, bandwidth: healthy, ..A3_MEGA }.judged("all_reduce", 23..=34);
        assert_eq!(verdict["verdict"], "pass", "{nodes} nodes: {verdict:#}");
        let verdict =
            SimulatedCluster { nodes, bandwidth: healthy * 0.6, ..A3_MEGA }.judged("all_reduce", 23..=34);
        assert_eq!(verdict["verdict"], "fail", "{nodes} nodes: {verdict:#}");
    }
}

#[test]
fn collectives_without_a_reference_are_bounded_by_the_line_rate() {
    let collectives = [
        ("all_reduce", 190.0),
        ("reduce_scatter", 185.0),
        ("broadcast", 180.0),
        ("reduce", 180.0),
        ("sendrecv", 22.0),
    ];
    for nodes in [2, 4, 64] {
        // The ranks of a node share its adapters.
        let limit = 200.0 * (8.0 * nodes as f64 - 1.0) / (8.0 * 8.0 * (nodes as f64 - 1.0));
        // In gather and scatter the adapter of the root transfers the data of all other nodes, so the bandwidth is the same.
        let limited = ["alltoall", "gather", "scatter"].map(|collective| (collective, 0.8 * limit));
        for (collective, healthy) in collectives.into_iter().chain(limited) {
            let cluster = SimulatedCluster { nodes, bandwidth: healthy, step: 12.0, ..A3_MEGA };
            let verdict = cluster.judged(collective, SIZES);
            assert_eq!(verdict["verdict"], "pass", "{collective} on {nodes} nodes: {verdict:#}");
            assert!(codes(&verdict).contains(&"ABOVE_FLOOR"), "{collective}: {verdict:#}");
            let verdict = SimulatedCluster { bandwidth: 0.4 * healthy, ..cluster }.judged(collective, SIZES);
            assert!(codes(&verdict).contains(&"BELOW_FLOOR"), "{collective} on {nodes} nodes: {verdict:#}");
            // Small messages are no evidence about a network.
            let verdict = cluster.judged(collective, 20..=26);
            assert_eq!(verdict["verdict"], "inconclusive", "{collective}: {verdict:#}");
            assert!(codes(&verdict).contains(&"NOT_MEASURED"), "{collective}: {verdict:#}");
        }
    }
    let a4 = SimulatedCluster { criteria: "a4.yaml", network: "gIB", nodes: 2, step: 10.0, bandwidth: 380.0 };
    for nodes in [2, 4, 16] {
        let verdict = SimulatedCluster { nodes, ..a4 }.judged("all_reduce", 21..=34);
        assert_eq!(verdict["verdict"], "pass", "{verdict:#}");
        let verdict = SimulatedCluster { nodes, bandwidth: 240.0, ..a4 }.judged("all_reduce", 21..=34);
        assert_eq!(verdict["verdict"], "fail", "{verdict:#}");
    }
}

#[test]
fn the_efficiency_is_relative_to_the_networks_limit() {
    let verdict = A3_MEGA.judged("all_gather", SIZES);
    assert!(text(&verdict, "EFFICIENCY").starts_with("efficiency 94 %"), "{verdict:#}");
    // In an all-reduce two nodes exchange half of the data, so the network permits 375 GB/s.
    let verdict = SimulatedCluster { bandwidth: 340.0, ..A3_MEGA }.judged("all_reduce", SIZES);
    let efficiency = text(&verdict, "EFFICIENCY");
    assert!(efficiency.starts_with("efficiency 9") && efficiency.contains("permits 375 GB/s"), "{verdict:#}");
}
