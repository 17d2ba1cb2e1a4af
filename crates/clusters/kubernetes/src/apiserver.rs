//! Requests to the API of a Kubernetes cluster, and the meaning of its errors.

use std::time::Duration;

use kube::api::DynamicObject;
use model::{Class, Failure};
use serde::de::DeserializeOwned;
use service::{PortError, chain};

/// The label with a node's name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Timeout of a request.
const LIMIT: Duration = Duration::from_secs(30);

/// Parses the fields of an object that Burnin uses.
///
/// # Errors
/// Returns an error if the type of a field differs from the API's definition.
pub fn typed<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, PortError> {
    let value = serde_json::to_value(object).map_err(PortError::transient)?;
    serde_json::from_value(value).map_err(PortError::transient)
}

/// Applies the timeout to a request.
///
/// # Errors
/// Returns an error if the API does not respond within 30 s.
pub async fn with_timeout<T>(request: impl Future<Output = T>) -> Result<T, PortError> {
    let late =
        |_| PortError::Transient(format!("the cluster's API has not responded for {} s", LIMIT.as_secs()));
    tokio::time::timeout(LIMIT, request).await.map_err(late)
}

/// Classifies an error: most are transient; rejections by a rule are permanent.
pub fn port_error(error: &kube::Error, kind: &str) -> PortError {
    let kube::Error::Api(status) = error else { return PortError::Transient(chain(error)) };
    let refused = |class, code: &str| {
        PortError::Permanent(Failure::new(
            class,
            code,
            format!("{kind}: the cluster's API reports: {}", status.message),
        ))
    };
    match status.code {
        401 => refused(Class::Input, "UNAUTHENTICATED"),
        403 if status.message.contains("exceeded quota") => refused(Class::Infrastructure, "QUOTA"),
        403 if status.message.contains("is being terminated") => refused(Class::ClusterLost, "CLUSTER_GONE"),
        403 => refused(Class::Input, "PERMISSION_DENIED"),
        404 => refused(Class::Input, "NOT_FOUND"),
        400 | 422 => refused(Class::Input, "REFUSED"),
        _ => PortError::Transient(format!("{kind}: {}", status.message)),
    }
}
