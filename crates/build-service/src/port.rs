//! What whoever needs builds needs of the outside world.

use std::{fmt, str::FromStr};

use ledger::Owner;
use model::{BuildSpec, CommandId, Failure, Image, Span, Verb};
use service::PortError;

/// What a build is called by: the command it is for, whatever its verb, and which one of several that a command needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    command: CommandId,
    part: Option<String>,
}

impl Key {
    /// The only build of a command.
    pub fn of(command: &CommandId) -> Self {
        Self { command: command.with_verb(Verb::Start), part: None }
    }

    /// One of several: `destroy`, 2 is the second one that destroys. The word is lower-case letters.
    pub fn numbered(command: &CommandId, word: &'static str, number: u32) -> Self {
        Self { part: Some(format!("{word}-{number}")), ..Self::of(command) }
    }

    /// The command it is for, as if it began something.
    pub const fn command(&self) -> &CommandId {
        &self.command
    }

    /// It is the only build of its command.
    pub const fn is_whole(&self) -> bool {
        self.part.is_none()
    }

    /// A name that is legal as a label, a host name and a file name.
    pub fn resource_name(&self) -> String {
        let name = self.command.resource_name();
        self.part.as_ref().map_or_else(|| name.clone(), |part| format!("{name}-{part}"))
    }
}

impl<'a> From<&'a Key> for Owner<'a> {
    fn from(key: &'a Key) -> Self {
        Self { command: &key.command, part: key.part.as_deref() }
    }
}

/// `{run}.{stage}.{attempt}`, and `.{part}` where there is one.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommandId { run, stage, attempt, .. } = &self.command;
        write!(f, "{run}.{stage}.{attempt}")?;
        self.part.as_ref().map_or(Ok(()), |part| write!(f, ".{part}"))
    }
}

impl FromStr for Key {
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

/// Where a build stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Build {
    /// Queued or at work.
    Going,
    /// It left this image, or these files, which are safe in the bucket or the registry.
    Built(Image),
    /// It left none.
    Failed(Failure),
}

/// Somewhere builds run.
#[async_trait::async_trait]
pub trait Builds: Send + Sync + 'static {
    /// Starts the build unless it was started before, and says what it is called.
    ///
    /// # Errors
    /// [`PortError::Final`] when it can never be started.
    async fn start(&self, key: &Key, build: &BuildSpec, timeout: Span) -> Result<String, PortError>;

    /// Where the build stands; none when it is not known.
    ///
    /// # Errors
    /// When the outside world does not answer.
    async fn look(&self, key: &Key) -> Result<Option<Build>, PortError>;

    /// Asks the build to end. One that was not started yet must not start afterwards, and is found as cancelled.
    ///
    /// # Errors
    /// When the outside world does not answer.
    async fn cancel(&self, key: &Key) -> Result<(), PortError>;
}
