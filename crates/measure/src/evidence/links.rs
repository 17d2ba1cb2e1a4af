//! NVLinks: lines of `nvidia-smi nvlink -s` that are inactive, and of `nvidia-smi nvlink -e` with counts other than 0.
//!
//! The lines of active links and of counters are those of driver 580.159 on two H100. For a GPU whose links are all inactive, nvidia-smi
//! prints `Unable to retrieve NVLink information as all links are inActive` instead (leptonai/gpud, issue 1085), or with `inactive`
//! (Azure/azurehpc-health-checks, test/data/bad_nvlink_status.txt).

use std::collections::{BTreeMap, BTreeSet};

use model::metric::{
    Severity::{Configuration, Hardware, Unknown},
    Subject,
};

use super::{changes::Changes, line::EvidenceLine, smi::Gpus};

/// Inactive links of a GPU.
#[derive(Debug, PartialEq, Eq)]
enum Inactive {
    /// Links listed as inactive; usually none.
    Some(BTreeSet<u32>),
    All,
}

#[derive(Debug, Default)]
pub(super) struct LinkStates {
    gpus: BTreeMap<u32, Inactive>,
    line: u64,
}

#[derive(Debug, Default)]
pub(super) struct LinkErrors {
    gpus: BTreeSet<u32>,
    /// Count and line by GPU, link and kind of error.
    counts: BTreeMap<(u32, u32, String), (u64, u64)>,
}

/// The number in `GPU 3: ...` or `Link 3: ...`, and the rest.
fn numbered<'a>(text: &'a str, word: &str) -> Option<(u32, &'a str)> {
    let (number, rest) = text.trim().strip_prefix(word)?.trim_start().split_once(':')?;
    Some((number.parse().ok()?, rest.trim()))
}

/// Calls `each` for each line that names a GPU, and with that GPU for each line below it.
///
/// # Errors
///
/// Returns an error with the text of the first line if no line names a GPU.
pub(super) fn by_gpu(
    lines: &[EvidenceLine],
    mut each: impl FnMut(u32, Option<&EvidenceLine>),
) -> Result<(), String> {
    let mut gpu = None;
    for line in lines {
        if let Some((index, _)) = numbered(&line.text, "GPU") {
            gpu = Some(index);
            each(index, None);
        } else if let Some(gpu) = gpu {
            each(gpu, Some(line));
        }
    }
    let first = || lines.first().map_or("nvidia-smi printed nothing", |line| line.text.trim());
    gpu.map(|_| ()).ok_or_else(|| first().to_owned())
}

impl LinkStates {
    /// # Errors
    ///
    /// Returns an error with the text of the first line if no line names a GPU.
    pub fn read(lines: &[EvidenceLine]) -> Result<Self, String> {
        let mut states = Self { line: lines.last().map_or(0, |line| line.number), ..Self::default() };
        by_gpu(lines, |gpu, line| {
            let links = states.gpus.entry(gpu).or_insert_with(|| Inactive::Some(BTreeSet::new()));
            let Some(line) = line else { return };
            if line.text.to_lowercase().contains("all links are inactive") {
                *links = Inactive::All;
            } else if let (Inactive::Some(links), Some((link, rest))) = (links, numbered(&line.text, "Link"))
                && rest.contains("inactive")
            {
                links.insert(link);
            }
        })?;
        Ok(states)
    }

    pub fn lists(&self, gpu: u32) -> bool {
        self.gpus.contains_key(&gpu)
    }
}

impl LinkErrors {
    /// # Errors
    ///
    /// Returns an error with the text of the first line if no line names a GPU.
    pub fn read(lines: &[EvidenceLine]) -> Result<Self, String> {
        let mut errors = Self::default();
        by_gpu(lines, |gpu, line| {
            errors.gpus.insert(gpu);
            if let Some(line) = line
                && let Some((link, rest)) = numbered(&line.text, "Link")
                && let Some((kind, count)) = rest.rsplit_once(": ")
                && let Ok(count) = count.trim().parse()
            {
                errors.counts.insert((gpu, link, kind.to_owned()), (count, line.number));
            }
        })?;
        Ok(errors)
    }

    pub fn lists(&self, gpu: u32) -> bool {
        self.gpus.contains(&gpu)
    }
}

fn subject(gpus: &Gpus, gpu: u32, link: Option<u32>) -> Subject {
    Subject {
        link: link.map(|link| format!("nvlink{link}").into()),
        ..gpus.rows.get(&gpu).map_or_else(|| Subject::gpu(gpu), |row| row.subject(gpu))
    }
}

/// Compares the links of each GPU before and after the job, and with the links of the node's other GPUs.
pub(super) fn compare_states(before: &LinkStates, after: &LinkStates, gpus: &Gpus, changes: &mut Changes) {
    let works = |links: &Inactive| *links == Inactive::Some(BTreeSet::new());
    let one_works = after.gpus.values().any(works);
    for (gpu, links) in &after.gpus {
        let earlier = before.gpus.get(gpu);
        let inactive: Vec<Option<u32>> = match links {
            Inactive::Some(links) => links.iter().copied().map(Some).collect(),
            Inactive::All => vec![None],
        };
        for link in inactive {
            let became = earlier.is_some_and(|earlier| match (earlier, link) {
                (Inactive::Some(earlier), Some(link)) => !earlier.contains(&link),
                (Inactive::Some(_), None) => true,
                (Inactive::All, _) => false,
            });
            if became {
                let text = "the link became inactive during the job";
                changes.add("NVLINK_DOWN", Hardware, subject(gpus, *gpu, link), text, after.line);
            } else if one_works {
                let text = "the link is inactive; all links of another GPU of this node are active";
                changes.add("NVLINK_DOWN", Hardware, subject(gpus, *gpu, link), text, after.line);
            }
        }
        let needs_links = gpus.rows.get(gpu).is_some_and(|row| row.needs_links());
        if !one_works && needs_links && after.gpus.len() > 1 && earlier == Some(links) {
            let text = "links of each GPU of this node are inactive: check Fabric Manager";
            changes.add("NVLINK_DOWN", Configuration, subject(gpus, *gpu, None), text, after.line);
        }
    }
}

/// Compares the counters before and after the job; a counter of 0 is not printed.
pub(super) fn compare_errors(before: &LinkErrors, after: &LinkErrors, gpus: &Gpus, changes: &mut Changes) {
    for (key, (count, line)) in &after.counts {
        let earlier = before.counts.get(key).map_or(0, |(count, _)| *count);
        if *count > earlier {
            let (gpu, link, kind) = key;
            // Replays and checksum errors are corrected, at the cost of speed.
            let severity = if kind.contains("Recovery") { Hardware } else { Unknown };
            let text = format!("{kind} rose from {earlier} to {count} during the job");
            changes.add("NVLINK_ERRORS", severity, subject(gpus, *gpu, Some(*link)), &text, *line);
        }
    }
}
