//! Clusters offered by other systems.

use crate::support::GatewayBed;
use events::{CLUSTER_OFFERED, RUN_ANSWERED};
use serde_json::{Value, json};
use service::{Disposition, Handler};
use std::sync::atomic::Ordering;

const ON: &str = "on: {cluster: [{source: //acme/rack, system: slurm, name: 'gpu-*', allow: {shared_folder: ['/shared/*']}}]}\n";

/// An offer as Pub/Sub pushes it.
fn offer(source: &str, id: &str, data: &Value) -> service::Event {
    let event = json!({"specversion": "1.0", "type": CLUSTER_OFFERED, "source": source, "id": id,
                       "datacontenttype": "application/json", "data": data});
    let mut headers = service::push::Headers::new();
    headers.insert("content-type", "application/cloudevents+json".parse().unwrap());
    service::push::decode(&headers, event.to_string().as_bytes()).unwrap()
}

fn slurm(name: &str) -> Value {
    json!({"name": name, "system": {"slurm": {"nodes": 4, "shared_folder": "/shared/burnin"}}})
}

#[tokio::test]
async fn an_offered_cluster_starts_each_matching_workflow_once() {
    let mut bed = GatewayBed::new(&[("w", ON), ("v", ON), ("other", "")]);
    let event = offer("//acme/rack", "7", &slurm("gpu-a"));
    assert_eq!(bed.gateway.handle(&event).await, Disposition::Done);
    let runs = bed.runs().await;
    assert_eq!(runs.len(), 2, "{runs:?}");
    for requested in bed.published("dev.burnin.run.requested.v1") {
        let existing = &requested["workflow"]["cluster"]["existing"];
        assert_eq!(existing["name"], "gpu-a");
        assert_eq!(
            existing["system"]["slurm"]["shared_folder"], "/shared/burnin",
            "the offered cluster replaces the file's own"
        );
        assert_eq!(requested["trigger"]["by"], "//acme/rack, which offered gpu-a");
    }
    // Replayed by another process after a workflow was added: no further run starts.
    bed.write("late", ON);
    bed.restart();
    assert_eq!(bed.gateway.handle(&event).await, Disposition::Done);
    assert_eq!(bed.runs().await, runs);
    let answers = bed.published(RUN_ANSWERED);
    assert_eq!(answers.len(), 4, "each delivery has one answer per workflow");
    let key = json!({"source": "//acme/rack", "id": "7"});
    assert!(answers.iter().all(|answer| answer["request"] == key && answer["run"].is_string()));
    assert_eq!(answers[..2], answers[2..]);
    // Another offer of the same cluster starts another run; the same offer with other content is rejected.
    assert_eq!(bed.gateway.handle(&offer("//acme/rack", "8", &slurm("gpu-a"))).await, Disposition::Done);
    assert_eq!(bed.runs().await.len(), 5);
    let disposition = bed.gateway.handle(&offer("//acme/rack", "7", &slurm("gpu-b"))).await;
    assert!(
        matches!(&disposition, Disposition::Park(why) if why.contains("were used before")),
        "{disposition:?}"
    );
    assert_eq!(bed.runs().await.len(), 5);
}

