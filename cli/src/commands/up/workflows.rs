//! Workflows served by `burnin up`: printed at the start, and shown on the dashboard.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use gateway::{Gateway, ReadWorkflows};
use model::{Notify, Timestamp};
use notifier::secrets::Secrets;
use pages::{Plans, WorkflowPlan};
use service::Clock;

/// The workflows of a gateway, and the channels that they notify.
pub struct ServedWorkflows {
    gateway: Arc<Gateway>,
    secrets: Secrets,
    clock: Arc<dyn Clock>,
}

impl ServedWorkflows {
    pub fn new(gateway: Arc<Gateway>, secrets: Secrets, clock: Arc<dyn Clock>) -> Self {
        Self { gateway, secrets, clock }
    }

    /// Text for a terminal: every workflow with its next start, the errors of its file, and channels without an address.
    pub async fn summary(&self) -> String {
        let ReadWorkflows { workflows, broken, .. } = match self.gateway.workflows().await {
            Ok(read) => read,
            Err(error) => return format!("the workflows cannot be read: {error}\n"),
        };
        let now = self.clock.now();
        let widest = workflows.keys().map(String::len).chain(broken.iter().map(|file| file.file.len())).max();
        let width = widest.unwrap_or(0).min(40);
        let mut text = String::new();
        for (name, entry) in &workflows {
            let next = entry.offered.on.schedule.iter().filter_map(|on| on.read().ok()?.next(now)).min();
            let starts = match (entry.startable, next) {
                (false, _) => "BROKEN, cannot be started:".to_owned(),
                (true, Some(next)) => format!("next start {}", minute(next)),
                (true, None) => "no schedule".to_owned(),
            };
            _ = writeln!(text, "  {name:<width$}  {starts}");
            for problem in &entry.problems {
                _ = writeln!(text, "    {problem}");
            }
        }
        for file in &broken {
            _ = writeln!(text, "  {:<width$}  BROKEN, cannot be started:", file.file);
            for problem in &file.problems {
                _ = writeln!(text, "    {problem}");
            }
        }
        if text.is_empty() {
            text.push_str("  no workflow: the folder contains no .yaml file\n");
        }
        let named = workflows.iter().map(|(name, entry)| (name.as_str(), entry.notify.as_slice()));
        for warning in self.unreachable(named) {
            _ = writeln!(text, "  {warning}");
        }
        text
    }

    /// Channels without an address or key, each with the workflows that use it.
    fn unreachable<'a>(&self, workflows: impl Iterator<Item = (&'a str, &'a [Notify])>) -> Vec<String> {
        let mut names_by_setting: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, notify) in workflows {
            for missing in notify.iter().filter_map(|target| self.secrets.missing_setting(target)) {
                names_by_setting.entry(missing).or_default().push(name);
            }
        }
        let line = |(missing, names): (String, Vec<&str>)| {
            format!("notices of {} cannot be sent: {missing}", names.join(", "))
        };
        names_by_setting.into_iter().map(line).collect()
    }
}

/// UTC time with minute precision.
fn minute(at: Timestamp) -> String {
    at.to_string().chars().take(16).collect::<String>().replace('T', " ") + " UTC"
}

#[service::async_trait]
impl Plans for ServedWorkflows {
    async fn plans(&self) -> Result<Vec<WorkflowPlan>, String> {
        self.gateway.plans().await
    }

    async fn warnings(&self) -> Vec<String> {
        // `plans` reports this error.
        let workflows = self.gateway.workflows().await.map(|read| read.workflows).unwrap_or_default();
        self.unreachable(workflows.iter().map(|(name, entry)| (name.as_str(), entry.notify.as_slice())))
    }

    async fn problems(&self) -> Vec<String> {
        self.gateway.problems().await
    }
}
