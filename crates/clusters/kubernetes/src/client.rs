//! Credentials for a cluster's API, fetched on this host and never stored.

use std::time::Duration;

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use model::{Class, Failure};
use serde_json::json;
use service::{PortError, chain};

use crate::ApiAccess;

/// A client for the API.
///
/// # Errors
/// Returns an error if this host has no credentials for the API; its code is `CREDENTIALS`.
pub async fn client(access: &ApiAccess) -> Result<Client, PortError> {
    let unreadable = |field: &str, why: String| {
        PortError::Permanent(Failure::new(Class::Input, "CREDENTIALS", format!("{field}: {why}")))
    };
    let config = match access {
        ApiAccess::Kubeconfig { path, context } => {
            let field = path.as_deref().unwrap_or("kubeconfig");
            let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            let read = match path {
                Some(path) => Kubeconfig::read_from(path),
                None => Kubeconfig::read(),
            };
            let read = read.map_err(|error| unreadable(field, chain(&error)))?;
            Config::from_custom_kubeconfig(read, &options)
                .await
                .map_err(|error| unreadable(field, chain(&error)))?
        }
        ApiAccess::InCluster => {
            Config::incluster().map_err(|error| unreadable("access.in_cluster", chain(&error)))?
        }
        ApiAccess::Gke { server, certificate_authority } => {
            let written = gke(server, certificate_authority).map_err(PortError::transient)?;
            let made = Config::from_custom_kubeconfig(written, &KubeConfigOptions::default()).await;
            made.map_err(|error| unreadable("access.gke", chain(&error)))?
        }
    };
    // No default retries: the caller decides for each request whether to retry it.
    let mut config = config;
    (config.connect_timeout, config.default_retry) = (Some(Duration::from_secs(10)), false);
    Client::try_from(config).map_err(|error| unreadable("access", chain(&error)))
}

/// The kubeconfig that `gcloud container clusters get-credentials` would write.
fn gke(server: &str, certificate_authority: &str) -> Result<Kubeconfig, serde_json::Error> {
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "gke-gcloud-auth-plugin",
                      "interactiveMode": "Never", "provideClusterInfo": true});
    let mut cluster = json!({"server": server});
    if !certificate_authority.is_empty() {
        cluster["certificate-authority-data"] = certificate_authority.into();
    }
    serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gke",
        "clusters": [{"name": "gke", "cluster": cluster}],
        "users": [{"name": "gke", "user": {"exec": exec}}],
        "contexts": [{"name": "gke", "context": {"cluster": "gke", "user": "gke"}}],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_gke_kubeconfig_uses_the_plugin_and_stores_no_credentials() {
        let config = gke("https://203.0.113.7", "QUJD").unwrap();
        let user = config.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.exec.as_ref().unwrap().command.as_deref(), Some("gke-gcloud-auth-plugin"));
        assert!(user.token.is_none() && user.client_key_data.is_none());
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://203.0.113.7"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("QUJD"));

        let by_name = gke("https://gke-1a2b-1.us-central1.gke.goog", "").unwrap();
        let cluster = by_name.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(
            cluster.certificate_authority_data, None,
            "a public authority signs the certificate of this endpoint"
        );
    }

    #[tokio::test]
    async fn in_cluster_access_is_refused_outside_a_cluster() {
        let refused = client(&ApiAccess::InCluster).await.err();
        assert!(
            matches!(&refused, Some(PortError::Permanent(why)) if why.code == "CREDENTIALS" && why.message.starts_with("access.in_cluster")),
            "{refused:?}"
        );
    }
}
