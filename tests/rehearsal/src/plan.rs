//! The parts of the Terraform plan that the rehearsal uses: services, subscriptions, periodic tasks, buckets, topics.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::Value;

use crate::grants::{Grants, address, text};

/// A Cloud Run service.
#[derive(Clone, Debug)]
pub struct PlannedService {
    /// Full name, `burnin-judge`.
    pub name: String,
    /// Service whose program is in the image.
    pub program: String,
    /// Email address of the service's account.
    pub account: String,
    /// URL of the service, also the audience of tokens.
    pub uri: String,
    /// Whether callers other than the project's own services reach the service.
    pub reachable: bool,
    /// Maximum number of concurrent requests of an instance.
    pub concurrency: usize,
    /// Maximum time of a request.
    pub timeout: Duration,
    /// Environment without secrets.
    pub environment: BTreeMap<String, String>,
    /// Secrets by variable.
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub struct PlannedSubscription {
    /// Full name, `projects/P/subscriptions/S`.
    pub id: String,
    pub topic: String,
    /// Attribute and value of the subscription's filter.
    pub filter: Option<(String, String)>,
    /// Endpoint, account and audience of pushes.
    pub push: Option<(String, String, String)>,
    /// Maximum number of deliveries, and the topic for messages that reach this number.
    pub dead_letters: Option<(u32, String)>,
    /// Maximum time until the acknowledgement of a delivery.
    pub deadline: Duration,
}

/// A job of Cloud Scheduler: URL, account and audience.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    /// URL that Cloud Scheduler requests.
    pub uri: String,
    /// Address of the account that signs the requests.
    pub account: String,
    pub audience: String,
}

/// A resource with a customer-managed key: the service agent that encrypts it, and the key.
pub type Encrypted = (String, &'static str, String);

#[derive(Clone, Debug)]
pub struct TerraformPlan {
    pub grants: Grants,
    /// Services by full name.
    pub services: BTreeMap<String, PlannedService>,
    pub subscriptions: Vec<PlannedSubscription>,
    /// All topics, by full name.
    pub topics: Vec<String>,
    pub tasks: Vec<PlannedTask>,
    pub buckets: Vec<String>,
    /// Retention of the buckets that have one, by name.
    pub retention: BTreeMap<String, Duration>,
    /// Resources with a customer-managed key, by address.
    pub encrypted: Vec<Encrypted>,
}

pub const PROJECT: &str = "my-project";

impl TerraformPlan {
    /// Reads the output of `terraform show -json`.
    ///
    /// # Errors
    /// Returns an error if the file or an expected argument is missing.
    pub fn read(path: &Path) -> Result<Self, String> {
        let message = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = std::fs::read(path).map_err(|error| message(&error))?;
        let plan: Value = serde_json::from_slice(&bytes).map_err(|error| message(&error))?;
        let resources = plan["planned_values"]["root_module"]["resources"].as_array();
        Self::of(resources.ok_or_else(|| message(&"no planned resources; run tests/terraform/plan.py"))?)
    }

    fn of(resources: &[Value]) -> Result<Self, String> {
        let of = |kind: &'static str| resources.iter().filter(move |resource| resource["type"] == kind);
        let names = |kind: &'static str, argument: &'static str| {
            of(kind)
                .map(|resource| text(resource, argument).map(str::to_owned))
                .collect::<Result<Vec<_>, _>>()
        };
        let services = of("google_cloud_run_v2_service").map(service).collect::<Result<Vec<_>, String>>()?;
        Ok(Self {
            grants: Grants::from_plan(resources)?,
            services: services.into_iter().map(|service| (service.name.clone(), service)).collect(),
            subscriptions: of("google_pubsub_subscription").map(subscription).collect::<Result<_, _>>()?,
            topics: names("google_pubsub_topic", "id")?,
            tasks: of("google_cloud_scheduler_job").map(task).collect::<Result<_, _>>()?,
            buckets: names("google_storage_bucket", "name")?,
            retention: of("google_storage_bucket").filter_map(retention).collect::<Result<_, _>>()?,
            encrypted: resources.iter().filter_map(encrypted).collect(),
        })
    }

    /// The service whose URL equals `url` or is a path prefix of `url`.
    pub fn service_at(&self, url: &str) -> Option<&PlannedService> {
        self.services
            .values()
            .find(|service| url == service.uri || url.starts_with(&format!("{}/", service.uri)))
    }

    /// The bucket of this purpose: `artefacts`, `ledger` or `build-logs`.
    pub fn bucket(&self, purpose: &str) -> String {
        self.buckets.iter().find(|name| name.ends_with(&format!("-{purpose}"))).cloned().unwrap_or_default()
    }
}

fn service(resource: &Value) -> Result<PlannedService, String> {
    let template = &resource["values"]["template"][0];
    let container = &template["containers"][0];
    let (mut environment, mut secrets) = (BTreeMap::new(), BTreeMap::new());
    for variable in container["env"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let name = variable["name"].as_str().unwrap_or_default().to_owned();
        match (&variable["value"], &variable["value_source"][0]["secret_key_ref"][0]["secret"]) {
            (_, Value::String(secret)) => drop(secrets.insert(name, secret.clone())),
            (Value::String(value), _) => drop(environment.insert(name, value.clone())),
            _ => return Err(format!("{}: {name} has no value in the plan", address(resource))),
        }
    }
    let missing = |what: &str| format!("{}: no {what} in the plan", address(resource));
    let account = template["service_account"].as_str().ok_or_else(|| missing("service account"))?;
    let image = container["image"].as_str().ok_or_else(|| missing("image"))?;
    let program = image.rsplit('/').next().and_then(|image| image.split('@').next()).unwrap_or_default();
    Ok(PlannedService {
        name: text(resource, "name")?.to_owned(),
        program: program.to_owned(),
        account: account.to_owned(),
        uri: text(resource, "uri")?.to_owned(),
        reachable: text(resource, "ingress")? == "INGRESS_TRAFFIC_ALL",
        concurrency: template["max_instance_request_concurrency"]
            .as_u64()
            .and_then(|maximum| usize::try_from(maximum).ok())
            .ok_or_else(|| missing("maximum of concurrent requests"))?,
        timeout: template["timeout"]
            .as_str()
            .and_then(|text| text.strip_suffix('s')?.parse().ok())
            .map(Duration::from_secs)
            .ok_or_else(|| missing("request timeout in seconds"))?,
        environment,
        secrets,
    })
}

/// Default deadline of a subscription, seconds (reference of `Subscription.ackDeadlineSeconds`).
const DEFAULT_DEADLINE: u64 = 10;

fn subscription(resource: &Value) -> Result<PlannedSubscription, String> {
    let (values, push) = (&resource["values"], &resource["values"]["push_config"][0]);
    let token = &push["oidc_token"][0];
    let push = match (&push["push_endpoint"], &token["service_account_email"], &token["audience"]) {
        (Value::String(endpoint), Value::String(account), Value::String(audience)) => {
            Some((endpoint.clone(), account.clone(), audience.clone()))
        }
        (Value::Null, ..) => None,
        _ => return Err(format!("{}: a push without an account or audience", address(resource))),
    };
    Ok(PlannedSubscription {
        id: text(resource, "id")?.to_owned(),
        topic: text(resource, "topic")?.to_owned(),
        filter: values["filter"].as_str().map(filter).transpose()?,
        push,
        dead_letters: dead_letters(&values["dead_letter_policy"][0]),
        deadline: Duration::from_secs(values["ack_deadline_seconds"].as_u64().unwrap_or(DEFAULT_DEADLINE)),
    })
}

fn dead_letters(policy: &Value) -> Option<(u32, String)> {
    let deliveries = policy["max_delivery_attempts"].as_u64().and_then(|count| u32::try_from(count).ok())?;
    Some((deliveries, policy["dead_letter_topic"].as_str()?.to_owned()))
}

/// A filter on one attribute: `attributes.cluster = "c"`, `attributes."ce-type" = "t"`.
fn filter(text: &str) -> Result<(String, String), String> {
    let parts = text.strip_prefix("attributes.").and_then(|rest| rest.split_once(" = "));
    let (name, value) =
        parts.ok_or_else(|| format!("filter `{text}`: expected attributes.NAME = \"VALUE\""))?;
    Ok((name.trim_matches('"').to_owned(), value.trim_matches('"').to_owned()))
}

fn task(resource: &Value) -> Result<PlannedTask, String> {
    let target = &resource["values"]["http_target"][0];
    let of = |value: &Value, what: &str| {
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("{}: no {what} in the plan", address(resource)))
    };
    let token = &target["oidc_token"][0];
    Ok(PlannedTask {
        uri: of(&target["uri"], "uri")?,
        account: of(&token["service_account_email"], "account")?,
        audience: of(&token["audience"], "audience")?,
    })
}

