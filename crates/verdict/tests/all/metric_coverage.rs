//! GPUs without a measurement.

use crate::support::metrics::*;
use model::{
    Cluster, Every, MetricCriterion, Node, Verdict,
    measurement::{LogEnd, Reading},
    metric::{Metric, Scope, Subject},
};
use verdict::{Clues, Judgement, RunEvidence, Standard, StatedGpus};

/// No program on a node lists a GPU that the node has lost.
#[test]
fn a_gpu_that_only_one_node_lacks_is_missing() {
    let mut reading =
        Reading { ended: LogEnd::Complete, format: Some("test".to_owned()), ..Reading::default() };
    for node in ["n1", "n2", "n3"] {
        let mut eight = healthy();
        eight.name_node(node);
        reading.metrics.append(&mut eight.metrics);
        reading.gpus.append(&mut eight.gpus);
    }
    let floor = || MetricCriterion { floor: Some(95.0), ..criterion() };
    assert_eq!(by(&reading, floor()).verdict, Verdict::Pass);
    let lost = |subject: &Subject| subject.node.as_deref() == Some("n2") && subject.gpu == Some(7);
    reading.metrics.retain(|metric| !lost(&metric.subject));
    reading.gpus.retain(|gpu| !lost(&gpu.subject));
    let judgement = by(&reading, floor());
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["NOT_MEASURED"]));
    assert_eq!(judgement.reasons[0].text, "copy is not measured for node n2, gpu 7");
    let stated = |subjects| MetricCriterion { subjects: Some(subjects), ..floor() };
    assert_eq!(by(&reading, stated(23)).verdict, Verdict::Pass, "the number is stated");
    let text = "copy is measured for 23 instead of 24 subjects: node n2, gpu 7";
    assert_eq!(by(&reading, stated(24)).reasons[0].text, text);
    // A job of one rank for each node measures all GPUs of the other nodes.
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, 1, 8));
    let judgement = on_cluster(&reading, (&nodes, Every::Rank), floor());
    assert_eq!(judgement.reasons[0].text, "copy is not measured for node n2, gpu 7");
}

/// With `subjects` in the criterion, missing links, ranks and nodes are named if the rest of the log shows their names.
#[test]
fn the_reason_names_the_links_ranks_and_nodes_without_a_value() {
    let of = |scope: Scope, subject: Subject| Metric { scope, subject, ..healthy().metrics[0].clone() };
    let node = |name: &str| Subject { node: Some(name.into()), ..Subject::default() };
    let reading = |metrics: Vec<Metric>| Reading { metrics, gpus: Vec::new(), ..healthy() };
    let text = |reading: &Reading, subjects: u32| {
        let judgement =
            by(reading, MetricCriterion { subjects: Some(subjects), floor: Some(1.0), ..criterion() });
        assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["NOT_MEASURED"]));
        judgement.reasons[0].text.clone()
    };
    let port = |name: &str, link: &str| of(Scope::Link, Subject { link: Some(link.into()), ..node(name) });
    let links = vec![
        port("n1", "mlx5_0"),
        port("n1", "mlx5_1"),
        port("n2", "mlx5_0"),
        port("n3", "mlx5_1"),
        port("n3", "mlx5_0"),
    ];
    let expected = "copy is measured for 5 instead of 6 subjects: node n2, link mlx5_1";
    assert_eq!(text(&reading(links), 6), expected);
    let rank = |rank: u32| of(Scope::Rank, Subject { rank: Some(rank), ..Subject::default() });
    let ranks = |numbers: &[u32]| reading(numbers.iter().map(|number| rank(*number)).collect());
    let expected = "copy is measured for 3 instead of 5 subjects: rank 2; rank 4";
    assert_eq!(text(&ranks(&[0, 3, 1]), 5), expected);
    assert_eq!(
        text(&ranks(&[0, 9]), 5),
        "copy is measured for 2 instead of 5 subjects",
        "ranks with another numbering are not named"
    );
    let other = |name: &str| Metric { name: "load".into(), ..of(Scope::Node, node(name)) };
    let nodes = vec![of(Scope::Node, node("n1")), other("n1"), other("n2"), of(Scope::Node, node("n3"))];
    assert_eq!(text(&reading(nodes), 3), "copy is measured for 2 instead of 3 subjects: node n2");
}

