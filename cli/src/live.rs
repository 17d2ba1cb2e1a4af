//! Output of a running job, read from the scheduler's output files before the logs are collected.

use std::collections::BTreeMap;

use cluster_api::{FileTail, Scheduler};
use clusters::Schedulers;
use lifecycle::RunState;
use model::{CheckIndex, Cluster, CommandId, Stage, Verb};
use service::PortError;
use tokio::io::{AsyncReadExt, copy, sink};

use crate::local::DataFolder;

/// Maximum number of bytes of one file in one poll.
const MAX_BYTES: u64 = 1 << 20;

/// Follows the output of the current job of a run.
pub struct LiveOutput {
    scheduler: Schedulers,
    /// Position and incomplete last line of each file, by its name.
    files: BTreeMap<String, FollowedFile>,
    job: Option<FollowedJob>,
}

#[derive(Default)]
struct FollowedFile {
    offset: u64,
    rest: Vec<u8>,
    /// Number of lines already read.
    lines: usize,
}

#[derive(Clone, PartialEq)]
struct FollowedJob {
    cluster: Cluster,
    id: CommandId,
}

pub struct NewLines {
    /// Name as in the list of collected logs.
    pub file: String,
    /// Redacted lines.
    pub text: String,
}

impl FollowedJob {
    /// The job that the run waits for, if the scheduler has accepted it.
    fn of(state: &RunState, check: Option<CheckIndex>) -> Option<Self> {
        let step = state.current_step().filter(|step| step.stage == Stage::Job)?;
        state.stage(step)?.handle.as_ref()?;
        if check.is_some_and(|check| check != step.check) {
            return None;
        }
        let id = CommandId {
            run: state.run.clone(),
            stage: Stage::Job,
            attempt: state.attempt(step),
            verb: Verb::Start,
        };
        Some(Self { cluster: state.cluster()?.clone(), id })
    }
}

impl LiveOutput {
    pub fn new(data: &DataFolder) -> Self {
        Self { scheduler: Schedulers::new(&data.store), files: BTreeMap::new(), job: None }
    }

    /// Number of lines of a collected log that were already read here. The output of an ended job may be deleted with its
    /// cluster before its last lines are read; the collected log has them.
    pub fn lines_of(&self, file: &str) -> usize {
        self.files.get(file).map_or(0, |followed| followed.lines)
    }

    /// Lines written since the last call by `check`, or by any check if it is `None`. Empty if the output of the job
    /// cannot be read: the logs are collected when the job ends.
    pub async fn next(&mut self, state: &RunState, check: Option<CheckIndex>) -> Vec<NewLines> {
        let current = FollowedJob::of(state, check);
        let mut new = Vec::new();
        if let Some(ended) = self.job.take().filter(|before| current.as_ref() != Some(before)) {
            self.read(&ended, true, &mut new).await;
        }
        if let Some(current) = current {
            self.read(&current, false, &mut new).await;
            self.job = Some(current);
        }
        new
    }

    async fn read(&mut self, job: &FollowedJob, ended: bool, new: &mut Vec<NewLines>) {
        let FollowedJob { cluster, id } = job;
        let name = id.resource_name();
        let listed = match self.scheduler.outputs(cluster, &name).await {
            Ok(listed) => listed,
            Err(error) => return tracing::debug!(?error, name, "the output of the job cannot be listed"),
        };
        for written in listed.files {
            let file = format!("{}/{}", id.attempt, written.name);
            let followed = self.files.entry(file.clone()).or_default();
            if written.size_bytes.is_some_and(|size| size < followed.offset) {
                *followed = FollowedFile::default(); // log rotation has replaced the file
            }
            let size = written.size_bytes.unwrap_or(u64::MAX);
            let body =
                match unread(&self.scheduler, cluster, (&name, &written.name), followed.offset, size).await {
                    Ok(body) => body,
                    Err(error) => {
                        tracing::debug!(?error, file, "the output of the job cannot be read");
                        continue;
                    }
                };
            let text = followed.lines(&body, ended);
            if !text.is_empty() {
                new.push(NewLines { file, text });
            }
        }
    }
}

/// The bytes of a file after an offset.
async fn unread(
    scheduler: &Schedulers,
    cluster: &Cluster,
    (job, file): (&str, &str),
    offset: u64,
    size: u64,
) -> Result<Vec<u8>, PortError> {
    if size <= offset {
        return Ok(Vec::new());
    }
    let ending =
        if size == u64::MAX { None } else { scheduler.read_tail(cluster, job, file, size - offset).await? };
    let (from, mut body) = match ending {
        Some(FileTail { from, body }) => (from, body),
        None => (0, scheduler.output(cluster, job, file).await?),
    };
    copy(&mut (&mut body).take(offset.saturating_sub(from)), &mut sink())
        .await
        .map_err(PortError::transient)?;
    let mut new = Vec::new();
    body.take(MAX_BYTES).read_to_end(&mut new).await.map_err(PortError::transient)?;
    Ok(new)
}

impl FollowedFile {
    /// Whole lines; at the end of the job also an incomplete last line. Secrets are recognized in whole lines only.
    fn lines(&mut self, body: &[u8], ended: bool) -> String {
        self.offset += body.len() as u64;
        self.rest.extend_from_slice(body);
        let whole = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            _ if ended => self.rest.len(),
            Some(last) => last + 1,
            None => 0,
        };
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        let mut text = redact::redacted(&String::from_utf8_lossy(&lines));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        self.lines += text.matches('\n').count();
        text
    }
}

/// A row of nccl-tests' table, formatted for display; `None` for other lines.
pub fn benchmark_row(line: &str) -> Option<String> {
    // `srun --label` writes the rank before each line.
    let line = line.trim().split_once(": ").map_or(line.trim(), |(label, rest)| {
        if label.bytes().all(|byte| byte.is_ascii_digit()) { rest } else { line }
    });
    let words: Vec<_> = line.split_whitespace().collect();
    let size: u64 = words.first()?.parse().ok()?;
    words.get(1)?.parse::<u64>().ok()?;
    let [.., _, _, out_of_place, _, time, _, in_place, _] = words[..] else { return None };
    time.parse::<f64>().ok()?;
    let busbw = |word: &str| word.parse::<f64>().ok().filter(|busbw| busbw.is_finite());
    let (out_of_place, in_place) = (busbw(out_of_place)?, busbw(in_place)?);
    let size = report::size(size);
    Some(format!("{size:>9}  {out_of_place:>8.2} GB/s out of place  {in_place:>8.2} GB/s in place"))
}

#[cfg(test)]
mod tests {
    use super::benchmark_row;

    #[test]
    fn a_row_of_the_table_is_recognised_and_other_lines_are_not() {
        let row = "  1048576  262144  float  sum  -1   31.67   33.11   49.67      0     46.6    22.5   33.75      0";
        let shown = "    1 MiB     49.67 GB/s out of place     33.75 GB/s in place";
        assert_eq!(benchmark_row(row).as_deref(), Some(shown));
        assert_eq!(benchmark_row(&format!("0: {row}")).as_deref(), Some(shown));
        let without_root = "64 16 float 42.13 0.00 0.00 N/A 40.70 0.00 0.00 N/A";
        assert!(benchmark_row(without_root).is_some());
        for other in
            ["", "# Avg bus bandwidth : 247", "12 34", "node-0: NCCL INFO 1 2 3 4 5 6 7 8 9 10 11 12"]
        {
            assert_eq!(benchmark_row(other), None, "{other}");
        }
    }
}
