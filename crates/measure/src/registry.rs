//! The formats: adding a benchmark is one module and one line in [`FORMATS`].

use std::borrow::Cow;

use memchr::memmem;
use model::Criteria;

use crate::format::Format;

/// All formats. The first one whose marks occur at the beginning of a log is chosen; formats that other programs include
/// in their own output are last.
pub static FORMATS: &[Format] = &[
    crate::nccl_tests::FORMAT,
    crate::nvbandwidth::FORMAT,
    crate::dcgm::FORMAT,
    crate::perftest::FORMAT,
    crate::gpu_fryer::FORMAT,
    crate::gpu_burn::FORMAT,
    crate::gemm::FORMAT,
    crate::hpl::FORMAT,
    crate::hpcg::FORMAT,
    crate::osu::FORMAT,
    crate::fio::FORMAT,
    crate::ior::IOR,
    crate::ior::MDTEST,
    crate::elbencho::FORMAT,
    crate::training::FORMAT,
    crate::nvidia_smi::FORMAT,
    crate::kernel_log::FORMAT,
    crate::imports::OPENMETRICS,
    crate::imports::BMF,
    crate::imports::GITHUB,
    crate::imports::KEY_VALUE,
];

/// `None` if no format has this name.
#[must_use]
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// The criteria, with the unit of the registry for each metric without a `unit`: a bound without a unit is in the unit that
/// `docs/METRICS.md` lists, so that a value in another unit is inconclusive. Criteria of metrics with a printed unit do not change.
#[must_use]
pub fn with_units<'a>(criteria: &'a Criteria, name: Option<&str>) -> Cow<'a, Criteria> {
    let mut completed = Cow::Borrowed(criteria);
    let Some(format) = name.and_then(format) else { return completed };
    for (at, criterion) in criteria.metrics.iter().enumerate().filter(|(_, it)| it.unit.is_none()) {
        let definitions = format.metrics.iter().filter(|definition| definition.describes(&criterion.metric));
        let mut units: Vec<_> = definitions.map(|definition| definition.unit).collect();
        units.dedup();
        if let [unit] = *units
            && !matches!(unit, "printed" | "unknown")
        {
            completed.to_mut().metrics[at].unit = Some(unit.to_owned());
        }
    }
    completed
}

/// The format of a log with this beginning; `None` if the format is unknown, and for a failed nccl-tests job.
pub(crate) fn detect(head: &[u8]) -> Option<&'static Format> {
    let has = |phrase: &&str| memmem::find(head, phrase.as_bytes()).is_some();
    let found = FORMATS.iter().find(|format| format.marks.iter().any(|mark| mark.iter().all(has)))?;
    // The log of a job of nccl-tests that failed before its table may contain the state of the node.
    let included = matches!(found.name, "nvidia-smi" | "kernel-log" | "openmetrics");
    (!included || !has(&"NCCL INFO ") && !has(&"NCCL WARN ")).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_state_in_the_log_of_a_failed_job_does_not_determine_the_format() {
        let name = |log: &str| detect(log.as_bytes()).map(|format| format.name);
        let kernel = "[1.5] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n";
        assert_eq!(name(kernel), Some("kernel-log"));
        assert_eq!(name(&format!("{kernel}n1:1:1 [0] NCCL WARN Cuda failure\n")), None);
        assert_eq!(name(&format!("{kernel}# nThread 1 nGpus 1\n")), Some("nccl-tests"));
        assert_eq!(name("lm loss: 1\n"), None);
    }

    #[test]
    fn a_bound_without_a_unit_is_in_the_listed_unit() {
        let criterion = |metric: &str, unit: Option<&str>| model::MetricCriterion {
            metric: metric.to_owned(),
            unit: unit.map(str::to_owned),
            ..model::MetricCriterion::default()
        };
        let metrics = vec![
            criterion("hpl.throughput", None),
            criterion("hpl.throughput", Some("TFLOP/s")),
            criterion("hpl.other", None),
        ];
        let criteria = Criteria { metrics, ..Criteria::named("test") };
        let units =
            |name| with_units(&criteria, name).metrics.iter().map(|it| it.unit.clone()).collect::<Vec<_>>();
        let definition =
            format("hpl").unwrap().metrics.iter().find(|definition| definition.name == "hpl.throughput");
        let listed = definition.map(|definition| definition.unit.to_owned());
        assert_eq!(units(Some("hpl")), [listed, Some("TFLOP/s".to_owned()), None]);
        assert_eq!(units(Some("key-value")), [None, Some("TFLOP/s".to_owned()), None]);
        assert_eq!(units(None), [None, Some("TFLOP/s".to_owned()), None]);
    }

    #[test]
    fn a_format_is_found_by_its_name() {
        assert!(format("hpl").is_some() && format("none").is_none());
    }
}
