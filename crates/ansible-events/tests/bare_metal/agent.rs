//! The agent of a deployed cluster is installed with the cluster, runs the commands of its subscription on the deployed Slurm, and is
//! removed with the cluster.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pubsub_standin::{Access, Address, Broker, PubsubMessage, Subscription};
use serde_json::{Value, json};

use crate::bed::{ACCOUNT, AnsibleBed, PUBSUB, STORAGE};
use crate::workspace::Workspace;

const UNIT: &str = "/etc/systemd/system/burnin-agent-dgx.service";
const HEALTH: &str = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8089/healthz";
/// Name of the subscription: `b` and the SHA-256 of the cluster's name.
const SUBSCRIPTION: &str = "b761fca33-agent";

/// Checks service, subscription and grant.
pub fn assert_installed(bed: &AnsibleBed) {
    assert_eq!(bed.on("login", HEALTH), "200");
    let processes = bed.on("login", "ps -o user= -C agent");
    assert_eq!(processes.trim(), "ops", "the agent runs as the login user");
    let unit = bed.on("login", &format!("cat {UNIT}"));
    for setting in [
        "User=ops\n",
        &format!("BURNIN_CLUSTER=dgx BURNIN_PULL=projects/my-project/subscriptions/{SUBSCRIPTION}\n"),
        "BURNIN_PROJECT=my-burnin BURNIN_TOPICS=burnin- BURNIN_ARTEFACTS=gs://my-artefacts\n",
        "GOOGLE_APPLICATION_CREDENTIALS=/home/ops/agent.json\n",
    ] {
        assert!(unit.contains(setting), "{setting}: {unit}");
    }
    assert_eq!(
        bed.on("dgx01", &format!("ls {UNIT} /opt/burnin-dgx 2>/dev/null")),
        "",
        "the agent is installed only on the controller"
    );
    // Terraform grants the agent's other rights.
    let member = format!("serviceAccount:{ACCOUNT}");
    let right = format!("right roles/pubsub.subscriber on {SUBSCRIPTION} of {member}");
    assert_eq!(bed.cloud(), [right, format!("subscription {SUBSCRIPTION}")]);
}

/// Checks that no part of the agent remains, and that the release reported this.
pub fn assert_absent(bed: &AnsibleBed, workspace: &Workspace) {
    assert_eq!(bed.cloud(), <[&str; 0]>::default());
    let left = "ls -d /opt/burnin* /etc/systemd/system/burnin* /etc/systemd/system/*/burnin* 2>/dev/null | grep -v '[.]d$'; pgrep -x agent";
    assert_eq!(bed.on("login", left), "");
    let gone: Value = serde_json::from_str(&workspace.read("gone.json")).unwrap();
    assert_eq!(gone["left"], json!([]));
    assert!(gone["evidence"].as_str().unwrap().contains("label burnin-cluster=dgx"), "{gone}");
}

/// Accepts every caller: only the bed's hosts reach the stand-in.
struct AcceptsEveryCaller;

impl Access for AcceptsEveryCaller {
    fn admits(&self, _: &str, _: &'static str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The storage stand-in as a program; stops on drop.
struct Storage(Child);

impl Drop for Storage {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A command as the conductor publishes it.
fn command(id: &str, body: Value) -> PubsubMessage {
    let command = model::Command { id: id.parse().unwrap(), body: serde_json::from_value(body).unwrap() };
    let event = events::Message::command("conductor", command).to_event();
    let data = serde_json::to_vec(&event).unwrap();
    let attributes = [("cluster".to_owned(), "dgx".to_owned())].into();
    PubsubMessage { data, attributes, ..PubsubMessage::default() }
}

/// Maximum time to the next fact: an idle agent connects again after a minute, and a loaded machine is slow.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Waits for a fact of this type and returns its data.
async fn fact(broker: &Broker, kind: &str) -> Value {
    let until = Instant::now() + TIMEOUT;
    loop {
        for message in broker.drain("projects/my-project/subscriptions/facts") {
            let (found, data) = (&message.attributes["ce-type"], String::from_utf8_lossy(&message.data));
            assert!(!found.ends_with("failed.v1"), "{found}: {data}");
            if found == kind {
                return serde_json::from_str(&data).unwrap();
            }
        }
        assert!(Instant::now() < until, "timeout: no {kind} arrived within {} s", TIMEOUT.as_secs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the test bed: .ci/ansible.sh"]
async fn the_agent_runs_a_job_of_its_subscription() {
    let bed = AnsibleBed::new();
    let mut storage = Command::new(
        std::env::var_os("BURNIN_STORAGE_STANDIN").expect("BURNIN_STORAGE_STANDIN is set by .ci/ansible.sh"),
    );
    storage.args(["--address", STORAGE, "--bucket", "my-artefacts"]).stdout(Stdio::null());
    let _storage = Storage(storage.spawn().unwrap());
    let broker = Broker::new(Arc::new(AcceptsEveryCaller), "google", Duration::from_millis(100));
    let topic = |name: &str| format!("projects/my-burnin/topics/burnin-{name}");
    let subscribe = |name: &str, of: &str, filter| {
        let name = format!("projects/my-project/subscriptions/{name}");
        broker.topic(&topic(of));
        let (topic, deadline) = (topic(of), Duration::from_secs(60));
        broker.subscribe(Subscription { name, topic, filter, endpoint: None, dead_letters: None, deadline });
    };
    // The subscription that the deployment creates.
    subscribe(SUBSCRIPTION, "agent", Some(("cluster".to_owned(), "dgx".to_owned())));
    subscribe("facts", "agent-facts", None);
    // The agent reaches this address from the hosts' network.
    let _address = Address::open_at(&broker, "agent", PUBSUB).await.unwrap();

    let deployed: Value = serde_json::from_str(&bed.file("cluster.json")).unwrap();
    let cluster = json!({"name": "dgx", "nodes": deployed["nodes"], "access": {"slurm": deployed["slurm"]}});
    let program = json!({"argv": ["/bin/hostname"], "every": "node", "read": {"format": "nccl-tests"}});
    let submit = json!({"cluster": cluster, "image": null, "command": program, "limit": "2m"});
    let submit = json!({"type": "dev.burnin.job.submit.v1", "data": submit});
    broker.publish(&topic("agent"), command("r-1.job.1.start", submit));
    let handle = fact(&broker, "dev.burnin.job.accepted.v1").await["handle"].clone();
    let done = fact(&broker, "dev.burnin.job.done.v1").await;
    assert_eq!((&done["state"], &done["exit_code"]), (&json!("COMPLETED"), &json!(0)), "{done}");

    let collect = json!({"cluster": cluster, "jobs": [{"attempt": 1, "handle": handle}]});
    let collect = json!({"type": "dev.burnin.logs.collect.v1", "data": collect});
    broker.publish(&topic("agent"), command("r-1.logs.1.start", collect));
    let logs = fact(&broker, "dev.burnin.logs.collected.v1").await;
    assert!(
        logs["objects"].as_u64() > Some(4),
        "the bucket has one log of each node, and the manifest: {logs}"
    );
    let (subscription, until) = (
        format!("projects/my-project/subscriptions/{SUBSCRIPTION}"),
        Instant::now() + Duration::from_secs(20),
    );
    while broker.backlog(&subscription) > 0 {
        assert!(Instant::now() < until, "a command is not acknowledged");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
