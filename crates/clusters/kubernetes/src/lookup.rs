//! Properties of a cluster, read before a job is submitted.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
};
use serde_json::Value;
use service::PortError;

use crate::apiserver::{limited, trouble, value};

/// Nodes per response: a node's object takes up to 50 KiB, and there may be thousands.
const PAGE: u32 = 100;

/// Whether the API serves this kind. Discovery is available to every authenticated user.
///
/// # Errors
/// Returns an error if the request fails or is not authorized.
pub async fn served(client: &Client, group_version: &str, plural: &str) -> Result<bool, PortError> {
    match limited(client.list_api_group_resources(group_version)).await? {
        Ok(kinds) => Ok(kinds.resources.iter().any(|kind| kind.name == plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(trouble(&error, plural)),
    }
}

/// The current state of a LocalQueue of Kueue.
///
/// # Errors
/// Returns an error if the request fails or is not permitted.
pub async fn queue(client: &Client, namespace: &str, name: &str) -> Result<Option<Value>, PortError> {
    let kind = resource("kueue.x-k8s.io", "v1beta1", "LocalQueue", "localqueues");
    let queues: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    match limited(queues.get_opt(name)).await? {
        Ok(found) => found.map(|found| value(&found)).transpose(),
        Err(error) => Err(trouble(&error, "LocalQueue")),
    }
}

/// Calls `each` for every node. Returns `false` if nodes may not be listed.
///
/// # Errors
/// Returns an error if the request fails.
pub async fn nodes(client: &Client, mut each: impl FnMut(&Value)) -> Result<bool, PortError> {
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Node", "nodes"));
    let mut from = None;
    loop {
        let page = ListParams { continue_token: from, ..ListParams::default().limit(PAGE) };
        let page = match limited(nodes.list(&page)).await? {
            Ok(page) => page,
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(false),
            Err(error) => return Err(trouble(&error, "Node")),
        };
        for node in &page.items {
            each(&value(node)?);
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
