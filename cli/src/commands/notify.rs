//! `burnin notify test`: checks, before a nightly run fails, that a channel can be reached.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use model::Notify;
use notifier::{
    secrets::Secrets,
    senders::{GithubApi, HttpSender, TestResult},
};
use service::SystemClock;

use crate::{
    commands::print_plain,
    exit::{CliError, Exit},
};

/// Sends a test message to the named channel, once per kind that the workflows of the folder use. Addresses
/// and keys are in the folder `channels` or in the environment.
pub async fn test(channels: &Path, workflows: &Path, name: &str) -> Result<Exit, CliError> {
    let (known, broken) = known_channels(workflows)?;
    let wanted: Vec<_> = known.iter().filter(|((_, known), _)| known == name).collect();
    if wanted.is_empty() {
        let mut names: Vec<_> = known.keys().map(|(_, name)| name.as_str()).collect();
        names.dedup();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let folder = workflows.display();
        let hint = match broken {
            0 => String::new(),
            1 => "; 1 of its files has errors: run `burnin check`".to_owned(),
            _ => format!("; {broken} of its files have errors: run `burnin check`"),
        };
        return Err(CliError::usage(format!(
            "no workflow in {folder} uses a channel `{name}`; channels in use: {names}{hint}"
        )));
    }
    let secrets = Secrets::of_process(channels.to_owned());
    let sender = HttpSender::new(secrets, GithubApi::default(), Arc::new(SystemClock));
    let mut failed = Vec::new();
    for ((kind, _), target) in wanted {
        match sender.test(target).await {
            TestResult::Delivered(status) => {
                print_plain(&format!("{kind} {name}: delivered, status {status}\n"))
            }
            TestResult::Failed(why) => failed.push((Exit::Infrastructure, format!("{kind} {name}: {why}"))),
            TestResult::Lacks(why) => failed.push((Exit::Usage, format!("{kind} {name}: {why}"))),
        }
    }
    match failed.first() {
        None => Ok(Exit::Pass),
        Some((exit, _)) => {
            let messages: Vec<_> = failed.iter().map(|(_, message)| message.as_str()).collect();
            Err(CliError { problems: vec![], message: messages.join("\n"), exit: *exit })
        }
    }
}

/// Channels by kind and name, as used in the workflows of a folder, and the number of files with errors.
type KnownChannels = BTreeMap<(String, String), Notify>;

fn known_channels(folder: &Path) -> Result<(KnownChannels, usize), CliError> {
    let cannot =
        |error: std::io::Error| CliError::usage(format!("--workflows: {}: {error}", folder.display()));
    let (mut known, mut broken) = (KnownChannels::new(), 0);
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_none_or(|kind| kind != "yaml") {
            continue;
        }
        match workflow::resolve(&path, &[]) {
            Err(_) => broken += 1,
            Ok(resolved) => known.extend(resolved.workflow.notify.into_iter().filter_map(|target| {
                let channel = target.channel()?;
                Some(((channel.kind.clone(), channel.name.clone()), target))
            })),
        }
    }
    Ok((known, broken))
}
