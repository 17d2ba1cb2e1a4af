//! Properties of every format: truncated logs, changed digits and units, prefixes and compression.

use std::collections::{BTreeMap, BTreeSet};

use measure::FORMATS;
use model::{
    measurement::{LogEnd, Reading},
    metric::{Metric, Scope},
};
use regex::Regex;

use crate::{
    exemptions::irrelevant,
    support::{Sample, automatic, read, samples, shown},
};

#[test]
fn a_truncated_log_is_never_complete_with_missing_metrics_or_findings() {
    for sample in samples() {
        let whole = read(sample.format, &sample.text);
        for length in 0..sample.text.len() {
            let cut = read(sample.format, &sample.text[..length]);
            // A truncated list of findings leads to the same verdict if at least one finding remains.
            let findings = cut.findings.is_empty() == whole.findings.is_empty();
            let kept = cut.ended == whole.ended && cut.metrics == whole.metrics && findings;
            assert!(
                cut.ended != LogEnd::Complete || kept,
                "{} cut at byte {length} is complete:\n{}",
                sample.name,
                shown(&cut)
            );
            for metric in cut.metrics.iter().filter(|_| !REPORTS_THE_LATEST.contains(&sample.format.name)) {
                assert!(
                    whole.metrics.contains(metric),
                    "{} cut at byte {length} has another value: {metric:?}",
                    sample.name
                );
            }
        }
    }
}

/// Formats whose metrics are the latest or largest of several printed numbers.
const REPORTS_THE_LATEST: [&str; 1] = ["gpu-burn"];

/// The lines of a sample with the position of each; gpu-burn ends most of them with a carriage return.
fn lines_of(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0;
    text.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')).map(move |line| {
        start += line.len();
        (start - line.len(), line)
    })
}

/// Positions of the digits that a pattern exempts: the digits of its named group, or of the whole match if it has no group.
fn exempted(text: &[u8], pattern: &str) -> BTreeSet<usize> {
    let pattern = Regex::new(pattern).unwrap();
    let mut positions = BTreeSet::new();
    for (start, line) in lines_of(text) {
        let text = String::from_utf8_lossy(line);
        for found in pattern.captures_iter(text.trim_end_matches(['\r', '\n'])) {
            let found = found.name("digits").or(found.get(0)).unwrap();
            positions.extend((start + found.start())..(start + found.end()));
        }
    }
    positions
}

/// Changes each digit of a sample in turn, and returns the positions of the digits whose change does not affect the
/// reading.
fn without_effect(sample: &Sample) -> BTreeSet<usize> {
    let whole = read(sample.format, &sample.text);
    let mut changed = sample.text.clone();
    let mut positions = BTreeSet::new();
    for at in (0..sample.text.len()).filter(|&at| sample.text[at].is_ascii_digit()) {
        changed[at] = b'0' + (sample.text[at] - b'0' + 1) % 10;
        if read(sample.format, &changed) == whole {
            positions.insert(at);
        }
        changed[at] = sample.text[at];
    }
    positions
}

/// Each digit either changes the reading or has an exemption with its reason, and each exemption is needed: an unneeded exemption
/// would apply to digits of later samples without a check.
#[test]
fn a_changed_digit_changes_the_reading_or_is_exempt() {
    let mut failures = Vec::new();
    for format in FORMATS {
        let exemptions = irrelevant(format.name);
        let mut used = vec![false; exemptions.len()];
        for sample in samples().iter().filter(|sample| sample.format.name == format.name) {
            let mut unseen = without_effect(sample);
            for ((pattern, reason), used) in exemptions.iter().zip(&mut used) {
                assert!(!reason.is_empty(), "{pattern}");
                let exempted = exempted(&sample.text, pattern);
                *used |= !exempted.is_disjoint(&unseen);
                unseen.retain(|at| !exempted.contains(at));
            }
            for (start, line) in lines_of(&sample.text) {
                let digits = unseen.range(start..start + line.len()).map(|at| at - start).collect::<Vec<_>>();
                if !digits.is_empty() {
                    let line = String::from_utf8_lossy(line);
                    failures.push(format!("{}: columns {digits:?} of {}", sample.name, line.trim_end()));
                }
            }
        }
        let unneeded = exemptions.iter().zip(used).filter(|(_, used)| !used);
        failures.extend(unneeded.map(|((pattern, _), _)| format!("{}: unneeded: {pattern}", format.name)));
    }
    assert!(failures.is_empty(), "digits without effect, and unneeded exemptions:\n{}", failures.join("\n"));
}

