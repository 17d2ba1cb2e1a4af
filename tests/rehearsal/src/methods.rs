//! Permissions that each method of Google's services checks, and on which resource. `RULES` has the source of each rule.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::grants::Resource;

/// A rule of Google's services, with its source and the test that covers it.
pub struct RequestRule {
    /// Short name of the rule, for references.
    pub name: &'static str,
    pub rule: &'static str,
    /// Page of Google's documentation by title, issue, or public data set.
    pub source: &'static str,
    /// Test of this crate, of the stand-ins, or `rehearsal` for the run itself.
    pub test: &'static str,
}

const fn rule(
    name: &'static str,
    rule: &'static str,
    source: &'static str,
    test: &'static str,
) -> RequestRule {
    RequestRule { name, rule, source, test }
}

pub const RULES: [RequestRule; 28] = [
    rule(
        "additive",
        "a request is allowed if a grant on the resource or its project has the permission and its condition holds",
        "Understanding allow policies",
        "a_grant_counts_for_its_member_on_its_resource_and_below",
    ),
    rule(
        "condition",
        "a condition that reads a missing attribute is false",
        "Overview of IAM Conditions",
        "both_condition_forms_of_infra_are_evaluated_and_all_others_are_errors",
    ),
    rule(
        "roles",
        "roles have the permissions that Google's API returns",
        "darkbitio/gcp-iam-role-permissions, roles",
        "unknown_roles_permissions_conditions_and_kinds_are_errors",
    ),
    rule(
        "create",
        "`objects.insert` checks `storage.objects.create`; without the precondition generation 0 also `storage.objects.delete`",
        "IAM permissions for JSON methods",
        "storage_methods_check_the_documented_permission",
    ),
    rule(
        "taken",
        "no page states whether the permission to overwrite or the precondition is checked first: a create of an existing name is rehearsed with 412 and with 403",
        "none found",
        "rehearsal",
    ),
    rule(
        "list",
        "`objects.list` checks `storage.objects.list` on the bucket, where only the request's prefix identifies objects",
        "Attribute reference for IAM Conditions",
        "a_list_is_checked_on_the_bucket_with_its_prefix",
    ),
    rule(
        "absent",
        "a read of an absent object is 403 for callers that may not list the bucket",
        "issue bigquery-dlp-remote-function #70",
        "storage_methods_check_the_documented_permission",
    ),
    rule(
        "absent-prefix",
        "no page states whether a read or a removal of an absent object is 404 or 403 for callers that may list below a prefix only: both are rehearsed",
        "none found",
        "rehearsal",
    ),
    rule(
        "source",
        "no page states whether a load whose caller may not read its sources is refused with 403, or fails as a job with `accessDenied`: both are rehearsed, and each row is loaded once",
        "none found",
        "rehearsal",
    ),
    rule(
        "session",
        "the URL of a resumable upload needs no credentials",
        "Resumable uploads",
        "storage_methods_check_the_documented_permission",
    ),
    rule(
        "publish",
        "`topics.publish` checks `pubsub.topics.publish` on the topic",
        "iann0036/iam-dataset, gcp/map.json",
        "a_caller_without_the_permission_is_refused",
    ),
    rule(
        "pull",
        "pull and acknowledge check `pubsub.subscriptions.consume` on the subscription",
        "Access control with IAM (Pub/Sub)",
        "rehearsal",
    ),
    rule(
        "push",
        "a push carries a token that Pub/Sub's own account creates: `iam.serviceAccounts.getOpenIdToken` on the push account",
        "Authentication for push subscriptions",
        "rehearsal",
    ),
    rule(
        "dead-letters",
        "Pub/Sub's own account forwards dead letters with publish on their topic and consume on the source",
        "Dead-letter topics",
        "a_rejected_message_is_pushed_again_and_finally_forwarded_if_the_agent_has_permission",
    ),
    rule(
        "invoke",
        "Cloud Run checks `run.routes.invoke` on the service before the container: 401 without a valid token, 403 for an account without the permission",
        "Access control with IAM (Cloud Run)",
        "a_request_needs_a_valid_token_of_an_invoker",
    ),
    rule(
        "audience",
        "a token's audience is the URL of the service without a path; a user's token from `gcloud auth print-identity-token` has the audience of gcloud",
        "Authenticating service-to-service; Authenticate developers",
        "the_audience_is_the_url_of_the_service",
    ),
    rule(
        "signature",
        "a token is signed with RS256 by Google's key",
        "Authentication for push subscriptions",
        "a_token_is_valid_only_with_the_signature_of_google",
    ),
    rule(
        "claims",
        "a token has Google as its issuer, a verified address, and an expiry in the future",
        "Authentication for push subscriptions",
        "a_token_is_valid_only_from_google_until_its_expiry_with_a_verified_address",
    ),
    rule(
        "removed-signature",
        "the container receives the token with its signature replaced by `SIGNATURE_REMOVED_BY_GOOGLE`, so it cannot verify it",
        "Troubleshoot Cloud Run",
        "the_container_receives_the_claims_without_the_signature",
    ),
    rule(
        "ingress",
        "a service with internal ingress does not exist for callers other than Pub/Sub and Cloud Scheduler of its project; this is checked before the token",
        "Restrict network ingress for Cloud Run",
        "ingress_is_checked_before_the_token",
    ),
    rule(
        "schedule",
        "Cloud Scheduler's own account creates the token of a job's account",
        "Use authentication with HTTP targets",
        "rehearsal",
    ),
    rule(
        "builds",
        "builds check `cloudbuild.builds.create`, `get`, `list`, and `update` for a cancel, on the project",
        "iann0036/iam-dataset, gcp/map.json",
        "build_methods_check_the_project_and_the_account",
    ),
    rule(
        "acting",
        "a build with an account needs `iam.serviceAccounts.actAs` on it; without one, on the default account",
        "Configure user-specified service accounts",
        "build_methods_check_the_project_and_the_account",
    ),
    rule(
        "build-logs",
        "a build with an account names a bucket for its logs; it creates the log object. No page states whether it reads the bucket and rewrites the object: both are rehearsed",
        "Store and view build logs",
        "rehearsal",
    ),
    rule(
        "build-source",
        "a build reads its source and writes its artifacts as its account",
        "Configure user-specified service accounts",
        "rehearsal",
    ),
    rule(
        "jobs",
        "a job checks `bigquery.jobs.create` on the project, a load `bigquery.tables.updateData` and the caller's read of each source, a query `bigquery.tables.getData`; a caller's own jobs need no permission",
        "Method: jobs.insert; Loading data from Cloud Storage",
        "warehouse_methods_check_project_and_dataset",
    ),
    rule(
        "secrets",
        "a service reads the secrets of its environment with its own account when it starts",
        "Configure secrets for services",
        "rehearsal",
    ),
    rule(
        "build-secrets",
        "Cloud Build reads the secrets in `availableSecrets` with the build's account before the first step",
        "Use secrets from Secret Manager",
        "rehearsal",
    ),
];

