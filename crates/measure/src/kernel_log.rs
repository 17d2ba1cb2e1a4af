//! The kernel log: Xid of GPUs, SXid of NVSwitches, machine checks, PCIe errors and processes killed for memory.
//!
//! A kernel log has no end mark. The command of a check prints an end mark after the log, so that a truncated log is never evidence that
//! errors are absent.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use aho_corasick::AhoCorasick;
use model::{
    measurement::LogEnd,
    metric::{Severity, Subject},
};

use crate::{
    format::{Format, Reader},
    lines::{Line, Lines},
    number::count,
    reading_builder::ReadingBuilder,
    text::{SearchPhrase, trim},
    xid::{sxid, xid},
};

pub(crate) const FORMAT: Format = Format {
    name: "kernel-log",
    programs: "`dmesg` and `journalctl -k`, with any time format",
    end: "a line `-- end of kernel log --` after at least one kernel line or `-- No entries --` of journalctl; the command of \
          the check prints it after the log; without this line, findings are valid but their absence is no evidence",
    unread: "times, and all lines without a finding",
    metrics: &[],
    findings: &[
        ("XID_<code>", "NVIDIA's driver reported this Xid of a GPU"),
        ("SXID_<code>", "NVIDIA's driver reported this SXid of an NVSwitch"),
        ("MACHINE_CHECK", "The processor reported a hardware error"),
        ("PCIE_AER", "An uncorrected PCIe error"),
        ("OUT_OF_MEMORY", "The kernel killed a process because memory was exhausted"),
        ("KERNEL_LOG_ERROR", "The kernel log could not be read"),
    ],
    marks: &[
        &["NVRM: Xid ("],
        &[": SXid ("],
        &["-- end of kernel log --"],
        &["] Linux version "],
        &[" kernel: ", "Linux version"],
        &["] NVRM: "],
    ],
    reader: Reader::Raw(|| Box::<Kernel>::default()),
};

/// Maximum number of GPUs whose serial numbers are stored.
const GPUS: usize = 1024;

/// `Out of memory: Killed process` of a node, and `Memory cgroup out of memory: Killed process` of a limit, as under Slurm and Kubernetes
/// (`out_of_memory` in mm/oom_kill.c of Linux).
const OUT_OF_MEMORY: &str = "ut of memory: Kill";

/// Parts of the lines that are read.
const PHRASES: [&str; 7] =
    ["dmesg: ", "Operation not permitted", "NVRM: ", ": SXid (", "[Hardware Error]", "AER: ", OUT_OF_MEMORY];

#[derive(Default)]
struct Kernel {
    lines: u64,
    end: bool,
    failed: bool,
    /// Serial number or UUID by bus id.
    serials: BTreeMap<Arc<str>, Arc<str>>,
    /// Bus id of the GPU in the last line `GPU at PCI:`; a line with the serial number of its board follows.
    introduced: Option<Arc<str>>,
}

static DRIVER: SearchPhrase = SearchPhrase::new("NVRM: ");
static SWITCH: SearchPhrase = SearchPhrase::new(": SXid (");
static KERNEL: SearchPhrase = SearchPhrase::new(" kernel:");
static AFTER_BUS: SearchPhrase = SearchPhrase::new("): ");

