//! Validates build requests and advances builds.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{BuildsState, CloudBuildState, substitutions};

/// Fields that a request may set; all others are set by Cloud Build or unknown.
const BUILD: [&str; 14] = [
    "artifacts",
    "availableSecrets",
    "images",
    "logsBucket",
    "options",
    "queueTtl",
    "secrets",
    "serviceAccount",
    "source",
    "steps",
    "substitutions",
    "tags",
    "timeout",
    "dependencies",
];
const STEP: [&str; 15] = [
    "name",
    "env",
    "args",
    "dir",
    "id",
    "waitFor",
    "entrypoint",
    "secretEnv",
    "volumes",
    "timeout",
    "allowFailure",
    "allowExitCodes",
    "script",
    "automapSubstitutions",
    "results",
];
const OPTIONS: [&str; 19] = [
    "sourceProvenanceHash",
    "requestedVerifyOption",
    "machineType",
    "diskSizeGb",
    "substitutionOption",
    "dynamicSubstitutions",
    "automapSubstitutions",
    "logStreamingOption",
    "workerPool",
    "pool",
    "logging",
    "env",
    "secretEnv",
    "volumes",
    "defaultLogsBucketBehavior",
    "enableStructuredLogging",
    "workerRelease",
    "pubsubTopic",
    "resolvedWorkerRelease",
];

/// Processors of a build in the default pool, by the name or the number of its machine type (Cloud Build's reference of `MachineType`).
pub(crate) fn processors(build: &Value) -> u64 {
    let machine = &build["options"]["machineType"];
    match (machine.as_str(), machine.as_u64()) {
        (Some("N1_HIGHCPU_8" | "E2_HIGHCPU_8"), _) | (_, Some(1 | 5)) => 8,
        (Some("N1_HIGHCPU_32" | "E2_HIGHCPU_32"), _) | (_, Some(2 | 6)) => 32,
        _ => 1,
    }
}

pub(crate) fn is_final(status: &str) -> bool {
    !matches!(status, "STATUS_UNKNOWN" | "PENDING" | "QUEUED" | "WORKING")
}

