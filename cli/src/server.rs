//! A client of the gateway's API: the deployed services, or a `burnin up`.

use std::{path::Path, time::Duration};

use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header::HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::{CliError, Exit};

/// Environment variable with a token: an identity token for the deployed services.
const TOKEN: &str = "BURNIN_TOKEN";
/// Maximum duration of a request; a stream of events ends earlier.
const LONGEST: Duration = Duration::from_secs(60);

/// The API at one address.
pub struct Server {
    url: Url,
    client: reqwest::Client,
    authorization: Option<HeaderValue>,
}

impl Server {
    /// `data`: the data folder, which has the access header of a `burnin up` of this user.
    ///
    /// # Errors
    /// Returns an error if the address or the token is unusable.
    pub fn new(url: &Url, data: &Path) -> Result<Self, CliError> {
        let authorization = token(url, data)?.map(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| CliError::usage(format!("{TOKEN}: expected one line of printable ASCII")))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let client = reqwest::Client::builder().timeout(LONGEST).build().map_err(CliError::infrastructure)?;
        Ok(Self { url: url.clone(), client, authorization: authorization.transpose()? })
    }

    /// A request for `/api/v1/{path}`; every part is escaped.
    pub fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.url.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        let request = self.client.request(method, url);
        match &self.authorization {
            Some(value) => request.header(reqwest::header::AUTHORIZATION, value),
            None => request,
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Returns an error if there is no response, or if the server reports a problem.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, CliError> {
        let response = request.send().await.map_err(|error| {
            let why = service::worker::chain(&error.without_url());
            CliError::new(format!("{}: {why}", self.url), Exit::Infrastructure)
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(self.problem(status, &response.text().await.unwrap_or_default()))
    }

    /// Sends a request and reads the JSON of its response.
    ///
    /// # Errors
    /// Returns an error if there is no valid response of this API, or if the server reports a problem.
    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CliError> {
        let text = self.send(request).await?.text().await.map_err(|error| self.lost(&error.without_url()))?;
        serde_json::from_str(&text).map_err(|error| CliError {
            problems: vec![],
            message: format!(
                "{}: the response is not Burnin's: {error}; is this the address of the API?",
                self.url
            ),
            exit: Exit::Infrastructure,
        })
    }

    /// The error for a connection that ended early.
    pub fn lost(&self, error: &dyn std::error::Error) -> CliError {
        CliError {
            problems: vec![],
            message: format!("{}: {}", self.url, service::worker::chain(error)),
            exit: Exit::Infrastructure,
        }
    }

    fn problem(&self, status: StatusCode, body: &str) -> CliError {
        let problem: Value = serde_json::from_str(body).unwrap_or_default();
        let detail = problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or_default();
        let hint = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                format!(
                    "; set {TOKEN}, for the deployed services to the output of `gcloud auth print-identity-token`"
                )
            }
            StatusCode::NOT_FOUND if detail.is_empty() => "; is this the address of the API?".to_owned(),
            _ => String::new(),
        };
        let exit = if status.is_client_error() { Exit::Usage } else { Exit::Infrastructure };
        let status = if detail.is_empty() { format!("{status}") } else { format!("{detail} ({status})") };
        CliError { problems: vec![], message: format!("{}: {status}{hint}", self.url), exit }
    }
}

/// The token of the environment, or that of this user's `burnin up` at the address.
fn token(url: &Url, data: &Path) -> Result<Option<String>, CliError> {
    if let Ok(token) = std::env::var(TOKEN) {
        return Ok(Some(token));
    }
    let Some(port) = url.port() else { return Ok(None) };
    let local = url.host_str().is_some_and(|host| ["127.0.0.1", "localhost", "[::1]"].contains(&host));
    let file = data.join("host/up").join(format!("{port}.header"));
    if !local || !file.is_file() {
        return Ok(None);
    }
    let header = std::fs::read_to_string(&file)
        .map_err(|error| CliError::usage(format!("{}: {error}", file.display())))?;
    Ok(header.trim().strip_prefix("Authorization: Bearer ").map(str::to_owned))
}

/// The address of a server; `http` only to this machine, because the token travels with each request.
pub fn address(text: &str) -> Result<Url, String> {
    let url: Url =
        text.parse().map_err(|error| format!("{error}; expected https://HOST or http://127.0.0.1:PORT"))?;
    let local = url.host_str().is_some_and(|host| ["127.0.0.1", "localhost", "[::1]"].contains(&host));
    match url.scheme() {
        "https" => Ok(url),
        "http" if local => Ok(url),
        "http" => Err("http would send the token unencrypted; use https".to_owned()),
        other => Err(format!("expected https, found {other}")),
    }
}
