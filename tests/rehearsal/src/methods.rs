//! Permissions that each method of Google's services checks, with the checked resource. Permissions come from `methods.json`; `rules` has
//! the
//! source of each other rule.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

use crate::grants::Resource;

/// A permission on a resource.
pub type RequiredPermission = (&'static str, Resource);

#[derive(Deserialize)]
struct MethodData {
    /// Permissions by method, from a public data set.
    methods: BTreeMap<String, Vec<String>>,
    /// Requests that the data set lacks, from Google's pages.
    pages: BTreeMap<String, DocumentedRequest>,
}

#[derive(Deserialize)]
struct DocumentedRequest {
    permissions: Vec<String>,
    /// Google's page that states the permissions.
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

/// A request; its API method determines the required permission.
pub struct Call<'a> {
    pub method: &'a str,
    /// Decoded path, split.
    pub path: Vec<String>,
    pub query: BTreeMap<String, String>,
    /// JSON body, or null.
    pub body: Value,
    /// Whether the request names a job of another caller.
    pub is_of_another: bool,
}

/// Account of builds that specify no account.
pub const DEFAULT_ACCOUNT: &str = "default-compute@developer.gserviceaccount.com";

/// Permissions that a request needs; `None` for unknown methods, which are refused.
pub fn needs(api: GoogleApi, call: &Call<'_>) -> Option<Vec<RequiredPermission>> {
    match api {
        GoogleApi::Storage => storage(call),
        GoogleApi::CloudBuild => cloud_build(call),
        GoogleApi::BigQuery => bigquery(call),
    }
}

fn storage(call: &Call<'_>) -> Option<Vec<RequiredPermission>> {
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

fn cloud_build(call: &Call<'_>) -> Option<Vec<RequiredPermission>> {
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    let ["v1", "projects", _, "locations", _, "builds", rest @ ..] = &path[..] else { return None };
    let method = match (call.method, rest) {
        ("POST", []) => {
            let account = call.body["serviceAccount"].as_str().unwrap_or(DEFAULT_ACCOUNT);
            let mut needs = vec![
                (permission("cloudbuild.projects.locations.builds.create"), Resource::project()),
                (permission("act-as"), Resource::account(account)),
            ];
            // The role of Cloud Build's agent contains this permission; no page states that the agent is checked instead of the caller.
            let options = &call.body["options"];
            if options["pool"]["name"].is_string() || options["workerPool"].is_string() {
                needs.push((permission("worker-pool"), Resource::project()));
            }
            return Some(needs);
        }
        ("GET", []) => "cloudbuild.projects.locations.builds.list",
        ("GET", [_]) => "cloudbuild.projects.locations.builds.get",
        // The data set lacks the regional form of this method.
        ("POST", [id]) if id.ends_with(":cancel") => "cloudbuild.projects.builds.cancel",
        _ => return None,
    };
    Some(vec![(permission(method), Resource::project())])
}

fn bigquery(call: &Call<'_>) -> Option<Vec<RequiredPermission>> {
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
        ("GET", ["jobs" | "queries", _]) if call.is_of_another => {
            vec![(permission("bigquery.jobs.get"), Resource::project())]
        }
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

    fn needed_permissions(
        api: GoogleApi,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        body: Value,
    ) -> Option<Vec<String>> {
        let path = path.split('/').map(|part| part.replace('+', "/")).collect();
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let needs = needs(api, &Call { method, path, query, body, is_of_another: false })?;
        Some(needs.iter().map(|(permission, resource)| format!("{permission} {resource}")).collect())
    }

    #[test]
    fn each_method_of_the_permission_data_is_used_and_each_request_has_a_page() {
        let sources = [
            include_str!("boundaries.rs"),
            include_str!("build_rights.rs"),
            include_str!("declared.rs"),
            include_str!("deployment.rs"),
            include_str!("cloud_run.rs"),
            include_str!("methods.rs"),
            include_str!("requests.rs"),
            include_str!("scenario.rs"),
        ];
        for method in DATA.methods.keys().chain(DATA.pages.keys()) {
            // The code builds the names of `cloudkms.` methods from their last part.
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
            needed_permissions(GoogleApi::Storage, method, path, query, Value::Null)
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
        let needed = |method: &str, path: &str, body: Value| {
            needed_permissions(GoogleApi::CloudBuild, method, path, &[], body)
        };
        let named = json!({"serviceAccount": "projects/p/serviceAccounts/a@p"});
        let create = "cloudbuild.builds.create project".to_owned();
        let acts = |account: &str| format!("iam.serviceAccounts.actAs account {account}");
        assert_eq!(needed("POST", builds, named), Some(vec![create.clone(), acts("a@p")]));
        assert_eq!(needed("POST", builds, json!({})), Some(vec![create.clone(), acts(DEFAULT_ACCOUNT)]));
        for options in [json!({"pool": {"name": "w"}}), json!({"workerPool": "w"})] {
            let pool = "cloudbuild.workerpools.use project".to_owned();
            let expected = Some(vec![create.clone(), acts(DEFAULT_ACCOUNT), pool]);
            assert_eq!(needed("POST", builds, json!({"options": options})), expected);
        }
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
            needed_permissions(
                GoogleApi::BigQuery,
                method,
                &format!("bigquery/v2/projects/p/{path}"),
                &[],
                body,
            )
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
        let path = "bigquery/v2/projects/p/queries/1".split('/').map(str::to_owned).collect();
        let (method, query, body) = ("GET", BTreeMap::new(), Value::Null);
        let needs =
            needs(GoogleApi::BigQuery, &Call { method, path, query, body, is_of_another: true }).unwrap();
        assert_eq!((needs.len(), needs[0].0), (1, "bigquery.jobs.get"));
        for (method, path, body) in [
            ("POST", "queries", json!({"query": "SELECT 1"})),
            ("POST", "jobs", json!({})),
            ("DELETE", "jobs/1", Value::Null),
        ] {
            assert_eq!(needed(method, path, body), None, "{method} {path}");
        }
    }
}
