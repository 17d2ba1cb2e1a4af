//! Properties of a cluster, read before a job is submitted.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};
use service::PortError;

use crate::{
    apiserver::{port_error, typed, with_timeout},
    objects::LocalQueue,
};

/// Nodes per response: a node's object takes up to 50 KiB, and a cluster may have thousands of nodes.
const PAGE: u32 = 100;

/// Whether the API serves this kind. Discovery is available to every authenticated user.
///
/// # Errors
/// Returns an error if the request fails or is not authorized.
pub async fn served(client: &Client, group_version: &str, plural: &str) -> Result<bool, PortError> {
    match with_timeout(client.list_api_group_resources(group_version)).await? {
        Ok(kinds) => Ok(kinds.resources.iter().any(|kind| kind.name == plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(port_error(&error, plural)),
    }
}

/// API group of Kueue.
pub const KUEUE: &str = "kueue.x-k8s.io";
/// Versions in which Kueue serves its kinds, newest first: v1beta2 from 0.15, v1beta1 before and until it is removed
/// (kubernetes-sigs/kueue v0.14.0, v0.15.0 and v0.16.0, `config/components/crd/bases`). The fields read here are the same in
/// both. v1alpha1 (until 0.13) had only the kind Topology, which Burnin does not read.
pub const KUEUE_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// The newest known version in which the API server serves Kueue; `None` without Kueue. Discovery is available to every
/// authenticated user.
///
/// # Errors
/// Returns an error if the request fails or is not authorized.
pub async fn kueue(client: &Client) -> Result<Option<&'static str>, PortError> {
    let groups =
        with_timeout(client.list_api_groups()).await?.map_err(|error| port_error(&error, "APIGroup"))?;
    let served = groups.groups.into_iter().find(|group| group.name == KUEUE).map(|group| group.versions);
    let served = served.unwrap_or_default();
    Ok(KUEUE_VERSIONS.into_iter().find(|known| served.iter().any(|served| served.version == *known)))
}

/// The current state of a LocalQueue of Kueue, in a served version.
///
/// # Errors
/// Returns an error if the request fails or is not permitted.
pub async fn queue(
    client: &Client,
    version: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<LocalQueue>, PortError> {
    let kind = resource(KUEUE, version, "LocalQueue", "localqueues");
    let queues: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    match with_timeout(queues.get_opt(name)).await? {
        Ok(found) => found.as_ref().map(typed).transpose(),
        Err(error) => Err(port_error(&error, "LocalQueue")),
    }
}

/// Calls `each` for every node. Returns `false` if the user has no permission to list nodes.
///
/// # Errors
/// Returns an error if the request fails.
pub async fn nodes(client: &Client, mut each: impl FnMut(&Node)) -> Result<bool, PortError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut from = None;
    loop {
        let page = ListParams { continue_token: from, ..ListParams::default().limit(PAGE) };
        let page = match with_timeout(nodes.list(&page)).await? {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(false),
            Err(error) => return Err(port_error(&error, "Node")),
        };
        for node in &page.items {
            each(node);
        }
        from = page.metadata.continue_.filter(|token| !token.is_empty());
        if from.is_none() {
            return Ok(true);
        }
    }
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let text = str::to_owned;
    ApiResource {
        group: text(group),
        version: text(version),
        api_version,
        kind: text(kind),
        plural: text(plural),
    }
}
