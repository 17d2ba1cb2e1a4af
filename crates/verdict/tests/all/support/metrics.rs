//! Readings of metrics, and their judgement.

use std::path::Path;

use model::{
    Criteria, MetricCriterion, SplitMix64,
    measurement::{LogEnd, Reading},
    metric::{Better, Finding, Gpu, Metric, Scope, Severity, Subject},
};
use verdict::{
    Baseline, Clues, Fingerprint, Judgement, RunEvidence, Standard,
    baseline::{Healthy, Unlearnable, learn},
};

/// A log of nvbandwidth on a real H100: three runs on an idle GPU, and one while another program kept the GPU busy.
#[expect(clippy::disallowed_methods, reason = "a test may read files")]
pub fn sample(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn read(log: &[u8]) -> Reading {
    measure::read(log).unwrap()
}

pub fn judged(reading: &Reading, criteria: Option<&Criteria>, baseline: Option<&Baseline>) -> Judgement {
    let clues = Clues::default();
    let standard = Standard { criteria, baseline, ..Standard::default() };
    verdict::judge(&RunEvidence::of(reading, &clues), &standard)
}

/// The baseline of healthy runs.
pub fn learned(runs: &[Reading]) -> Baseline {
    learnable(runs).unwrap()
}

pub fn learnable(runs: &[Reading]) -> Result<Baseline, Unlearnable> {
    let of = |reading| Healthy {
        reading,
        fingerprint: Fingerprint::of(&RunEvidence::of(reading, &Clues::default())),
    };
    learn(&runs.iter().map(of).collect::<Vec<_>>())
}

pub fn codes(judgement: &Judgement) -> Vec<&str> {
    judgement.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

/// Bandwidth of each of eight GPUs, in a complete log that names all of them.
pub fn eight(values: [f64; 8]) -> Reading {
    let metric = |(gpu, value): (u32, f64)| Metric {
        name: "copy".into(),
        unit: "GB/s".into(),
        better: Better::Higher,
        scope: Scope::Gpu,
        subject: Subject::gpu(gpu),
        labels: Default::default(),
        value: Some(value),
        resolution: Some(0.1),
        unmeasurable: None,
        line: u64::from(gpu) + 1,
    };
    let gpu = |gpu| Gpu {
        subject: Subject { serial: Some(format!("S{gpu}").into()), ..Subject::gpu(gpu) },
        name: None,
    };
    Reading {
        format: Some("sample".to_owned()),
        ended: LogEnd::Complete,
        metrics: (0..).zip(values).map(metric).collect(),
        gpus: (0..8).map(gpu).collect(),
        ..Reading::default()
    }
}

pub fn healthy() -> Reading {
    eight([100.0, 100.4, 99.8, 100.1, 99.9, 100.2, 100.0, 99.7])
}

pub fn criterion() -> MetricCriterion {
    MetricCriterion { metric: "copy".to_owned(), ..MetricCriterion::default() }
}

pub fn criteria(criterion: MetricCriterion) -> Criteria {
    Criteria { metrics: vec![criterion], ..Criteria::named("test") }
}

pub fn by(reading: &Reading, criterion: MetricCriterion) -> Judgement {
    judged(reading, Some(&criteria(criterion)), None)
}

pub fn finding(gpu: u32, severity: Severity) -> Finding {
    Finding {
        code: "XID_79".to_owned(),
        subject: Subject::gpu(gpu),
        severity,
        text: "off the bus".to_owned(),
        line: 9,
    }
}

/// A number with the standard normal distribution (Box and Muller 1958).
pub fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * (1.0 - random.part()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.part()).cos()
}
