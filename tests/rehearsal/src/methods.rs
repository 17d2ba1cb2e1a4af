//! Permissions that each method of Google's services checks, and on which resource. Permissions come from `methods.json`; `RULES` has the
//! source of each other rule.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

use crate::grants::Resource;

/// A rule of Google's services, with its source and the test that covers it.
pub struct RequestRule {
    /// Short name of the rule, for references.
    pub name: &'static str,
    pub rule: &'static str,
    /// Page of Google's documentation by title, issue, or public data set.
    pub source: &'static str,
    /// Test of this crate, of the stand-ins or of their clients, or `rehearsal` for the run itself.
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

pub const RULES: [RequestRule; 43] = [
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
        "the_condition_forms_of_infra_are_evaluated_and_all_others_are_errors",
    ),
    rule(
        "roles",
        "roles have the permissions that Google's API returns",
        "darkbitio/gcp-iam-role-permissions, roles",
        "unknown_roles_permissions_and_kinds_are_errors",
    ),
    rule(
        "create",
        "`objects.insert` checks `storage.objects.create`; without the precondition generation 0 also `storage.objects.delete`",
        "IAM permissions for JSON methods",
        "storage_methods_check_the_documented_permission",
    ),
    rule(
        "projection",
        "methods of Cloud Storage check a `getIamPolicy` permission only for the projection `full`, which no service requests",
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
        "rehearsal",
    ),
    rule(
        "absent-prefix",
        "no page states whether a read or a removal of an absent object is 404 or 403 for callers that may list below a prefix only: both are rehearsed",
        "none found",
        "rehearsal",
    ),
    rule(
        "retention",
        "an object younger than its bucket's retention cannot be removed: 403",
        "Bucket Lock",
        "permanent_failures_are_returned_without_retries",
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
        "methods.json",
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
        "methods.json",
        "build_methods_check_the_project_and_the_account",
    ),
    rule(
        "substitutions",
        "each substitution of a build is used, and each used one is given, unless the build is `ALLOW_LOOSE`. No page states whether a variable of `automapSubstitutions` counts as used: here it does not, which demands more",
        "GoogleCloudPlatform/cloud-build-local, validate/validate.go",
        "unused_and_missing_substitutions_are_refused",
    ),
    rule(
        "listing",
        "a list of builds may omit a new build, for a time that no page states",
        "none found",
        "no_second_build_is_created_while_the_outcome_is_unknown",
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
        "keys",
        "resources with a customer's key are encrypted and decrypted by their service's agent, never by the caller",
        "Use customer-managed encryption keys (of each service)",
        "rehearsal",
    ),
    rule(
        "instances",
        "a service whose instances all have their maximum of requests answers 429",
        "Maximum instances for services; Troubleshoot Cloud Run",
        "a_request_beyond_the_maximum_of_the_instances_is_refused",
    ),
    rule(
        "build-secrets",
        "Cloud Build reads the secrets in `availableSecrets` with the build's account before the first step",
        "Use secrets from Secret Manager",
        "rehearsal",
    ),
    rule(
        "names",
        "an object's name has 1 to 1,024 bytes and no line break, and is neither `.` nor `..`: otherwise 400",
        "About Cloud Storage objects",
        "an_object_with_an_invalid_name_is_refused",
    ),
    rule(
        "pages",
        "a page of a list may be empty and have a token",
        "Objects: list",
        "more_names_than_fit_a_page_are_listed",
    ),
    rule(
        "rate",
        "writes of one name within a second are refused with 429, also if the name is taken",
        "Quotas & limits (Cloud Storage)",
        "a_rate_limited_name_is_read_back",
    ),
    rule(
        "message-limits",
        "a message has data or an attribute, at most 10 MB and 100 attributes, keys of at most 256 bytes and values of at most 1,024",
        "Quotas and limits (Pub/Sub)",
        "a_message_beyond_the_limits_is_refused",
    ),
    rule(
        "build-limits",
        "a build has at most 300 steps and 200 substitutions, keys of at most 100 bytes, values of at most 4,000 bytes and a timeout of at most 24 h; its log bucket contains no substitution",
        "Quotas and limits (Cloud Build); GoogleCloudPlatform/cloud-build-local, validate/validate.go and issue #114",
        "a_build_beyond_the_limits_is_refused",
    ),
    rule(
        "job-ids",
        "a job id can be used once in a project and location, whatever the outcome of the job",
        "Jobs overview; JobReference",
        "an_id_can_be_used_once_regardless_of_its_jobs_result",
    ),
    rule(
        "loads",
        "a load appends all rows or none; unknown and missing fields, values of another type, absent sources and the quota of a table end it with a reason",
        "Error messages (BigQuery); Loading JSON data; Quotas and limits (BigQuery)",
        "a_load_appends_all_rows_or_none_with_a_reason",
    ),
    rule(
        "processor",
        "a container may have no processor between requests: the rehearsal runs with and without polls of builds and clusters between them",
        "Billing settings for services (request-based billing)",
        "rehearsal",
    ),
    rule(
        "reserved",
        "`/healthz` of a service is not reachable from the Internet: Google's front end answers 404",
        "Known issues in Cloud Run (reserved URL paths)",
        "the_health_check_is_not_reachable_from_the_internet",
    ),
];