#[tokio::test]
async fn events_without_a_workflow_or_with_wrong_fields_are_parked_and_answered() {
    let bed = GatewayBed::new(&[("w", ON)]);
    let settings = |slurm: Value| json!({"name": "gpu-a", "system": {"slurm": slurm}});
    let cases = [
        ("//evil", slurm("gpu-a"), "no workflow accepts a slurm cluster `gpu-a` from `//evil`"),
        ("//acme/rack", slurm("cpu-a"), "no workflow accepts a slurm cluster `cpu-a`"),
        (
            "//acme/rack",
            json!({"name": "gpu-a", "system": {"processes": {"nodes": 4}}}),
            "expected one of slurm, kubernetes, found `processes`",
        ),
        ("//acme/rack", settings(json!({"nodes": 4})), "missing field `shared_folder`"),
        (
            "//acme/rack",
            settings(json!({"nodes": 0, "shared_folder": "/s"})),
            "w: the workflow cannot run with these settings: the offer: cluster.existing.system.slurm.nodes",
        ),
        (
            "//acme/rack",
            settings(json!({"nodes": 4, "shared_folder": "relative"})),
            "cluster.existing.system.slurm.shared_folder",
        ),
        (
            "//acme/rack",
            settings(json!({"nodes": 4, "shared_folder": "/home/mallory/x"})),
            "w: the workflow cannot run with these settings: the offer: cluster.existing.system.slurm.shared_folder: the workflow \
             does not allow `/home/mallory/x`; it allows: /shared/*",
        ),
        (
            "//acme/rack",
            settings(
                json!({"nodes": 4, "shared_folder": "/shared/burnin", "profile": "/home/mallory/profile.sh"}),
            ),
            "cluster.existing.system.slurm.profile: the workflow does not allow `/home/mallory/profile.sh`; it allows: none",
        ),
        (
            "//acme/rack",
            settings(
                json!({"nodes": 4, "shared_folder": "/shared/burnin", "environment": {"LD_PRELOAD": "/x.so"}}),
            ),
            "cluster.existing.system.slurm.environment.LD_PRELOAD",
        ),
        ("//acme/rack", json!({"name": "gpu-a"}), "missing field `system`"),
        ("//acme/rack", json!(null), "payload of"),
    ];
    for (number, (source, data, expected)) in cases.iter().enumerate() {
        let disposition = bed.gateway.handle(&offer(source, &number.to_string(), data)).await;
        assert!(
            matches!(&disposition, Disposition::Park(why) if why.contains(expected)),
            "{data}: {disposition:?}"
        );
        let answers = bed.published(RUN_ANSWERED);
        let answer = answers.last().unwrap();
        assert_eq!((answers.len(), &answer["run"]), (number + 1, &Value::Null));
        assert!(answer["problem"].as_str().unwrap().contains(expected), "{answer}");
    }
    assert_eq!(bed.runs().await, [""; 0]);
    // Over HTTP, as from Pub/Sub, an invalid offer is acknowledged and parked.
    let body = json!({"specversion": "1.0", "type": CLUSTER_OFFERED, "source": "//a", "id": "9", "data": slurm("x")});
    let structured = [("content-type", "application/cloudevents+json")];
    assert_eq!(bed.send("POST", "/", &structured, &body.to_string()).await.0, 204);
    assert_eq!(bed.store.list("parked/").await.unwrap().len(), 1);
}

#[tokio::test]
async fn settings_of_the_workflows_own_cluster_may_be_offered() {
    let bed = GatewayBed::new(&[]);
    let own = "name: w\ncluster: {existing: {name: c, system: {slurm: {nodes: 2, shared_folder: /home/ops/burnin, profile: /opt/net.sh}}}}\non: {cluster: [{source: //acme/rack, system: slurm}]}\n";
    std::fs::write(bed.folder.path().join("w.yaml"), own).unwrap();
    let settings = |profile: &str| json!({"name": "gpu-a", "system": {"slurm": {"nodes": 8, "shared_folder": "/home/ops/burnin", "profile": profile}}});
    let disposition = bed.gateway.handle(&offer("//acme/rack", "1", &settings("/home/mallory/net.sh"))).await;
    assert!(
        matches!(&disposition, Disposition::Park(why) if why.contains("it allows: /opt/net.sh")),
        "{disposition:?}"
    );
    assert_eq!(bed.runs().await, [""; 0]);
    let disposition = bed.gateway.handle(&offer("//acme/rack", "2", &settings("/opt/net.sh"))).await;
    assert_eq!((disposition, bed.runs().await.len()), (Disposition::Done, 1));
}

#[tokio::test]
async fn an_offer_with_a_failed_reply_is_redelivered() {
    let bed = GatewayBed::new(&[("w", ON), ("v", ON)]);
    let event = offer("//acme/rack", "1", &slurm("gpu-a"));
    bed.bus.broken.store(true, Ordering::Relaxed);
    assert!(matches!(bed.gateway.handle(&event).await, Disposition::Retry(_)));
    bed.bus.broken.store(false, Ordering::Relaxed);
    assert_eq!(bed.gateway.handle(&event).await, Disposition::Done);
    assert_eq!(bed.runs().await.len(), 2);
}

#[tokio::test]
async fn an_invalid_pattern_is_an_error_in_the_file() {
    let bed = GatewayBed::new(&[("w", "on: {cluster: [{source: '', system: slurm, name: '['}]}\n")]);
    let (_, offered) = bed.get("/api/v1/workflows").await;
    let problems = offered["problems"].to_string();
    assert!(problems.contains("on.cluster[0].source: is empty; write the source"), "{problems}");
    assert!(problems.contains("on.cluster[0].name: `[` is not a pattern"), "{problems}");
}
