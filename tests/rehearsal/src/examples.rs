//! Executes the examples of docs/TRIGGERS.md on the running deployment: the cron line with `burnin`, both examples with gcloud, the Python
//! and the Go program, and a build of a Cloud Build trigger. GitHub's webhook is part of each rehearsal.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use model::{ClusterSpec, ImageSpec, Verdict};
use pubsub_standin::{Broker, PubsubMessage};
use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command};

use crate::{
    cloud_run::{CloudRun, Invocation, RequestOrigin},
    deployment::{Failed, Rehearsal},
    fixtures::{FixtureCluster, FixtureFiles, FixtureImage},
    grants::Resource,
    iam::{AGENTS, Iam},
    members,
    methods::permission,
    outcomes,
    plan::PROJECT,
    scenario::wait_for,
    tokens::{GCLOUD, GOOGLE},
};

const PAGE: &str = include_str!("../../../docs/TRIGGERS.md");
/// Existing cluster that the example offers.
const OFFERED: &str = "c-2";
const TIMEOUT: Duration = Duration::from_secs(300);
const DIGEST: &str = "sha256:2222222222222222222222222222222222222222222222222222222222222222";

/// Text of the first fenced block in this language.
fn example(language: &str) -> Result<&'static str, String> {
    let block = PAGE.split_once(&format!("```{language}\n")).and_then(|(_, rest)| rest.split_once("\n```"));
    block
        .map(|(text, _)| text)
        .ok_or_else(|| format!("docs/TRIGGERS.md: no block in the language {language}"))
}

/// Examples of docs/TRIGGERS.md, by name.
pub struct Examples {
    pub executed: Vec<&'static str>,
    /// Examples whose program is missing on this host, with the program.
    pub skipped: Vec<&'static str>,
}

impl fmt::Display for Examples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executed examples of triggers: {}", self.executed.join(", "))
    }
}

/// Value of the first line `name: VALUE` in docs/TRIGGERS.md.
fn value(name: &str) -> Result<&'static str, String> {
    let line =
        PAGE.lines().find_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(&format!("{name}: ")));
    let value = line.map(|line| line.split('#').next().unwrap_or(line).trim());
    value.ok_or_else(|| format!("docs/TRIGGERS.md: no line {name}"))
}

