//! Measurements between two GPUs or nodes.

use crate::support::metrics::*;
use model::{
    MetricCriterion, Peers, Verdict,
    measurement::Reading,
    metric::{Metric, Scope, Subject},
};

/// Copies between eight GPUs of a node, each in both directions; `slow` decides which copies are slow.
fn between(slow: impl Fn(u32, u32) -> bool) -> Reading {
    let mut reading = healthy();
    let ordered = (0..8).flat_map(|a| (0..8).map(move |b| (a, b))).filter(|(a, b)| a != b);
    reading.metrics = ordered
        .map(|(a, b): (u32, u32)| Metric {
            scope: Scope::Pair,
            subject: Subject { peer: Some(b.to_string().into()), ..Subject::gpu(a) },
            value: Some(if slow(a, b) { 200.0 } else { 380.0 + f64::from(a) * 0.1 }),
            line: u64::from(10 * a + b),
            ..healthy().metrics[0].clone()
        })
        .collect();
    reading
}

#[test]
fn pair_measurements_name_the_bad_node_or_the_bad_link() {
    let peers = || MetricCriterion { peers: Some(Peers::default()), ..criterion() };
    assert_eq!(by(&between(|_, _| false), peers()).verdict, Verdict::Pass);

    let judgement = by(&between(|a, b| a == 5 || b == 5), peers());
    assert_eq!(codes(&judgement), ["WORSE_THAN_PEERS"]);
    let [suspect] = &judgement.suspects[..] else { panic!("{:?}", judgement.suspects) };
    assert_eq!(
        (suspect.gpu, suspect.link.as_deref(), suspect.serial.as_deref()),
        (Some(5), None, Some("S5"))
    );
    assert!(suspect.confidence > 0.95, "{suspect:?}");

    let judgement = by(&between(|a, b| a.min(b) == 2 && a.max(b) == 6), peers());
    let [suspect] = &judgement.suspects[..] else { panic!("{:?}", judgement.suspects) };
    assert_eq!((suspect.gpu, suspect.link.as_deref()), (Some(2), Some("to gpu 6")));

    // A bound that every pair misses makes no node a suspect.
    let floor = MetricCriterion { floor: Some(390.0), ..criterion() };
    let judgement = by(&between(|_, _| false), floor);
    assert_eq!((codes(&judgement), judgement.suspects.len()), (vec!["BELOW_FLOOR"], 0));
}

#[test]
fn pairs_of_nodes_are_judged_by_a_baseline() {
    let nodes = |slow: &str| {
        let mut reading = between(|_, _| false);
        reading.gpus.clear();
        for metric in &mut reading.metrics {
            let name = |index: String| format!("node-{index}");
            let (a, b) = (
                name(metric.subject.gpu.take().unwrap().to_string()),
                name(metric.subject.peer.as_ref().unwrap().to_string()),
            );
            if a == slow || b == slow {
                metric.value = Some(200.0);
            }
            metric.subject = Subject { node: Some(a.into()), peer: Some(b.into()), ..Subject::default() };
        }
        reading
    };
    let runs = [nodes(""), nodes(""), nodes("")];
    let baseline = learned(&runs);
    assert_eq!(judged(&nodes(""), None, Some(&baseline)).verdict, Verdict::Pass);
    let judgement = judged(&nodes("node-3"), None, Some(&baseline));
    assert_eq!(codes(&judgement), ["WORSE_THAN_BASELINE"]);
    let [suspect] = &judgement.suspects[..] else { panic!("{:?}", judgement.suspects) };
    assert_eq!(suspect.host.as_deref(), Some("node-3"));
}
