//! New lines of the kernel log.

use std::collections::BTreeMap;

use model::metric::Subject;

use super::{changes::Changes, line::EvidenceLine, smi::Gpus};
use crate::{format, read_as};

/// The lines, the first of which states the length of the log.
///
/// # Errors
///
/// Returns an error with the reason if the log could not be read.
pub(super) fn readable(lines: &[EvidenceLine]) -> Result<&[EvidenceLine], String> {
    let first = lines.first().map_or("nothing was printed", |line| line.text.as_str());
    match first.strip_prefix("lines ") {
        Some(_) => Ok(lines),
        None => Err(first.strip_prefix("unreadable ").unwrap_or(first).to_owned()),
    }
}

/// Adds the findings of lines that are in the log after the job and not in the log before it.
pub(super) fn compare(before: &[EvidenceLine], after: &[EvidenceLine], gpus: &Gpus, changes: &mut Changes) {
    let mut old: BTreeMap<&str, usize> = BTreeMap::new();
    for line in before {
        *old.entry(&line.text).or_default() += 1;
    }
    let is_new: Vec<_> = after
        .iter()
        .map(|line| match old.get_mut(line.text.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .collect();
    // Earlier lines name the serial numbers of the GPUs.
    let text: String = after.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
    let Some(format) = format("kernel-log") else { return };
    let Ok(reading) = read_as(format, text.as_bytes()) else { return };
    for finding in reading.findings {
        let at = usize::try_from(finding.line).unwrap_or(usize::MAX).saturating_sub(1);
        let (Some(true), Some(line)) = (is_new.get(at), after.get(at)) else { continue };
        let known = finding.subject.bus_id.as_deref().and_then(|bus| gpus.at_bus(bus));
        let subject = known.unwrap_or(Subject { node: None, ..finding.subject });
        changes.add(&finding.code, finding.severity, subject, &finding.text, line.number);
    }
}
