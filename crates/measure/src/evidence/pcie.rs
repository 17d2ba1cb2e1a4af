//! PCIe packets that GPUs retransmitted: `nvidia-smi pci --getErrorCounters`, as printed by driver 580.159 on an H200. Counters of 0 are
//! not printed.
//!
//! A link corrects errors by retransmitting packets, at the cost of speed. NVIDIA recommends at most 8 replays a minute
//! (`DCGM_LIMIT_MAX_PCIREPLAY_RATE`, DCGM, `dcgmlib/dcgm_gpu_hardware_limits.h`). After several failed replays of one packet the link is
//! retrained, and the rollover counter rises.

use std::collections::BTreeMap;

use model::metric::{Severity::Unknown, Subject};

use super::{changes::Changes, line::EvidenceLine, links::by_gpu, smi::Gpus};

/// Maximum replays of a healthy link, per minute.
const REPLAYS_PER_MINUTE: u64 = 8;

/// Counters by GPU and name, with their lines.
#[derive(Debug, Default)]
pub(super) struct Replays {
    /// Time of the lines, s since 1970.
    at: u64,
    counts: BTreeMap<(u32, String), (u64, u64)>,
}

impl Replays {
    /// `None` for evidence of earlier versions, which did not read these counters.
    ///
    /// # Errors
    ///
    /// Returns an error with the text of the first line if no line names a GPU.
    pub fn read(lines: &[EvidenceLine]) -> Result<Option<Self>, String> {
        let Some((first, rest)) = lines.split_first() else { return Ok(None) };
        let at = first.text.strip_prefix("at ").and_then(|at| at.parse().ok());
        let mut replays = Self { at: at.ok_or_else(|| first.text.clone())?, ..Self::default() };
        by_gpu(rest, |gpu, line| {
            if let Some(line) = line
                && let Some((name, count)) = line.text.split_once(':')
                && let Ok(count) = count.trim().parse()
            {
                replays.counts.insert((gpu, name.trim().to_owned()), (count, line.number));
            }
        })?;
        Ok(Some(replays))
    }

    /// Compares with the counters after the job.
    pub fn compare(&self, after: &Self, gpus: &Gpus, changes: &mut Changes) {
        let minutes = after.at.saturating_sub(self.at).div_ceil(60).max(1);
        for (key, (count, line)) in &after.counts {
            let earlier = self.counts.get(key).map_or(0, |(count, _)| *count);
            let rise = count.saturating_sub(earlier);
            let (gpu, name) = key;
            let subject = || gpus.rows.get(gpu).map_or_else(|| Subject::gpu(*gpu), |row| row.subject(*gpu));
            let text = match name.as_str() {
                "REPLAY_COUNTER" if rise > REPLAYS_PER_MINUTE * minutes => format!(
                    "{rise} packets were retransmitted over PCIe during the job, {} a minute; expected at most {REPLAYS_PER_MINUTE}",
                    rise / minutes
                ),
                "REPLAY_ROLLOVER_COUNTER" if rise > 0 => {
                    format!("PCIe link retrainings during the job, after failed replays of a packet: {rise}")
                }
                _ => continue,
            };
            changes.add("PCIE_REPLAYS", Unknown, subject(), &text, *line);
        }
    }
}
