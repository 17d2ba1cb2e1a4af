//! Commit statuses and check runs through GitHub's REST API.
//!
//! A status replaces the earlier one, so it may be sent twice. A check run does not replace an earlier one: it has the notice's
//! id as `external_id`, and is searched for before it is created.

use model::{Push, Span, Timestamp};
use reqwest::{Method, RequestBuilder, Url, header::HeaderName};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{HttpSender, http::HttpReply};
use crate::{
    notice::{CheckRun, CommitStatus},
    port::Reply,
    secrets::{SecretOrigin, SecretText},
};

/// Version of GitHub's REST API, sent in the header of each request.
const VERSION: &str = "2022-11-28";
/// GitHub's maximum length of a summary or text, characters.
const LONGEST: usize = 65_535;
/// Maximum number of pages of check runs searched.
const PAGES: u32 = 10;
/// Check runs per page.
const PAGE: usize = 100;

#[derive(Deserialize)]
struct CheckRunList {
    check_runs: Vec<ListedCheckRun>,
}

#[derive(Deserialize)]
struct ListedCheckRun {
    external_id: Option<String>,
}

#[derive(Deserialize)]
struct GithubError {
    message: String,
}

impl HttpSender {
    pub(super) async fn status(&self, status: &CommitStatus) -> Result<Reply, String> {
        let Some(repository) = repository(&status.push) else { return Ok(unknown_commit(&status.push)) };
        let token = self.secrets.find("github", SecretOrigin::Token)?;
        let url = self.github.at(&format!("/repos/{repository}/statuses/{}", status.push.commit))?;
        let mut body =
            json!({"state": status.state, "context": status.context, "description": status.description});
        if let Some(target_url) = &status.target_url {
            body["target_url"] = json!(target_url);
        }
        let sent = self.http.send(self.request(Method::POST, url, &token)?.json(&body)).await;
        Ok(sent.map_or_else(|later| later, |answer| reply(&answer, &token, self.clock.now())))
    }

    pub(super) async fn check(&self, id: &str, check: &CheckRun) -> Result<Reply, String> {
        let Some(repository) = repository(&check.push) else { return Ok(unknown_commit(&check.push)) };
        let token = self.secrets.find("github", SecretOrigin::Token)?;
        match self.check_run_exists(&repository, id, check, &token).await? {
            Ok(false) => {}
            Ok(true) => return Ok(Reply::Delivered),
            Err(reply) => return Ok(reply),
        }
        let mut output = json!({"title": check.title, "summary": cut(&check.summary)});
        if let Some(text) = &check.text {
            output["text"] = json!(cut(text));
        }
        let mut body = json!({
            "name": check.name,
            "head_sha": check.push.commit,
            "external_id": id,
            "status": "completed",
            "conclusion": check.conclusion,
            "started_at": seconds(check.started_at),
            "completed_at": seconds(check.completed_at),
            "output": output,
        });
        if let Some(details_url) = &check.details_url {
            body["details_url"] = json!(details_url);
        }
        let url = self.github.at(&format!("/repos/{repository}/check-runs"))?;
        let sent = self.http.send(self.request(Method::POST, url, &token)?.json(&body)).await;
        Ok(sent.map_or_else(|later| later, |answer| reply(&answer, &token, self.clock.now())))
    }

    /// Whether a check run with this id exists; an error reply if the lookup failed.
    async fn check_run_exists(
        &self,
        repository: &str,
        id: &str,
        check: &CheckRun,
        token: &SecretText,
    ) -> Result<Result<bool, Reply>, String> {
        for page in 1..=PAGES {
            let path = format!("/repos/{repository}/commits/{}/check-runs", check.push.commit);
            let mut url = self.github.at(&path)?;
            // Without `filter=all` GitHub returns only the newest check run of a name.
            url.query_pairs_mut()
                .append_pair("check_name", &check.name)
                .append_pair("filter", "all")
                .append_pair("per_page", &PAGE.to_string())
                .append_pair("page", &page.to_string());
            let answer = match self.http.send(self.request(Method::GET, url, token)?).await {
                Ok(answer) => answer,
                Err(later) => return Ok(Err(later)),
            };
            match reply(&answer, token, self.clock.now()) {
                Reply::Delivered => {}
                other => return Ok(Err(other)),
            }
            let Ok(CheckRunList { check_runs }) = serde_json::from_slice(&answer.body) else {
                return Ok(Err(Reply::transient(
                    "invalid response to the request for the list of check runs",
                )));
            };
            if check_runs.iter().any(|known| known.external_id.as_deref() == Some(id)) {
                return Ok(Ok(true));
            }
            if check_runs.len() < PAGE {
                break;
            }
        }
        Ok(Ok(false))
    }

    fn request(&self, method: Method, url: Url, token: &SecretText) -> Result<RequestBuilder, String> {
        let request = self.http.request(method, url)?;
        let request = request.header("accept", "application/vnd.github+json");
        Ok(request.header("x-github-api-version", VERSION).bearer_auth(token.reveal()))
    }
}

/// Meaning of GitHub's response. Exceeded rate limits may also have status 403, with their end time.
fn reply(answer: &HttpReply, token: &SecretText, now: Timestamp) -> Reply {
    let spent = answer.header(&HeaderName::from_static("x-ratelimit-remaining")) == Some("0");
    let status = answer.status.as_u16();
    if matches!(status, 403 | 429) && (spent || answer.wait(now).is_some()) {
        let reset = answer.header(&HeaderName::from_static("x-ratelimit-reset"));
        let reset = reset.and_then(|text| text.parse::<i64>().ok()).filter(|_| spent);
        let until = reset.map(|at| Timestamp::from_millis(at.saturating_mul(1000)).since(now));
        let after = answer.wait(now).or(until).map(|span| span.min(Span::from_secs(2 * 3600)));
        return Reply::Transient { why: format!("status {}: rate limit reached", answer.status), after };
    }
    match answer.reply(now) {
        Reply::Permanent { why } => {
            let message = serde_json::from_slice::<GithubError>(&answer.body).ok();
            let message = message.map(|problem| format!(": {}", report::shortened(&problem.message, 200)));
            Reply::Permanent { why: token.hidden_in(&format!("{why}{}", message.unwrap_or_default())) }
        }
        other => other,
    }
}

/// `owner/name`, if valid: it becomes part of a URL.
fn repository(push: &Push) -> Option<String> {
    let part = |part: &str| {
        let legal = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
        !part.is_empty() && !matches!(part, "." | "..") && part.bytes().all(legal)
    };
    let (owner, name) = push.repository.split_once('/')?;
    let commit = matches!(push.commit.len(), 40 | 64) && push.commit.bytes().all(|c| c.is_ascii_hexdigit());
    (part(owner) && part(name) && commit).then(|| format!("{owner}/{name}"))
}

fn unknown_commit(push: &Push) -> Reply {
    let Push { repository, commit, .. } = push;
    Reply::permanent(format!("`{commit}` of `{repository}` is not a commit of a GitHub repository"))
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// GitHub's timestamps have second precision.
fn seconds(at: Timestamp) -> Value {
    let text = at.to_string();
    json!(text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z")))
}