/// Reason to reject a build.
pub(crate) fn refused(build: &Value) -> Option<String> {
    let unknown = |value: &Value, known: &[&str]| -> Option<String> {
        let fields = value.as_object().into_iter().flat_map(Map::keys);
        fields
            .into_iter()
            .find(|field| !known.contains(&field.as_str()))
            .map(|field| format!("unknown name \"{field}\""))
    };
    if let Some(why) = unknown(build, &BUILD).or_else(|| unknown(&build["options"], &OPTIONS)) {
        return Some(why);
    }
    let steps = build["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    if steps.is_empty() {
        return Some("invalid build: at least one step is required".to_owned());
    }
    for step in steps {
        if let Some(why) = unknown(step, &STEP) {
            return Some(why);
        }
        if step["name"].as_str().is_none_or(str::is_empty) {
            return Some("invalid build: a step without a name".to_owned());
        }
    }
    let refused = refused_size(build).or_else(|| refused_account(build));
    if let Some(why) = refused.or_else(|| substitutions::refused(build)) {
        return Some(why);
    }
    let storage = &build["source"]["storageSource"];
    let object = storage["object"].as_str();
    if object.is_some_and(|object| !object.ends_with(".tar.gz") && !object.ends_with(".zip")) {
        return Some("invalid source: neither .zip nor .tar.gz".to_owned());
    }
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let legal = |tag: &str| {
        tag.len() <= 128 && tag.starts_with(letter) && tag.chars().all(|c| letter(c) || c == '.' || c == '-')
    };
    let tags = build["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    let illegal = tags.iter().find(|tag| !tag.as_str().is_some_and(legal));
    illegal
        .map(|tag| format!("invalid build: tag {tag} is not valid"))
        .or((tags.len() > 64).then(|| format!("invalid build: {} tags exceed the maximum of 64", tags.len())))
}

/// Limits of Cloud Build's page "Quotas and limits", and of validate/validate.go in GoogleCloudPlatform/cloud-build-local.
fn refused_size(build: &Value) -> Option<String> {
    const STEPS: usize = 300;
    const SUBSTITUTIONS: usize = 200;
    const KEY: usize = 100;
    const VALUE: usize = 4000;
    const TIMEOUT: f64 = 86_400.0;
    let steps = build["steps"].as_array().map_or(0, Vec::len);
    if steps > STEPS {
        return Some(format!("invalid build: {steps} steps exceed the maximum of {STEPS}"));
    }
    let substitutions = build["substitutions"].as_object();
    let count = substitutions.map_or(0, Map::len);
    if count > SUBSTITUTIONS {
        return Some(format!("number of substitutions {count} exceeds the maximum of {SUBSTITUTIONS}"));
    }
    for (key, value) in substitutions.into_iter().flatten() {
        let length = value.as_str().map_or(0, str::len);
        if key.len() > KEY || (length > VALUE && !substitutions::CONTROLS.contains(&key.as_str())) {
            return Some(format!("substitution \"{key}\" of {length} bytes is too long"));
        }
    }
    let timeout = build["timeout"].as_str().and_then(|text| text.strip_suffix('s')?.parse::<f64>().ok());
    if timeout.is_some_and(|timeout| timeout > TIMEOUT) {
        return Some("invalid build: the timeout exceeds 24 h".to_owned());
    }
    // No substitution is replaced in this field (GoogleCloudPlatform/cloud-build-local#114).
    let bucket = build["logsBucket"].as_str().unwrap_or_default();
    bucket.contains('$').then(|| format!("invalid logs bucket {bucket}"))
}

/// Rules for a build with a service account (Cloud Build's pages "Configure user-specified service accounts" and "Store and view
/// build logs"; the text of the second is quoted in cert-manager/cert-manager#8851).
fn refused_account(build: &Value) -> Option<String> {
    let account = build["serviceAccount"].as_str().filter(|account| !account.is_empty())?;
    if !account.starts_with("projects/") || !account.contains("/serviceAccounts/") {
        return Some(format!("invalid build: service account {account}"));
    }
    // CLOUD_LOGGING_ONLY and NONE, each by its name and by the API's number.
    let logging = &build["options"]["logging"];
    let without_bucket = [json!("CLOUD_LOGGING_ONLY"), json!(5), json!("NONE"), json!(4)].contains(logging);
    let has = |value: &Value| {
        value.as_str().is_some_and(|text| !text.is_empty()) || value.as_u64().is_some_and(|number| number > 0)
    };
    let logs =
        has(&build["logsBucket"]) || has(&build["options"]["defaultLogsBucketBehavior"]) || without_bucket;
    (!logs).then(|| "if 'build.service_account' is specified, the build must either (a) specify 'build.logs_bucket' (b) use \
        the REGIONAL_USER_OWNED_BUCKET build.options.default_logs_bucket_behavior option, or (c) use either \
        CLOUD_LOGGING_ONLY / NONE logging options".to_owned())
}

impl BuildsState {
    /// Adds a build in a location; returns its index.
    pub(crate) fn add(&mut self, project: &str, location: &str, mut build: Value) -> usize {
        let id = uuid::Uuid::new_v4().to_string();
        let number = self.builds.len();
        build["name"] = format!("projects/{project}/locations/{location}/builds/{id}").into();
        build["logUrl"] = format!("https://console.example/builds/{id}").into();
        build["id"] = id.into();
        build["projectId"] = project.into();
        build["status"] = "QUEUED".into();
        build["createTime"] =
            format!("2026-11-19T20:{:02}:{:02}.120344Z", number / 60 % 60, number % 60).into();
        self.builds.push(build);
        self.notify(number);
        number
    }

    /// Whether the default pool has enough free processors for another build.
    fn has_room(&self, build: &Value) -> bool {
        let working = self.builds.iter().filter(|build| build["status"] == "WORKING");
        self.processors.is_none_or(|all| working.map(processors).sum::<u64>() + processors(build) <= all)
    }

    /// Publishes a build's status to the topic.
    pub(crate) fn notify(&mut self, at: usize) {
        let build = &self.builds[at];
        let number = self.notifications.len();
        let push = json!({
            "message": {
                "attributes": {"buildId": build["id"], "status": build["status"]},
                "data": STANDARD.encode(build.to_string()),
                "messageId": number.to_string(), "message_id": number.to_string(),
                "publishTime": "2026-11-19T21:03:19Z", "publish_time": "2026-11-19T21:03:19Z",
            },
            "subscription": "projects/p/subscriptions/cloud-builds--builder",
        });
        if let Some(url) = self.push_to.clone() {
            let request = reqwest::Client::new().post(url).json(&push).send();
            tokio::spawn(async move { drop(request.await) });
        }
        self.notifications.push(push);
    }
}

/// On drop, marks a build as no longer advancing, even if the request was cancelled.
struct AdvancesUntilDropped<'a> {
    state: &'a CloudBuildState,
    at: usize,
}

impl Drop for AdvancesUntilDropped<'_> {
    fn drop(&mut self) {
        self.state.lock().advancing.remove(&self.at);
    }
}

