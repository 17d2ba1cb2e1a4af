//! Redacts a build's log while it is stored.

use std::{
    path::Path,
    pin::Pin,
    task::{Context, Poll, ready},
};

use ledger::ObjectReader;
use redact::{Redactor, Rules};
use tokio::io::{AsyncRead, ReadBuf};

/// Read buffer size.
const CHUNK: usize = 64 << 10;

/// The bytes of `inner`, redacted with the rules for job logs.
pub(crate) struct Redacted {
    inner: ObjectReader,
    /// `None` after the end of the input.
    redactor: Option<Redactor>,
    chunk: Vec<u8>,
    ready: Vec<u8>,
    given: usize,
}

impl Redacted {
    /// Uses the patterns and the secrets known to this process: from its environment and the files of
    /// `secrets`.
    ///
    /// # Errors
    /// Returns an error if the rules cannot be built: without them the log must not be stored.
    pub(crate) fn new(inner: ObjectReader, secrets: Option<&Path>) -> std::io::Result<Self> {
        let redactor = Some(Redactor::new(Rules::of_this_process(secrets)?));
        Ok(Self { inner, redactor, chunk: vec![0; CHUNK], ready: Vec::new(), given: 0 })
    }
}

impl AsyncRead for Redacted {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        while this.given == this.ready.len() {
            this.ready.clear();
            this.given = 0;
            let Some(mut redactor) = this.redactor.take() else { return Poll::Ready(Ok(())) };
            let mut chunk = ReadBuf::new(&mut this.chunk);
            match Pin::new(&mut this.inner).poll_read(context, &mut chunk) {
                Poll::Pending => {
                    this.redactor = Some(redactor);
                    return Poll::Pending;
                }
                read => ready!(read)?,
            }
            match chunk.filled() {
                [] => drop(redactor.finish(&mut this.ready)),
                bytes => {
                    redactor.push(bytes, &mut this.ready);
                    this.redactor = Some(redactor);
                }
            }
        }
        let some = into.remaining().min(this.ready.len() - this.given);
        into.put_slice(&this.ready[this.given..this.given + some]);
        this.given += some;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn only_secrets_are_removed_from_a_log_of_any_length() {
        let token = format!("ghp_{}", "Ab3dE5fGh1".repeat(4));
        let log = format!("{}token {token} here\n{}", "before\n".repeat(20_000), "after\n".repeat(20_000));
        let inner: ObjectReader = Box::new(std::io::Cursor::new(log.clone().into_bytes()));
        let mut out = String::new();
        Redacted::new(inner, None).unwrap().read_to_string(&mut out).await.unwrap();
        assert_eq!(out, log.replace(&token, "[redacted:git-token]"));
    }
}