/// Variants of each sample: with a launcher's prefixes, with Windows line ends, and compressed.
#[test]
fn launcher_prefixes_and_archives_do_not_change_the_reading() {
    for sample in samples() {
        let whole = read(sample.format, &sample.text);
        let plain = |reading: &Reading| {
            let mut reading = reading.clone();
            for metric in &mut reading.metrics {
                metric.subject.rank = None;
            }
            for finding in &mut reading.findings {
                finding.subject.rank = None;
            }
            for gpu in &mut reading.gpus {
                gpu.subject.rank = None;
            }
            reading
        };
        if !sample.format.has_prefixes_of_its_own() {
            let text = String::from_utf8(sample.text.clone()).unwrap();
            let tagged: String =
                text.split_inclusive('\n').map(|line| format!("[1,3]<stdout>:{line}")).collect();
            let reading = automatic(sample.format, tagged.as_bytes());
            assert_eq!(shown(&plain(&reading)), shown(&plain(&whole)), "{}", sample.name);
            let whole_job = |metric: &Metric| metric.scope == Scope::World;
            let ranked =
                reading.metrics.iter().all(|metric| metric.subject.rank.is_some() || whole_job(metric));
            assert!(ranked, "{}", sample.name);
            let twice: String = text
                .split_inclusive('\n')
                .flat_map(|line| [0, 1].map(|rank| format!("[1,{rank}]<stdout>:{line}")))
                .collect();
            let reading = automatic(sample.format, twice.as_bytes());
            assert_eq!(reading.ended, whole.ended, "{}", sample.name);
            assert_eq!(reading.metrics.len(), 2 * whole.metrics.len(), "{}", sample.name);
            assert_eq!(reading.findings.len(), 2 * whole.findings.len(), "{}", sample.name);
        }
        let windows = String::from_utf8_lossy(&sample.text).replace('\n', "\r\n");
        assert_eq!(read(sample.format, windows.as_bytes()), whole, "{}", sample.name);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, &sample.text).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(automatic(sample.format, &gzip), whole, "{}", sample.name);
        let cut = automatic(sample.format, &gzip[..gzip.len() - 9]);
        assert!(whole.ended != LogEnd::Complete || cut.ended == LogEnd::Truncated, "{}", sample.name);
        assert!(cut.first_error.is_some(), "{}", sample.name);
    }
}

/// Format, unit in its samples, and the unknown unit that replaces it. Formats that are absent here and from [`UNITS_OF_NAMES`] print no
/// unit, or only with values that are not read.
const UNITS: [(&str, &str, &str); 25] = [
    ("nvbandwidth", "(GB/s)", "(XB/s)"),
    ("nvbandwidth", "(ns)", "(xs)"),
    ("gpu-fryer", "Gflops/s (min", "Xflops/s (min"),
    ("perftest", "[MB/sec]", "[XB/sec]"),
    ("perftest", "[usec]", "[xsec]"),
    ("perftest", "[Gb/sec]", "[Xb/sec]"),
    ("perftest", "[Mpps]", "[Xpps]"),
    ("hpcg", "202.6 GF (", "202.6 XF ("),
    ("hpcg", "GFLOP/s rating", "XFLOP/s rating"),
    ("hpl", "Gflops", "Xflops"),
    ("osu", "(MB/s)", "(XB/s)"),
    ("osu", "  MB/s", "  XB/s"),
    ("osu", "Messages/s", "XMessages/s"),
    ("osu", "(us)", "(xs)"),
    ("openmetrics", " celsius\n", " xelsius\n"),
    ("ior", "MiB/sec (", "XiB/sec ("),
    ("nvidia-smi", " MHz", " XHz"),
    ("nvidia-smi", " C<", " X<"),
    ("nvidia-smi", " C\n", " X\n"),
    ("nvidia-smi", " W<", " X<"),
    ("nvidia-smi", " W\n", " X\n"),
    ("github-action-benchmark", "GB/s", "XB/s"),
    ("github-action-benchmark", "ns/iter", "xs/iter"),
    ("key-value", "_us=", "_xs="),
    ("key-value", "_gb_s=", "_xb_s="),
];

#[test]
fn an_unknown_unit_is_kept() {
    for (format, unit, _) in UNITS {
        let mut samples = samples().into_iter().filter(|sample| sample.format.name == format);
        assert!(
            samples.any(|sample| String::from_utf8_lossy(&sample.text).contains(unit)),
            "no sample of {format} contains {unit}"
        );
    }
    for sample in samples() {
        for (format, unit, other) in UNITS.iter().filter(|(format, _, _)| *format == sample.format.name) {
            let text = String::from_utf8_lossy(&sample.text);
            if !text.contains(unit) {
                continue;
            }
            let (whole, reading) = (
                read(sample.format, &sample.text),
                read(sample.format, text.replace(unit, other).as_bytes()),
            );
            let changed =
                whole.metrics.iter().zip(&reading.metrics).filter(|(whole, other)| whole.unit != other.unit);
            let other = other.trim_matches(|c: char| !c.is_ascii_alphabetic()).split(' ').next().unwrap();
            let kept =
                changed.clone().all(|(_, metric)| metric.unit.contains(other) || &*metric.unit == "unknown");
            assert!(kept && changed.count() > 0, "{format}: {}", sample.name);
        }
    }
}

