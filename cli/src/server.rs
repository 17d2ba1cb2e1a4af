//! A client of the gateway's API: the deployed services, or a `burnin up`.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use backon::{BackoffBuilder, ExponentialBuilder};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url, header::HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::{CliError, Exit};

/// Environment variable with a token: an identity token for the deployed services.
const TOKEN: &str = "BURNIN_TOKEN";
/// Environment variable with a shell command that prints a new token: identity tokens expire after an hour.
const TOKEN_COMMAND: &str = "BURNIN_TOKEN_COMMAND";
/// Pause after the first response 429; doubled after each further response 429.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of retries after responses 429.
const RETRIES: usize = 5;
/// Maximum duration of a request; a stream of events ends earlier.
const LONGEST: Duration = Duration::from_secs(60);

/// Client of the API of one server.
pub struct Server {
    url: Url,
    client: reqwest::Client,
    /// The current token, renewed by `token_command`.
    authorization: Mutex<Option<HeaderValue>>,
    token_command: Option<String>,
}

impl Server {
    /// `data`: data folder, which contains the access header of this user's `burnin up`.
    ///
    /// # Errors
    /// Returns an error if the address or the token is unusable.
    pub fn new(url: &Url, data: &Path) -> Result<Self, CliError> {
        let token_command = std::env::var(TOKEN_COMMAND).ok().filter(|command| !command.is_empty());
        let token = match std::env::var(TOKEN) {
            Ok(token) => Some(token),
            Err(_) => local_token(url, data)?,
        };
        let authorization = Mutex::new(token.map(|token| bearer(TOKEN, &token)).transpose()?);
        let client = reqwest::Client::builder().timeout(LONGEST).build().map_err(CliError::infrastructure)?;
        Ok(Self { url: url.clone(), client, authorization, token_command })
    }

    /// A request for `/api/v1/{path}`; every part is escaped.
    pub fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.url.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        self.client.request(method, url)
    }

    /// Sends a request. Retries with a new token if the token has expired, and after a pause if the response is 429.
    ///
    /// # Errors
    /// Returns an error if no response arrives, or if the server reports a problem.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, CliError> {
        if self.authorization().is_none() {
            self.renew().await?;
        }
        let mut renewed = false;
        let mut pauses = ExponentialBuilder::default().with_min_delay(PAUSE).with_max_times(RETRIES).build();
        loop {
            let mut next = request.try_clone().ok_or_else(|| self.broken("the request has no fixed body"))?;
            if let Some(value) = self.authorization() {
                next = next.header(reqwest::header::AUTHORIZATION, value);
            }
            let response = next
                .send()
                .await
                .map_err(|error| self.broken(&service::worker::chain(&error.without_url())))?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            if status == StatusCode::UNAUTHORIZED && !renewed && self.renew().await? {
                renewed = true;
                continue;
            }
            // Cloud Run answers 429 while all instances are full.
            match pauses.next().filter(|_| status == StatusCode::TOO_MANY_REQUESTS) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(self.problem(status, &response.text().await.unwrap_or_default())),
            }
        }
    }

    fn authorization(&self) -> Option<HeaderValue> {
        self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads a new token from the command; `false` without a command.
    async fn renew(&self) -> Result<bool, CliError> {
        let Some(command) = &self.token_command else { return Ok(false) };
        let failed = |why: String| CliError::usage(format!("{TOKEN_COMMAND}: `{command}` {why}"));
        let output = tokio::process::Command::new("sh").args(["-c", command]).output().await;
        let output = output.map_err(|error| failed(format!("could not be started: {error}")))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("failed ({}): {}", output.status, stderr.trim())));
        }
        let value = bearer(TOKEN_COMMAND, String::from_utf8_lossy(&output.stdout).trim())?;
        *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        Ok(true)
    }

    fn broken(&self, why: &str) -> CliError {
        CliError::new(format!("{}: {why}", self.url), Exit::Infrastructure)
    }

    /// Sends a request and reads the JSON of its response.
    ///
    /// # Errors
    /// Returns an error if no valid response of this API arrives, or if the server reports a problem.
    pub async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CliError> {
        let text = self
            .send(request)
            .await?
            .text()
            .await
            .map_err(|error| self.connection_error(&error.without_url()))?;
        serde_json::from_str(&text).map_err(|error| CliError {
            problems: vec![],
            message: format!("{}: not a response of Burnin's API: {error}; check the address", self.url),
            exit: Exit::Infrastructure,
        })
    }

    /// The error for a connection that ended before the complete response.
    pub fn connection_error(&self, error: &dyn std::error::Error) -> CliError {
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
                    "; set {TOKEN} (deployed services accept the output of `gcloud auth print-identity-token`), or \
                     {TOKEN_COMMAND} to this command, because a token expires after an hour"
                )
            }
            StatusCode::NOT_FOUND if detail.is_empty() => {
                "; check that the address is that of Burnin's API".to_owned()
            }
            _ => String::new(),
        };
        let exit = if status.is_client_error() { Exit::Usage } else { Exit::Infrastructure };
        let status = if detail.is_empty() { format!("{status}") } else { format!("{detail} ({status})") };
        CliError { problems: vec![], message: format!("{}: {status}{hint}", self.url), exit }
    }
}

/// Header with a token from an environment variable.
fn bearer(variable: &str, token: &str) -> Result<HeaderValue, CliError> {
    let unusable = || CliError::usage(format!("{variable}: expected a token, one line of printable ASCII"));
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| unusable())?;
    if token.is_empty() {
        return Err(unusable());
    }
    value.set_sensitive(true);
    Ok(value)
}

/// The token of this user's `burnin up` at the address.
fn local_token(url: &Url, data: &Path) -> Result<Option<String>, CliError> {
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

/// The address of a server; `http` only to this machine, because each request contains the token.
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
