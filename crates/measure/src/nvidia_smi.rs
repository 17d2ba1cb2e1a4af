//! `nvidia-smi -q`, text and XML (`-x`): state, errors and limits of GPUs.

mod rules;

use memchr::memchr;
use model::{
    measurement::LogEnd,
    metric::{
        Severity::{Configuration, Hardware, Unknown},
        Subject,
    },
};

use crate::{
    format::{Format, Reader},
    lines::{Line, Lines},
    number::{PrintedNumber, count, number},
    reading_builder::{ReadingBuilder, short},
    text::{SearchPhrase, trim},
};

use rules::{FieldRule, METRICS, is_reason, same, same_section, throttle_rule, with_element, with_name};

pub(crate) const FORMAT: Format = Format {
    name: "nvidia-smi",
    programs: "`nvidia-smi -q` and `nvidia-smi -q -x` of drivers 515 and later",
    end: "text: the section `Processes` of each announced GPU; XML: `</nvidia_smi_log>` after the announced number of GPUs",
    unread: "all other values, such as memory sizes, utilization and supported clocks",
    metrics: &METRICS,
    findings: &[
        ("ECC_UNCORRECTABLE", "Uncorrected memory errors since the driver was loaded"),
        ("SRAM_THRESHOLD_EXCEEDED", "On-chip memory has more errors than the limit for replacement"),
        ("UNREPAIRABLE_MEMORY", "Memory cannot be repaired"),
        ("REPAIR_PENDING", "A repair awaits a reset"),
        ("ROW_REMAP_PENDING", "A memory row awaits remapping, which needs a reset"),
        ("ROW_REMAP_FAILED", "Remapping a memory row failed"),
        ("GPU_THROTTLED", "The GPU reduces its clocks because of heat or power"),
        ("GPU_RECOVERY_ACTION", "The driver requests a reset, drain or reboot"),
        ("ECC_DISABLED", "ECC is disabled"),
        ("FABRIC_NOT_READY", "The GPU is not registered with the NVLink fabric"),
        ("SMI_ERROR", "The program failed, or printed an error instead of a value"),
    ],
    marks: &[&["==NVSMI LOG=="], &["<nvidia_smi_log>"], &["nvidia_smi_log SYSTEM"]],
    reader: Reader::Lines(|| Box::<Smi>::default()),
};

#[derive(Default)]
struct Smi {
    /// Elements of the XML document that are open, or sections of the text.
    path: SectionPath,
    announced: Option<u32>,
    gpus: u32,
    ended: u32,
    bus: Option<String>,
    product: Option<String>,
    serial: Option<String>,
    xml: bool,
    closed: bool,
    failed: bool,
}

/// Maximum depth of the document.
const DEPTH: usize = 16;

/// Names of the open sections with their indentation. Their memory is reused, because each line of text opens a section.
#[derive(Default)]
struct SectionPath {
    names: Vec<(usize, String)>,
    length: usize,
}

impl SectionPath {
    fn open(&self) -> &[(usize, String)] {
        &self.names[..self.length]
    }

    /// The name of the section at this depth.
    fn name(&self, depth: usize) -> Option<&str> {
        self.open().get(depth).map(|(_, name)| name.as_str())
    }

    fn push(&mut self, indent: usize, name: &str) {
        if self.length == DEPTH {
            return;
        }
        if self.length == self.names.len() {
            self.names.push((indent, String::new()));
        }
        let (place, text) = &mut self.names[self.length];
        *place = indent;
        text.clear();
        text.push_str(short(name));
        self.length += 1;
    }

    fn pop(&mut self) {
        self.length = self.length.saturating_sub(1);
    }

    /// Closes the sections with at least this indentation.
    fn close(&mut self, indent: usize) {
        while self.open().last().is_some_and(|(place, _)| *place >= indent) {
            self.pop();
        }
    }
}

static CLOSING: SearchPhrase = SearchPhrase::new("</");
static COLON: SearchPhrase = SearchPhrase::new(" : ");

