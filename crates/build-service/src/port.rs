//! The port: operations of a build executor.

use std::{fmt, str::FromStr};

use ledger::ArtifactOwner;
use model::{BuildSpec, CommandId, Failure, Image, Span, Verb};
use service::PortError;

/// Identity of a build: its command without the verb, and its number if the command needs several builds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildKey {
    command: CommandId,
    part: Option<String>,
}

impl BuildKey {
    /// The only build of a command.
    pub fn of(command: &CommandId) -> Self {
        Self { command: command.with_verb(Verb::Start), part: None }
    }

    /// One of several builds of a command: (`destroy`, 2) is the second `destroy` build. The word must be lower-case letters.
    pub fn numbered(command: &CommandId, word: &'static str, number: u32) -> Self {
        Self { part: Some(format!("{word}-{number}")), ..Self::of(command) }
    }

    /// The command, with the verb `start`.
    pub const fn command(&self) -> &CommandId {
        &self.command
    }

    /// Whether this is the only build of the command.
    pub const fn is_whole(&self) -> bool {
        self.part.is_none()
    }

    /// A name that is valid as a label, a host name and a file name.
    pub fn resource_name(&self) -> String {
        let name = self.command.resource_name();
        self.part.as_ref().map_or_else(|| name.clone(), |part| format!("{name}-{part}"))
    }
}

impl<'a> From<&'a BuildKey> for ArtifactOwner<'a> {
    fn from(key: &'a BuildKey) -> Self {
        Self { command: &key.command, part: key.part.as_deref() }
    }
}

/// `{run}.{stage}.{attempt}`, followed by `.{part}` if the command needs several builds.
impl fmt::Display for BuildKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommandId { run, stage, attempt, .. } = &self.command;
        write!(f, "{run}.{stage}.{attempt}")?;
        self.part.as_ref().map_or(Ok(()), |part| write!(f, ".{part}"))
    }
}

impl FromStr for BuildKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (command, part) = match text.match_indices('.').nth(2) {
            Some((at, _)) => (&text[..at], Some(text[at + 1..].to_owned())),
            None => (text, None),
        };
        let word = |part: &String| {
            !part.is_empty() && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        };
        match format!("{command}.{}", Verb::Start.as_str()).parse() {
            Ok(command) if part.as_ref().is_none_or(word) => Ok(Self { command, part }),
            _ => Err("expected {run}.{stage}.{attempt} or {run}.{stage}.{attempt}.{part}"),
        }
    }
}

/// State of a build, as a poll reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildPhase {
    /// Queued or running.
    Running,
    /// The build succeeded with this image or these files, stored in the bucket or the registry.
    Built(Image),
    /// The build ended without a result, for example after a cancel.
    Failed(Failure),
}

/// An executor of builds: Cloud Build, or supervised processes of this host.
#[async_trait::async_trait]
pub trait Builds: Send + Sync + 'static {
    /// Starts the build unless it was started before, and returns its handle.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`PortError::Permanent`] if the build can never start.
    async fn start(&self, key: &BuildKey, build: &BuildSpec, timeout: Span) -> Result<String, PortError>;

    /// State of the build; `None` if unknown.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    async fn poll(&self, key: &BuildKey) -> Result<Option<BuildPhase>, PortError>;

    /// Cancels the build. A build that was not started must not start afterwards, and is reported as
    /// cancelled.
    ///
    /// # Errors
    /// Returns an error if the request fails.
    async fn cancel(&self, key: &BuildKey) -> Result<(), PortError>;
}
