//! Reads refs with the program `git`.

use std::process::Stdio;

use super::{Ref, Refs, TIMEOUT};

/// Reads refs by `git ls-remote`, with git's own credentials.
#[derive(Clone, Copy, Debug, Default)]
pub struct GitRefs;

#[async_trait::async_trait]
impl Refs for GitRefs {
    async fn list(&self, url: &str) -> Result<Vec<Ref>, String> {
        let mut git = tokio::process::Command::new("git");
        git.args(["ls-remote", "--heads", "--tags", "--refs", "--", url]);
        git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ALLOW_PROTOCOL", "file:http:https:ssh");
        git.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(TIMEOUT, git.output()).await;
        let output = output.map_err(|_| format!("git timed out after {} s", TIMEOUT.as_secs()))?;
        let output = output.map_err(|error| format!("git cannot be started: {error}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            return Err(format!("git: {}", lines.join("; ")));
        }
        let line = |line: &str| {
            let (commit, name) = line.split_once('\t')?;
            Some(Ref { name: name.to_owned(), commit: commit.to_owned() })
        };
        Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(line).collect())
    }
}
