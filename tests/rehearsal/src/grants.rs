//! The grants of a plan, and the check of a request against them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::condition::{Attributes, GrantCondition};

#[derive(Clone, Debug)]
pub struct Grant {
    /// Address of the grant in the plan.
    pub address: String,
    /// The resource whose policy contains the grant, as in [`Resource`].
    pub on: String,
    pub role: String,
    pub member: String,
    /// `None`: the grant is unconditional.
    pub condition: Option<GrantCondition>,
}

/// A resource that a request accesses.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The resource and its parents that have policies: `bucket B`, then `project`.
    pub policies: Vec<String>,
    pub attributes: Attributes,
}

impl Resource {
    fn of(kind: &str, name: &str) -> Self {
        // Names are compared without their project: all resources are in one project.
        let short = name.rsplit('/').next().unwrap_or(name);
        Self {
            policies: vec![format!("{kind} {short}"), "project".to_owned()],
            attributes: Attributes::default(),
        }
    }

    /// A resource for which the rehearsal has no rule.
    pub fn unknown(what: &str) -> Self {
        Self { policies: vec![what.to_owned()], attributes: Attributes::default() }
    }

    pub fn project() -> Self {
        Self { policies: vec!["project".to_owned()], attributes: Attributes::default() }
    }

    pub fn object(bucket: &str, name: &str) -> Self {
        let name = Some(format!("projects/_/buckets/{bucket}/objects/{name}"));
        Self { attributes: Attributes { name, list_prefix: None }, ..Self::of("bucket", bucket) }
    }

    /// The objects of a bucket below a prefix, as one list.
    pub fn list(bucket: &str, prefix: &str) -> Self {
        let name = Some(format!("projects/_/buckets/{bucket}"));
        Self {
            attributes: Attributes { name, list_prefix: Some(prefix.to_owned()) },
            ..Self::of("bucket", bucket)
        }
    }

    /// A topic, by its full or short name.
    pub fn topic(name: &str) -> Self {
        Self::of("topic", name)
    }

    pub fn subscription(name: &str) -> Self {
        Self::of("subscription", name)
    }

    /// A Cloud Run service.
    pub fn service(name: &str) -> Self {
        Self::of("service", name)
    }

    /// A service account, by its address.
    pub fn account(email: &str) -> Self {
        Self::of("account", email)
    }

    /// A dataset of BigQuery. Tables have no policies, so requests for a table are checked on its dataset.
    pub fn dataset(name: &str) -> Self {
        Self::of("dataset", name)
    }

    pub fn secret(name: &str) -> Self {
        Self::of("secret", name)
    }

    /// A key for encryption.
    pub fn key(name: &str) -> Self {
        Self::of("key", name)
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.attributes.name, &self.attributes.list_prefix) {
            (_, Some(prefix)) => write!(f, "{}, list below `{prefix}`", self.policies[0]),
            (Some(name), None) => f.write_str(name),
            (None, None) => f.write_str(&self.policies[0]),
        }
    }
}

/// Argument of each resource type of grants that names the resource, and the kind of resource.
const KINDS: [(&str, &str, &str); 9] = [
    ("google_project_iam_member", "project", "project"),
    ("google_storage_bucket_iam_member", "bucket", "bucket"),
    ("google_pubsub_topic_iam_member", "topic", "topic"),
    ("google_pubsub_subscription_iam_member", "subscription", "subscription"),
    ("google_cloud_run_v2_service_iam_member", "name", "service"),
    ("google_service_account_iam_member", "service_account_id", "account"),
    ("google_bigquery_dataset_iam_member", "dataset_id", "dataset"),
    ("google_secret_manager_secret_iam_member", "secret_id", "secret"),
    ("google_kms_crypto_key_iam_member", "crypto_key_id", "key"),
];

/// Permissions of roles.
#[derive(Clone, Debug, Deserialize)]
pub struct Roles {
    checked: BTreeSet<String>,
    roles: BTreeMap<String, BTreeSet<String>>,
}

