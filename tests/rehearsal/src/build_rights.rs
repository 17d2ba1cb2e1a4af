//! Checks the rights that a build's own account needs.

use std::sync::Arc;

use cloudbuild_standin::BuildRights;
use serde_json::Value;
use storage_standin::StandIn;

use crate::{
    grants::Resource,
    iam::{Iam, member},
    methods::{permission, permission_to_create, permission_to_overwrite},
};

/// Checks each request of a build against the grants of the build's account.
pub struct AccountRights {
    pub iam: Arc<Iam>,
    pub storage: Arc<StandIn>,
    /// Whether a build's account must be allowed to read the bucket of the logs and to overwrite a log. Cloud Build's page requires all
    /// rights on the bucket, but does not state whether these two are used.
    pub strict: bool,
}

impl AccountRights {
    fn account(build: &Value) -> String {
        let account = build["serviceAccount"].as_str().unwrap_or_default();
        member(account.rsplit('/').next().unwrap_or(account))
    }

    fn may(&self, build: &Value, permission: &str, resource: &Resource) -> Result<(), String> {
        self.iam.check(&Self::account(build), permission, resource).map_err(|denial| denial.to_string())
    }
}

impl BuildRights for AccountRights {
    fn begin(&self, build: &Value) -> Result<(), String> {
        self.may(build, permission("logging.entries.write"), &Resource::project())?;
        let (log, id) =
            (build["logsBucket"].as_str().unwrap_or_default(), build["id"].as_str().unwrap_or_default());
        let log = log.strip_prefix("gs://").unwrap_or(log);
        let (bucket, folder) = log.split_once('/').unwrap_or((log, ""));
        if self.strict {
            self.may(build, permission("storage.buckets.get"), &Resource::list(bucket, ""))?;
        }
        self.write(
            build,
            bucket,
            format!("{folder}/log-{id}.txt").trim_start_matches('/'),
            b"starting build\n",
        )?;
        for secret in build["availableSecrets"]["secretManager"].as_array().into_iter().flatten() {
            let version = secret["versionName"].as_str().unwrap_or_default();
            let name = version.split('/').nth(3).ok_or_else(|| format!("versionName: {version:?}"))?;
            self.may(
                build,
                permission("secretmanager.projects.secrets.versions.access"),
                &Resource::secret(name),
            )?;
        }
        let source = &build["source"]["storageSource"];
        if let (Some(bucket), Some(object)) = (source["bucket"].as_str(), source["object"].as_str()) {
            self.may(build, permission("storage.objects.get"), &Resource::object(bucket, object))?;
            if self.storage.object(bucket, object).is_none() {
                return Err(format!("could not resolve source: no object gs://{bucket}/{object}"));
            }
        }
        Ok(())
    }

    fn write(&self, build: &Value, bucket: &str, object: &str, bytes: &[u8]) -> Result<(), String> {
        let resource = Resource::object(bucket, object);
        self.may(build, permission_to_create(), &resource)?;
        if self.strict && self.storage.object(bucket, object).is_some() {
            self.may(build, permission_to_overwrite(), &resource)?;
        }
        self.storage.put(bucket, object, bytes.to_vec());
        Ok(())
    }

    fn end(&self, build: &Value) -> Result<(), String> {
        if build["images"].as_array().is_some_and(|images| !images.is_empty()) {
            self.may(build, permission("push-image"), &Resource::project())?;
        }
        Ok(())
    }
}