/// Format, text in its samples that identifies a value and contains its unit, and the same text with another unit.
const UNITS_OF_NAMES: [(&str, &str, &str); 19] = [
    ("gpu-burn", " Gflop/s)", " Xflop/s)"),
    ("gpu-burn", " C ", " X "),
    ("gpu-fryer", "°C (min", "°X (min"),
    ("gpu-fryer", "\"flops_avg\"", "\"xlops_avg\""),
    ("training", "iteration (ms)", "iteration (xs)"),
    ("training", "(TFLOP/s/GPU)", "(XFLOP/s/GPU)"),
    ("training", "TFLOPs:", "XFLOPs:"),
    ("elbencho", "MiB/s [last]", "XiB/s [last]"),
    ("elbencho", "IOPS [last]", "XOPS [last]"),
    ("elbencho", "IO lat us [avg]", "IO lat xs [avg]"),
    ("elbencho", "\"bytes\\/s\"", "\"xytes\\/s\""),
    ("elbencho", "\"iops\"", "\"xops\""),
    ("elbencho", "\"avg_us\"", "\"avg_xs\""),
    ("fio", "\"bw_bytes\"", "\"bw_xbytes\""),
    ("fio", "\"iops\"", "\"xops\""),
    ("fio", "lat_ns\"", "lat_xs\""),
    ("gemm", "\"tflops\"", "\"xflops\""),
    ("gemm", "\"ms\"", "\"xs\""),
    ("gemm", "achieved_tflops", "achieved_xflops"),
];

/// Without the known unit the value is absent, because the parser must not read the value in another unit.
#[test]
fn a_value_whose_name_contains_the_unit_is_absent_with_another_unit() {
    for (format, unit, other) in UNITS_OF_NAMES {
        let mut count = 0;
        for sample in samples().into_iter().filter(|sample| sample.format.name == format) {
            let text = String::from_utf8_lossy(&sample.text);
            if !text.contains(unit) {
                continue;
            }
            let values = |text: &[u8]| {
                read(sample.format, text).metrics.iter().filter(|it| it.value.is_some()).count()
            };
            let (whole, changed) = (values(&sample.text), values(text.replace(unit, other).as_bytes()));
            assert!(changed < whole, "{}: {unit}: {changed} of {whole} values", sample.name);
            count += 1;
        }
        assert!(count > 0, "no sample of {format} contains {unit}");
    }
}

/// Format, unit of its metrics, and the reason why no log contains the unit as text.
const UNITS_WITHOUT_TEXT: [(&str, &str, &str); 4] = [
    ("hpl", "s", "the column is titled `Time`"),
    ("mdtest", "1/s", "the summary is titled `rate`"),
    ("nvidia-smi", "generation", "only the number of the generation is printed"),
    ("nvidia-smi", "lanes", "`16x`; text other than a number with `x` has no value"),
];

/// The tables of replacements contain each unit of each sample, so that a format with another unit needs another row.
#[test]
fn each_unit_of_the_samples_is_replaced_by_an_unknown_one() {
    let (mut printed, mut replaced) = (BTreeMap::new(), BTreeSet::new());
    for sample in samples() {
        let (format, whole) = (sample.format.name, read(sample.format, &sample.text));
        let text = String::from_utf8_lossy(&sample.text);
        for metric in
            whole.metrics.iter().filter(|metric| !matches!(&*metric.unit, "1" | "count" | "unknown"))
        {
            printed.entry((format, metric.unit.to_string())).or_insert(sample.name.clone());
        }
        let rows = UNITS.iter().chain(&UNITS_OF_NAMES).filter(|(name, _, _)| *name == format);
        for (_, unit, other) in rows {
            let changed = read(sample.format, text.replace(unit, other).as_bytes());
            let lost: Vec<_> = whole.metrics.iter().filter(|it| !changed.metrics.contains(it)).collect();
            let units: BTreeSet<_> = lost.iter().map(|metric| (format, metric.unit.to_string())).collect();
            // A line that is read as a whole loses its values in all units. If other lines lose values of several units, the test cannot
            // decide which unit the parser examines.
            let are_absent = lost.iter().all(|it| changed.metrics.iter().all(|other| other.name != it.name));
            if units.len() == 1 || are_absent || changed.ended != LogEnd::Complete {
                replaced.extend(units);
            }
        }
    }
    for (format, unit, reason) in UNITS_WITHOUT_TEXT {
        assert!(
            !reason.is_empty() && printed.remove(&(format, unit.to_owned())).is_some(),
            "unneeded: {format}, {unit}"
        );
    }
    printed.retain(|key, _| !replaced.contains(key));
    assert!(printed.is_empty(), "units without a replacement, each with a sample: {printed:#?}");
}