impl CloudBuildState {
    /// The build's current state; each read advances it.
    pub(crate) async fn read_and_advance(&self, at: usize) -> Value {
        let (shown, next) = {
            let mut state = self.lock();
            let build = state.builds[at].clone();
            let ends = build["substitutions"]["_ENDS"].as_str().unwrap_or("SUCCESS");
            let next = match build["status"].as_str() {
                _ if state.frozen => None,
                Some("QUEUED") if !state.has_room(&build) => None,
                Some("QUEUED") => Some("WORKING".to_owned()),
                Some("WORKING") if ends != "never" => Some(ends.to_owned()),
                _ => None,
            };
            // Only one of two simultaneous reads advances the build.
            (build, next.filter(|_| state.advancing.insert(at)))
        };
        let Some(next) = next else { return shown };
        let _advancing = AdvancesUntilDropped { state: self, at };
        let (next, left, detail) = if is_final(&next) {
            match self.write_results(&shown, &next).await {
                Ok((left, detail)) => (next, left, detail),
                Err(why) => ("FAILURE".to_owned(), None, Some(why)),
            }
        } else {
            let rights = self.lock().rights.clone();
            match rights.map_or(Ok(()), |rights| rights.begin(&shown)) {
                Ok(()) => (next, None, None),
                Err(why) => ("FAILURE".to_owned(), None, Some(why)),
            }
        };
        let mut state = self.lock();
        // The build may have been cancelled in the meantime.
        if state.builds[at]["status"] == shown["status"] {
            state.builds[at]["status"] = next.into();
            if let Some(results) = left {
                state.builds[at]["results"] = results;
            }
            if let Some(detail) = detail {
                state.builds[at]["failureInfo"] = json!({"type": "USER_BUILD_STEP", "detail": detail});
            }
            state.notify(at);
        }
        shown
    }

    /// Writes the results of a build that ends with this status.
    async fn write_results(
        &self,
        build: &Value,
        status: &str,
    ) -> Result<(Option<Value>, Option<String>), String> {
        let id = build["id"].as_str().unwrap_or_default();
        let logs = build["logsBucket"].as_str().unwrap_or_default();
        let log = format!("starting build \"{id}\"\nthis is the last line\n");
        self.write(build, &format!("{logs}/log-{id}.txt"), log.as_bytes()).await?;
        if status != "SUCCESS" {
            return Ok((None, Some(format!("the build ended with status {status}"))));
        }
        let rights = self.lock().rights.clone();
        rights.map_or(Ok(()), |rights| rights.end(build))?;
        let digest = |text: &str| format!("sha256:{}", hex::encode(Sha256::digest(text.as_bytes())));
        let images = build["images"].as_array().map(Vec::as_slice).unwrap_or_default();
        let images: Vec<_> = images.iter().map(|name| json!({"name": name, "digest": digest(id)})).collect();
        let mut results = json!({"images": images});
        let objects = &build["artifacts"]["objects"];
        if let (Some(place), Some(paths)) = (objects["location"].as_str(), objects["paths"].as_array()) {
            let mut lines = String::new();
            let substitution = |name: &str| build["substitutions"][name].as_str().map(str::to_owned);
            for path in paths.iter().filter_map(Value::as_str) {
                let file = path.rsplit('/').next().unwrap_or(path);
                let object = format!("{place}{file}");
                let own = format!("_LEAVES_{}", file.split('.').next().unwrap_or(file).to_ascii_uppercase());
                let content = substitution("_LEAVES").or_else(|| substitution(&own));
                let content = content.unwrap_or_else(|| format!("the content of {path}"));
                self.write(build, &object, content.as_bytes()).await?;
                lines += &format!("{}\n", json!({"location": format!("{object}#1"), "file_hash": []}));
            }
            let manifest = format!("{place}artifacts-{id}.json");
            self.write(build, &manifest, lines.as_bytes()).await?;
            results["artifactManifest"] = manifest.into();
            results["numArtifacts"] = paths.len().to_string().into();
        }
        Ok((Some(results), None))
    }

    async fn write(&self, build: &Value, place: &str, bytes: &[u8]) -> Result<(), String> {
        let Some((bucket, object)) = place.strip_prefix("gs://").and_then(|rest| rest.split_once('/')) else {
            return Ok(());
        };
        let rights = self.lock().rights.clone();
        if let Some(rights) = rights {
            return rights.write(build, bucket, object, bytes);
        }
        let other = self.lock().log_buckets.get(bucket).cloned();
        let own = (bucket == self.bucket).then(|| Arc::clone(&self.store));
        if let Some(store) = other.or(own) {
            drop(store.create(object, bytes.to_vec().into()).await);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_beyond_the_limits_is_refused() {
        let with = |field: &str, value: Value| {
            let mut build =
                json!({"steps": [{"name": "bash"}], "options": {"substitutionOption": "ALLOW_LOOSE"}});
            build[field] = value;
            refused(&build)
        };
        let many = |count: usize| -> Map<String, Value> {
            (0..count).map(|number| (format!("_{number}"), json!("1"))).collect()
        };
        for (field, allowed, too_much) in [
            ("steps", json!(vec![json!({"name": "bash"}); 300]), json!(vec![json!({"name": "bash"}); 301])),
            ("substitutions", json!({"_A": "a".repeat(4000)}), json!({"_A": "a".repeat(4001)})),
            ("substitutions", json!({"_".repeat(100): "1"}), json!({"_".repeat(101): "1"})),
            ("substitutions", Value::Object(many(200)), Value::Object(many(201))),
            ("timeout", json!("86400s"), json!("86401s")),
            ("logsBucket", json!("gs://logs"), json!("gs://${PROJECT_ID}-logs")),
        ] {
            assert_eq!(with(field, allowed), None, "{field}");
            assert!(with(field, too_much).is_some(), "{field}");
        }
    }
}
