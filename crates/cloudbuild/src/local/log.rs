use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The log of a build.
///
/// Writes are unbuffered, so that the log can be read during the build. A write blocks only for a copy to the page
/// cache, so it needs no separate task.
pub(super) struct BuildLog {
    inner: Mutex<LogState>,
    limit: u64,
}

struct LogState {
    file: File,
    left: u64,
    full: bool,
    error: Option<io::Error>,
}

impl BuildLog {
    pub(super) fn create(path: &Path, limit: u64) -> io::Result<Self> {
        let file = File::create(path)?;
        Ok(Self { inner: Mutex::new(LogState { file, left: limit, full: false, error: None }), limit })
    }

    /// Writes a line of the runner itself, regardless of the limit.
    pub(super) fn note(&self, text: &str) {
        self.lock().write(format!("{text}\n").as_bytes());
    }

    /// Writes complete lines of a step's output within the limit.
    pub(super) fn append(&self, lines: &[u8]) {
        let mut inner = self.lock();
        if inner.full {
            return;
        }
        let room = usize::try_from(inner.left).unwrap_or(usize::MAX);
        if lines.len() <= room {
            inner.left -= lines.len() as u64;
            inner.write(lines);
            return;
        }
        let fits = lines[..room].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        inner.write(&lines[..fits]);
        inner.full = true;
        let limit = self.limit;
        inner.write(format!("[log limit of {limit} bytes reached: further output is dropped]\n").as_bytes());
    }

    /// The first failed write, if any.
    pub(super) fn error(&self) -> Option<String> {
        self.lock().error.as_ref().map(ToString::to_string)
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.file.write_all(bytes) {
            self.error.get_or_insert(error);
        }
    }
}