/// A permission on a resource.
pub type Need = (&'static str, Resource);

/// The file of permissions.
#[derive(Deserialize)]
struct MethodData {
    /// Permissions by method, from a public data set.
    methods: BTreeMap<String, Vec<String>>,
    /// Requests that the data set lacks.
    pages: BTreeMap<String, DocumentedRequest>,
}

#[derive(Deserialize)]
struct DocumentedRequest {
    permissions: Vec<String>,
    /// Google's page that states them.
    #[cfg_attr(not(test), expect(dead_code, reason = "only a test reads it"))]
    page: String,
}

static DATA: LazyLock<MethodData> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../methods.json")).expect("tests/rehearsal/methods.json is valid")
});

/// Permissions that a method checks, or a request that Google's pages describe.
///
/// # Panics
/// Panics if `methods.json` does not have the method.
pub fn permissions(method: &str) -> Vec<&'static str> {
    let data: &'static MethodData = &DATA;
    let documented = || data.pages.get(method).map(|page| &page.permissions);
    let Some(found) = data.methods.get(method).or_else(documented) else {
        panic!("{method} is not in tests/rehearsal/methods.json; add it and run methods.py")
    };
    // Rule `projection`: only the projection `full` checks `getIamPolicy`, and no service requests it.
    let with_policy =
        |permission: &&str| method.starts_with("storage.") && permission.ends_with(".getIamPolicy");
    found.iter().map(String::as_str).filter(|permission| !with_policy(permission)).collect()
}

/// The only permission that a method checks.
///
/// # Panics
/// Panics if `methods.json` does not have the method, or lists several permissions for it.
pub fn permission(method: &str) -> &'static str {
    let all = permissions(method);
    let [only] = all[..] else { panic!("{method} checks several permissions: {all:?}") };
    only
}

/// The permission that an insert needs only to replace an object, by the rule `create`.
pub fn permission_to_overwrite() -> &'static str {
    permission("storage.objects.delete")
}

/// The permission that each insert needs.
///
/// # Panics
/// Panics if `methods.json` lists further permissions for an insert.
pub fn permission_to_create() -> &'static str {
    let all = permissions("storage.objects.insert");
    let [create] = all.iter().filter(|of| **of != permission_to_overwrite()).collect::<Vec<_>>()[..] else {
        panic!("storage.objects.insert checks {all:?}")
    };
    create
}

/// Google's services with a REST surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoogleApi {
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
    let of = |method: &str, resource: Resource| vec![(permission(method), resource)];
    Some(match (call.method, &path[..]) {
        ("POST", ["upload", "storage", "v1", "b", bucket, "o"]) => {
            let object = Resource::object(bucket, call.query.get("name")?);
            let mut needs = vec![(permission_to_create(), object.clone())];
            if call.query.get("ifGenerationMatch").is_none_or(|generation| generation != "0") {
                needs.push((permission_to_overwrite(), object));
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
            of("storage.objects.list", Resource::list(bucket, prefix))
        }
        ("GET", ["storage", "v1", "b", bucket, "o", name]) => {
            of("storage.objects.get", Resource::object(bucket, name))
        }
        ("DELETE", ["storage", "v1", "b", bucket, "o", name]) => {
            of("storage.objects.delete", Resource::object(bucket, name))
        }
        _ => return None,
    })
}