/// Pub/Sub's REST method `publish`, called by the requester, and the gateway's address.
async fn answer(cloud_run: &CloudRun, broker: &Broker, iam: &Iam, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap_or_else(|_| Bytes::new());
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    if let Some(topic) = head.uri.path().strip_prefix("/v1/").and_then(|path| path.strip_suffix(":publish")) {
        if let Err(denial) = iam.check(
            members::REQUESTER,
            permission("pubsub.projects.topics.publish"),
            &Resource::topic(topic),
        ) {
            return (StatusCode::FORBIDDEN, denial.to_string()).into_response();
        }
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let publish = |message: &Value| {
            let attributes = message["attributes"].as_object().into_iter().flatten();
            let attributes =
                attributes.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
            let data = STANDARD.decode(message["data"].as_str().unwrap_or_default()).unwrap_or_default();
            broker.publish(
                topic,
                PubsubMessage { data, attributes: attributes.collect(), ..PubsubMessage::default() },
            )
        };
        let ids: Vec<_> = sent["messages"].as_array().into_iter().flatten().map(publish).collect();
        return axum::Json(json!({"messageIds": ids})).into_response();
    }
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let token = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let names = ["accept", "content-type", "idempotency-key", "last-event-id"];
    let headers = names.into_iter().filter_map(|name| Some((name, text(name)?.to_owned()))).collect();
    let request = Invocation { method: head.method.as_str(), path, headers, body: body.to_vec() };
    let (status, text) = cloud_run.invoke(RequestOrigin::Internet, token, "burnin-gateway", request).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Runs a command to its end. Returns its output.
async fn run(what: &str, command: &mut Command) -> Result<String, Failed> {
    let output = tokio::time::timeout(TIMEOUT, command.kill_on_drop(true).output()).await;
    let output =
        output.map_err(|_| format!("{what}: timeout"))?.map_err(|error| format!("{what}: {error}"))?;
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    if output.status.success() { Ok(text) } else { Err(format!("{what}: {}: {text}", output.status)) }
}

/// Writes the workflows of the examples. The gateway reads all workflows once a minute, so they are written before it starts.
///
/// # Errors
/// Returns an error if docs/TRIGGERS.md has no trigger of a build.
pub fn prepare(rehearsal: &Rehearsal) -> Result<(), Failed> {
    let files = FixtureFiles::write(rehearsal)?;
    files.workflow(rehearsal, "nightly", FixtureImage::None, FixtureCluster::Correct, "");
    let on = PAGE.lines().find(|line| line.starts_with("on: {build:"));
    let on = on.ok_or("docs/TRIGGERS.md: no trigger of a build")?;
    files.workflow(rehearsal, "by-build", FixtureImage::None, FixtureCluster::Correct, on);
    let on = "on: {cluster: [{source: //acme/provisioning, system: slurm}]}";
    files.workflow(rehearsal, "by-offer", FixtureImage::None, FixtureCluster::Slurm, on);
    Ok(())
}

/// Executes each example whose program exists on this host.
///
/// # Errors
/// Returns an error if an example fails, or starts no run that passes.
pub async fn rehearse(rehearsal: &Rehearsal, programs: &Path) -> Result<Examples, Failed> {
    let ledger = outcomes::ledger(rehearsal)?;
    let before = ledger.runs().await.map_err(|error| error.to_string())?.len();
    let (trigger, image) = (value("trigger")?, value("image")?);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| error.to_string())?;
    let url = format!("http://{}", listener.local_addr().map_err(|error| error.to_string())?);
    let (cloud_run, broker, iam) =
        (Arc::clone(&rehearsal.cloud_run), Arc::clone(&rehearsal.broker), Arc::clone(&rehearsal.iam));
    let router = Router::new().fallback(move |request: Request| {
        let (cloud_run, broker, iam) = (Arc::clone(&cloud_run), Arc::clone(&broker), Arc::clone(&iam));
        async move { answer(&cloud_run, &broker, &iam, request).await }
    });
    let serving = tokio::spawn(async move { drop(axum::serve(listener, router).await) });

    // Configures the terminal of an operator.
    let folder = rehearsal.folder().join("terminal");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let token = folder.join("access-token");
    std::fs::write(&token, "token-of-the-requester").map_err(|error| error.to_string())?;
    let path = std::env::var("PATH").unwrap_or_default();
    let environment: BTreeMap<&str, String> = [
        ("PATH", format!("{}:{path}", programs.display())),
        ("HOME", folder.display().to_string()),
        ("BURNIN_TOKEN", GOOGLE.token(members::OPERATOR_EMAIL, GCLOUD).to_string()),
        ("CLOUDSDK_CONFIG", folder.join("gcloud").display().to_string()),
        ("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", token.display().to_string()),
        ("CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB", format!("{url}/")),
        ("CLOUDSDK_CORE_DISABLE_USAGE_REPORTING", "true".to_owned()),
        ("CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK", "true".to_owned()),
    ]
    .into();
    let command = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().envs(&environment).current_dir(&folder);
        command
    };

    let (mut executed, mut skipped) = (vec!["a Cloud Build trigger"], Vec::new());
    built(rehearsal, trigger, image)?;
    let cron = example("cron")?.replace("http://127.0.0.1:8080", &url);
    let cron = cron.replace("/var/lib/burnin", "data").replace("/var/log/burnin.log", "burnin.log");
    // The command follows the five schedule fields.
    let line = cron.split_whitespace().skip(5).collect::<Vec<_>>().join(" ");
    run("the cron example", &mut command("sh", &["-c", &line])).await?;
    executed.push("cron");
    if command("gcloud", &["--version"]).output().await.is_ok_and(|output| output.status.success()) {
        let line = example("sh")?.replace("PROJECT", PROJECT).replace("ce-id=ID", "ce-id=gcloud-1");
        run("the gcloud example", &mut command("sh", &["-c", &line])).await?;
        executed.push("gcloud");
        // The offer names a cluster of the rehearsal: the agent's name, its size, and the folder of the workflow's own cluster.
        let shared = rehearsal.folder().join("shared").display().to_string();
        let line = example("bash")?.replace("PROJECT", PROJECT).replace("ce-id=ID", "ce-id=offer-1");
        let line = line.replace("\"gpu-7\"", &format!("\"{OFFERED}\"")).replace("/shared/burnin", &shared);
        let line = line.replace("\"nodes\": 4", "\"nodes\": 2, \"ranks_per_node\": 8");
        run("the example of an offered cluster", &mut command("sh", &["-c", &line])).await?;
        executed.push("an offered cluster");
        let program =
            example("python")?.replace("PROJECT", PROJECT).replace("https://pubsub.googleapis.com", &url);
        run("the Python example", &mut command("python3", &["-c", &program])).await?;
        executed.push("Python");
        if command("go", &["version"]).output().await.is_ok_and(|output| output.status.success()) {
            let program =
                example("go")?.replace("PROJECT", PROJECT).replace("https://pubsub.googleapis.com", &url);
            std::fs::write(folder.join("example.go"), program).map_err(|error| error.to_string())?;
            run("the Go example", &mut command("go", &["run", "example.go"])).await?;
            executed.push("Go");
        } else {
            skipped.push("the example of Go, because go is missing");
        }
    } else {
        skipped.push("the examples of gcloud, an offered cluster, Python and Go, because gcloud is missing");
    }
    let count = before + executed.len();
    let states = wait_for(rehearsal, "the runs of the examples are closed", TIMEOUT, async || {
        outcomes::closed(rehearsal, &ledger, count).await
    })
    .await?;
    // Executes the other commands of the operator's terminal on the run that cron started.
    let by_cron = states.iter().find(|(state, _)| state.workflow.name == "nightly");
    let by_cron = by_cron.ok_or("cron started no run")?.0.run.to_string();
    for (arguments, expected) in [
        (&["runs"][..], by_cron.as_str()),
        (&["show", &by_cron], "PASS"),
        (&["explain", &by_cron], "closed: completed"),
        (&["logs", &by_cron], ".log"),
        (&["cancel", &by_cron], "has already ended"),
        (&["baseline", "pins"], "good"),
    ] {
        let arguments = [&["--server", &url], arguments].concat();
        let output =
            run(&format!("burnin {}", arguments.join(" ")), &mut command("burnin", &arguments)).await?;
        if !output.contains(expected) {
            return Err(format!("burnin {}: expected {expected:?}, found {output}", arguments.join(" ")));
        }
    }
    serving.abort();
    let runs: Vec<_> = states
        .iter()
        .filter(|(state, _)| ["nightly", "by-build", "by-offer"].contains(&state.workflow.name.as_str()))
        .collect();
    if states.len() != count || runs.len() != executed.len() {
        return Err(format!("{} examples started {} runs", executed.len(), runs.len()));
    }
    for (state, _) in runs {
        if state.verdict().map(|reached| reached.verdict) != Some(Verdict::Pass) {
            return Err(format!("{}: expected a pass, found {:?}", state.run, state.verdict()));
        }
        if state.workflow.name == "by-offer"
            && !matches!(&state.workflow.cluster, Some(ClusterSpec::Existing { name, .. }) if name == OFFERED)
        {
            return Err(format!(
                "{}: expected the offered cluster, found {:?}",
                state.run, state.workflow.cluster
            ));
        }
        let reference = format!("{image}@{DIGEST}");
        let prebuilt =
            matches!(&state.workflow.image, Some(ImageSpec::Prebuilt(image)) if image.reference == reference);
        if (state.workflow.name == "by-build") != prebuilt {
            return Err(format!("{}: unexpected image {:?}", state.run, state.workflow.image));
        }
    }
    Ok(Examples { executed, skipped })
}