/// The criteria bound no metric of GPUs: the verdict follows from findings.
#[test]
fn a_diagnosis_that_does_not_list_a_stated_gpu_is_inconclusive() {
    let nodes = [node("n1", 8, 8)];
    let other = || MetricCriterion { metric: "load".into(), floor: Some(0.5), ..criterion() };
    let mut seven = seven_on(&["n1"]);
    let load = Metric {
        name: "load".into(),
        scope: Scope::Node,
        subject: Subject { node: Some("n1".into()), ..Subject::default() },
        ..seven.metrics[0].clone()
    };
    seven.metrics.push(load);
    let judgement = on_cluster(&seven, (&nodes, Every::Node), other());
    assert_eq!(judgement.verdict, Verdict::Inconclusive, "{:?}", judgement.reasons);
    assert_eq!(
        judgement.reasons[0].text,
        "the log does not name all GPUs that the cluster's settings state: 7 of 8 GPUs of node n1"
    );
    assert_eq!(on_cluster(&seven, (&[node("n1", 8, 7)], Every::Node), other()).verdict, Verdict::Pass);
}

/// GPUs 0 to 6 of each node: the node lost the last GPU before the run, so that no program lists it.
fn seven_on(nodes: &[&str]) -> Reading {
    let mut reading = Reading { metrics: Vec::new(), gpus: Vec::new(), ..healthy() };
    for node in nodes {
        let mut seven = healthy();
        seven.metrics.pop();
        seven.gpus.pop();
        seven.name_node(node);
        reading.metrics.append(&mut seven.metrics);
        reading.gpus.append(&mut seven.gpus);
    }
    reading
}

fn on_cluster(reading: &Reading, (nodes, every): (&[Node], Every), criterion: MetricCriterion) -> Judgement {
    let cluster =
        Cluster { name: "hall".into(), nodes: nodes.to_vec(), access: model::ClusterAccess::processes("") };
    let (clues, criteria) = (Clues::default(), criteria(criterion));
    let gpus = StatedGpus::of(&cluster, every);
    let evidence = RunEvidence { gpus: gpus.as_ref(), ..RunEvidence::of(reading, &clues) };
    let standard = Standard { criteria: Some(&criteria), ..Standard::default() };
    verdict::judge(&evidence, &standard)
}

fn node(name: &str, slots: u32, gpus: u32) -> Node {
    Node { gpus: Some(gpus), ..Node::new(name, slots) }
}

#[test]
fn a_gpu_that_every_log_lacks_is_inconclusive_if_the_settings_state_it() {
    let floor = || MetricCriterion { floor: Some(95.0), ..criterion() };
    let nodes = |gpus| [node("n1", 8, gpus), node("n2", 8, gpus)];
    let seven = seven_on(&["n1", "n2"]);
    assert_eq!(by(&seven, floor()).verdict, Verdict::Pass, "a log alone does not show the lost GPUs");
    let judgement = on_cluster(&seven, (&nodes(8), Every::Node), floor());
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["NOT_MEASURED"]));
    let text = &judgement.reasons[0].text;
    assert!(text.contains("7 of 8 GPUs of node n1; 7 of 8 GPUs of node n2"), "{text}");
    assert!(text.contains("`subjects`"), "the reason names the criterion that permits missing GPUs: {text}");
    // The node names are placeholders, because the scheduler chooses the nodes when the job starts.
    let any = [node("any-0", 8, 8), node("any-1", 8, 8)];
    assert_eq!(on_cluster(&seven, (&any, Every::Node), floor()).verdict, Verdict::Inconclusive);
    let one = seven_on(&["n1"]);
    let judgement = on_cluster(&one, (&nodes(8)[..1], Every::Node), floor());
    assert_eq!((judgement.verdict, codes(&judgement)), (Verdict::Inconclusive, vec!["NOT_MEASURED"]));
    // A node that lost all its GPUs still has other metrics.
    let mut none = seven_on(&["n1", "n2"]);
    for metric in none.metrics.iter_mut().filter(|it| it.subject.node.as_deref() == Some("n2")) {
        (metric.name, metric.scope, metric.subject.gpu) = ("load".into(), Scope::Node, None);
    }
    none.gpus.retain(|gpu| gpu.subject.node.as_deref() == Some("n1"));
    let judgement = on_cluster(&none, (&nodes(7), Every::Node), floor());
    assert!(judgement.reasons[0].text.contains("0 of 7 GPUs of node n2"), "{:?}", judgement.reasons);
}