/// A permission on a resource.
pub type Need = (&'static str, Resource);

/// Google's services with a REST surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoogleApi {
    /// Cloud Storage.
    Storage,
    CloudBuild,
    BigQuery,
}

/// A request whose API method, and so the required permission, is to be found.
pub struct Call<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Decoded path, split.
    pub path: Vec<String>,
    /// Query parameters.
    pub query: BTreeMap<String, String>,
    /// JSON body, or null.
    pub body: Value,
}

/// The account of builds that name none.
pub const DEFAULT_ACCOUNT: &str = "default-compute@developer.gserviceaccount.com";

/// Permissions that a request needs; `None` for unknown methods, which are refused.
pub fn needs(api: GoogleApi, call: &Call<'_>) -> Option<Vec<Need>> {
    match api {
        GoogleApi::Storage => storage(call),
        GoogleApi::CloudBuild => cloud_build(call),
        GoogleApi::BigQuery => bigquery(call),
    }
}

fn storage(call: &Call<'_>) -> Option<Vec<Need>> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    Some(match (call.method, &path[..]) {
        ("POST", ["upload", "storage", "v1", "b", bucket, "o"]) => {
            let object = Resource::object(bucket, call.query.get("name")?);
            let mut needs = vec![("storage.objects.create", object.clone())];
            if call.query.get("ifGenerationMatch").is_none_or(|generation| generation != "0") {
                needs.push(("storage.objects.delete", object));
            }
            needs
        }
        ("PUT" | "DELETE", ["upload", "storage", "v1", "b", _, "o"])
            if call.query.contains_key("upload_id") =>
        {
            Vec::new()
        }
        ("GET", ["storage", "v1", "b", bucket, "o"]) => {
            let prefix = call.query.get("prefix").map_or("", String::as_str);
            vec![("storage.objects.list", Resource::list(bucket, prefix))]
        }
        ("GET", ["storage", "v1", "b", bucket, "o", name]) => {
            vec![("storage.objects.get", Resource::object(bucket, name))]
        }
        ("DELETE", ["storage", "v1", "b", bucket, "o", name]) => {
            vec![("storage.objects.delete", Resource::object(bucket, name))]
        }
        _ => return None,
    })
}