/// Publishes the builds of a trigger, as Cloud Build's service agent: a failed build, which starts no run, and twice a
/// successful build.
fn built(rehearsal: &Rehearsal, trigger: &str, image: &str) -> Result<(), Failed> {
    let topic = format!("projects/{PROJECT}/topics/cloud-builds");
    let may = rehearsal.iam.check(
        AGENTS[1].0,
        permission("pubsub.projects.topics.publish"),
        &Resource::topic(&topic),
    );
    may.map_err(|denial| denial.to_string())?;
    for (id, status) in
        [("their-build-1", "FAILURE"), ("their-build-2", "SUCCESS"), ("their-build-2", "SUCCESS")]
    {
        let build = json!({
            "id": id, "projectId": PROJECT, "status": status, "buildTriggerId": "0f0f",
            "substitutions": {"TRIGGER_NAME": trigger}, "images": [format!("{image}:latest")],
            "results": {"images": [{"name": format!("{image}:latest"), "digest": DIGEST}]},
        });
        let attributes = [("buildId", id), ("status", status)];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let data = build.to_string().into();
        rehearsal.broker.publish(&topic, PubsubMessage { data, attributes, ..PubsubMessage::default() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::PAGE;
    use crate::fixtures::ON_PUSH;

    /// Each rehearsal sends a push to a workflow with this trigger.
    #[test]
    fn the_documented_push_trigger_is_the_rehearsed_trigger() {
        assert!(PAGE.lines().any(|line| line == ON_PUSH), "docs/TRIGGERS.md has no line {ON_PUSH}");
    }
}
