//! Cloud Build's API: what is asked of it, and what an answer means.

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

/// An answer that takes longer is lost: whoever asks has a request of its own to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Builds of one project in one location.
#[derive(Clone, Debug)]
pub struct Client {
    api: Arc<OnceCell<CloudBuild>>,
    /// `projects/{project}/locations/{location}`.
    parent: String,
    endpoint: Option<String>,
}

/// Why a request was not answered as hoped.
#[derive(Debug)]
pub enum Refusal {
    /// Refused for good; nothing was done.
    Never(Failure),
    /// Refused for now; nothing was done.
    Later(String),
    /// It may have been done, or not.
    Unclear(String),
}

impl From<Refusal> for PortError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Never(failure) => Self::Final(failure),
            Refusal::Later(why) | Refusal::Unclear(why) => Self::Passing(why),
        }
    }
}

impl Client {
    /// Builds are found by their location: what was started in one is unknown in every other. An `endpoint` stands in
    /// for Google's, and is spoken to without credentials. It connects with its first request.
    pub fn new(project: &str, location: &str, endpoint: Option<String>) -> Self {
        let parent = format!("projects/{project}/locations/{location}");
        Self { api: Arc::default(), parent, endpoint }
    }

    async fn api(&self) -> Result<&CloudBuild, Refusal> {
        let connect = async || {
            let patient = Aip194Strict.with_time_limit(PATIENCE).with_attempt_limit(4);
            let mut builder = CloudBuild::builder().with_retry_policy(patient).with_attempt_timeout(PATIENCE);
            if let Some(endpoint) = &self.endpoint {
                builder = builder.with_endpoint(endpoint).with_credentials(anonymous::Builder::new().build());
            }
            builder.build().await.map_err(|error| Refusal::Later(format!("Cloud Build: {}", chain(&error))))
        };
        self.api.get_or_try_init(connect).await
    }

    /// The full name of a build.
    pub fn name(&self, id: &str) -> String {
        format!("{}/builds/{id}", self.parent)
    }

    /// Creates a build. There is no request id, so this is never repeated here.
    ///
    /// # Errors
    /// [`Refusal::Unclear`] when it may be there all the same.
    pub async fn create(&self, build: Build) -> Result<Build, Refusal> {
        // With `project_id` the client would take the path without a location.
        let create = self.api().await?.create_build().set_parent(&self.parent).set_build(build);
        let operation = create.with_retry_policy(NeverRetry).send().await.map_err(refusal)?;
        let metadata = operation.metadata.and_then(|any| any.to_msg::<BuildOperationMetadata>().ok());
        let created = metadata.and_then(|metadata| metadata.build).filter(|build| !build.id.is_empty());
        created.ok_or_else(|| Refusal::Unclear(format!("operation {} names no build", operation.name)))
    }

    /// A build by its id; none where it is not known.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn get(&self, id: &str) -> Result<Option<Build>, Refusal> {
        match self.api().await?.get_build().set_name(self.name(id)).send().await {
            Ok(build) => Ok(Some(build)),
            Err(error) if error.http_status_code() == Some(404) => Ok(None),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Builds that carry a tag. A build that was created a moment ago may be missing.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn list(&self, tag: &str) -> Result<Vec<Build>, Refusal> {
        let asked =
            self.api().await?.list_builds().set_parent(&self.parent).set_filter(format!("tags=\"{tag}\""));
        let mut items = asked.by_item();
        let mut builds = Vec::new();
        while let Some(build) = items.next().await {
            builds.push(build.map_err(refusal)?);
        }
        // What a list filters is its own affair; what is ours is ours to check.
        builds.retain(|build| build.tags.iter().any(|other| other == tag));
        Ok(builds)
    }

    /// Asks a build to end. One that has ended, or is not known, is as it should be.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn cancel(&self, id: &str) -> Result<(), Refusal> {
        let asked = self.api().await?.cancel_build().set_name(self.name(id));
        match asked.with_idempotency(true).send().await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.http_status_code(), Some(400 | 404 | 409)) => Ok(()),
            Err(error) => Err(refusal(error)),
        }
    }
}

/// What an error says of the request. Only what is certain counts as certain.
fn refusal(error: Error) -> Refusal {
    let (code, message) = match error.status() {
        Some(status) => (status.code.name(), status.message.clone()),
        None => ("REFUSED", chain(&error)),
    };
    let never = |class| Refusal::Never(Failure::new(class, code, format!("Cloud Build: {message}")));
    match error.http_status_code() {
        Some(400 | 404 | 412 | 413) => never(Class::Input),
        Some(401 | 403) => never(Class::Infrastructure),
        Some(429) => Refusal::Later(format!("Cloud Build: {message}")),
        Some(_) => Refusal::Unclear(format!("Cloud Build: {message}")),
        None if error.is_binding() => never(Class::Input),
        None if error.is_authentication() || error.is_connect() => Refusal::Later(chain(&error)),
        None => Refusal::Unclear(chain(&error)),
    }
}
