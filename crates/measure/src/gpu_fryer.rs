//! gpu-fryer: multiplies matrices and compares the rates of the GPUs.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    number::count,
    reading_builder::ReadingBuilder,
};

const THROUGHPUT: MetricDefinition = MetricDefinition::new(
    "gpu_fryer.throughput",
    "printed",
    Better::Higher,
    Scope::Gpu,
    "Average rate, GFLOP/s in text and FLOP/s in JSON",
);
const LOWEST: MetricDefinition = MetricDefinition::new(
    "gpu_fryer.throughput.min",
    "printed",
    Better::Higher,
    Scope::Gpu,
    "Lowest rate of one second",
);
const HIGHEST: MetricDefinition = MetricDefinition::new(
    "gpu_fryer.throughput.max",
    "printed",
    Better::None,
    Scope::Gpu,
    "Highest rate of one second",
);
const TEMPERATURE: MetricDefinition =
    MetricDefinition::new("gpu_fryer.temperature", "C", Better::None, Scope::Gpu, "Average temperature");
const HOTTEST: MetricDefinition =
    MetricDefinition::new("gpu_fryer.temperature.max", "C", Better::None, Scope::Gpu, "Highest temperature");

pub(crate) const FORMAT: Format = Format {
    name: "gpu-fryer",
    programs: "gpu-fryer 1.0 and later, text and `--json`",
    end: "`All GPUs seem healthy`, `Some GPUs are not healthy`, or the object `problems`",
    unread: "progress; deviation and lowest temperature",
    metrics: &[THROUGHPUT, LOWEST, HIGHEST, TEMPERATURE, HOTTEST],
    findings: &[
        ("GPU_THROTTLED", "A GPU reduced its clocks because of heat or power"),
        ("GPU_UNHEALTHY", "The program reports a GPU as throttled, slow or idle"),
        ("GPU_FRYER_ERROR", "The program failed"),
    ],
    marks: &[
        &["All GPUs seem healthy"],
        &["Some GPUs are not healthy"],
        &["GPU #", "Gflops/s (min:"],
        &["Gflops/s)", "| Temperatures:"],
        &["\"type\":\"detected_gpus\""],
        &["Detected GPU #0:"],
    ],
    reader: Reader::Lines(|| Box::<GpuFryerReader>::default()),
};

#[derive(Default)]
struct GpuFryerReader {
    json: JsonDocuments,
    gpu: Option<u32>,
    started: bool,
    results: bool,
    broken: bool,
    ended: bool,
    failed: bool,
}

impl Lines for GpuFryerReader {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let mut json = std::mem::take(&mut self.json);
        let taken = json.line(&line, b"{", out, |root, out| self.object(root, out));
        self.json = json;
        if taken {
            return;
        }
        let text = line.text.trim_start();
        if let Some(rest) = text.strip_prefix("GPU #") {
            self.gpu(rest, line, out);
        } else if let Some(rest) = text.strip_prefix("Temperature: ") {
            self.temperature(rest, line, out);
        } else if let Some(rest) = text.strip_prefix("Throttling HW: ") {
            self.throttling(rest, line, out);
        } else if let Some(rest) = text.strip_prefix("Detected GPU #") {
            self.started = true;
            detected(rest, out);
        } else if text.starts_with("All GPUs seem healthy") {
            self.ended = true;
        } else if text.starts_with("Some GPUs are not healthy") {
            self.ended = true;
            out.finding("GPU_UNHEALTHY", Subject::default(), Severity::Unknown, text, line.number);
        } else if let Some(problem) = text.strip_prefix("- GPU ").filter(|_| self.ended) {
            let gpu = problem.split_once(" - ").and_then(|(gpu, _)| count(gpu));
            let subject = Subject { gpu, ..Subject::default() };
            out.finding("GPU_UNHEALTHY", subject, Severity::Hardware, text, line.number);
        } else if text.starts_with("Error: ") && !self.ended {
            self.failed = true;
            out.error(text);
            out.finding("GPU_FRYER_ERROR", Subject::default(), Severity::Unknown, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        let ended = match () {
            () if self.ended && self.results && !self.broken => LogEnd::Complete,
            () if self.failed => LogEnd::Failed,
            () if self.started || self.results || self.ended => LogEnd::Truncated,
            () => LogEnd::Empty,
        };
        self.json.finish(ended)
    }
}

impl GpuFryerReader {
    /// Reads the rates of a GPU: `7:  51494 Gflops/s (min: 50577.53, max: 51677.05, dev: 51493.79)`.
    fn gpu(&mut self, rest: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let parsed = || {
            let (gpu, rest) = rest.split_once(':')?;
            let (rate, spread) = rest.split_once('(')?;
            let (rate, unit) = rate.trim().rsplit_once(' ')?;
            let (low, rest) = spread.strip_prefix("min: ")?.split_once(", max: ")?;
            let (high, rest) = rest.split_once(", dev: ")?;
            rest.strip_suffix(')')?;
            Some((count::<u32>(gpu)?, rate.trim(), unit, low, high))
        };
        let Some((gpu, rate, unit, low, high)) = parsed() else {
            // Before the run, the program prints the memory of the GPU in a similar line.
            self.broken |= rest.contains("(min");
            return;
        };
        self.started = true;
        self.results = true;
        self.gpu = Some(gpu);
        let unit = if unit == "Gflops/s" { "GFLOP/s" } else { unit };
        for (known, text) in [(&THROUGHPUT, rate), (&LOWEST, low), (&HIGHEST, high)] {
            out.put_parts(known, &[], unit).gpu(gpu).read(text, line.number);
        }
    }

