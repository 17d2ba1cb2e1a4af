//! Rows of `nvidia-smi --query-gpu`, and samples of the GPUs during the job.
//!
//! Names of fields: `nvidia-smi --help-query-gpu` of driver 580.159. Throttle reasons: `nvml.h`, `nvmlClocksEventReason*`.

use std::collections::BTreeMap;

use model::{
    GpuSamples,
    metric::{
        Severity::{self, Configuration, Hardware, Unknown},
        Subject,
    },
};

use super::{changes::Changes, line::EvidenceLine};

/// Counters whose increase is a finding.
const COUNTERS: [(&str, &str, Severity); 2] = [
    ("ecc.errors.uncorrected.volatile.total", "ECC_UNCORRECTABLE", Hardware),
    ("remapped_rows.uncorrectable", "ROW_REMAPPED", Hardware),
];
/// Counters of corrected errors: their rise is recorded and does not affect the verdict. The hardware corrected the data; for a rate that
/// requires action the driver reports Xid 92. A row is remapped because of correctable errors by design; only a pending or failed remap
/// needs an action (NVIDIA GPU Memory Error Management: docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt).
const CORRECTED: [(&str, &str); 2] = [
    ("ecc.errors.corrected.volatile.total", "ECC_CORRECTED"),
    ("remapped_rows.correctable", "ROW_REMAPPED_CORRECTABLE"),
];
/// Versions and settings that must not change during a job.
const CONSTANT: [&str; 6] = [
    "driver_version",
    "vbios_version",
    "persistence_mode",
    "ecc.mode.current",
    "mig.mode.current",
    "power.limit",
];
/// States whose value `Yes` is a finding, and the severity of the finding if the state is older than the job. An old state is a finding as
/// well, because an earlier job may not have been judged. A pending row needs a reset of the GPU.
const STATES: [(&str, &str, Severity); 2] = [
    ("remapped_rows.pending", "ROW_REMAP_PENDING", Unknown),
    ("remapped_rows.failure", "ROW_REMAP_FAILED", Hardware),
];
/// Field whose decrease is a finding.
const WIDTH: &str = "pcie.link.width.current";
/// Fields that the evidence of a GPU stores as versions and settings.
const SETTINGS: [&str; 8] = [
    "name",
    "driver_version",
    "vbios_version",
    "persistence_mode",
    "ecc.mode.current",
    "mig.mode.current",
    "power.limit",
    "pcie.link.width.current",
];
/// Value of `gpu_recovery_action` for a GPU that needs no recovery. Others: `Reset`, `Reboot`, `Drain P2P`, `Drain and Reset`.
const NO_RECOVERY: &str = "None";
/// Bits of the throttle reasons that are findings.
const THROTTLED: [(u64, &str, Severity); 4] = [
    (0x40, "the hardware's thermal slowdown", Hardware),
    (0x80, "the hardware's power brake", Hardware),
    (0x08, "the hardware's slowdown", Hardware),
    (0x20, "the driver's thermal slowdown", Unknown),
];

#[derive(Debug, Default)]
pub(super) struct GpuRow {
    fields: BTreeMap<String, String>,
    line: u64,
}

impl GpuRow {
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.fields.get(name)?.as_str();
        (!value.is_empty() && !matches!(value, "N/A" | "[N/A]" | "[Not Supported]")).then_some(value)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Whether the GPU works only with NVLinks. Cards for PCIe slots have links that need a bridge, which most hosts lack. These cards have
    /// neither `SXM` in their name nor a fabric state.
    pub fn needs_links(&self) -> bool {
        self.get("name").is_some_and(|name| name.contains("SXM")) || self.get("fabric.state").is_some()
    }

    pub fn subject(&self, index: u32) -> Subject {
        Subject {
            gpu: Some(index),
            serial: self.get("serial").or_else(|| self.get("uuid")).map(Into::into),
            bus_id: self.bus().map(Into::into),
            ..Subject::default()
        }
    }

    /// Bus id in the spelling of the kernel log: `0000:9b:00` for `00000000:9B:00.0`.
    fn bus(&self) -> Option<String> {
        let bus = self.get("pci.bus_id")?.to_lowercase();
        let (domain, rest) = bus.split_once(':')?;
        let domain = u64::from_str_radix(domain, 16).ok()?;
        Some(format!("{domain:04x}:{}", rest.rsplit_once('.').map_or(rest, |(device, _)| device)))
    }