/// Name and retention period of a bucket; `None` if it has no retention policy.
fn retention(bucket: &Value) -> Option<Result<(String, Duration), String>> {
    let policy = bucket["values"]["retention_policy"][0].as_object()?;
    let seconds = policy.get("retention_period").and_then(Value::as_u64);
    let missing = || format!("{}: no retention period in seconds in the plan", address(bucket));
    let named = |seconds| Ok((text(bucket, "name")?.to_owned(), Duration::from_secs(seconds)));
    Some(seconds.ok_or_else(missing).and_then(named))
}

/// The key of a resource and the service agent that encrypts it (each service's page "Use customer-managed encryption keys").
fn encrypted(resource: &Value) -> Option<Encrypted> {
    let values = &resource["values"];
    let (agent, key) = match resource["type"].as_str()? {
        "google_storage_bucket" => ("gs-project-accounts", &values["encryption"][0]["default_kms_key_name"]),
        "google_pubsub_topic" => ("gcp-sa-pubsub", &values["kms_key_name"]),
        "google_bigquery_dataset" => {
            ("bigquery-encryption", &values["default_encryption_configuration"][0]["kms_key_name"])
        }
        "google_artifact_registry_repository" => ("gcp-sa-artifactregistry", &values["kms_key_name"]),
        _ => return None,
    };
    Some((address(resource).to_owned(), agent, key.as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_name_one_attribute() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(filter("attributes.cluster = \"c-1\""), pair("cluster", "c-1"));
        assert_eq!(filter("attributes.\"ce-type\" = \"t.v1\""), pair("ce-type", "t.v1"));
        assert!(filter("hasPrefix(attributes.x, \"y\")").is_err());
    }
}