impl Lines for Smi {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = trim(line.text);
        if text.starts_with('<') {
            self.xml = true;
            self.element(text, line, out);
        } else if !self.xml {
            self.text(text, line, out);
        }
        if !text.starts_with(['U', 'N', 'F']) {
            return;
        }
        if text.starts_with("Unable to determine the device handle")
            || text.starts_with("NVIDIA-SMI has failed")
            || text.starts_with("No devices were found")
            || text.starts_with("Failed to initialize NVML")
        {
            self.failed = true;
            out.error(text);
            let severity = if text.starts_with("Unable") { Hardware } else { Unknown };
            out.finding("SMI_ERROR", Subject::default(), severity, text, line.number);
        }
    }

    fn finish(&mut self, out: &mut ReadingBuilder) -> LogEnd {
        self.introduce(out);
        let all = self
            .announced
            .is_some_and(|announced| announced > 0 && announced == self.ended && announced == self.gpus);
        match () {
            () if all && (self.closed || !self.xml) && !self.failed => LogEnd::Complete,
            () if self.failed => LogEnd::Failed,
            () if self.announced.is_some() || self.gpus > 0 || self.xml => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

impl Smi {
    /// Reads an element of the XML: `<name>value</name>`, `<name>` or `</name>`.
    fn element(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let Some(end) = memchr(b'>', text.as_bytes()) else { return };
        let (tag, rest) = (&text[1..end], &text[end + 1..]);
        if tag.starts_with(['?', '!']) {
            return;
        }
        if let Some(name) = tag.strip_prefix('/') {
            self.path.pop();
            match name {
                "gpu" => self.ended += 1,
                "nvidia_smi_log" => self.closed = true,
                _ => {}
            }
            return;
        }
        let name = &tag[..tag.bytes().position(|byte| byte == b' ').unwrap_or(tag.len())];
        if let Some((value, _)) = CLOSING.split_once(rest) {
            if self.gpus == 0 {
                match name {
                    "driver_version" => out.version(value),
                    "attached_gpus" => self.announced = count(value),
                    _ => {}
                }
                return;
            }
            self.xml_value(name, value, line, out);
            return;
        }
        if name == "gpu" && self.path.length <= 1 {
            self.gpu(tag.split('"').nth(1).unwrap_or_default(), out);
        }
        if !tag.ends_with('/') {
            self.path.push(0, name);
        }
    }

    fn xml_value(&mut self, name: &str, value: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let Some(outer) = self.path.name(2) else {
            match name {
                "product_name" => self.product = Some(short(value).to_owned()),
                "serial" => self.serial = Some(short(value).to_owned()),
                "uuid" if self.serial.as_deref().is_none_or(|serial| serial == "N/A") => {
                    self.serial = Some(short(value).to_owned());
                }
                "gpu_recovery_action" => self.recovery(value, line, out),
                _ => {}
            }
            return;
        };
        match (outer, name) {
            ("ecc_mode", "current_ecc") => return self.ecc_mode(value, line, out),
            ("fabric", "status") => return self.fabric(value, line, out),
            ("fabric", "state") => return self.fabric_state(value, line, out),
            _ => {}
        }
        let found = with_element(name).find(|rule| {
            let mut names = rule.xml.split('/');
            let inside = &self.path.open()[2..];
            inside.iter().all(|(_, element)| names.next().is_some_and(|name| same(name, element)))
                && names.count() == 1
        });
        if let Some(rule) = found.or_else(|| throttle_rule(name)) {
            self.put(rule, value, line, out);
        }
    }

    /// Reads a line of text: `    Name   : value`, or the name of a section without a colon.
    fn text(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let indent = line.text.len() - line.text.trim_start().len();
        if let Some(bus) = text.strip_prefix("GPU ").filter(|_| indent == 0 && self.announced.is_some()) {
            if line.whole {
                self.gpu(bus, out);
                self.path.length = 0;
            }
            return;
        }
        self.path.close(indent);
        let Some((name, value)) = COLON.split_once(text).or_else(|| Some((text.strip_suffix(" :")?, "")))
        else {
            if self.path.length < DEPTH && self.gpus > 0 {
                self.path.push(indent, text);
                if indent == 4 && text == "Processes" && line.whole {
                    self.ended = self.gpus;
                }
            }
            return;
        };
        let (name, value) = (name.trim_end(), trim(value));
        if self.gpus == 0 {
            match name {
                "Driver Version" => out.version(value),
                "Attached GPUs" if line.whole => self.announced = count(value),
                _ => {}
            }
            return;
        }
        let section = self.path.name(0).unwrap_or_default();
        if indent == 4 {
            match name {
                "Product Name" => self.product = Some(short(value).to_owned()),
                "Serial Number" if line.whole => self.serial = Some(short(value).to_owned()),
                "GPU UUID" if line.whole && self.serial.as_deref().is_none_or(|serial| serial == "N/A") => {
                    self.serial = Some(short(value).to_owned());
                }
                "GPU Recovery Action" => return self.recovery(value, line, out),
                "Processes" => self.ended = self.gpus,
                _ => {}
            }
        }
        match (section, name) {
            ("ECC Mode", "Current") => return self.ecc_mode(value, line, out),
            ("Fabric", "Status") => return self.fabric(value, line, out),
            ("Fabric", "State") => return self.fabric_state(value, line, out),
            _ => {}
        }
        // The last part is the innermost section; `GPU Link Info` lies between `PCI` and `Link Width`.
        let part = self.path.length.checked_sub(1).filter(|last| *last > 0);
        let part = part.and_then(|last| self.path.name(last)).unwrap_or_default();
        let found = with_name(name)
            .find(|rule| same_section(rule.section, section) && (rule.part == part || is_reason(rule, part)));
        // A line with a value can also be the section of the values below it.
        self.path.push(indent, name);
        if let Some(rule) = found.filter(|_| line.whole) {
            self.put(rule, value, line, out);
        }
    }

    fn gpu(&mut self, bus: &str, out: &mut ReadingBuilder) {
        self.introduce(out);
        self.gpus += 1;
        self.bus = Some(short(trim(bus)).to_owned());
    }

    /// Adds the current GPU.
    fn introduce(&mut self, out: &mut ReadingBuilder) {
        let (product, serial) = (self.product.take(), self.serial.take());
        if let Some(bus) = self.bus.take() {
            let serial = serial.filter(|serial| serial != "N/A").map(|serial| out.name(&serial));
            let bus_id = Some(out.name(&bus));
            out.gpu(Subject { serial, bus_id, ..self.subject() }, product.as_deref());
        }
    }

    fn subject(&self) -> Subject {
        Subject::gpu(self.gpus.saturating_sub(1))
    }

    fn put(&self, rule: &'static FieldRule, value: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let metric = out.put(&rule.metric).gpu(self.gpus.saturating_sub(1));
        let flag = match value {
            "Active" | "Yes" => Some(1.0),
            "Not Active" | "No" => Some(0.0),
            _ => None,
        };
        if let Some(flag) = flag {
            metric.value(PrintedNumber { value: flag, resolution: None }, line.number);
        } else {
            let (text, unit) = value.split_once(' ').unwrap_or((value, ""));
            let text =
                if rule.metric.unit == "lanes" { text.strip_suffix('x').unwrap_or(text) } else { text };
            match number(text) {
                Some(number) if unit.is_empty() || unit == rule.metric.unit => {
                    metric.value(number, line.number)
                }
                Some(number) => metric.unit(unit).value(number, line.number),
                None => metric.unmeasurable(value, line.number),
            }
        }
        let name = rule.metric.name;
        let found = match name {
            _ if flag != Some(1.0) => None,
            "smi.ecc.sram_threshold_exceeded" => Some(("SRAM_THRESHOLD_EXCEEDED", Hardware)),
            "smi.ecc.unrepairable_memory" => Some(("UNREPAIRABLE_MEMORY", Hardware)),
            "smi.ecc.channel_repair_pending" | "smi.ecc.tpc_repair_pending" => {
                Some(("REPAIR_PENDING", Hardware))
            }
            "smi.remapped_rows.pending" => Some(("ROW_REMAP_PENDING", Hardware)),
            "smi.remapped_rows.failed" => Some(("ROW_REMAP_FAILED", Hardware)),
            "smi.throttle.hw_slowdown" | "smi.throttle.hw_thermal" | "smi.throttle.hw_power_brake" => {
                Some(("GPU_THROTTLED", Hardware))
            }
            "smi.throttle.sw_thermal" => Some(("GPU_THROTTLED", Unknown)),
            _ => None,
        };
        if let Some((code, severity)) = found {
            out.finding(code, self.subject(), severity, line.text, line.number);
        }
        let is_uncorrectable = name.starts_with("smi.ecc.volatile.") && name.contains("uncorrectable");
        if is_uncorrectable && number(value).is_some_and(|number| number.value > 0.0) {
            out.finding("ECC_UNCORRECTABLE", self.subject(), Hardware, line.text, line.number);
        }
        if value.contains("Error") || value.contains("ERR!") || value.contains("requires reset") {
            out.finding("SMI_ERROR", self.subject(), Hardware, line.text, line.number);
        }
    }

    fn recovery(&self, value: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        if !matches!(value, "None" | "N/A") && line.whole {
            out.finding("GPU_RECOVERY_ACTION", self.subject(), Hardware, line.text, line.number);
        }
    }

    fn ecc_mode(&self, value: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        if value == "Disabled" {
            out.finding("ECC_DISABLED", self.subject(), Configuration, line.text, line.number);
        }
    }

    /// The status is valid only in the state `Completed`: a GPU that is not registered has the status `N/A` (nvml.h, `nvmlGpuFabricInfo_t`).
    fn fabric_state(&self, value: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        if !matches!(value, "Completed" | "Not Supported" | "N/A") && line.whole {
            out.finding("FABRIC_NOT_READY", self.subject(), Configuration, line.text, line.number);
        }
    }

    fn fabric(&self, value: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        if !matches!(value, "Success" | "N/A") && line.whole {
            out.finding("FABRIC_NOT_READY", self.subject(), Unknown, line.text, line.number);
        }
    }
}
