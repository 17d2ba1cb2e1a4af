//! Selects pushes by repository, ref and changed files.

use glob::{MatchOptions, Pattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Filter for pushes that start a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnPush {
    /// The repository, as `owner/name`.
    pub repository: String,
    /// Address for polling its refs: a URL or a path that git accepts. Without it, a push whose
    /// notification was lost is not detected.
    pub url: Option<String>,
    /// Branches, as patterns: `*` matches any text without `/`, `**` any text between two `/`. Default
    /// without branches and tags: all branches.
    #[serde(default)]
    pub branches: Vec<String>,
    /// Tags, as patterns.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Only pushes to branches that change one of these files, as patterns. A push with unknown changes matches.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Include pushes by bots.
    #[serde(default)]
    pub bots: bool,
}

/// Change of one ref of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushEvent {
    /// `owner/name`.
    pub repository: String,
    /// `refs/heads/...` or `refs/tags/...`.
    pub reference: String,
    /// Changed files; `None` if unknown.
    pub paths: Option<Vec<String>>,
    pub bot: bool,
}

const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl OnPush {
    /// Whether the filter is for this repository. GitHub's names are case-insensitive.
    pub fn concerns(&self, repository: &str) -> bool {
        self.repository.eq_ignore_ascii_case(repository)
    }

    /// Whether the ref matches the filter.
    pub fn wants_ref(&self, reference: &str) -> bool {
        if let Some(branch) = reference.strip_prefix("refs/heads/") {
            return matches(&self.branches, branch) || (self.branches.is_empty() && self.tags.is_empty());
        }
        reference.strip_prefix("refs/tags/").is_some_and(|tag| matches(&self.tags, tag))
    }

    /// Whether the push starts a run.
    pub fn wants(&self, push: &PushEvent) -> bool {
        let touched = |paths: &Vec<String>| paths.iter().any(|path| matches(&self.paths, path));
        let on_a_branch = push.reference.starts_with("refs/heads/");
        self.concerns(&push.repository)
            && self.wants_ref(&push.reference)
            && (self.bots || !push.bot)
            && (self.paths.is_empty() || !on_a_branch || push.paths.as_ref().is_none_or(touched))
    }

    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if !self.repository.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name)) {
            problems.push(("repository", format!("expected owner/name, found `{}`", self.repository)));
        }
        // git would parse such a URL as an option, or run an arbitrary program for it.
        let bad = |url: &String| {
            url.is_empty() || url.starts_with('-') || url.contains("::") || url.contains(char::is_control)
        };
        if self.url.as_ref().is_some_and(bad) {
            problems.push(("url", "expected a URL or a path of a repository".to_owned()));
        }
        for (field, patterns) in [("branches", &self.branches), ("tags", &self.tags), ("paths", &self.paths)]
        {
            for pattern in patterns {
                if let Err(error) = Pattern::new(pattern) {
                    problems.push((field, format!("`{pattern}` is not a pattern: {}", error.msg)));
                }
            }
        }
        problems
    }
}

fn matches(patterns: &[String], text: &str) -> bool {
    let pattern = |pattern: &String| Pattern::new(pattern).is_ok_and(|p| p.matches_with(text, MATCHING));
    patterns.iter().any(pattern)
}
