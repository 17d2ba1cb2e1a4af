//! One rehearsal: runs started by the API, a message, a schedule and a push reach their verdicts; rows and notices
//! arrive; dead letters are forwarded; hints are removed.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    declared,
    deployment::{Rehearsal, WEBHOOK_SECRET},
    front::Invocation,
    grants::Resource,
    iam::member,
    plan::PROJECT,
};

/// Maximum duration of all runs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time after which an unfinished run fails the rehearsal of a removed grant.
const QUICK: Duration = Duration::from_secs(30);
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(100);

/// The members of the plan's options, tests/terraform/check.py.
pub mod members {
    /// May use the gateway's API.
    pub const OPERATOR: &str = "group:infra@example.com";
    /// May open the dashboard.
    pub const PERSON: &str = "user:a@example.com";
    /// May request runs by messages.
    pub const REQUESTER: &str = "serviceAccount:x@other.iam.gserviceaccount.com";
    /// Reads replies.
    pub const LISTENER: &str = "group:team@example.com";
    /// GitHub, which has no account.
    pub const GITHUB: &str = "allUsers";
}

const COMMIT: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const SCHEDULE: &str = "* * * * *";

fn workflow(name: &str, image: &str, cluster: &str, more: &str) -> String {
    format!(
        r#"name: {name}
{image}
cluster: {cluster}
benchmark:
  workload: {{collective: all_reduce, min_bytes: 2M, max_bytes: 4M, step_factor: 2, iterations: 20, warmup_iterations: 5}}
  criteria: criteria/any.yaml
limits: {{image: 5m, cluster: 5m, job: 5m, logs: 5m, results: 5m, verdict: 5m, lease: 60m, patience: 10s, grace: 30s}}
{more}
notify: [webhook: {{target: ops}}]
"#
    )
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

/// Objects that an operator puts into the bucket, and logs on the agents' hosts.
fn prepare(rehearsal: &Rehearsal) -> Result<(), String> {
    let bucket = rehearsal.plan.bucket("artefacts");
    let mut logs = BTreeMap::new();
    for (cluster, wrong) in [("c-1", 0), ("c-2", 7)] {
        let folder = rehearsal.folder().join(format!("logs-{cluster}"));
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        std::fs::write(folder.join("all_reduce.log"), log(wrong)).map_err(|error| error.to_string())?;
        let system = format!(
            "{{existing: {{name: {cluster}, system: {{logs: {{folder: {}, nodes: 2}}}}}}}}",
            folder.display()
        );
        logs.insert(cluster, system);
    }
    let (programs, shared) = (rehearsal.folder().join("bin"), rehearsal.folder().join("shared"));
    for folder in [&programs, &shared] {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    for command in ["sbatch", "squeue", "scontrol", "srun", "sacct", "scancel", "sinfo"] {
        let path = programs.join(command);
        std::fs::write(&path, include_str!("files/slurm.sh")).map_err(|error| error.to_string())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
            .map_err(|error| error.to_string())?;
    }
    let image = "image: {build: {config: steps/image.yaml, source: source}}";
    let pushed = "image: {build: {config: steps/files.yaml, repository: {url: https://github.com/acme/images, revision: main}}}";
    let deployed = r#"{rent: {deployed: {deploy: {config: steps/deploy.yaml, source: source, substitutions: {_LEAVES_CLUSTER: '{"nodes": [{"name": "n-0", "slots": 8}, {"name": "n-1", "slots": 8}], "slurm": {"shared_folder": "SHARED"}}'}}, destroy: {config: steps/destroy.yaml, source: source, substitutions: {_LEAVES_GONE: '{"left": [], "evidence": "all lists are empty"}'}}, slurm: {nodes: 2, ranks_per_node: 8, shared_folder: /set/by/the/deployment}}}}"#;
    let deployed = deployed.replace("SHARED", &shared.display().to_string());
    let files = [
        ("by-api.yaml", workflow("by-api", image, &logs["c-1"], "")),
        ("by-message.yaml", workflow("by-message", "", &logs["c-1"], "")),
        (
            "by-schedule.yaml",
            workflow(
                "by-schedule",
                "",
                &logs["c-2"],
                &format!("on: {{schedule: [{{cron: '{SCHEDULE}', zone: Etc/UTC, window: 4h}}]}}"),
            ),
        ),
        (
            "by-push.yaml",
            workflow(
                "by-push",
                pushed,
                &deployed,
                "on: {push: [{repository: acme/images, branches: [main]}]}",
            ),
        ),
        ("criteria/any.yaml", include_str!("files/criteria.yaml").to_owned()),
        ("steps/files.yaml", include_str!("files/files.yaml").to_owned()),
        ("steps/image.yaml", include_str!("files/image.yaml").to_owned()),
        ("steps/deploy.yaml", include_str!("files/deploy.yaml").to_owned()),
        ("steps/destroy.yaml", include_str!("files/destroy.yaml").to_owned()),
        ("source/readme", "nothing is needed\n".to_owned()),
    ];
    for (name, content) in files {
        rehearsal.storage.put(&bucket, &format!("workflows/{name}"), content);
    }
    // The schedule was first read 61 s ago, so that its last time is due.
    let mut hash = Sha256::new();
    for part in [SCHEDULE, "Etc/UTC"] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hex::encode(hash.finalize());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let since = model::Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(0) - 61_000);
    let name = format!("schedules/by-schedule/since/{}.json", &digest[..12]);
    rehearsal.storage.put(&bucket, &name, json!({"since": since}).to_string());
    Ok(())
}

/// The reason why a rehearsal failed.
pub type Failed = String;

/// Waits until `done` returns a value; fails early at the first denial.
async fn until<T>(
    rehearsal: &Rehearsal,
    what: &str,
    patience: Duration,
    mut done: impl AsyncFnMut() -> Result<Option<T>, String>,
) -> Result<T, Failed> {
    let began = Instant::now();
    loop {
        if let Some(denial) = rehearsal.iam.denials().first() {
            return Err(format!("403: {denial}"));
        }
        if let Some(ended) = rehearsal.ended() {
            return Err(ended);
        }
        if let Some(found) = done().await? {
            return Ok(found);
        }
        if began.elapsed() > patience {
            return Err(format!("timeout after {} s: {what}", patience.as_secs()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn api(rehearsal: &Rehearsal, method: &str, path: &str, body: &Value) -> Result<Value, Failed> {
    let headers =
        vec![("content-type", "application/json".to_owned()), ("idempotency-key", "rehearsal".to_owned())];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
    let request = Invocation { method, path, headers, body };
    let (status, text) = rehearsal.front.invoke(members::OPERATOR, "burnin-gateway", request).await;
    if !(200..300).contains(&status) {
        return Err(format!("{method} {path}: {status}: {text}"));
    }
    serde_json::from_str(&text).map_err(|error| format!("{method} {path}: {error}: {text}"))
}

/// Publishes a request of a run on the gateway's topic, as the requester.
fn request(rehearsal: &Rehearsal) -> Result<(), Failed> {
    let topic = format!("projects/{PROJECT}/topics/burnin-gateway");
    rehearsal
        .iam
        .check(members::REQUESTER, "pubsub.topics.publish", &Resource::topic(&topic))
        .map_err(|denial| denial.to_string())?;
    let attributes = [
        ("ce-specversion", "1.0"),
        ("ce-type", "dev.burnin.run.request.v1"),
        ("ce-source", "//rehearsal"),
        ("ce-id", "1"),
        ("content-type", "application/json"),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let data = json!({"workflow": "by-message"}).to_string().into();
    rehearsal
        .broker
        .publish(&topic, pubsub_standin::Message { data, attributes, ..pubsub_standin::Message::default() });
    Ok(())
}

/// Delivers a push of GitHub, signed.
async fn push(rehearsal: &Rehearsal) -> Result<(), Failed> {
    let body = json!({
        "ref": "refs/heads/main", "before": "a".repeat(40), "after": COMMIT, "created": false, "deleted": false, "forced": false,
        "commits": [{"id": COMMIT, "added": [], "removed": [], "modified": ["build.yaml"]}],
        "head_commit": {"id": COMMIT}, "repository": {"id": 1, "full_name": "acme/images"},
        "pusher": {"name": "a"}, "sender": {"login": "a", "id": 1, "type": "User"},
    })
    .to_string();
    let mut mac =
        Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).map_err(|error| error.to_string())?;
    mac.update(body.as_bytes());
    let headers = vec![
        ("content-type", "application/json".to_owned()),
        ("x-github-event", "push".to_owned()),
        ("x-github-delivery", "1".to_owned()),
        ("x-hub-signature-256", format!("sha256={}", hex::encode(mac.finalize().into_bytes()))),
    ];
    let request = Invocation { method: "POST", path: "/hooks/github", headers, body: body.into() };
    match rehearsal.front.invoke(members::GITHUB, "burnin-hooks", request).await {
        (200..300, _) => Ok(()),
        (status, text) => Err(format!("the webhook: {status}: {text}")),
    }
}

/// Runs of each workflow, by its name.
async fn runs(rehearsal: &Rehearsal) -> Result<HashMap<String, Value>, Failed> {
    let listed = api(rehearsal, "GET", "/api/v1/runs", &Value::Null).await?;
    let listed = listed["runs"].as_array().cloned().unwrap_or_default();
    Ok(listed.into_iter().map(|run| (run["workflow"].as_str().unwrap_or_default().to_owned(), run)).collect())
}

/// Each workflow, with the expected verdict.
const EXPECTED: [(&str, &str); 4] =
    [("by-api", "pass"), ("by-message", "pass"), ("by-schedule", "fail"), ("by-push", "pass")];

/// Runs the whole rehearsal in a rehearsal. With `quick` time limits are shorter, for a rehearsal that must fail.
///
/// # Errors
/// Returns an error at the first denied request, wrong result or timeout.
pub async fn rehearse(rehearsal: &mut Rehearsal, quick: bool) -> Result<Vec<String>, Failed> {
    let patience = if quick { QUICK } else { PATIENCE };
    encrypt(rehearsal)?;
    declared::perform(rehearsal)?;
    let replies = format!("projects/{PROJECT}/subscriptions/burnin-replies-team");
    rehearsal
        .iam
        .check(members::LISTENER, "pubsub.subscriptions.consume", &Resource::subscription(&replies))
        .map_err(|denial| denial.to_string())?;
    let dead = dead_letters(rehearsal, patience).await?;
    prepare(rehearsal)?;
    rehearsal.start().await?;
    dashboard(rehearsal, "/", "Burnin").await?;
    let started = api(rehearsal, "POST", "/api/v1/runs", &json!({"workflow": "by-api"})).await?;
    let mut notes = vec![format!("run {} started by the API", started["run"])];
    request(rehearsal)?;
    push(rehearsal).await?;
    let (mut installed, mut repeated) = (false, false);
    let ended = {
        let began = Instant::now();
        loop {
            if let Some(denial) = rehearsal.iam.denials().first() {
                return Err(format!("403: {denial}"));
            }
            if let Some(ended) = rehearsal.ended() {
                return Err(ended);
            }
            let found = runs(rehearsal).await?;
            if !installed && let Some(cluster) = deployed(rehearsal) {
                install_agent(rehearsal, &cluster).await?;
                installed = true;
            }
            // The service ended before it marked the push as handled, and GitHub delivers it again: it starts no second run.
            if !repeated && found.contains_key("by-push") {
                for mark in rehearsal.storage.names(&rehearsal.plan.bucket("artefacts")) {
                    if mark.starts_with("pushes/") {
                        rehearsal.remove("artefacts", &mark).await?;
                    }
                }
                push(rehearsal).await?;
                repeated = true;
            }
            if EXPECTED
                .iter()
                .all(|(name, _)| found.get(*name).is_some_and(|run| !run["closed_at"].is_null()))
            {
                break found;
            }
            if began.elapsed() > patience {
                return Err(format!("timeout after {} s: the runs are {}", patience.as_secs(), json!(found)));
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    for (name, verdict) in EXPECTED {
        let run = &ended[name];
        if run["verdict"] != verdict {
            let name_of_run = run["run"].as_str().unwrap_or_default();
            let object = format!("artefacts/{name_of_run}/verdict/1/verdict.json");
            let why = rehearsal.storage.object(&rehearsal.plan.bucket("artefacts"), &object);
            let why =
                why.map(|object| String::from_utf8_lossy(&object.body).into_owned()).unwrap_or_default();
            return Err(format!("{name}: expected the verdict {verdict}, found {run}: {why}"));
        }
    }
    notes.push(format!("{} runs reached their verdicts", ended.len()));
    check_rows(rehearsal, &ended)?;
    let failed = ended["by-schedule"]["run"].as_str().unwrap_or_default().to_owned();
    until(rehearsal, "the notice of the failed run", patience, async || {
        Ok(rehearsal.receiver.has(&failed).then_some(()))
    })
    .await?;
    let mut ends = 0;
    until(rehearsal, "the reply with the end of the requested run", patience, async || {
        let replies = rehearsal.broker.drain(&replies);
        ends += replies
            .iter()
            .filter(|reply| String::from_utf8_lossy(&reply.data).contains("\"ended\":{"))
            .count();
        Ok((ends > 0).then_some(()))
    })
    .await?;
    let bucket = rehearsal.plan.bucket("artefacts");
    let hints = ["open/", "requests/open/", "clusters/open/", "notices/open/"];
    until(rehearsal, "hints are removed", patience, async || {
        let left = rehearsal
            .storage
            .names(&bucket)
            .into_iter()
            .find(|name| hints.iter().any(|hint| name.starts_with(hint)));
        Ok(left.is_none().then_some(()))
    })
    .await?;
    if let Some(parked) =
        rehearsal.storage.names(&bucket).into_iter().find(|name| name.starts_with("parked/"))
    {
        return Err(format!("an event was parked: {parked}"));
    }
    dashboard(rehearsal, &format!("/runs/{failed}"), "by-schedule").await?;
    report(rehearsal, &failed).await?;
    notes.push(format!("{dead} dead letters forwarded"));
    notes.push(format!("{} builds", rehearsal.builds().len()));
    match rehearsal.iam.denials().first() {
        Some(denial) => Err(format!("403: {denial}")),
        None => Ok(notes),
    }
}

/// The cluster of a successful deployment.
fn deployed(rehearsal: &Rehearsal) -> Option<String> {
    let builds = rehearsal.builds();
    let deployment = builds.iter().find(|build| {
        build["status"] == "SUCCESS"
            && !build["substitutions"]["_EXPIRES"].as_str().unwrap_or_default().is_empty()
    })?;
    Some(deployment["substitutions"]["_CLUSTER"].as_str()?.to_owned())
}

/// Installs an agent on a deployed cluster, with the subscription and the grants of workflows/a3-mega/agent.py. The account of the steps
/// that do this has further roles, which workflows/a3-mega/README.md lists and `infra/` does not grant.
async fn install_agent(rehearsal: &mut Rehearsal, cluster: &str) -> Result<(), Failed> {
    let account = format!("nodes@{PROJECT}.iam.gserviceaccount.com");
    let name = format!("{cluster}-agent");
    let bucket = format!("bucket {}", rehearsal.plan.bucket("artefacts"));
    for (on, role) in [
        (format!("subscription {name}"), "roles/pubsub.subscriber"),
        ("topic burnin-facts".to_owned(), "roles/pubsub.publisher"),
        (bucket.clone(), "roles/storage.objectViewer"),
        (bucket, "roles/storage.objectCreator"),
    ] {
        rehearsal.iam.grant_outside(&on, role, &member(&account));
    }
    let id = format!("projects/{PROJECT}/subscriptions/{name}");
    rehearsal.broker.subscribe(pubsub_standin::Subscription {
        name: id.clone(),
        topic: format!("projects/{PROJECT}/topics/burnin-agent"),
        filter: None,
        endpoint: None,
        dead_letters: None,
    });
    rehearsal.agent(cluster, &id, &account).await
}

/// Encrypts each resource that has a customer's key, as Google's agents do.
fn encrypt(rehearsal: &Rehearsal) -> Result<(), Failed> {
    for (address, agent, key) in &rehearsal.plan.encrypted {
        let agent = format!("serviceAccount:service-data-number@{agent}.iam.gserviceaccount.com");
        for permission in
            ["cloudkms.cryptoKeyVersions.useToEncrypt", "cloudkms.cryptoKeyVersions.useToDecrypt"]
        {
            let may = rehearsal.iam.check(&agent, permission, &Resource::key(key));
            may.map_err(|denial| format!("403: {address}: {denial}"))?;
        }
    }
    Ok(())
}

/// Checks that each run has its rows.
fn check_rows(rehearsal: &Rehearsal, ended: &HashMap<String, Value>) -> Result<(), Failed> {
    for table in ["measurements", "verdicts"] {
        let rows = rehearsal.bigquery.count(&format!("{PROJECT}.burnin.{table}"), &["run"])?;
        for (name, _) in EXPECTED {
            let run = ended[name]["run"].as_str().unwrap_or_default();
            let expected = if table == "verdicts" { 1 } else { 4 };
            let found = rows.get(&vec![run.to_owned()]).copied().unwrap_or(0);
            if found != expected {
                return Err(format!("{name}: expected {expected} rows in {table}, found {found}"));
            }
        }
    }
    Ok(())
}

/// Opens a page, and checks that it contains the expected text.
async fn dashboard(rehearsal: &Rehearsal, path: &str, expected: &str) -> Result<(), Failed> {
    let request = Invocation { method: "GET", path, headers: Vec::new(), body: Vec::new() };
    let (status, text) = rehearsal.front.invoke(members::PERSON, "burnin-dashboard", request).await;
    if status != 200 || !text.contains(expected) {
        return Err(format!("dashboard {path}: {status}: {}", text.chars().take(300).collect::<String>()));
    }
    Ok(())
}

/// Reads a report through the API, and checks that the report names the ledger's bucket.
async fn report(rehearsal: &Rehearsal, run: &str) -> Result<(), Failed> {
    let path = format!("/api/v1/runs/{run}/report");
    let request = Invocation { method: "GET", path: &path, headers: Vec::new(), body: Vec::new() };
    let (status, text) = rehearsal.front.invoke(members::OPERATOR, "burnin-gateway", request).await;
    let ledger = format!("gs://{}/ledger/{run}", rehearsal.plan.bucket("ledger"));
    if status != 200 || !text.replace("&#x2f;", "/").contains(&ledger) {
        return Err(format!("{path}: {status}: expected {ledger} in the report"));
    }
    Ok(())
}

/// Rejects every delivery of each subscription until its message is a dead letter.
async fn dead_letters(rehearsal: &Rehearsal, patience: Duration) -> Result<usize, Failed> {
    let dead = format!("projects/{PROJECT}/subscriptions/burnin-dead");
    let failing: Vec<_> =
        rehearsal.plan.subscriptions.iter().filter(|of| of.dead_letters.is_some()).cloned().collect();
    rehearsal.broker.drain(&dead);
    for subscription in &failing {
        rehearsal.broker.fail(&subscription.id, true);
    }
    for subscription in &failing {
        let attributes = subscription.filter.clone().into_iter().collect();
        let message = pubsub_standin::Message { data: b"{}".to_vec(), attributes, ..Default::default() };
        rehearsal.broker.put(&subscription.id, message);
    }
    let mut sources = std::collections::BTreeSet::new();
    until(rehearsal, "dead letters are forwarded", patience, async || {
        for letter in rehearsal.broker.drain(&dead) {
            sources.extend(letter.attributes.get("CloudPubSubDeadLetterSourceSubscription").cloned());
        }
        // A client that pulls rejects them as well.
        for subscription in failing.iter().filter(|of| of.push.is_none()) {
            rehearsal.broker.reject_waiting(&subscription.id);
        }
        Ok(failing.iter().all(|of| sources.contains(&of.id)).then_some(()))
    })
    .await?;
    for subscription in &failing {
        rehearsal.broker.fail(&subscription.id, false);
    }
    Ok(sources.len())
}
