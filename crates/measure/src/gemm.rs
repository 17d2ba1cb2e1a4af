//! Matrix products: a JSON object with a list `gemm`, and the key=value lines of a GEMM sweep.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    json::{JsonDocuments, JsonValue},
    lines::{Line, Lines},
    number::number,
    reading_builder::{ReadingBuilder, short},
    text::trim,
};

const THROUGHPUT: MetricDefinition = MetricDefinition::new(
    "gemm.throughput",
    "TFLOP/s",
    Better::Higher,
    Scope::Gpu,
    "Rate of a matrix product; labels `dtype` and `shape`",
);
const TIME: MetricDefinition = MetricDefinition::new(
    "gemm.time",
    "ms",
    Better::Lower,
    Scope::Gpu,
    "Duration of one matrix product; labels `dtype` and `shape`",
);
const NONFINITE: MetricDefinition = MetricDefinition::new(
    "gemm.nonfinite",
    "count",
    Better::Lower,
    Scope::Gpu,
    "Number of results that are infinite or not a number",
);
const ERROR: MetricDefinition = MetricDefinition::new(
    "gemm.relative_error",
    "1",
    Better::Lower,
    Scope::Gpu,
    "Largest relative difference from the reference result",
);

pub(crate) const FORMAT: Format = Format {
    name: "gemm",
    programs: "JSON `{device, gemm: [{dtype, n, ms, tflops}]}`, and key=value lines with `gemm_precision` and `achieved_tflops`",
    end: "JSON: the closing bracket; key=value: a line `GEMM_SWEEP_PASS` or another word that begins with `GEMM_SWEEP_`",
    unread: "key=value: architecture, iterations, total time, absolute errors",
    metrics: &[THROUGHPUT, TIME, NONFINITE, ERROR],
    findings: &[
        ("GEMM_FAILED", "The program reports a failed matrix product"),
        ("GEMM_NONFINITE", "A result is not finite"),
    ],
    marks: &[&["\"gemm\"", "\"tflops\""], &["gemm_precision="], &["achieved_tflops="]],
    reader: Reader::Lines(|| Box::<GemmReader>::default()),
};

#[derive(Default)]
struct GemmReader {
    json: JsonDocuments,
    dtype: String,
    shape: String,
    gpu: Option<u32>,
    started: bool,
    measured: bool,
    broken: bool,
    ended: bool,
}

impl Lines for GemmReader {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        if self.json.line(&line, b"{", out, document) {
            return;
        }
        let text = trim(line.text);
        let equals = text.bytes().position(|byte| byte == b'=');
        let Some((key, value)) = equals.map(|at| (&text[..at], &text[at + 1..])) else {
            if let Some(result) =
                text.strip_prefix("GEMM_SWEEP_").filter(|_| line.whole || text == "GEMM_SWEEP_PASS")
            {
                self.ended = true;
                if result != "PASS" {
                    out.finding("GEMM_FAILED", Subject::default(), Severity::Unknown, text, line.number);
                }
            }
            return;
        };
        let definition = match key {
            "gemm_precision" | "gemm_shape" => {
                // `gemm_precision` is the first line of a product.
                if key == "gemm_precision" {
                    self.broken |= self.started && !self.ended;
                    (self.started, self.measured, self.ended) = (true, false, false);
                    self.shape.clear();
                }
                let label = if key == "gemm_shape" { &mut self.shape } else { &mut self.dtype };
                short(value).clone_into(label);
                return;
            }
            "gpu_name" => return out.gpu(Subject { gpu: self.gpu, ..Subject::default() }, Some(value)),
            "gpu_index" => return self.gpu = crate::number::count(value),
            "achieved_tflops" => &THROUGHPUT,
            "nonfinite_count" => &NONFINITE,
            "max_relative_error" => &ERROR,
            _ => return,
        };
        self.started = true;
        if !line.whole {
            return;
        }
        self.measured |= key == "achieved_tflops";
        if key == "nonfinite_count" && number(value).is_some_and(|number| number.value != 0.0) {
            let subject = Subject { gpu: self.gpu, ..Subject::default() };
            out.finding("GEMM_NONFINITE", subject, Severity::WrongData, text, line.number);
        }
        let mut put = out.put(definition).subject(|subject| subject.gpu = self.gpu);
        for (name, label) in [("dtype", &self.dtype), ("shape", &self.shape)] {
            if !label.is_empty() {
                put = put.label(name, label);
            }
        }
        put.read(value, line.number);
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        self.json.finish(match () {
            () if self.ended && self.measured && !self.broken => LogEnd::Complete,
            () if self.started || self.ended => LogEnd::Truncated,
            () => LogEnd::Empty,
        })
    }
}

/// Reads `{device, gemm: [{dtype, n, ms, tflops}]}`.
fn document(root: JsonValue<'_>, out: &mut ReadingBuilder) -> LogEnd {
    let Some(products) = root.get("gemm") else { return LogEnd::Empty };
    let gpu = ["gpu", "gpu_index", "index"].into_iter().find_map(|key| root.get(key)?.count());
    if let Some(device) = root.get_text("device") {
        out.gpu(Subject { gpu, ..Subject::default() }, Some(&device));
    }
    let (mut ended, mut count) = (LogEnd::Complete, 0);
    for product in products.items() {
        count += 1;
        let [dtype, size, shape, rate, time] = product.get_each(["dtype", "n", "shape", "tflops", "ms"]);
        let dtype = dtype.and_then(JsonValue::text).unwrap_or_default();
        let shape = size.and_then(JsonValue::text).or_else(|| shape?.text()).unwrap_or_default();
        if dtype.is_empty() || rate.is_none() {
            ended = LogEnd::Truncated;
        }
        for (known, value) in [(&THROUGHPUT, rate), (&TIME, time)] {
            if let Some(value) = value
                && !out.omit()
            {
                let metric = out.put(known).subject(|subject| subject.gpu = gpu);
                metric
                    .label("dtype", &dtype)
                    .label("shape", &shape)
                    .read(&value.text().unwrap_or_default(), value.line());
            }
        }
    }
    if count == 0 { LogEnd::Truncated } else { ended }
}