impl Roles {
    /// The predefined roles of `roles.json`.
    ///
    /// # Errors
    /// Returns an error if the file is invalid.
    pub fn predefined() -> Result<Self, String> {
        serde_json::from_str(include_str!("../roles.json")).map_err(|error| format!("roles.json: {error}"))
    }
}

#[derive(Clone, Debug)]
pub struct Grants {
    /// Grants in the order of the plan.
    pub all: Vec<Grant>,
    roles: Roles,
}

impl Grants {
    /// Reads every grant of the plan.
    ///
    /// # Errors
    /// Returns an error if a kind of grant, a role or a condition is unknown.
    pub fn from_plan(resources: &[Value]) -> Result<Self, String> {
        let mut roles = Roles::predefined()?;
        for role in resources.iter().filter(|resource| resource["type"] == "google_project_iam_custom_role") {
            let name = text(role, "name")?;
            let permissions = role["values"]["permissions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let permissions = permissions.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            roles.roles.insert(name.to_owned(), permissions);
        }
        let mut all = Vec::new();
        for resource in resources {
            let kind = resource["type"].as_str().unwrap_or_default();
            let Some((_, argument, on)) = KINDS.iter().find(|(known, ..)| *known == kind) else {
                if kind.contains("_iam_") && kind != "google_project_iam_custom_role" {
                    return Err(format!(
                        "{}: {kind} is not supported; extend tests/rehearsal/src/grants.rs",
                        resource["address"]
                    ));
                }
                continue;
            };
            let name = text(resource, argument)?;
            let on = match *on {
                "project" => "project".to_owned(),
                on => format!("{on} {}", name.rsplit('/').next().unwrap_or(name)),
            };
            let role = text(resource, "role")?.to_owned();
            if !roles.roles.contains_key(&role) {
                return Err(format!(
                    "{role} is not in tests/rehearsal/roles.json; add its name and run roles.py"
                ));
            }
            let condition = resource["values"]["condition"][0]["expression"].as_str();
            let condition = condition.map(GrantCondition::parse).transpose()?;
            let member = text(resource, "member")?.to_owned();
            all.push(Grant { address: address(resource).to_owned(), on, role, member, condition });
        }
        Ok(Self { all, roles })
    }

    /// Replaces the grants, and keeps the roles.
    pub fn with(&self, all: Vec<Grant>) -> Self {
        Self { all, roles: self.roles.clone() }
    }

    /// The grants that allow a request; empty if it is denied.
    ///
    /// # Errors
    /// Returns an error if the permission's roles are unknown: then no result would be reliable.
    pub fn allowing(
        &self,
        member: &str,
        permission: &str,
        resource: &Resource,
    ) -> Result<Vec<&Grant>, String> {
        let custom = self
            .roles
            .roles
            .iter()
            .any(|(role, of)| role.starts_with("projects/") && of.contains(permission));
        if !self.roles.checked.contains(permission) && !custom {
            return Err(format!(
                "{permission} is not in `checked` of tests/rehearsal/roles.json; add it and run roles.py"
            ));
        }
        let allows = |grant: &&Grant| {
            (grant.member == member || grant.member == "allUsers")
                && resource.policies.contains(&grant.on)
                && self.roles.roles.get(&grant.role).is_some_and(|role| role.contains(permission))
                && grant.condition.as_ref().is_none_or(|condition| condition.holds(&resource.attributes))
        };
        Ok(self.all.iter().filter(allows).collect())
    }

    /// All grants except the grant with this address.
    #[must_use]
    pub fn without(&self, address: &str) -> Self {
        let all = self.all.iter().filter(|grant| grant.address != address).cloned().collect();
        Self { all, roles: self.roles.clone() }
    }
}

pub fn address(resource: &Value) -> &str {
    resource["address"].as_str().unwrap_or_default()
}

/// A text argument of a resource of the plan.
///
/// # Errors
/// Returns an error if it is absent or not known before the apply.
pub fn text<'a>(resource: &'a Value, argument: &str) -> Result<&'a str, String> {
    let found = resource["values"][argument].as_str();
    found.ok_or_else(|| format!("{}: {argument} is not known in the plan", address(resource)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grant(kind: &str, of: Value) -> Value {
        json!({"address": format!("{kind}.a"), "type": kind, "values": of})
    }

    fn allowed(grants: &[Value], permission: &str, resource: &Resource) -> bool {
        let grants = Grants::from_plan(grants).unwrap();
        !grants.allowing("serviceAccount:a", permission, resource).unwrap().is_empty()
    }

    #[test]
    fn a_grant_applies_to_its_member_on_its_resource_and_its_child_resources() {
        let on_bucket =
            json!({"bucket": "b", "role": "roles/storage.objectViewer", "member": "serviceAccount:a"});
        let bucket = grant("google_storage_bucket_iam_member", on_bucket.clone());
        assert!(allowed(std::slice::from_ref(&bucket), "storage.objects.get", &Resource::object("b", "o")));
        assert!(!allowed(
            std::slice::from_ref(&bucket),
            "storage.objects.create",
            &Resource::object("b", "o")
        ));
        assert!(!allowed(std::slice::from_ref(&bucket), "storage.objects.get", &Resource::object("c", "o")));
        let mut other = bucket;
        other["values"]["member"] = "serviceAccount:b".into();
        assert!(!allowed(&[other], "storage.objects.get", &Resource::object("b", "o")));
        let project =
            json!({"project": "p", "role": "roles/storage.objectViewer", "member": "serviceAccount:a"});
        assert!(allowed(
            &[grant("google_project_iam_member", project)],
            "storage.objects.get",
            &Resource::object("c", "o")
        ));
    }

    #[test]
    fn a_list_is_checked_on_the_bucket_with_its_prefix() {
        let names = "resource.name.startsWith(\"projects/_/buckets/b/objects/open/\")";
        let prefix =
            "api.getAttribute(\"storage.googleapis.com/objectListPrefix\", \"\").startsWith(\"open/\")";
        let with = |expression: String| {
            let of = json!({"bucket": "b", "role": "roles/storage.objectViewer", "member": "serviceAccount:a", "condition": [{"expression": expression}]});
            [grant("google_storage_bucket_iam_member", of)]
        };
        let (object, list) = (Resource::object("b", "open/run"), Resource::list("b", "open/"));
        assert!(allowed(&with(names.to_owned()), "storage.objects.get", &object));
        assert!(!allowed(&with(names.to_owned()), "storage.objects.list", &list));
        assert!(allowed(&with(format!("{names} || {prefix}")), "storage.objects.list", &list));
        assert!(!allowed(
            &with(format!("{names} || {prefix}")),
            "storage.objects.list",
            &Resource::list("b", "")
        ));
    }

    #[test]
    fn unknown_roles_permissions_and_kinds_are_errors() {
        let role = json!({"bucket": "b", "role": "roles/storage.legacy", "member": "m"});
        assert!(Grants::from_plan(&[grant("google_storage_bucket_iam_member", role)]).is_err());
        assert!(Grants::from_plan(&[grant("google_project_iam_binding", json!({}))]).is_err());
        let grants = Grants::from_plan(&[]).unwrap();
        assert!(grants.allowing("m", "compute.instances.reset", &Resource::project()).is_err());
    }

    #[test]
    fn public_grants_apply_to_every_caller() {
        let of = json!({"name": "hooks", "role": "roles/run.invoker", "member": "allUsers"});
        assert!(allowed(
            &[grant("google_cloud_run_v2_service_iam_member", of)],
            "run.routes.invoke",
            &Resource::service("hooks")
        ));
    }
}
