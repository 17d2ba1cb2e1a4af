//! One rehearsal: runs started by the API, a message, a schedule and a push reach their verdicts; rows and notices
//! arrive; dead letters are forwarded; hints are removed.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    cloud_run::{Invocation, RequestOrigin},
    declared,
    deployment::{Failed, Rehearsal},
    fixtures::{FixtureCluster, FixtureFiles, FixtureImage, MEASUREMENTS, NOTIFY_COMMIT, ON_PUSH},
    grants::Resource,
    iam::member,
    members,
    methods::permission,
    plan::PROJECT,
    requests::{api, browser, commit, message, operator, push},
    tokens::{self, GCLOUD, GOOGLE},
};

/// Maximum duration of all runs.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Timeout of the runs in the rehearsal of a removed grant.
const QUICK: Duration = Duration::from_secs(30);
/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until `done` returns a value; fails early at the first denial.
pub async fn wait_for<T>(
    rehearsal: &Rehearsal,
    what: &str,
    patience: Duration,
    mut done: impl AsyncFnMut() -> Result<Option<T>, String>,
) -> Result<T, Failed> {
    let started = Instant::now();
    loop {
        rehearsal.check()?;
        if let Some(found) = done().await? {
            return Ok(found);
        }
        if started.elapsed() > patience {
            return Err(format!("timeout after {} s, expected: {what}", patience.as_secs()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The run of each workflow, by workflow name.
async fn runs(rehearsal: &Rehearsal) -> Result<HashMap<String, Value>, Failed> {
    let listed = api(rehearsal, "GET", "/api/v1/runs", "", &Value::Null).await?;
    let listed = listed["runs"].as_array().cloned().unwrap_or_default();
    Ok(listed.into_iter().map(|run| (run["workflow"].as_str().unwrap_or_default().to_owned(), run)).collect())
}

/// Expected verdict of each workflow.
const EXPECTED: [(&str, &str); 4] =
    [("by-api", "pass"), ("by-message", "pass"), ("by-schedule", "fail"), ("by-push", "pass")];

/// Runs one rehearsal to its end. With `quick` time limits are shorter, for a rehearsal that must fail.
///
/// # Errors
/// Returns an error at the first denied request, wrong result or timeout.
pub async fn rehearse(rehearsal: &mut Rehearsal, quick: bool) -> Result<Vec<String>, Failed> {
    let patience = if quick { QUICK } else { TIMEOUT };
    encrypt(rehearsal)?;
    declared::perform(rehearsal)?;
    let replies = format!("projects/{PROJECT}/subscriptions/burnin-replies-team");
    rehearsal
        .iam
        .check(
            members::LISTENER,
            permission("pubsub.projects.subscriptions.pull"),
            &Resource::subscription(&replies),
        )
        .map_err(|denial| denial.to_string())?;
    let dead = dead_letters(rehearsal, patience).await?;
    let files = FixtureFiles::write(rehearsal)?;
    files.notifying(rehearsal, "by-api", FixtureImage::Pushed, FixtureCluster::Correct, "");
    files.notifying(rehearsal, "by-message", FixtureImage::None, FixtureCluster::Slurm, "");
    let on_push = format!("{ON_PUSH}\n{NOTIFY_COMMIT}");
    files.workflow(rehearsal, "by-push", FixtureImage::FromCommit, FixtureCluster::Deployed, &on_push);
    files.scheduled(rehearsal, "by-schedule");
    rehearsal.start().await?;
    dashboard(rehearsal, "/", "Burnin").await?;
    let started = start_on_a_page(rehearsal).await?;
    let mut notes = vec![format!("an operator started run {started} on a page")];
    message(rehearsal, "by-message", "1")?;
    push(rehearsal, 0, "1").await?;
    let (mut agents, mut repeated) = (BTreeSet::new(), false);
    let ended = {
        let started = Instant::now();
        loop {
            rehearsal.check()?;
            let found = runs(rehearsal).await?;
            install_agents(rehearsal, &mut agents).await?;
            // Simulates a service that ended before it marked the push as handled: GitHub repeats the push without a second run.
            if !repeated && found.contains_key("by-push") {
                for mark in rehearsal.storage.names(&rehearsal.plan.bucket("artefacts")) {
                    if mark.starts_with("pushes/") {
                        rehearsal.remove("artefacts", &mark).await?;
                    }
                }
                push(rehearsal, 0, "1").await?;
                repeated = true;
            }
            if EXPECTED
                .iter()
                .all(|(name, _)| found.get(*name).is_some_and(|run| !run["closed_at"].is_null()))
            {
                break found;
            }
            if started.elapsed() > patience {
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
    wait_for(rehearsal, "the notice of the failed run", patience, async || {
        Ok(rehearsal.receiver.has(&failed).then_some(()))
    })
    .await?;
    let pushed = format!("acme/images/{}", commit(0));
    wait_for(rehearsal, "the status success on the pushed commit", patience, async || {
        Ok((rehearsal.receiver.states(&pushed).last().map(String::as_str) == Some("success")).then_some(()))
    })
    .await?;
    let states = rehearsal.receiver.states(&pushed);
    if states.first().map(String::as_str) != Some("pending") {
        return Err(format!("{pushed}: expected the status pending first, found {states:?}"));
    }
    let mut ends = 0;
    wait_for(rehearsal, "the reply with the end of the requested run", patience, async || {
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
    wait_for(rehearsal, "hints are removed", patience, async || {
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
    pin_on_a_page(rehearsal, &started).await?;
    notes.push(format!("forwarded dead letters: {dead}"));
    notes.push(format!("{} builds", rehearsal.builds().len()));
    match rehearsal.iam.denials().first() {
        Some(denial) => Err(format!("403: {denial}")),
        None => Ok(notes),
    }
}

/// Installs an agent on each deployed cluster that has none.
///
/// # Errors
/// Returns an error if an agent does not start.
pub async fn install_agents(rehearsal: &Rehearsal, installed: &mut BTreeSet<String>) -> Result<(), Failed> {
    for build in rehearsal.builds() {
        // Only deployments have an expiry.
        let substitutions = &build["substitutions"];
        let deployed = build["status"] == "SUCCESS"
            && substitutions["_EXPIRES"].as_str().is_some_and(|at| !at.is_empty());
        let cluster = substitutions["_CLUSTER"].as_str().unwrap_or_default();
        if deployed && installed.insert(cluster.to_owned()) {
            install_agent(rehearsal, cluster).await?;
        }
    }
    Ok(())
}

/// Installs an agent on a deployed cluster as workflows/a3-mega/agent.py does: in the project of the cluster the account of the steps
/// creates a subscription to Burnin's topic, and lets the agent pull it. The plan grants the agent's other permissions.
async fn install_agent(rehearsal: &Rehearsal, cluster: &str) -> Result<(), Failed> {
    let account = format!("nodes@{PROJECT}.iam.gserviceaccount.com");
    let steps = member(&format!("burnin-cluster-build@{PROJECT}.iam.gserviceaccount.com"));
    let topic = Resource::topic("burnin-agent");
    let may = rehearsal.iam.check(&steps, permission("attach-subscription"), &topic);
    may.map_err(|denial| format!("403: {denial}"))?;
    let id = format!("projects/{PROJECT}-clusters/subscriptions/{cluster}-agent");
    rehearsal.iam.grant_outside(
        &format!("subscription {cluster}-agent"),
        "roles/pubsub.subscriber",
        &member(&account),
    );
    rehearsal.broker.subscribe(pubsub_standin::Subscription {
        name: id.clone(),
        topic: format!("projects/{PROJECT}/topics/burnin-agent"),
        filter: Some(("cluster".to_owned(), cluster.to_owned())),
        endpoint: None,
        dead_letters: None,
        deadline: Duration::from_secs(60),
    });
    rehearsal.agent(cluster, &id, &account).await
}

/// Encrypts each resource that has a customer-managed key, as Google's service agents do.
fn encrypt(rehearsal: &Rehearsal) -> Result<(), Failed> {
    for (address, agent, key) in &rehearsal.plan.encrypted {
        let agent = format!("serviceAccount:service-data-number@{agent}.iam.gserviceaccount.com");
        for method in ["encrypt", "decrypt"] {
            let method = format!("cloudkms.projects.locations.keyRings.cryptoKeys.{method}");
            let may = rehearsal.iam.check(&agent, permission(&method), &Resource::key(key));
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
            let expected = if table == "verdicts" { 1 } else { MEASUREMENTS as u64 };
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
    let (status, text) = rehearsal
        .cloud_run
        .invoke(
            RequestOrigin::Internet,
            Some(&GOOGLE.token(members::PERSON_EMAIL, GCLOUD)),
            "burnin-dashboard",
            request,
        )
        .await;
    if status != 200 || !text.contains(expected) {
        return Err(format!("dashboard {path}: {status}: {}", text.chars().take(300).collect::<String>()));
    }
    Ok(())
}

/// Sends a request from a page, as the operator's browser does.
///
/// # Errors
/// Returns an error if the response status is not 2xx.
async fn on_a_page(rehearsal: &Rehearsal, method: &str, path: &str, body: &Value) -> Result<String, Failed> {
    let (status, text) =
        browser(rehearsal, members::OPERATOR_EMAIL, "same-origin", (method, path), body).await;
    if (200..300).contains(&status) { Ok(text) } else { Err(format!("{method} {path}: {status}: {text}")) }
}

/// Starts a run with the form of the gateway's page. The same request from another site, or from a user who is not an operator, is
/// refused.
async fn start_on_a_page(rehearsal: &Rehearsal) -> Result<String, Failed> {
    let page = on_a_page(rehearsal, "GET", "/", &Value::Null).await?;
    if !page.contains(r#"data-begin="/api/v1/runs""#) || !page.contains("by-api") {
        return Err(format!("the gateway's page has no form that starts by-api: {page}"));
    }
    let (request, body) = (("POST", "/api/v1/runs"), json!({"workflow": "by-api"}));
    for site in ["cross-site", "same-site"] {
        let (status, text) = browser(rehearsal, members::OPERATOR_EMAIL, site, request, &body).await;
        if status != 403 {
            return Err(format!("a request of another site ({site}): expected 403, found {status}: {text}"));
        }
    }
    if rehearsal.iam.would_allow(
        members::PERSON,
        permission("invoke-service"),
        &Resource::service("burnin-gateway"),
    ) {
        return Err(format!(
            "{}: expected access to the dashboard only, found that it can invoke the gateway",
            members::PERSON
        ));
    }
    let started: Value = serde_json::from_str(&on_a_page(rehearsal, "POST", "/api/v1/runs", &body).await?)
        .map_err(|error| error.to_string())?;
    let run = started["run"].as_str().unwrap_or_default().to_owned();
    Ok(run)
}

/// Pins the run as the reference with the form of the run's page, and releases the pin. The history names the operator.
async fn pin_on_a_page(rehearsal: &Rehearsal, run: &str) -> Result<(), Failed> {
    let shown = api(rehearsal, "GET", &format!("/api/v1/runs/{run}"), "", &Value::Null).await?;
    if shown["trigger"]["by"] != members::OPERATOR_EMAIL {
        return Err(format!(
            "{run} was requested by {}, not {}",
            shown["trigger"]["by"],
            members::OPERATOR_EMAIL
        ));
    }
    let baseline = "/api/v1/baselines/by-api";
    let page = format!("/runs/{run}");
    for (form, method, path, body) in [
        ("data-pin", "PUT", baseline.to_owned(), json!({"run": run, "why": "good"})),
        ("data-release", "DELETE", format!("{baseline}?why=old"), Value::Null),
    ] {
        let text = on_a_page(rehearsal, "GET", &page, &Value::Null).await?;
        if !text.contains(&format!(r#"{form}="{baseline}""#)) {
            return Err(format!("{page} has no form {form}"));
        }
        let history = on_a_page(rehearsal, method, &path, &body).await?;
        if !history.contains(members::OPERATOR_EMAIL) {
            return Err(format!("{method} {path}: the history does not name the operator: {history}"));
        }
    }
    Ok(())
}

/// Reads a report through the API, and checks that the report names the ledger's bucket.
async fn report(rehearsal: &Rehearsal, run: &str) -> Result<(), Failed> {
    let path = format!("/api/v1/runs/{run}/report");
    let request = Invocation { method: "GET", path: &path, headers: Vec::new(), body: Vec::new() };
    let (status, text) = operator(rehearsal, request).await;
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
        let message =
            pubsub_standin::PubsubMessage { data: b"{}".to_vec(), attributes, ..Default::default() };
        rehearsal.broker.put(&subscription.id, message);
    }
    let mut sources = BTreeSet::new();
    wait_for(rehearsal, "dead letters are forwarded", patience, async || {
        for letter in rehearsal.broker.drain(&dead) {
            sources.extend(letter.attributes.get("CloudPubSubDeadLetterSourceSubscription").cloned());
        }
        // Also reject the messages of subscriptions that are pulled.
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

/// Calls each service with tokens that Cloud Run must refuse, and with a valid one. Runs last, because the denials are recorded.
///
/// # Errors
/// Returns an error with the first token that has an unexpected result.
pub async fn tokens(rehearsal: &Rehearsal) -> Result<usize, Failed> {
    let mut refused = 0;
    for service in rehearsal.plan.services.values() {
        let pushing = rehearsal.plan.subscriptions.iter().filter_map(|of| of.push.as_ref());
        let account =
            pushing.filter(|(_, _, audience)| *audience == service.uri).map(|(_, account, _)| account);
        let account = account.map(String::as_str).next().unwrap_or(members::PERSON_EMAIL);
        let call = async |token: Option<&str>| {
            let request = Invocation { method: "GET", path: "/about", headers: Vec::new(), body: Vec::new() };
            rehearsal.cloud_run.invoke(RequestOrigin::Project, token, &service.name, request).await.0
        };
        // The agent's account belongs to the project, but lacks the role.
        let agent = format!("burnin-agent-c-1@{PROJECT}.iam.gserviceaccount.com");
        let mut expected =
            vec![("the right token", Some(GOOGLE.token(account, &service.uri).to_string()), 200)];
        let everyone = service.name == "burnin-hooks";
        if everyone {
            // This service serves webhooks only.
            expected[0].2 = 404;
        } else {
            expected.push(("no token", None, 401));
            expected.push(("another account", Some(GOOGLE.token(&agent, &service.uri).to_string()), 403));
        }
        let wrong = tokens::refused(account, &service.uri);
        expected.extend(wrong.into_iter().map(|(what, token)| (what, Some(token), 401)));
        for (what, token, status) in expected {
            let found = call(token.as_deref()).await;
            if found != status {
                return Err(format!("{}: {what}: expected the status {status}, found {found}", service.name));
            }
            refused += usize::from(status == 401 || status == 403);
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// The workflows and `install_agent` create the same subscription: topic, filter and role.
    #[test]
    fn each_workflow_creates_the_subscription_that_the_rehearsal_creates() {
        let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
        for file in ["a3-mega/agent.py", "a4-gke-testbed/cluster/agent.py", "dgx-slurm-perf/agent.py"] {
            let text = fs::read_to_string(workflows.join(file)).unwrap();
            let (_, create) = text.split_once("\"subscriptions\", \"create\"").expect(file);
            let (create, after) = create.split_once("add-iam-policy-binding").expect(file);
            let topic = create.split_once("--topic=projects/").expect(file).1;
            assert!(topic.split('"').next().unwrap().ends_with("topics']}agent"), "{file}: {topic}");
            assert!(create.contains("--message-filter=attributes.cluster = "), "{file}: {create}");
            assert!(after.contains("--role=roles/pubsub.subscriber"), "{file}: {after}");
        }
    }
}
