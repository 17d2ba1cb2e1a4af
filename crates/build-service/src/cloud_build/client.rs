//! Requests to Cloud Build's API and the interpretation of responses.

use std::{sync::Arc, time::Duration};

use ::model::{Class, Failure};
use google_cloud_auth::credentials::anonymous;
use google_cloud_build_v1::{
    client::CloudBuild,
    model::{Build, BuildOperationMetadata},
};
use google_cloud_gax::{
    error::Error,
    options::RequestOptionsBuilder,
    paginator::ItemPaginator,
    retry_policy::{Aip194Strict, NeverRetry, RetryPolicyExt},
};
use service::{PortError, worker::chain};
use tokio::sync::OnceCell;

/// Timeout of a request. It must be shorter than the caller's own response deadline.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Builds of one project in one location.
#[derive(Clone, Debug)]
pub struct CloudBuildClient {
    api: Arc<OnceCell<CloudBuild>>,
    /// `projects/{project}/locations/{location}`.
    parent: String,
    endpoint: Option<String>,
}

/// Reason why a request failed, and whether it may have had an effect.
#[derive(Debug)]
pub enum RequestFailure {
    /// Rejected permanently; the request had no effect.
    Permanent(Failure),
    /// Rejected temporarily; the request had no effect.
    Transient(String),
    /// Unknown outcome.
    OutcomeUnknown(String),
}

impl From<RequestFailure> for PortError {
    fn from(refusal: RequestFailure) -> Self {
        match refusal {
            RequestFailure::Permanent(failure) => Self::Permanent(failure),
            RequestFailure::Transient(why) | RequestFailure::OutcomeUnknown(why) => Self::Transient(why),
        }
    }
}

impl CloudBuildClient {
    /// Builds are looked up by location: a build in another location is not found. An `endpoint` replaces
    /// Google's and is used without credentials. Connects with its first request.
    pub fn new(project: &str, location: &str, endpoint: Option<String>) -> Self {
        let parent = format!("projects/{project}/locations/{location}");
        Self { api: Arc::default(), parent, endpoint }
    }

    async fn api(&self) -> Result<&CloudBuild, RequestFailure> {
        let connect = async || {
            let patient = Aip194Strict.with_time_limit(REQUEST_TIMEOUT).with_attempt_limit(4);
            let mut builder =
                CloudBuild::builder().with_retry_policy(patient).with_attempt_timeout(REQUEST_TIMEOUT);
            if let Some(endpoint) = &self.endpoint {
                builder = builder.with_endpoint(endpoint).with_credentials(anonymous::Builder::new().build());
            }
            builder
                .build()
                .await
                .map_err(|error| RequestFailure::Transient(format!("Cloud Build: {}", chain(&error))))
        };
        self.api.get_or_try_init(connect).await
    }

    /// Resource name of a build, `projects/{project}/locations/{location}/builds/{id}`.
    pub fn name(&self, id: &str) -> String {
        format!("{}/builds/{id}", self.parent)
    }

    /// Creates a build. The API has no request id, so this is never repeated here.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`RequestFailure::OutcomeUnknown`] if the build may exist.
    pub async fn create(&self, build: Build) -> Result<Build, RequestFailure> {
        // With `project_id` the client would use the path without a location.
        let create = self.api().await?.create_build().set_parent(&self.parent).set_build(build);
        let operation = create.with_retry_policy(NeverRetry).send().await.map_err(refusal)?;
        let metadata = operation.metadata.and_then(|any| any.to_msg::<BuildOperationMetadata>().ok());
        let created = metadata.and_then(|metadata| metadata.build).filter(|build| !build.id.is_empty());
        created.ok_or_else(|| {
            RequestFailure::OutcomeUnknown(format!("operation {} names no build", operation.name))
        })
    }

    /// A build by its id; `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub async fn get(&self, id: &str) -> Result<Option<Build>, RequestFailure> {
        match self.api().await?.get_build().set_name(self.name(id)).send().await {
            Ok(build) => Ok(Some(build)),
            Err(error) if error.http_status_code() == Some(404) => Ok(None),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Builds with a tag. Recently created builds may be missing.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub async fn list(&self, tag: &str) -> Result<Vec<Build>, RequestFailure> {
        let request =
            self.api().await?.list_builds().set_parent(&self.parent).set_filter(format!("tags=\"{tag}\""));
        let mut items = request.by_item();
        let mut builds = Vec::new();
        while let Some(build) = items.next().await {
            builds.push(build.map_err(refusal)?);
        }
        // The filter of the list is not reliable: check the tags.
        builds.retain(|build| build.tags.iter().any(|other| other == tag));
        Ok(builds)
    }

    /// Cancels a build. Succeeds if it has ended or does not exist.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    pub async fn cancel(&self, id: &str) -> Result<(), RequestFailure> {
        let request = self.api().await?.cancel_build().set_name(self.name(id));
        match request.with_idempotency(true).send().await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.http_status_code(), Some(400 | 404 | 409)) => Ok(()),
            Err(error) => Err(refusal(error)),
        }
    }
}

/// Classifies an error: as a rejection only if the request certainly had no effect.
fn refusal(error: Error) -> RequestFailure {
    let (code, message) = match error.status() {
        Some(status) => (status.code.name(), status.message.clone()),
        None => ("REFUSED", chain(&error)),
    };
    let never =
        |class| RequestFailure::Permanent(Failure::new(class, code, format!("Cloud Build: {message}")));
    match error.http_status_code() {
        // The config is not at fault: the cause may be a quota of the project (google-github-actions/deploy-cloudrun#480).
        Some(400) if code == "FAILED_PRECONDITION" => never(Class::Infrastructure),
        Some(400 | 404 | 412 | 413) => never(Class::Input),
        Some(401 | 403) => never(Class::Infrastructure),
        Some(429) => RequestFailure::Transient(format!("Cloud Build: {message}")),
        Some(_) => RequestFailure::OutcomeUnknown(format!("Cloud Build: {message}")),
        None if error.is_binding() => never(Class::Input),
        None if error.is_authentication() || error.is_connect() => RequestFailure::Transient(chain(&error)),
        None => RequestFailure::OutcomeUnknown(chain(&error)),
    }
}
