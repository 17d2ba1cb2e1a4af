//! Logs of a training run: Megatron's line of each iteration.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use model::{
    measurement::LogEnd,
    metric::{Better, Scope, Severity, Subject},
};

use crate::{
    format::{Format, MetricDefinition, Reader},
    lines::{Line, Lines},
    number::{count, number},
    reading_builder::ReadingBuilder,
    text::{SearchPhrase, trim},
};

const THROUGHPUT: MetricDefinition = MetricDefinition::new(
    "training.throughput",
    "TFLOP/s",
    Better::Higher,
    Scope::World,
    "Rate of one GPU, average over all of them, in one iteration; label `iteration`",
);
const STEP: MetricDefinition = MetricDefinition::new(
    "training.step_time",
    "ms",
    Better::Lower,
    Scope::World,
    "Duration of an iteration; label `iteration`",
);
const LOSS: MetricDefinition = MetricDefinition::new(
    "training.loss",
    "1",
    Better::None,
    Scope::World,
    "Loss of an iteration; label `iteration`",
);
const NAN: MetricDefinition = MetricDefinition::new(
    "training.nan_iterations",
    "count",
    Better::Lower,
    Scope::World,
    "Number of iterations up to this one whose loss was not a number",
);
const SKIPPED: MetricDefinition = MetricDefinition::new(
    "training.skipped_iterations",
    "count",
    Better::None,
    Scope::World,
    "Number of skipped iterations up to this one",
);

pub(crate) const FORMAT: Format = Format {
    name: "training",
    programs: "Megatron-LM, Megatron-DeepSpeed and NeMo logs that contain Megatron's line of each iteration",
    end: "the iteration with the announced final number, or `exiting program at iteration`",
    unread: "samples, tokens, learning rate, loss scale and norms; all other lines",
    metrics: &[THROUGHPUT, STEP, LOSS, NAN, SKIPPED],
    findings: &[("TRAINING_NAN", "The loss is not a number"), ("TRAINING_ERROR", "The program failed")],
    marks: &[&["elapsed time per iteration (ms):"], &[" iteration ", "| consumed samples:"]],
    reader: Reader::Lines(|| Box::<Training>::default()),
};

#[derive(Default)]
struct Training {
    iterations: u64,
    ended: bool,
    failed: bool,
    broken: bool,
    nan: bool,
    last: Option<u64>,
}

/// Lines that only a failed program prints.
const ERRORS: [&str; 6] = [
    "Traceback (most recent call last)",
    "CUDA out of memory",
    "RuntimeError: CUDA error",
    "NCCL error",
    "ChildFailedError",
    "Segmentation fault",
];

impl Lines for Training {
    fn line(&mut self, line: Line<'_>, out: &mut ReadingBuilder) {
        let text = line.text;
        static ITERATION: SearchPhrase = SearchPhrase::new("iteration ");
        static ERROR: LazyLock<AhoCorasick> =
            LazyLock::new(|| AhoCorasick::new(ERRORS).expect("short phrases"));
        let found = ITERATION.find(text);
        if let Some(at) =
            found.filter(|_| line.whole && text.contains('|') && text.contains("elapsed time per iteration"))
        {
            self.iteration(&text[at + "iteration ".len()..], line, out);
        } else if found.is_some() && text.contains("exiting program at iteration") {
            self.ended = self.iterations > 0;
        } else if !self.ended && ERROR.is_match(text) {
            self.failed = true;
            out.error(text);
            out.finding("TRAINING_ERROR", Subject::default(), Severity::Unknown, text, line.number);
        }
    }

    fn finish(&mut self, _: &mut ReadingBuilder) -> LogEnd {
        match () {
            () if self.ended && !self.failed && !self.broken => LogEnd::Complete,
            () if self.failed => LogEnd::Failed,
            () if self.iterations > 0 => LogEnd::Truncated,
            () => LogEnd::Empty,
        }
    }
}

static COLON: SearchPhrase = SearchPhrase::new(": ");

impl Training {
    /// Reads the line of an iteration: `       1/       5 | consumed samples: ... | ... |`.
    fn iteration(&mut self, text: &str, line: Line<'_>, out: &mut ReadingBuilder) {
        let mut fields = text.split('|');
        let progress = fields.next().and_then(|progress| progress.split_once('/'));
        let Some((iteration, total)) = progress else { return };
        let (iteration, total) = (trim(iteration), trim(total));
        let (Some(at), Some(of)) = (count::<u64>(iteration), count::<u64>(total)) else { return };
        self.iterations += 1;
        // Printed iterations have equal distances; a lost line makes the log incomplete.
        let gap = self.last.is_some_and(|last| at <= last);
        self.broken |= gap;
        self.last = Some(at);
        self.ended = at == of;
        for field in fields {
            let Some((name, value)) = COLON.split_once(field) else { continue };
            let (name, value) = (trim(name), trim(value));
            let definition = match name {
                "elapsed time per iteration (ms)" => &STEP,
                "throughput per GPU (TFLOP/s/GPU)" | "TFLOPs" => &THROUGHPUT,
                "lm loss" | "loss" => &LOSS,
                "number of nan iterations" => &NAN,
                "number of skipped iterations" => &SKIPPED,
                _ => continue,
            };
            let metric = out.put(definition).of_whole_job();
            let metric = match definition.name {
                name if name == NAN.name || name == SKIPPED.name => metric, // totals up to this iteration
                _ => metric.label("iteration", iteration),
            };
            metric.read(value, line.number);
            let nan = match definition.name {
                name if name == LOSS.name => number(value).is_none(),
                name if name == NAN.name => number(value).is_none_or(|number| number.value != 0.0),
                _ => false,
            };
            if nan && !std::mem::replace(&mut self.nan, true) {
                out.finding("TRAINING_NAN", Subject::default(), Severity::WrongData, field, line.number);
            }
        }
    }
}
