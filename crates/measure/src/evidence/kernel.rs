//! New lines of the kernel log, and lines that may be lost.
//!
//! ```text
//! lines 371                       length of the log
//! oldest [    0.000000]           time of its first line
//! newest [   85.387863]           time of its last line
//! others 2 of 2                   printed and found lines of the driver without a fault, then these lines
//! faults 1 of 1                   printed and found lines of faults, then these lines
//! ```
//!
//! Earlier versions printed only the length, and then the lines.

use std::collections::BTreeMap;

use model::metric::Subject;

use super::{changes::Changes, line::EvidenceLine, smi::Gpus};
use crate::{format, read_as};

/// The kernel log of one phase.
#[derive(Debug)]
pub(super) struct KernelLog<'a> {
    lines: &'a [EvidenceLine],
}

/// Time of a line. Times of different kinds are not comparable.
#[derive(Debug, PartialEq, PartialOrd)]
enum LineTime<'a> {
    /// Since the boot, s.
    SinceBoot(f64),
    /// Date and time of `journalctl -o short-iso`, in the time zone of the node.
    Date(&'a str),
}

impl<'a> LineTime<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(seconds) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return seconds.trim().parse().ok().map(Self::SinceBoot);
        }
        let is_date = text.starts_with(|first: char| first.is_ascii_digit()) && text.contains('T');
        is_date.then_some(Self::Date(text))
    }

    /// Whether this time is after the other one; `None` for times of different kinds.
    fn is_after(&self, other: &Self) -> Option<bool> {
        (std::mem::discriminant(self) == std::mem::discriminant(other)).then(|| self > other)
    }
}

impl<'a> KernelLog<'a> {
    /// Reads the lines; the first one states the length of the log.
    ///
    /// # Errors
    ///
    /// Returns an error with the reason if the log could not be read.
    pub fn read(lines: &'a [EvidenceLine]) -> Result<Self, String> {
        let first = lines.first().map_or("nothing was printed", |line| line.text.as_str());
        match first.strip_prefix("lines ") {
            Some(_) => Ok(Self { lines }),
            None => Err(first.strip_prefix("unreadable ").unwrap_or(first).to_owned()),
        }
    }

    fn stated(&self, name: &str) -> Option<&'a str> {
        self.lines.iter().find_map(|line| line.text.strip_prefix(name))
    }

    /// Whether each line is absent from the earlier log.
    fn is_new(&self, earlier: &Self) -> Vec<bool> {
        let mut old: BTreeMap<&str, usize> = BTreeMap::new();
        for line in earlier.lines {
            *old.entry(&line.text).or_default() += 1;
        }
        let is_new = |line: &EvidenceLine| match old.get_mut(line.text.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        };
        self.lines.iter().map(is_new).collect()
    }

    /// Reasons why lines that the kernel logged since the earlier log may be absent in this one.
    pub fn gaps(&self, earlier: &Self) -> Vec<String> {
        self.overwritten(earlier).into_iter().chain(self.cut(earlier)).collect()
    }

    /// The kernel stores its log in a ring buffer: lines are lost if the oldest line is newer than the newest one of the earlier log.
    fn overwritten(&self, earlier: &Self) -> Option<String> {
        let (first, oldest) = (earlier.stated("oldest ")?, self.stated("oldest ")?);
        if first == oldest {
            return None;
        }
        let newest = earlier.stated("newest ")?;
        let is_after = LineTime::parse(oldest).zip(LineTime::parse(newest));
        match is_after.and_then(|(oldest, newest)| oldest.is_after(&newest)) {
            Some(false) => None,
            Some(true) => Some(format!(
                "its ring buffer was overwritten: the oldest line ({oldest}) is newer than the newest line before the job ({newest})"
            )),
            None => Some(format!(
                "its oldest line changed from {first} to {oldest}, and its lines have no times, so lines may be lost"
            )),
        }
    }

    /// Reason if fault lines were omitted: more faults were found than printed, and no printed fault is in the earlier log.
    fn cut(&self, earlier: &Self) -> Option<String> {
        let (printed, found) = self.stated("faults ")?.split_once(" of ")?;
        let (printed, found): (usize, usize) = (printed.parse().ok()?, found.trim().parse().ok()?);
        let head = self.lines.iter().position(|line| line.text.starts_with("faults "))?;
        let reaches_back = self.is_new(earlier).iter().skip(head + 1).any(|is_new| !is_new);
        (found > printed && !reaches_back)
            .then(|| format!("only the last {printed} of {found} lines about faults were printed"))
    }

    /// Adds the findings of lines that are absent from the earlier log.
    pub fn compare(&self, earlier: &Self, gpus: &Gpus, changes: &mut Changes) {
        let is_new = self.is_new(earlier);
        // Parse all lines, because earlier lines contain the serial numbers of the GPUs.
        let text: String = self.lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
        let Some(format) = format("kernel-log") else { return };
        let Ok(reading) = read_as(format, text.as_bytes()) else { return };
        for finding in reading.findings {
            let at = usize::try_from(finding.line).unwrap_or(usize::MAX).saturating_sub(1);
            let (Some(true), Some(line)) = (is_new.get(at), self.lines.get(at)) else { continue };
            let gpu = finding.subject.bus_id.as_deref().and_then(|bus| gpus.at_bus(bus));
            let subject = gpu.unwrap_or(Subject { node: None, ..finding.subject });
            changes.add(&finding.code, finding.severity, subject, &finding.text, line.number);
        }
    }
}
