use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use super::log::BuildLog;
use super::masker::Masker;

/// Maximum line length; longer lines are written in parts, to bound memory.
const LONGEST_LINE: usize = 256 << 10;

/// Writes the output of one step to the log: masks secrets, and prefixes each line with the step.
pub(super) struct StepOutput<'a> {
    log: &'a BuildLog,
    prefix: Vec<u8>,
    /// Masks the secret values of the step.
    masker: Masker,
    /// Redacts all other known or apparent secrets.
    redactor: Option<redact::Redactor>,
    masked: Vec<u8>,
    clean: Vec<u8>,
}

impl<'a> StepOutput<'a> {
    pub(super) fn new(log: &'a BuildLog, name: &str, masker: Masker, rules: &Arc<redact::Rules>) -> Self {
        let redactor = Some(redact::Redactor::new(Arc::clone(rules)));
        let prefix = format!("{name}: ").into_bytes();
        Self { log, prefix, masker, redactor, masked: Vec::new(), clean: Vec::new() }
    }

    /// Reads until all writers have closed the pipe.
    pub(super) async fn read(&mut self, pipe: &mut Receiver) {
        let mut chunk = vec![0; 64 << 10];
        loop {
            match pipe.read(&mut chunk).await {
                // Reading a pipe fails only after a programming error; treat the error as the end of the output.
                Ok(0) | Err(_) => return,
                Ok(length) => self.push(&chunk[..length]),
            }
        }
    }

    /// Writes the rest, terminated by a newline.
    pub(super) fn finish(&mut self) {
        self.masker.finish(&mut self.masked);
        if let Some(mut redactor) = self.redactor.take() {
            redactor.push(&self.masked, &mut self.clean);
            redactor.finish(&mut self.clean);
        }
        if !self.clean.is_empty() && !self.clean.ends_with(b"\n") {
            self.clean.push(b'\n');
        }
        self.write_lines();
    }

    fn push(&mut self, bytes: &[u8]) {
        self.masker.push(bytes, &mut self.masked);
        if let Some(redactor) = &mut self.redactor {
            redactor.push(&self.masked, &mut self.clean);
        }
        self.masked.clear();
        if self.clean.len() > LONGEST_LINE && !self.clean.contains(&b'\n') {
            self.clean.push(b'\n');
        }
        self.write_lines();
    }

    fn write_lines(&mut self) {
        let Some(end) = self.clean.iter().rposition(|&byte| byte == b'\n') else { return };
        let lines: Vec<u8> = self.clean[..=end]
            .split_inclusive(|&byte| byte == b'\n')
            .flat_map(|line| [&self.prefix[..], line])
            .flatten()
            .copied()
            .collect();
        self.clean.drain(..=end);
        self.log.append(&lines);
    }
}
