//! The API of a Kubernetes cluster: how it is reached, and what its errors mean.

mod client;
mod look;
pub mod rights;

use std::time::Duration;

use model::{Class, Failure};
use serde::Serialize;
use serde_json::Value;
use service::{PortError, chain};

pub use client::client;
pub use look::{nodes, queue, served};

/// The label by which a node is named.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// A request that takes longer got lost.
const LIMIT: Duration = Duration::from_secs(30);

/// An object as plain JSON.
///
/// # Errors
/// Only for maps whose keys are no strings.
pub fn value<K: Serialize>(object: &K) -> Result<Value, PortError> {
    serde_json::to_value(object).map_err(PortError::passing)
}

/// What a request says, if it says anything in time.
///
/// # Errors
/// When the API has not answered for half a minute.
pub async fn limited<T>(request: impl Future<Output = T>) -> Result<T, PortError> {
    let late =
        |_| PortError::Passing(format!("the cluster's API has not answered for {} s", LIMIT.as_secs()));
    tokio::time::timeout(LIMIT, request).await.map_err(late)
}

/// What an error means for the job: most may pass; what the API refuses by rule will be refused again.
pub fn trouble(error: &kube::Error, kind: &str) -> PortError {
    let kube::Error::Api(status) = error else { return PortError::Passing(chain(error)) };
    let refused = |class, code: &str| {
        PortError::Final(Failure::new(
            class,
            code,
            format!("{kind}: the cluster's API says: {}", status.message),
        ))
    };
    match status.code {
        401 => refused(Class::Input, "UNAUTHENTICATED"),
        403 if status.message.contains("exceeded quota") => refused(Class::Infrastructure, "QUOTA"),
        403 if status.message.contains("is being terminated") => refused(Class::ClusterLost, "CLUSTER_GONE"),
        403 => refused(Class::Input, "PERMISSION_DENIED"),
        404 => refused(Class::Input, "NOT_FOUND"),
        400 | 422 => refused(Class::Input, "REFUSED"),
        _ => PortError::Passing(format!("{kind}: {}", status.message)),
    }
}
