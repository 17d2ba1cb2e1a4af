//! Output of running jobs for the dashboard: read from the cluster while the jobs write it, without secrets.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use cluster_api::{Scheduler, WrittenFile};
use model::Cluster;
use pages::{JobOutput, OutputLines, RunningJob};
use redact::{Redactor, Rules};
use service::PortError;
use tokio::{
    io::{AsyncReadExt, copy, sink},
    sync::Mutex,
};

/// Maximum number of lines kept per job.
const LINES: usize = 1000;
/// Maximum length of a line, bytes.
const LONGEST: usize = 2000;
/// Maximum number of files of a job that are read.
const FILES: usize = 64;
/// Maximum bytes read per request and file.
const STEP: u64 = 1 << 20;
/// Maximum bytes read per job. The rest is in the collected logs.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of jobs in memory.
const JOBS: usize = 16;

/// Reads the output of jobs, each file from its start, so that a secret of several lines is found.
pub struct RunningOutput {
    scheduler: Arc<dyn Scheduler>,
    rules: Arc<Rules>,
    jobs: Mutex<BTreeMap<String, Tail>>,
}

impl RunningOutput {
    pub fn new(scheduler: Arc<dyn Scheduler>, rules: Arc<Rules>) -> Self {
        Self { scheduler, rules, jobs: Mutex::default() }
    }
}

/// Output already read from a job.
#[derive(Default)]
struct Tail {
    files: BTreeMap<String, TailedFile>,
    /// The last lines, at most [`LINES`].
    lines: VecDeque<String>,
    /// Number of the last line.
    last: u64,
    /// Bytes read from all files.
    read: u64,
    /// Number of the last request: the least recently shown job is removed first.
    request: u64,
}

/// Position in a growing file.
struct TailedFile {
    read: u64,
    redactor: Redactor,
    /// Bytes of the incomplete last line.
    started: Vec<u8>,
}

#[service::async_trait]
impl JobOutput for RunningOutput {
    async fn lines(&self, job: RunningJob<'_>, after: u64) -> Result<OutputLines, String> {
        let mut jobs = self.jobs.lock().await;
        let request = jobs.values().map(|tail| tail.request).max().unwrap_or(0) + 1;
        let mut tail = jobs.remove(job.name).unwrap_or_default();
        tail.request = request;
        let read = self.read(&mut tail, job.cluster, job.name).await;
        let answer = tail.after(after);
        jobs.insert(job.name.to_owned(), tail);
        if jobs.len() > JOBS {
            let oldest = jobs.iter().min_by_key(|(_, tail)| tail.request).map(|(name, _)| name.clone());
            oldest.and_then(|name| jobs.remove(&name));
        }
        match read {
            // Return the known lines instead of the error; the next request retries the read.
            Err(_) if !answer.lines.is_empty() => Ok(answer),
            Err(PortError::Transient(why)) => Err(why),
            Err(PortError::Permanent(failure)) => Err(failure.message),
            Ok(()) => Ok(answer),
        }
    }
}

impl RunningOutput {
    async fn read(&self, tail: &mut Tail, cluster: &Cluster, job: &str) -> Result<(), PortError> {
        let mut listed = self.scheduler.outputs(cluster, job).await?.files;
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        listed.truncate(FILES);
        let named = listed.len() > 1;
        for file in listed {
            if tail.read >= MAX_BYTES {
                break;
            }
            self.step(tail, cluster, job, &file, named).await?;
        }
        Ok(())
    }

    /// Reads the bytes that were written to a file since the last request.
    async fn step(
        &self,
        tail: &mut Tail,
        cluster: &Cluster,
        job: &str,
        file: &WrittenFile,
        named: bool,
    ) -> Result<(), PortError> {
        let known = tail.files.entry(file.name.clone()).or_insert_with(|| TailedFile {
            read: 0,
            redactor: Redactor::new(Arc::clone(&self.rules)),
            started: Vec::new(),
        });
        let new = match file.size_bytes {
            Some(size) if size <= known.read => return Ok(()),
            Some(size) => size - known.read,
            None => 0,
        };
        // The bytes that were not read yet, if the adapter can start at an offset.
        let ending = match new {
            0 => None,
            new => self.scheduler.read_tail(cluster, job, &file.name, new).await?,
        };
        let (mut body, mut skip) = match ending.filter(|ending| ending.from <= known.read) {
            Some(ending) => (ending.body, known.read - ending.from),
            None => (self.scheduler.output(cluster, job, &file.name).await?, known.read),
        };
        while skip > 0 {
            let skipped =
                copy(&mut (&mut body).take(skip), &mut sink()).await.map_err(PortError::transient)?;
            if skipped == 0 {
                return Ok(());
            }
            skip -= skipped;
        }
        let mut bytes = Vec::new();
        body.take(STEP).read_to_end(&mut bytes).await.map_err(PortError::transient)?;
        known.read += bytes.len() as u64;
        tail.read += bytes.len() as u64;
        let mut clean = Vec::new();
        known.redactor.push(&bytes, &mut clean);
        let name = file.name.strip_suffix(".log").unwrap_or(&file.name);
        let prefix = if named { format!("{name}: ") } else { String::new() };
        for byte in clean {
            if byte == b'\n' {
                let line = format!("{prefix}{}", shown(&known.started));
                known.started.clear();
                tail.last += 1;
                tail.lines.push_back(line);
                if tail.lines.len() > LINES {
                    tail.lines.pop_front();
                }
            } else if known.started.len() < LONGEST {
                known.started.push(byte);
            }
        }
        Ok(())
    }
}

/// A line without control characters.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\r').chars();
    text.map(|letter| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter }).collect()
}

impl Tail {
    /// The kept lines after a line number. A number beyond the last line comes from an earlier process: returns all lines.
    fn after(&self, after: u64) -> OutputLines {
        let after = if after > self.last { 0 } else { after };
        let kept = self.last - self.lines.len() as u64;
        let skipped = usize::try_from(after.saturating_sub(kept)).unwrap_or(usize::MAX);
        let lines: Vec<_> = self.lines.iter().skip(skipped).cloned().collect();
        let ended = (self.read >= MAX_BYTES).then(|| {
            format!("the first {} MiB are shown; the collected logs have the rest", MAX_BYTES >> 20)
        });
        OutputLines { first: self.last - lines.len() as u64 + 1, lines, last: self.last, ended }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_lines_are_returned_and_the_number_of_kept_lines_is_bounded() {
        let mut tail = Tail::default();
        for number in 1..=LINES as u64 + 5 {
            tail.lines.push_back(format!("line {number}"));
            tail.last = number;
        }
        tail.lines.drain(..5);
        let first = tail.after(0);
        assert_eq!((first.first, first.lines.len(), first.last), (6, LINES, LINES as u64 + 5));
        let next = tail.after(LINES as u64 + 3);
        assert_eq!((next.first, next.lines.len()), (LINES as u64 + 4, 2));
        assert!(tail.after(LINES as u64 + 5).lines.is_empty());
        assert_eq!(
            tail.after(9999).lines.len(),
            LINES,
            "a line number of an earlier process returns all kept lines"
        );
    }

    #[test]
    fn a_line_has_no_control_characters() {
        assert_eq!(shown(b"a\x1b[31m\tb\r"), "a\u{fffd}[31m\tb");
    }
}