    /// Compared fields without a readable value: `NAME [N/A], NAME not queried`.
    ///
    /// With MIG the driver prints `[N/A]` for remapped rows of a healthy GPU, so these are not reported. The recommended recovery and
    /// the state of the fabric do not exist on all drivers and GPUs.
    pub fn unreadable(&self) -> Option<String> {
        let has_mig = self.get("mig.mode.current") == Some("Enabled");
        // Probes of earlier versions did not query remaps because of correctable errors.
        let corrected = CORRECTED.map(|(name, _)| name).into_iter();
        let corrected = corrected.filter(|name| self.fields.contains_key(*name));
        let counters = COUNTERS.map(|(name, ..)| name).into_iter().chain([WIDTH]).chain(corrected);
        let counters = counters.filter(|name| self.number(name).is_none());
        let states = STATES.map(|(name, ..)| name);
        let states = states.into_iter().filter(|name| !matches!(self.get(name), Some("Yes" | "No")));
        let names = counters.chain(states).filter(|name| !has_mig || !name.starts_with("remapped_rows."));
        let described = |name: &str| match self.fields.get(name).map(String::as_str) {
            None => format!("{name} not queried"),
            Some("") => format!("{name} empty"),
            Some(value) => format!("{name} {value}"),
        };
        let all: Vec<_> = names.map(described).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    pub fn settings(&self) -> BTreeMap<String, String> {
        let setting = |name: &&str| Some(((*name).to_owned(), self.get(name)?.to_owned()));
        SETTINGS.iter().filter_map(setting).collect()
    }
}

/// The GPUs of a node by index.
#[derive(Debug, Default)]
pub(super) struct Gpus {
    pub rows: BTreeMap<u32, GpuRow>,
    /// The first line that is not the row of a GPU, such as `Unable to determine the device handle for GPU0000:0B:00.0`.
    pub other: Option<String>,
}

impl Gpus {
    /// Reads `fields NAME,NAME,...` and one line for each GPU.
    ///
    /// # Errors
    ///
    /// Returns an error with the first line that is not the row of a GPU, if no GPU is listed.
    pub fn read(lines: &[EvidenceLine]) -> Result<Self, String> {
        let mut names: Vec<&str> = Vec::new();
        let mut gpus = Self::default();
        for EvidenceLine { number, text } in lines {
            if let Some(fields) = text.strip_prefix("fields ") {
                names = fields.split(',').collect();
                continue;
            }
            let values: Vec<_> = text.split(", ").map(str::trim).collect();
            match values[0].parse() {
                Ok(index) if values.len() == names.len() && values.len() > 1 => {
                    let fields =
                        names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), value.to_owned()));
                    gpus.rows.insert(index, GpuRow { fields: fields.collect(), line: *number });
                }
                _ => _ = gpus.other.get_or_insert_with(|| text.clone()),
            }
        }
        match gpus.rows.is_empty() {
            true => Err(gpus.other.unwrap_or_else(|| "nvidia-smi printed nothing".to_owned())),
            false => Ok(gpus),
        }
    }

    /// The GPU with this bus id, as the kernel log prints it.
    pub fn at_bus(&self, bus: &str) -> Option<Subject> {
        let at_bus = |row: &&GpuRow| row.bus().is_some_and(|own| bus.to_lowercase().starts_with(&own));
        let (index, row) = self.rows.iter().find(|(_, row)| at_bus(row))?;
        Some(row.subject(*index))
    }
}

