//! Nodes by name: jobs on them, and draining.

use cluster_api::Scheduler;
use cluster_kubernetes::manifest;
use model::Drained;
use serde_json::{Value, json};
use service::PortError;

use crate::bed::{KubernetesBed, ended, job, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_on_its_named_nodes() {
    let bed =
        KubernetesBed::new("echo \"rank $BURNIN_RANK of $BURNIN_RANKS\"; ls \"$BURNIN_RENDEZVOUS\"").await;
    let whole = bed.job("whole", json!({"nodes": 4, "queue": "a4", "topology": {"required": "bed/block"}}));
    let (jobs, part) = (bed.jobs(), bed.jobs().part(&whole.cluster, &["node-7", "node-3"]).unwrap());
    let unseen = jobs.nodes(&part, "pair").await;
    assert!(
        matches!(&unseen, Err(PortError::Permanent(why)) if why.code == "NODES_UNKNOWN" && why.message.contains("pair")),
        "{unseen:?}"
    );
    let pair = job("pair", part);
    jobs.submit(&pair).await.unwrap();
    assert_eq!(ended(&jobs, &pair).await.exit_code, Some(0));
    assert_eq!(jobs.nodes(&pair.cluster, "pair").await.unwrap(), ["node-3", "node-7"]);
    jobs.outputs(&pair.cluster, "pair").await.unwrap();
    let first = text(&jobs, &pair, "benchmark.log").await;
    assert!(
        first.contains("rank 0 of 2") && first.contains("rank-1"),
        "the first node connects to the second: {first}"
    );
    let second = text(&jobs, &pair, "node-1.log").await;
    assert!(second.contains("rank 1 of 2") && second.contains("rank-0"), "{second}");
    for pod in bed.api.list("/pods") {
        let topology = &pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-unconstrained-topology"];
        assert_eq!(topology, "true", "nodes that are named may be in several blocks");
    }
    jobs.release(&pair.cluster, "pair").await.unwrap();
    assert_eq!(bed.api.list("/pods"), [] as [Value; 0]);
}

#[tokio::test]
async fn with_named_nodes_the_first_mpi_pod_decides_the_result() {
    let bed = KubernetesBed::new("true").await;
    let mut mpi =
        bed.settings(json!({"launch": "mpi", "only_nodes": ["a", "b"], "node_selector": {"gpu": "b200"}}));
    let made = manifest::jobset(&bed.job("mpi", json!({})), &mpi).unwrap();
    let made = serde_json::to_value(made).unwrap();
    assert_eq!(made["spec"]["successPolicy"], json!({"operator": "All", "targetReplicatedJobs": ["n0"]}));
    let selected: Vec<_> = made["spec"]["replicatedJobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|replicated| {
            let job = &replicated["template"]["spec"];
            assert_eq!((&job["completions"], &job["successPolicy"]), (&json!(1), &Value::Null));
            (replicated["name"].as_str().unwrap(), job["template"]["spec"]["nodeSelector"].clone())
        })
        .collect();
    let selector = |node: &str| json!({"gpu": "b200", "kubernetes.io/hostname": node});
    assert_eq!(selected, [("n0", selector("a")), ("n1", selector("b"))]);
    mpi.only_nodes.clear();
    let made = manifest::jobset(&bed.job("mpi", json!({})), &mpi).unwrap();
    let made = serde_json::to_value(made).unwrap();
    assert_eq!(made["spec"]["successPolicy"], json!({"operator": "All"}));
    assert_eq!(made["spec"]["replicatedJobs"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_is_idempotent_and_keeps_other_reasons() {
    let bed = KubernetesBed::new("true").await;
    let (jobs, cluster) = (bed.jobs(), bed.cluster(json!({})));
    for name in ["bad", "theirs"] {
        bed.api.node(name, &json!({}), &json!({}), &json!({}));
    }
    let left = |result: Result<(), PortError>, expected: &str| match result {
        Err(PortError::Permanent(why)) if why.code == "NOT_DRAINED" => {
            assert!(why.message.contains(expected), "{}", why.message);
        }
        other => panic!("{other:?}"),
    };
    bed.api.fault("PATCH", "/nodes/bad", kubernetes_standin::Fault::Refused(403));
    left(jobs.drain(&cluster, "bad", "slow").await, "the cluster roles burnin-nodes and burnin-drain");
    bed.api.fault("PATCH", "/nodes/bad", kubernetes_standin::Fault::CutAfter);
    let cut = jobs.drain(&cluster, "bad", "slow").await;
    assert!(matches!(cut, Err(PortError::Transient(_))), "{cut:?}");
    jobs.drain(&cluster, "bad", "slow").await.unwrap();
    let node = bed.api.list("/nodes").into_iter().find(|node| node["metadata"]["name"] == "bad").unwrap();
    assert_eq!(
        (&node["spec"]["unschedulable"], &node["metadata"]["annotations"]["burnin.dev/drained"]),
        (&json!(true), &json!("slow"))
    );
    left(jobs.drain(&cluster, "bad", "another run").await, "already drained: slow");
    bed.api
        .change(|objects| {
            let key = ("/nodes".to_owned(), String::new(), "theirs".to_owned());
            objects.merge(&key, &json!({"spec": {"unschedulable": true}}))
        })
        .unwrap();
    left(jobs.drain(&cluster, "theirs", "slow").await, "without a reason");
    left(jobs.drain(&cluster, "none", "slow").await, "node none does not exist");
    assert!(matches!(
        jobs.return_node(&cluster, "bad").await,
        Err(PortError::Permanent(why)) if why.message.contains("bad is cordoned for another reason: slow")
    ));
    let path = bed.root.path().join("kubeconfig").display().to_string();
    assert_eq!(
        jobs.drain_command(&cluster, "bad", "slow"),
        Some(format!("kubectl --kubeconfig='{path}' cordon 'bad'"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_burnin_drained_returns_to_service() {
    let bed = KubernetesBed::new("true").await;
    let (jobs, cluster) = (bed.jobs(), bed.cluster(json!({})));
    for name in ["bad", "theirs"] {
        bed.api.node(name, &json!({}), &json!({}), &json!({}));
    }
    let reason = Drained::reason(&"night-1".parse().unwrap());
    jobs.drain(&cluster, "bad", &reason).await.unwrap();
    bed.api.fault("PATCH", "/nodes/bad", kubernetes_standin::Fault::CutAfter);
    assert!(matches!(jobs.return_node(&cluster, "bad").await, Err(PortError::Transient(_))));
    jobs.return_node(&cluster, "bad").await.unwrap();
    let node = bed.api.list("/nodes").into_iter().find(|node| node["metadata"]["name"] == "bad").unwrap();
    assert_eq!(
        (&node["spec"]["unschedulable"], &node["metadata"]["annotations"]["burnin.dev/drained"]),
        (&Value::Null, &Value::Null)
    );
    bed.api
        .change(|objects| {
            let key = ("/nodes".to_owned(), String::new(), "theirs".to_owned());
            objects.merge(&key, &json!({"spec": {"unschedulable": true}}))
        })
        .unwrap();
    let refused = jobs.return_node(&cluster, "theirs").await;
    assert!(
        matches!(&refused, Err(PortError::Permanent(why)) if why.message == "theirs is cordoned, without a reason; uncordon it with `kubectl uncordon theirs`"),
        "{refused:?}"
    );
    let path = bed.root.path().join("kubeconfig").display().to_string();
    let command = jobs.return_command(&cluster, "bad");
    assert_eq!(command, Some(format!("kubectl --kubeconfig='{path}' uncordon 'bad'")));
}
