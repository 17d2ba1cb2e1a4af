//! Taking a node out of service.

use kit::PortError;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::json;
use terms::{Class, Failure};

use crate::{limited, look::resource, trouble};

/// Why a node was taken out, on the node.
const DRAINED: &str = "burnin.dev/drained";

/// Cordons a node, with the reason as its annotation: what runs on it may end, nothing begins. Done twice it is done once.
///
/// # Errors
/// [`PortError::Final`] when it is cordoned for another reason, is not there, or may not be cordoned.
pub async fn drain(client: &Client, node: &str, reason: &str) -> Result<(), PortError> {
    let left = |why: String| PortError::Final(Failure::new(Class::Input, "NOT_DRAINED", why));
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Node", "nodes"));
    let refused = |error: &kube::Error| match error {
        kube::Error::Api(status) if status.code == 403 => left(format!(
            "it may not be cordoned with the access that is named, which needs the cluster roles burnin-nodes and burnin-drain of \
             workflows/a4-gke-testbed/rbac.yaml: {}",
            status.message
        )),
        error => trouble(error, "Node"),
    };
    // By a list: one node alone may be looked at by nobody who may not look at them all.
    let which = ListParams::default().fields(&format!("metadata.name={node}"));
    let found = limited(nodes.list(&which)).await?.map_err(|error| refused(&error))?;
    let Some(found) = found.items.into_iter().next() else {
        return Err(left(format!("there is no node {node}")));
    };
    if found.data["spec"]["unschedulable"] == true {
        let because = found.metadata.annotations.as_ref().and_then(|all| all.get(DRAINED));
        return match because.map(String::as_str) {
            Some(because) if because == reason => Ok(()),
            Some(because) => Err(left(format!("out of service already: {because}"))),
            None => Err(left("cordoned already, by somebody who gave no reason".to_owned())),
        };
    }
    // Nobody else has changed it since: otherwise this is a conflict, and it is looked at again.
    let patch = json!({
        "metadata": {"resourceVersion": found.metadata.resource_version, "annotations": {DRAINED: reason}},
        "spec": {"unschedulable": true},
    });
    let patched = limited(nodes.patch(node, &PatchParams::default(), &Patch::Merge(&patch))).await?;
    patched.map(drop).map_err(|error| refused(&error))
}
