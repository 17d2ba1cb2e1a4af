//! Permissions that an agent needs in its namespace.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};
use service::PortError;

use crate::apiserver::{port_error, with_timeout};

/// Group, resource with an optional subresource after a slash, and verbs.
pub type Right = (&'static str, &'static str, &'static [&'static str]);

/// Permissions for any job.
pub const JOBS: [Right; 8] = [
    ("jobset.x-k8s.io", "jobsets", &["create", "delete", "get", "list"]),
    ("batch", "jobs", &["list"]),
    ("", "pods", &["get", "list", "watch"]),
    ("", "pods/log", &["get"]),
    ("", "events", &["list"]),
    ("", "secrets", &["create", "get"]),
    ("", "services", &["get"]),
    ("", "persistentvolumeclaims", &["list"]),
];

/// Additional permissions for jobs in a queue.
pub const QUEUES: [Right; 2] =
    [("kueue.x-k8s.io", "workloads", &["list"]), ("kueue.x-k8s.io", "localqueues", &["get"])];

/// The missing permissions of the current user, as `VERB RESOURCE`. Every user may query this.
///
/// # Errors
/// Returns an error if the request fails or is not authorized.
pub async fn missing(client: &Client, namespace: &str, rights: &[Right]) -> Result<Vec<String>, PortError> {
    let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
    let mut missing = Vec::new();
    for (group, path, verbs) in rights {
        let (resource, below) = path.split_once('/').map_or((*path, None), |(of, below)| (of, Some(below)));
        for verb in *verbs {
            let attributes = ResourceAttributes {
                group: Some((*group).to_owned()),
                resource: Some(resource.to_owned()),
                subresource: below.map(str::to_owned),
                verb: Some((*verb).to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                non_resource_attributes: None,
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            match with_timeout(reviews.create(&PostParams::default(), &review)).await? {
                Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
                Ok(_) => missing.push(format!("{verb} {path}")),
                Err(error) => return Err(port_error(&error, "SelfSubjectAccessReview")),
            }
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_grants_exactly_the_needed_permissions() {
        let role = include_str!("../../../../workflows/a4-gke-testbed/rbac.yaml");
        let role = role.split("\n---\n").find(|part| part.contains("kind: Role\n")).unwrap();
        let given: Vec<_> =
            role.lines().filter_map(|line| line.trim().strip_prefix("- {apiGroups: ")).collect();
        for (group, resource, verbs) in JOBS.iter().chain(&QUEUES) {
            let group = if group.is_empty() { "\"\"" } else { group };
            let line = format!("[{group}], resources: [{resource}], verbs: [{}]}}", verbs.join(", "));
            assert!(given.contains(&line.as_str()), "{line} is not in {given:#?}");
        }
        assert_eq!(given.len(), JOBS.len() + QUEUES.len());
    }
}