impl Lines for Kernel {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        match text {
            "-- end of kernel log --" => return self.end = true,
            "-- No entries --" => return self.lines += 1,
            _ => {}
        }
        // Lines after the end mark belong to another log, which needs its own mark.
        self.end = false;
        static PHRASE: LazyLock<AhoCorasick> =
            LazyLock::new(|| AhoCorasick::new(PHRASES).expect("short phrases"));
        // Skip most lines early: they contain no phrase.
        if !PHRASE.is_match(text) {
            self.lines += 1;
            return;
        }
        if text.starts_with("dmesg: ")
            || text.contains("Operation not permitted") && !text.contains("kernel:")
        {
            self.failed = true;
            out.error(text);
            out.finding("KERNEL_LOG_ERROR", Subject::default(), Severity::Configuration, text, line.number);
            return;
        }
        self.lines += 1;
        if let Some(at) = DRIVER.find(text) {
            self.driver(text, &text[at + 6..], line, out);
        } else if let Some(at) = SWITCH.find(text) {
            switch(text, &text[at + 2..], line, out);
        } else if text.contains("[Hardware Error]") {
            let severity =
                if text.contains("events logged") { Severity::Unknown } else { Severity::Hardware };
            let subject = node(text, out);
            out.finding("MACHINE_CHECK", subject, severity, text, line.number);
        } else if text.contains("AER: ") && text.contains("ncorrect") {
            let severity = if text.contains("(Fatal)") { Severity::Hardware } else { Severity::Unknown };
            let subject = node(text, out);
            out.finding("PCIE_AER", subject, severity, text, line.number);
        } else if text.contains(OUT_OF_MEMORY) {
            let subject = node(text, out);
            out.finding("OUT_OF_MEMORY", subject, Severity::Software, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        match () {
            () if self.failed => LogEnd::Failed,
            () if self.end && self.lines > 0 => LogEnd::Complete,
            () if self.end || self.lines > 0 => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

/// The host name before ` kernel:` of syslog and journalctl.
fn host<'a>(text: &'a str, out: &mut ReadingBuilder) -> Option<Arc<str>> {
    let (before, _) = KERNEL.split_once(text)?;
    let name: &'a str = before.rsplit(' ').next()?;
    (!name.is_empty() && before.len() > name.len()).then(|| out.name(name))
}

fn node(text: &str, out: &mut ReadingBuilder) -> Subject {
    Subject { node: host(text, out), ..Subject::default() }
}

/// Parses `(PCI:0000:9b:00): 79, GPU has ...` into bus id, code and the rest. The comma shows that the code is not cut. For an instance
/// of MIG the bus id is followed by the instance: `(PCI:0000:9b:00 GPU-I:05 GPU-CI:01)` (kernel_rc.c of open-gpu-kernel-modules).
fn code(rest: &str) -> Option<(&str, u32, &str)> {
    let (bus, rest) = AFTER_BUS.split_once(rest.strip_prefix('(')?)?;
    let (code, said) = rest.split_once(',')?;
    let bus = bus.strip_prefix("PCI:").unwrap_or(bus);
    Some((bus.split(' ').next().unwrap_or(bus), count(code.trim())?, said.trim()))
}

/// Reads an error of an NVSwitch: `nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, ...`.
fn switch(text: &str, rest: &str, line: Line<'_>, out: &mut ReadingBuilder) {
    let Some((bus, code, said)) = rest.strip_prefix("SXid ").and_then(code) else { return };
    // A second line repeats the code with its raw data.
    if said.starts_with("Data {") {
        return;
    }
    let (severity, meaning) = sxid(code, said.starts_with("Fatal"));
    let subject = Subject { node: host(text, out), bus_id: Some(out.name(bus)), ..Subject::default() };
    out.finding(
        format_args!("SXID_{code}"),
        subject,
        severity,
        format_args!("{meaning}: {}", &rest),
        line.number,
    );
}

impl Kernel {
    /// Reads a line of NVIDIA's driver.
    fn driver(&mut self, text: &str, rest: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        if let Some(introduced) = rest.strip_prefix("GPU at PCI:") {
            let Some((bus, uuid)) = introduced.split_once(": ") else { return };
            let bus = out.name(bus);
            if self.serials.len() < GPUS && line.whole {
                let uuid = out.name(uuid);
                self.serials.insert(bus.clone(), uuid);
            }
            self.introduced = Some(bus);
        } else if let Some(serial) = rest.strip_prefix("GPU Board Serial Number: ") {
            let bus = self.introduced.take().filter(|bus| line.whole && self.serials.contains_key(bus));
            if let Some(bus) = bus {
                let serial = out.name(serial);
                let subject =
                    Subject { bus_id: Some(bus.clone()), serial: Some(serial.clone()), ..Subject::default() };
                out.gpu(subject, None);
                self.serials.insert(bus, serial);
            }
        } else if let Some((bus, code, _)) = rest.strip_prefix("Xid ").and_then(code) {
            let (severity, meaning) = xid(code);
            let bus = out.name(bus);
            let subject = Subject {
                node: host(text, out),
                serial: self.serials.get(&bus).cloned(),
                bus_id: Some(bus),
                ..Subject::default()
            };
            out.finding(
                format_args!("XID_{code}"),
                subject,
                severity,
                format_args!("{meaning}: {rest}"),
                line.number,
            );
        }
    }
}