/// Compares each GPU before and after the job.
pub(super) fn compare(before: &Gpus, after: &Gpus, changes: &mut Changes) {
    for (index, earlier) in &before.rows {
        let subject = || earlier.subject(*index);
        let uuid = earlier.get("uuid");
        let Some(later) = after.rows.values().find(|row| row.get("uuid") == uuid) else {
            let text = "nvidia-smi listed the GPU before the job but not after it";
            changes.add("GPU_LOST", Hardware, subject(), text, earlier.line);
            continue;
        };
        for (name, code, severity) in COUNTERS {
            let (Some(first), Some(last)) = (earlier.number(name), later.number(name)) else { continue };
            if last > first {
                let text = format!("{name} rose from {first} to {last} during the job");
                changes.add(code, severity, subject(), &text, later.line);
            }
        }
        for (name, code) in CORRECTED {
            let (Some(first), Some(last)) = (earlier.number(name), later.number(name)) else { continue };
            if last > first {
                let text = format!("{name} rose from {first} to {last} during the job");
                changes.record(code, subject(), &text, later.line);
            }
        }
        for name in CONSTANT {
            let (Some(first), Some(last)) = (earlier.get(name), later.get(name)) else { continue };
            if first != last {
                let text = format!("{name} was {first} before the job and is {last} after it");
                changes.add("SETTING_CHANGED", Configuration, subject(), &text, later.line);
            }
        }
        for (name, code, old) in STATES {
            if later.get(name) != Some("Yes") {
                continue;
            }
            let (severity, text) = match earlier.get(name) {
                Some("Yes") => (old, format!("{name} was already Yes before the job")),
                _ => (Hardware, format!("{name} became Yes during the job")),
            };
            changes.add(code, severity, subject(), &text, later.line);
        }
        if let (Some(first), Some(last)) = (earlier.number(WIDTH), later.number(WIDTH))
            && last < first
        {
            let text = format!("{WIDTH} fell from {first} to {last} during the job");
            changes.add("PCIE_WIDTH_FELL", Hardware, subject(), &text, later.line);
        }
        if let Some(state) = later.get("fabric.state").filter(|state| *state != "Completed") {
            let text = format!("fabric.state is {state}: check Fabric Manager");
            changes.add("FABRIC_NOT_READY", Configuration, subject(), &text, later.line);
        }
        let recovery = "gpu_recovery_action";
        if let Some(action) = later.get(recovery).filter(|action| *action != NO_RECOVERY) {
            // A recovery that was due before the job is no evidence of damage by the job: a reset may be sufficient.
            let old = earlier.get(recovery).is_some_and(|action| action != NO_RECOVERY);
            let severity = if old { Unknown } else { Hardware };
            let text = format!("the driver recommends the recovery `{action}` ({recovery})");
            changes.add("GPU_RECOVERY_NEEDED", severity, subject(), &text, later.line);
        }
    }
}

/// Reads `GPU COUNT LOWEST HIGHEST TEMPERATURE POWER REASONS|REASONS...`, by the index of the GPU. GPUs without samples and unreadable
/// reasons go to `missing`.
pub(super) fn samples(
    lines: &[EvidenceLine],
    gpus: &Gpus,
    changes: &mut Changes,
    missing: &mut Vec<String>,
) -> BTreeMap<u32, GpuSamples> {
    let mut all = BTreeMap::new();
    for EvidenceLine { number, text } in lines {
        let words: Vec<_> = text.splitn(7, ' ').collect();
        let [gpu, numbers @ .., reasons] = words.as_slice() else { continue };
        let numbers: Vec<u64> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
        let (Ok(index), [count, low, high, hot, power]) = (gpu.parse(), numbers.as_slice()) else { continue };
        let mut bits = 0;
        let mut unreadable = None;
        for reason in reasons.split('|') {
            match reason.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
                Some(reason) => bits |= reason,
                None => unreadable = Some(if reason.is_empty() { "nothing was printed" } else { reason }),
            }
        }
        if let Some(reason) = unreadable {
            missing.push(format!("throttle reasons of GPU {index} during the job: {reason}"));
        }
        if let Some((_, what, severity)) = THROTTLED.iter().find(|(bit, ..)| bits & bit != 0) {
            let subject = gpus.rows.get(&index).map_or_else(|| Subject::gpu(index), |row| row.subject(index));
            let text = format!("{what} reduced the clock during the job; maximum {hot} C and {power} W");
            changes.add("GPU_THROTTLED", *severity, subject, &text, *number);
        }
        let samples = GpuSamples {
            count: *count,
            lowest_clock_mhz: *low,
            highest_clock_mhz: *high,
            highest_temperature_c: *hot,
            highest_power_w: *power,
        };
        all.insert(index, samples);
    }
    let unsampled = gpus.rows.keys().filter(|index| !all.contains_key(index));
    missing
        .extend(unsampled.map(|index| format!("samples of GPU {index} during the job: none were printed")));
    all
}