    /// Reads a temperature: `48.83°C (min: 47.00, max: 50.00)`.
    fn temperature(&mut self, rest: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let Some(gpu) = self.gpu else { return };
        let parts = rest.split_once("°C (min: ").and_then(|(average, rest)| {
            let (_, highest) = rest.strip_suffix(')')?.split_once(", max: ")?;
            Some((average, highest))
        });
        let Some((average, highest)) = parts else {
            self.broken = true;
            return;
        };
        out.put(&TEMPERATURE).gpu(gpu).read(average, line.number);
        out.put(&HOTTEST).gpu(gpu).read(highest, line.number);
    }

    /// Reads whether a GPU was throttled: `false, Thermal SW: false, Thermal HW: false`.
    fn throttling(&mut self, rest: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let words: Vec<_> =
            rest.split(", ").map(|word| word.rsplit(' ').next().unwrap_or_default()).collect();
        if words.len() != 3 || words.iter().any(|word| !matches!(*word, "true" | "false")) {
            self.broken = true;
        } else if words.contains(&"true") {
            let subject = Subject { gpu: self.gpu, ..Subject::default() };
            out.finding("GPU_THROTTLED", subject, Severity::Hardware, line.text, line.number);
        }
    }

    /// Reads one object of `--json`.
    fn object(&mut self, root: JsonValue<'_>, out: &mut ReadingBuilder) -> LogEnd {
        match root.get_text("type").as_deref() {
            Some("detected_gpus") => {
                self.started = true;
                for gpu in root.get_items("detected_gpus") {
                    let serial = gpu.get_text("uuid").map(|uuid| out.name(&uuid));
                    let index = gpu.get("index").and_then(JsonValue::count);
                    let subject = Subject { gpu: index, serial, ..Subject::default() };
                    out.gpu(subject, gpu.get_text("name").as_deref());
                }
            }
            Some("progress" | "feature_detection") => self.started = true,
            Some("results") => {
                self.results = true;
                for gpu in root.get_items("gpus") {
                    self.result(gpu, out);
                }
            }
            Some("problems") => {
                self.ended = true;
                for problem in root.get_items("problems") {
                    let gpu = problem.get("gpu_idx").and_then(JsonValue::count);
                    let subject = Subject { gpu, ..Subject::default() };
                    let reason = problem.get_text("reason").unwrap_or_default();
                    out.finding("GPU_UNHEALTHY", subject, Severity::Hardware, &reason, problem.line());
                }
            }
            _ => {
                if let Some(message) = root.get("message").filter(|_| !self.ended) {
                    let text = message.text().unwrap_or_default();
                    self.failed = true;
                    out.error(&text);
                    out.finding(
                        "GPU_FRYER_ERROR",
                        Subject::default(),
                        Severity::Unknown,
                        &text,
                        message.line(),
                    );
                }
            }
        }
        LogEnd::Empty
    }

    fn result(&mut self, gpu: JsonValue<'_>, out: &mut ReadingBuilder) {
        let burn = gpu.get("burn_result");
        let part = |name| burn.and_then(|burn| burn.get(name));
        let Some(index) = part("gpu_idx").and_then(JsonValue::count::<u32>) else {
            self.broken = true;
            return;
        };
        let rates = [
            (&THROUGHPUT, gpu.get("flops_avg")),
            (&LOWEST, part("flops_min")),
            (&HIGHEST, part("flops_max")),
        ];
        for (known, value) in rates {
            match value.and_then(|value| value.number().map(|number| (number, value.line()))) {
                Some((number, line)) => out.put_parts(known, &[], "FLOP/s").gpu(index).value(number, line),
                None => self.broken = true,
            }
        }
        if let Some((number, line)) = part("temp_max").and_then(|value| Some((value.number()?, value.line())))
        {
            out.put(&HOTTEST).gpu(index).value(number, line);
        }
        for name in ["throttling_hw", "throttling_thermal_sw", "throttling_thermal_hw"] {
            if let Some(count) = part(name).filter(|count| count.text().is_some_and(|text| text != "0")) {
                let text = format!("{name}: {}", count.text().unwrap_or_default());
                out.finding("GPU_THROTTLED", Subject::gpu(index), Severity::Hardware, &text, count.line());
            }
        }
    }
}

/// Reads a detected GPU: `0: "NVIDIA H100" (GPU-...)`.
fn detected(rest: &str, out: &mut ReadingBuilder) {
    let Some((index, rest)) = rest.split_once(": ") else { return };
    let (name, uuid) = rest.rsplit_once(" (").unwrap_or((rest, ""));
    let serial = uuid.strip_suffix(')').map(|uuid| out.name(uuid));
    let subject = Subject { gpu: count(index), serial, ..Subject::default() };
    out.gpu(subject, Some(name.trim_matches('"')));
}
