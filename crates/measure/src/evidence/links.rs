//! NVLinks: lines of `nvidia-smi nvlink -s` that are inactive, and of `nvidia-smi nvlink -e` with other counts than 0.

use std::collections::{BTreeMap, BTreeSet};

use model::metric::{
    Severity::{Configuration, Hardware, Unknown},
    Subject,
};

use super::{changes::Changes, separated::Line, smi::Gpus};

/// The links of the GPUs of a node.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Inactive links by GPU. A GPU without inactive links has an empty set.
    inactive: BTreeMap<u32, BTreeSet<u32>>,
    /// GPUs all of whose links are inactive.
    all_inactive: BTreeSet<u32>,
    /// Count and line by GPU, link and kind of error.
    errors: BTreeMap<(u32, u32, String), (u64, u64)>,
    line: u64,
}

/// The number in `GPU 3: ...` or `Link 3: ...`, and the rest.
fn numbered<'a>(text: &'a str, word: &str) -> Option<(u32, &'a str)> {
    let (number, rest) = text.trim().strip_prefix(word)?.trim_start().split_once(':')?;
    Some((number.parse().ok()?, rest.trim()))
}

impl Links {
    /// # Errors
    ///
    /// Returns the first text if no line names a GPU.
    pub fn read_states(&mut self, lines: &[Line]) -> Result<(), String> {
        let mut gpu = None;
        for Line { number, text } in lines {
            self.line = *number;
            if let Some((index, _)) = numbered(text, "GPU") {
                gpu = Some(index);
                self.inactive.entry(index).or_default();
            } else if let (Some(gpu), Some((link, rest))) = (gpu, numbered(text, "Link")) {
                if rest.contains("inactive") {
                    self.inactive.entry(gpu).or_default().insert(link);
                }
            } else if let Some(gpu) = gpu.filter(|_| text.contains("all links are inActive")) {
                self.all_inactive.insert(gpu);
            }
        }
        named(lines, !self.inactive.is_empty())
    }

    /// # Errors
    ///
    /// Returns the first text if no line names a GPU.
    pub fn read_errors(&mut self, lines: &[Line]) -> Result<(), String> {
        let mut gpu = None;
        for Line { number, text } in lines {
            if let Some((index, _)) = numbered(text, "GPU") {
                gpu = Some(index);
            } else if let (Some(gpu), Some((link, rest))) = (gpu, numbered(text, "Link"))
                && let Some((kind, count)) = rest.rsplit_once(": ")
                && let Ok(count) = count.trim().parse()
            {
                self.errors.insert((gpu, link, kind.to_owned()), (count, *number));
            }
        }
        named(lines, gpu.is_some())
    }
}

fn named(lines: &[Line], is_named: bool) -> Result<(), String> {
    let first = || lines.first().map_or("nvidia-smi printed nothing", |line| line.text.trim());
    if is_named { Ok(()) } else { Err(first().to_owned()) }
}

/// Compares the links before and after the job, and with those of the node's other GPUs.
pub(super) fn compare([before, after]: &[Links; 2], gpus: &Gpus, changes: &mut Changes) {
    let subject = |gpu: u32, link: Option<u32>| Subject {
        link: link.map(|link| format!("nvlink{link}").into()),
        ..gpus.rows.get(&gpu).map_or_else(|| Subject::gpu(gpu), |row| row.subject(gpu))
    };
    let works = |links: &Links, gpu: u32| {
        links.inactive.get(&gpu).is_some_and(BTreeSet::is_empty) && !links.all_inactive.contains(&gpu)
    };
    let one_works = after.inactive.keys().any(|gpu| works(after, *gpu));
    for (gpu, links) in &after.inactive {
        let earlier = before.inactive.get(gpu);
        for link in links {
            let became = earlier.is_some_and(|earlier| !earlier.contains(link));
            if became || one_works {
                let text = match became {
                    true => "the link became inactive during the job",
                    false => "the link is inactive; all links of another GPU of this node are active",
                };
                changes.add("NVLINK_DOWN", Hardware, subject(*gpu, Some(*link)), text, after.line);
            }
        }
        if after.all_inactive.contains(gpu) && !before.all_inactive.contains(gpu) {
            let text = "all links became inactive during the job";
            changes.add("NVLINK_DOWN", Hardware, subject(*gpu, None), text, after.line);
        } else if !one_works && (after.all_inactive.contains(gpu) || !links.is_empty()) {
            // Cards for PCIe slots have links that need a bridge.
            let name = gpus.rows.get(gpu).map_or("", |row| row.name()).to_lowercase();
            if !name.contains("pcie") && !name.contains("nvl") && after.inactive.len() > 1 {
                let text = "links of each GPU of this node are inactive: check Fabric Manager";
                changes.add("NVLINK_DOWN", Configuration, subject(*gpu, None), text, after.line);
            }
        }
    }
    for ((gpu, link, kind), (count, line)) in &after.errors {
        let earlier = before.errors.get(&(*gpu, *link, kind.clone())).map_or(0, |(count, _)| *count);
        if *count > earlier {
            // Replays and checksum errors are corrected, at the cost of speed.
            let severity = if kind.contains("Recovery") { Hardware } else { Unknown };
            let text = format!("{kind} rose from {earlier} to {count} during the job");
            changes.add("NVLINK_ERRORS", severity, subject(*gpu, Some(*link)), &text, *line);
        }
    }
}