fn cloud_build(call: &Call<'_>) -> Option<Vec<Need>> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    let ["v1", "projects", _, "locations", _, "builds", rest @ ..] = &path[..] else { return None };
    let permission = match (call.method, rest) {
        ("POST", []) => "cloudbuild.builds.create",
        ("GET", []) => "cloudbuild.builds.list",
        ("GET", [_]) => "cloudbuild.builds.get",
        ("POST", [id]) if id.ends_with(":cancel") => "cloudbuild.builds.update",
        _ => return None,
    };
    let mut needs = vec![(permission, Resource::project())];
    if permission == "cloudbuild.builds.create" {
        let account = call.body["serviceAccount"].as_str().unwrap_or(DEFAULT_ACCOUNT);
        needs.push(("iam.serviceAccounts.actAs", Resource::account(account)));
    }
    Some(needs)
}

fn bigquery(call: &Call<'_>) -> Option<Vec<Need>> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    let ["bigquery", "v2", "projects", _, rest @ ..] = &path[..] else { return None };
    let job = ("bigquery.jobs.create", Resource::project());
    Some(match (call.method, rest) {
        ("POST", ["jobs"]) => {
            let dataset = call.body["configuration"]["load"]["destinationTable"]["datasetId"].as_str()?;
            vec![job, ("bigquery.tables.updateData", Resource::dataset(dataset))]
        }
        ("POST", ["queries"]) => {
            // Statements name their tables as `project.dataset.table`.
            let statement = call.body["query"].as_str()?;
            let tables =
                statement.split('`').skip(1).step_by(2).filter(|table| table.split('.').count() == 3);
            let mut needs = vec![job];
            needs.extend(tables.map(|table| {
                let dataset = table.split('.').nth(1).unwrap_or_default();
                ("bigquery.tables.getData", Resource::dataset(dataset))
            }));
            // A statement without a recognized table would need no permission.
            (needs.len() > 1).then_some(needs)?
        }
        // Jobs of the same caller: each stand-in's address has one caller, and services read only their own jobs.
        ("GET", ["jobs" | "queries", _]) => Vec::new(),
        ("GET", ["datasets", dataset, "tables", _]) => {
            vec![("bigquery.tables.get", Resource::dataset(dataset))]
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(
        api: GoogleApi,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        body: Value,
    ) -> Option<Vec<String>> {
        let path = path.split('/').map(|part| part.replace('+', "/")).collect();
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let needs = needs(api, &Call { method, path, query, body })?;
        Some(needs.iter().map(|(permission, resource)| format!("{permission} {resource}")).collect())
    }

    #[test]
    fn storage_methods_check_the_documented_permission() {
        let needed = |method: &str, path: &str, query: &[(&str, &str)]| {
            asked(GoogleApi::Storage, method, path, query, Value::Null)
        };
        let object = "projects/_/buckets/b/objects/x/y";
        let insert = "upload/storage/v1/b/b/o";
        let (create, delete) =
            (format!("storage.objects.create {object}"), format!("storage.objects.delete {object}"));
        assert_eq!(
            needed("POST", insert, &[("name", "x/y"), ("ifGenerationMatch", "0")]),
            Some(vec![create.clone()])
        );
        assert_eq!(needed("POST", insert, &[("name", "x/y")]), Some(vec![create, delete.clone()]));
        assert_eq!(needed("PUT", insert, &[("upload_id", "1")]), Some(Vec::new()));
        assert_eq!(
            needed("GET", "storage/v1/b/b/o/x+y", &[("alt", "media")]),
            Some(vec![format!("storage.objects.get {object}")])
        );
        assert_eq!(needed("DELETE", "storage/v1/b/b/o/x+y", &[]), Some(vec![delete]));
        let list = needed("GET", "storage/v1/b/b/o", &[("prefix", "open/")]);
        assert_eq!(list, Some(vec!["storage.objects.list bucket b, list below `open/`".to_owned()]));
        for (method, path) in [
            ("GET", "storage/v1/b/b"),
            ("PATCH", "storage/v1/b/b/o/x"),
            ("POST", "storage/v1/b"),
            ("POST", insert),
        ] {
            assert_eq!(needed(method, path, &[]), None, "{method} {path}");
        }
    }

    #[test]
    fn build_methods_check_the_project_and_the_account() {
        let builds = "v1/projects/p/locations/l/builds";
        let needed =
            |method: &str, path: &str, body: Value| asked(GoogleApi::CloudBuild, method, path, &[], body);
        let named = json!({"serviceAccount": "projects/p/serviceAccounts/a@p"});
        let create = "cloudbuild.builds.create project".to_owned();
        let acts = |account: &str| format!("iam.serviceAccounts.actAs account {account}");
        assert_eq!(needed("POST", builds, named), Some(vec![create.clone(), acts("a@p")]));
        assert_eq!(needed("POST", builds, json!({})), Some(vec![create, acts(DEFAULT_ACCOUNT)]));
        assert_eq!(
            needed("GET", builds, Value::Null),
            Some(vec!["cloudbuild.builds.list project".to_owned()])
        );
        let one = |suffix: &str| format!("{builds}/1{suffix}");
        assert_eq!(
            needed("GET", &one(""), Value::Null),
            Some(vec!["cloudbuild.builds.get project".to_owned()])
        );
        assert_eq!(
            needed("POST", &one(":cancel"), Value::Null),
            Some(vec!["cloudbuild.builds.update project".to_owned()])
        );
        assert_eq!(needed("POST", &one(":retry"), Value::Null), None);
    }

    #[test]
    fn warehouse_methods_check_project_and_dataset() {
        let needed = |method: &str, path: &str, body: Value| {
            asked(GoogleApi::BigQuery, method, &format!("bigquery/v2/projects/p/{path}"), &[], body)
        };
        let job = "bigquery.jobs.create project".to_owned();
        let load = json!({"configuration": {"load": {"destinationTable": {"datasetId": "d"}}}});
        assert_eq!(
            needed("POST", "jobs", load),
            Some(vec![job.clone(), "bigquery.tables.updateData dataset d".to_owned()])
        );
        let query = json!({"query": "SELECT 1 FROM `p.d.t`"});
        assert_eq!(
            needed("POST", "queries", query),
            Some(vec![job, "bigquery.tables.getData dataset d".to_owned()])
        );
        assert_eq!(
            needed("GET", "datasets/d/tables/t", Value::Null),
            Some(vec!["bigquery.tables.get dataset d".to_owned()])
        );
        assert_eq!(needed("GET", "jobs/1", Value::Null), Some(Vec::new()));
        for (method, path, body) in [
            ("POST", "queries", json!({"query": "SELECT 1"})),
            ("POST", "jobs", json!({})),
            ("DELETE", "jobs/1", Value::Null),
        ] {
            assert_eq!(needed(method, path, body), None, "{method} {path}");
        }
    }
}
