//! gpu-burn: multiplies matrices and compares the results.
//!
//! The exit status is 0 even for a faulty GPU. Carriage returns overwrite the progress. The program resets its error counts about ten times
//! in a run, so the largest count is kept.

use std::{borrow::Cow, collections::BTreeSet};

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    lines::{Line, Lines},
    number::{PrintedNumber, count, number},
    reading_builder::ReadingBuilder,
    text::{SearchPhrase, words},
};

const THROUGHPUT: MetricDefinition = MetricDefinition::new(
    "gpu_burn.throughput",
    "GFLOP/s",
    Better::Higher,
    Scope::Gpu,
    "Rate of the last report of progress; 0 for a GPU without a computation",
);
const ERRORS: MetricDefinition = MetricDefinition::new(
    "gpu_burn.errors",
    "count",
    Better::Lower,
    Scope::Gpu,
    "Largest printed number of wrong elements; the program resets it about ten times in a run",
);
const TEMPERATURE: MetricDefinition = MetricDefinition::new(
    "gpu_burn.temperature",
    "C",
    Better::None,
    Scope::Gpu,
    "Highest printed temperature",
);
const PASSED: MetricDefinition = MetricDefinition::new(
    "gpu_burn.passed",
    "1",
    Better::Exact,
    Scope::Gpu,
    "1 for a GPU reported as OK, 0 for FAULTY",
);

pub(crate) const FORMAT: Format = Format {
    name: "gpu-burn",
    programs: "gpu-burn 1.0 and later, with progress",
    end: "`Tested N GPUs:` and the result of each of them",
    unread: "percentage, number of products, rates before the last report, temperatures below the highest, memory sizes",
    metrics: &[THROUGHPUT, ERRORS, TEMPERATURE, PASSED],
    findings: &[
        ("GPU_FAULTY", "A GPU computed wrong results, or its process ended early"),
        ("GPU_BURN_ERROR", "The program or one of its processes failed"),
    ],
    marks: &[
        &["Gflop/s)", "errors:", "temps:"],
        &["Burning for ", " seconds."],
        &["Tested ", " GPUs:\n\tGPU 0:"],
    ],
    reader: Reader::Lines(|| Box::<Burn>::default()),
};

#[derive(Default)]
struct Burn {
    gpus: Vec<BurnProgress>,
    /// Indices of the GPUs that the header lists.
    known: BTreeSet<u32>,
    initialized: BTreeSet<u32>,
    announced: Option<u32>,
    tested: BTreeSet<u32>,
    started: bool,
    failed: bool,
    line: u64,
}

#[derive(Clone, Copy, Default)]
struct BurnProgress {
    rate: Option<PrintedNumber>,
    errors: Option<PrintedNumber>,
    temperature: Option<PrintedNumber>,
    /// Whether the process ended early: the program then prints -1 as the number of errors.
    died: bool,
}

/// Maximum number of GPUs of one process.
const GPUS: u32 = 64;

static PROGRESS: SearchPhrase = SearchPhrase::new("%  proc'd: ");
static ERRORS_PART: SearchPhrase = SearchPhrase::new("  errors: ");
static TEMPERATURES_PART: SearchPhrase = SearchPhrase::new("  temps: ");
static BETWEEN_GPUS: SearchPhrase = SearchPhrase::new(" - ");

impl Lines for Burn {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = line.text.trim_start();
        if let Some((_, progress)) = PROGRESS.split_once(text) {
            self.started = true;
            if line.whole && self.progress(progress).is_some() {
                self.line = line.number;
            }
            return;
        }
        if let Some(rest) = text.strip_prefix("GPU ") {
            self.gpu(rest, line, out);
        } else if let Some(rest) = text.strip_prefix("Tested ") {
            self.announced = rest.strip_suffix(" GPUs:").and_then(count);
        } else if text.starts_with("Burning for ") {
            self.started = true;
        } else if let Some(rest) = text.strip_prefix("Initialized device ") {
            let device = rest.split(' ').next().and_then(count::<u32>);
            self.initialized.extend(device.filter(|_| self.initialized.len() < GPUS as usize));
        } else if is_error(text) {
            self.failed = true;
            out.error(text);
            let ecc = text.contains("uncorrectable ECC") || text.contains("ECC uncorrectable");
            // The program searches for its kernel, `compare.fatbin`, in the current folder (gpu_burn-drv.cpp, 3ead140).
            let severity = match () {
                () if ecc => Severity::Hardware,
                () if text.contains("couldn't find compare kernel") => Severity::Configuration,
                () => Severity::Unknown,
            };
            out.finding("GPU_BURN_ERROR", Subject::default(), severity, text, line.number);
        }
    }

    fn finish(&mut self, out: &mut ReadingBuilder) -> LogEnd {
        for index in 0..self.gpus.len() {
            let BurnProgress { rate, errors, temperature, died } = self.gpus[index];
            let gpu = self.device(u32::try_from(index).unwrap_or(u32::MAX));
            for (known, number) in [(&THROUGHPUT, rate), (&ERRORS, errors), (&TEMPERATURE, temperature)] {
                match number {
                    _ if died && known.name == ERRORS.name => {
                        out.put(known).gpu(gpu).unmeasurable("DIED", self.line);
                    }
                    Some(number) => out.put(known).gpu(gpu).value(number, self.line),
                    None => {}
                }
            }
        }
        match self.announced {
            Some(announced) if announced > 0 && (0..announced).eq(self.tested.iter().copied()) => {
                LogEnd::Complete
            }
            None if self.failed => LogEnd::Failed,
            None if !self.started && self.known.is_empty() => LogEnd::Empty,
            _ => LogEnd::Truncated,
        }
    }
}