fn cloud_build(call: &Call<'_>) -> Option<Vec<Need>> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    let ["v1", "projects", _, "locations", _, "builds", rest @ ..] = &path[..] else { return None };
    let method = match (call.method, rest) {
        ("POST", []) => {
            let account = call.body["serviceAccount"].as_str().unwrap_or(DEFAULT_ACCOUNT);
            return Some(vec![
                (permission("cloudbuild.projects.locations.builds.create"), Resource::project()),
                (permission("act-as"), Resource::account(account)),
            ]);
        }
        ("GET", []) => "cloudbuild.projects.locations.builds.list",
        ("GET", [_]) => "cloudbuild.projects.locations.builds.get",
        // The data set lacks the regional form of this method.
        ("POST", [id]) if id.ends_with(":cancel") => "cloudbuild.projects.builds.cancel",
        _ => return None,
    };
    Some(vec![(permission(method), Resource::project())])
}

fn bigquery(call: &Call<'_>) -> Option<Vec<Need>> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    let ["bigquery", "v2", "projects", _, rest @ ..] = &path[..] else { return None };
    Some(match (call.method, rest) {
        ("POST", ["jobs"]) => {
            let dataset = call.body["configuration"]["load"]["destinationTable"]["datasetId"].as_str()?;
            // An export needs its permission only in jobs that extract a table.
            let mut job = permissions("bigquery.jobs.insert");
            job.retain(|permission| *permission != "bigquery.tables.export");
            let mut needs: Vec<_> =
                job.into_iter().map(|permission| (permission, Resource::project())).collect();
            needs.push((permission("load-destination"), Resource::dataset(dataset)));
            needs
        }
        ("POST", ["queries"]) => {
            // Statements name their tables as `project.dataset.table`.
            let statement = call.body["query"].as_str()?;
            let tables =
                statement.split('`').skip(1).step_by(2).filter(|table| table.split('.').count() == 3);
            let mut needs = vec![(permission("bigquery.jobs.query"), Resource::project())];
            needs.extend(tables.map(|table| {
                let dataset = table.split('.').nth(1).unwrap_or_default();
                (permission("query-table"), Resource::dataset(dataset))
            }));
            // A statement without a recognized table would need no permission.
            (needs.len() > 1).then_some(needs)?
        }
        // Jobs of the same caller: each stand-in's address has one caller, and services read only their own jobs.
        ("GET", ["jobs" | "queries", _]) => Vec::new(),
        ("GET", ["datasets", dataset, "tables", _]) => {
            vec![(permission("bigquery.tables.get"), Resource::dataset(dataset))]
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
    fn each_method_of_the_data_is_used_and_each_page_named() {
        let sources = [
            include_str!("boundaries.rs"),
            include_str!("build_rights.rs"),
            include_str!("declared.rs"),
            include_str!("deployment.rs"),
            include_str!("front.rs"),
            include_str!("methods.rs"),
            include_str!("requests.rs"),
            include_str!("scenario.rs"),
        ];
        for method in DATA.methods.keys().chain(DATA.pages.keys()) {
            // Methods on keys are built from their last part.
            let text = if method.starts_with("cloudkms.") {
                method.rsplit('.').next().unwrap_or(method)
            } else {
                method
            };
            assert!(sources.iter().any(|source| source.contains(&format!("\"{text}\""))), "{method}");
        }
        for (request, DocumentedRequest { page, permissions }) in &DATA.pages {
            assert!(!page.is_empty() && !permissions.is_empty(), "{request}");
            assert!(!DATA.methods.contains_key(request), "{request} is in the data set");
        }
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