#[test]
fn a_node_that_no_log_names_is_inconclusive_if_the_settings_state_its_gpus() {
    let floor = || MetricCriterion { floor: Some(95.0), ..criterion() };
    // The launcher started all ranks on the first node.
    let one = seven_on(&["n1"]);
    for names in [["n1", "n2"], ["any-0", "any-1"]] {
        for every in [Every::Node, Every::Rank] {
            let nodes = names.map(|name| node(name, 7, 7));
            let judgement = on_cluster(&one, (&nodes, every), floor());
            assert_eq!(
                judgement.verdict,
                Verdict::Inconclusive,
                "{names:?} {every:?}: {:?}",
                judgement.reasons
            );
            assert!(judgement.reasons[0].text.contains("no GPU of 1 of 2 nodes"), "{:?}", judgement.reasons);
        }
    }
}

#[test]
fn fewer_gpus_than_stated_pass_if_intended_or_if_the_expected_number_is_unknown() {
    let floor = || MetricCriterion { floor: Some(95.0), ..criterion() };
    let pass = |reading: &Reading, on: (&[Node], Every), criterion| {
        let judgement = on_cluster(reading, on, criterion);
        assert_eq!(judgement.verdict, Verdict::Pass, "{:?}", judgement.reasons);
    };
    let seven = seven_on(&["n1"]);
    pass(&seven, (&[node("n1", 7, 7)], Every::Node), floor());
    pass(&seven, (&[Node::new("n1", 8)], Every::Node), floor());
    pass(&seven, (&[node("n1", 8, 8)], Every::Pair), floor());
    let stated = MetricCriterion { subjects: Some(7), ..floor() };
    pass(&seven, (&[node("n1", 8, 8)], Every::Node), stated);
    // Seven ranks measure seven GPUs; eight ranks measure eight.
    pass(&seven, (&[node("n1", 7, 8)], Every::Rank), floor());
    assert_eq!(
        on_cluster(&seven, (&[node("n1", 8, 8)], Every::Rank), floor()).verdict,
        Verdict::Inconclusive
    );
    // A log without node names contains the GPUs of all nodes.
    let mut unnamed = healthy();
    unnamed.metrics.pop();
    unnamed.gpus.pop();
    assert_eq!(
        on_cluster(&unnamed, (&[node("n1", 4, 4), node("n2", 4, 4)], Every::Rank), floor()).verdict,
        Verdict::Inconclusive
    );
    // The hosts have different numbers of GPUs.
    let both = [node("n1", 8, 7), node("n2", 8, 8)];
    let mut mixed = seven_on(&["n1"]);
    let mut whole = healthy();
    whole.name_node("n2");
    mixed.metrics.append(&mut whole.metrics);
    mixed.gpus.append(&mut whole.gpus);
    pass(&mixed, (&both, Every::Node), floor());
    assert_eq!(by(&mixed, floor()).reasons[0].text, "copy is not measured for node n1, gpu 7");
    // A program that measures only the GPU of its process does not name that GPU.
    let mut one = seven_on(&["n1"]);
    one.metrics.truncate(1);
    one.metrics[0].subject.gpu = None;
    one.gpus.clear();
    pass(&one, (&[node("n1", 8, 8)], Every::Node), floor());
}