fn is_error(text: &str) -> bool {
    let starts =
        ["Couldn't init", "Failure during compute:", "No clients are alive", "No CUDA devices", "read["];
    starts.iter().any(|start| text.starts_with(start))
        || text.strip_prefix("cuInit returned ").is_some_and(|rest| !rest.starts_with("0 "))
}

impl Burn {
    /// The device of the process with this index: with `-i N` only one process runs, for device N.
    fn device(&self, index: u32) -> u32 {
        match self.initialized.first() {
            Some(&device) if self.initialized.len() == 1 && self.gpus.len() <= 1 => device,
            _ => index,
        }
    }

    /// Reads `0: NVIDIA H100 (UUID: GPU-...)` of the header, or `0: OK` of the results.
    fn gpu(&mut self, rest: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let Some((index, rest)) = rest.split_once(": ") else { return };
        let Some(index) = count::<u32>(index).filter(|index| *index < GPUS) else { return };
        if self.announced.is_none() {
            let Some((name, uuid)) = rest.split_once(" (UUID: ") else { return };
            if let Some(uuid) = uuid.strip_suffix(')').filter(|_| self.known.insert(index)) {
                let serial = Some(out.name(uuid));
                out.gpu(Subject { serial, ..Subject::gpu(index) }, Some(name));
            }
            return;
        }
        let passed = match rest {
            "OK" => 1.0,
            "FAULTY" => 0.0,
            _ => return,
        };
        if self.tested.insert(index) {
            let gpu = self.device(index);
            out.put(&PASSED).gpu(gpu).value(PrintedNumber { value: passed, resolution: None }, line.number);
            if passed == 0.0 {
                let died = self.gpus.get(index as usize).is_some_and(|gpu| gpu.died);
                let severity = if died { Severity::Unknown } else { Severity::WrongData };
                out.finding("GPU_FAULTY", Subject::gpu(gpu), severity, line.text, line.number);
            }
        }
    }

    /// Reads the progress: `280 (47782 Gflop/s) - ...   errors: 0 - ...   temps: 68 C - ...`.
    fn progress(&mut self, text: &str) -> Option<()> {
        let (rates, rest) = ERRORS_PART.split_once(text)?;
        let (errors, temperatures) = TEMPERATURES_PART.split_once(rest)?;
        let mut errors = Cow::Borrowed(errors);
        if errors.contains(")-") {
            // The program prints no blank between a warning and the separator.
            errors = errors.replace(")- ", ") - ").into();
        }
        let [rates, errors, temperatures] =
            [rates, &errors, temperatures].map(|parts| BETWEEN_GPUS.split(parts));
        let parts = rates.zip(errors).zip(temperatures);
        for (index, ((rate, errors), temperature)) in parts.take(GPUS as usize).enumerate() {
            if self.gpus.len() <= index {
                self.gpus.push(BurnProgress::default());
            }
            let gpu = &mut self.gpus[index];
            let (products, rate) = rate.split_once('(')?;
            gpu.died |= products.trim() == "-1" || errors.contains("DIED");
            gpu.rate = number(rate.trim_end().strip_suffix(" Gflop/s)")?);
            gpu.errors = largest(gpu.errors, words(errors).next().and_then(number));
            gpu.temperature =
                largest(gpu.temperature, temperature.trim().strip_suffix(" C").and_then(number));
        }
        Some(())
    }
}

fn largest(old: Option<PrintedNumber>, new: Option<PrintedNumber>) -> Option<PrintedNumber> {
    match (old, new) {
        (Some(old), Some(new)) if old.value >= new.value => Some(old),
        (old, new) => new.or(old),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_kernel_is_a_configuration_error() {
        // Recorded on four H200, whose program was started in another folder.
        let log = "Couldn't init a GPU test: Error in couldn't find compare kernel: compare.fatbin (gpu_burn-drv.cpp:241): named symbol not \
                   found\n";
        let reading = crate::read_as(&FORMAT, log.as_bytes()).unwrap();
        assert_eq!(reading.findings[0].severity, Severity::Configuration);
        assert_ne!(reading.ended, LogEnd::Complete);
    }
}
