//! The content of the samples.

#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::{collections::BTreeSet, fs, path::Path};

use measure::FORMATS;

use crate::support::{automatic, read, samples, shown};

#[test]
fn samples_have_the_expected_content() {
    for sample in samples() {
        let reading = automatic(sample.format, &sample.text[..]);
        assert_eq!(reading.format.as_deref(), Some(sample.format.name), "{}", sample.name);
        insta::assert_snapshot!(sample.name.replace(['/', '.'], "-"), shown(&reading));
    }
}

/// The log of a check with `every: pair` contains several documents.
#[test]
fn each_of_three_documents_of_perftest_is_read() {
    for name in ["perftest/4.5-write-bw.json", "perftest/4.5-write-lat.json"] {
        let sample = samples().into_iter().find(|sample| sample.name == name).expect(name);
        let one = read(sample.format, &sample.text);
        let three = read(sample.format, &sample.text.repeat(3));
        assert_eq!((three.ended, three.metrics.len()), (one.ended, 3 * one.metrics.len()), "{name}");
    }
}

#[test]
fn metrics_and_findings_are_in_the_registry() {
    for sample in samples() {
        let reading = read(sample.format, &sample.text);
        for metric in &reading.metrics {
            let is_documented = sample.format.metrics.iter().any(|known| {
                known.describes(&metric.name)
                    && (known.unit == "printed"
                        || (known.unit, known.better, known.scope)
                            == (&metric.unit, metric.better, metric.scope))
            });
            assert!(is_documented, "{}: {metric:?}", sample.name);
            assert_eq!(
                metric.value.is_none(),
                metric.unmeasurable.is_some(),
                "{}: {}",
                sample.name,
                metric.name
            );
            let lines = sample.text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            assert!((1..=lines).contains(&metric.line), "{}: {}", sample.name, metric.name);
        }
        for finding in &reading.findings {
            let is_documented = sample.format.findings.iter().any(|(code, _)| {
                let prefix = code.split('<').next().unwrap();
                *code == finding.code || prefix != *code && finding.code.starts_with(prefix)
            });
            assert!(is_documented, "{}: {}", sample.name, finding.code);
        }
    }
}

/// Units that a program prints and no parser converts, by format: `MB/sec` of old versions of perftest means MiB/s, gpu-fryer prints FLOP/s as
/// JSON and GFLOP/s as text, and imports print units of other programs. Criteria that judge such a value name its unit.
const UNKNOWN_UNITS: [(&str, &str); 7] = [
    ("bmf", "unknown"),
    ("github-action-benchmark", "ns/iter"),
    ("github-action-benchmark", "unknown"),
    ("gpu-fryer", "FLOP/s"),
    ("openmetrics", "celsius"),
    ("perftest", "MB/sec"),
    ("perftest", "unknown"),
];

/// Criteria without `unit` judge all values except those in the units of [`UNKNOWN_UNITS`].
#[test]
fn the_units_of_the_registry_and_of_the_samples_are_known() {
    let samples = samples();
    let readings: Vec<_> =
        samples.iter().map(|sample| (sample.format.name, read(sample.format, &sample.text))).collect();
    let mut metric = readings[0].1.metrics[0].clone();
    for (format, known) in
        FORMATS.iter().flat_map(|format| format.metrics.iter().map(move |known| (format, known)))
    {
        metric.unit = known.unit.into();
        let printed = matches!(known.unit, "printed" | "unknown");
        assert!(printed || metric.has_known_unit(), "{}: {} in `{}`", format.name, known.name, known.unit);
    }
    let mut unknown = BTreeSet::new();
    for (format, reading) in &readings {
        let metrics = reading.metrics.iter().filter(|metric| !metric.has_known_unit());
        unknown.extend(metrics.map(|metric| (*format, metric.unit.to_string())));
    }
    // The unit of a key follows from its suffix: `odd_widgets` has none.
    assert!(
        unknown.remove(&("key-value", "unknown".to_owned()))
            && unknown.remove(&("openmetrics", "unknown".to_owned()))
    );
    let expected: BTreeSet<_> = UNKNOWN_UNITS.map(|(format, unit)| (format, unit.to_owned())).into();
    assert_eq!(unknown, expected);
    for suffix in [
        "seconds", "percent", "tflops", "gflops", "bytes", "count", "watts", "ratio", "mhz", "ms", "us",
        "ns", "c", "mib_s", "gib_s", "gb_s",
    ] {
        let log = format!("value_{suffix}=1\nPROBE_PASS\n");
        let reading = read(measure::format("key-value").unwrap(), log.as_bytes());
        assert!(reading.metrics[0].has_known_unit(), "{suffix}: {:?}", reading.metrics[0].unit);
    }
}

/// Severity of the finding for each error category of DCGM 4. The letters are for `error_severity` 1 to 6: C configuration, H hardware,
/// S software, U unknown.
#[test]
fn findings_of_dcgm_have_the_severity_of_their_category() {
    let expected = |category: u32| match category {
        1 | 2 | 16 => "UHUUCH",
        3 => "CCCCCC",
        4 | 6..=8 => "SSSSCS",
        5 => "SHSSCH",
        _ => "UHHHCH",
    };
    for category in 1..=16 {
        let found: String = (1..=6)
            .map(|severity| {
                let warning = serde_json::json!({
                    "error_category": category, "error_id": 1, "error_severity": severity, "warning": "text",
                });
                let result =
                    serde_json::json!({"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [warning]});
                let tests = serde_json::json!([{"name": "test", "results": [result]}]);
                let document = serde_json::json!({"DCGM Diagnostic": {"test_categories": [{"tests": tests}]}});
                let reading = measure::read(document.to_string().as_bytes()).unwrap();
                match reading.findings[0].severity {
                    model::metric::Severity::Configuration => 'C',
                    model::metric::Severity::Hardware => 'H',
                    model::metric::Severity::Software => 'S',
                    model::metric::Severity::Unknown => 'U',
                    model::metric::Severity::WrongData => 'W',
                }
            })
            .collect();
        assert_eq!(found, expected(category), "category {category}");
    }
}

#[test]
fn every_format_has_a_sample_and_a_description() {
    let samples = samples();
    for format in FORMATS {
        let has = samples.iter().any(|sample| sample.format.name == format.name);
        assert!(has || format.name == "nccl-tests", "{}", format.name);
        assert!(
            [format.programs, format.end, format.unread].iter().all(|text| !text.is_empty()),
            "{}",
            format.name
        );
    }
}

/// Samples in a folder of another name would not be tested.
#[test]
fn every_file_of_the_samples_is_a_sample_of_a_format() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut files = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(FORMATS.iter().any(|format| format.name == name), "{name} is not a format");
            for file in fs::read_dir(entry.path()).unwrap() {
                let file = file.unwrap();
                assert!(file.file_type().unwrap().is_file(), "{}", file.path().display());
                files += 1;
            }
        } else {
            assert_eq!(entry.file_name(), "README.md");
        }
    }
    assert_eq!(files, samples().len());
}

/// Formats whose programs print no version and whose sample names contain none. `tests/samples/README.md` states what their samples vary
/// instead.
const WITHOUT_VERSION: [&str; 8] = [
    "bmf",
    "gemm",
    "github-action-benchmark",
    "gpu-burn",
    "kernel-log",
    "key-value",
    "openmetrics",
    "training",
];
/// Formats of documents, not of a program.
const IMPORTS: [&str; 3] = ["bmf", "github-action-benchmark", "openmetrics"];

#[test]
fn every_parser_has_samples_of_two_versions() {
    let samples = samples();
    for format in FORMATS.iter().filter(|format| format.name != "nccl-tests") {
        let own: Vec<_> = samples.iter().filter(|sample| sample.format.name == format.name).collect();
        let printed: BTreeSet<_> =
            own.iter().filter_map(|sample| read(format, &sample.text).version).collect();
        if WITHOUT_VERSION.contains(&format.name) {
            assert!(printed.is_empty(), "{} prints a version: {printed:?}", format.name);
            assert!(
                own.len() >= 2 || IMPORTS.contains(&format.name),
                "{}: {} samples",
                format.name,
                own.len()
            );
            continue;
        }
        let named = own.iter().filter_map(|sample| {
            let (_, file) = sample.name.split_once('/')?;
            let version = file.split('-').next()?;
            version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
        });
        let versions = if printed.len() >= 2 { printed } else { named.collect() };
        assert!(versions.len() >= 2, "{}: {versions:?}", format.name);
    }
}

#[test]
fn the_reading_of_an_nccl_tests_log_equals_that_of_the_crate_nccl() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read(&path).unwrap();
            assert_eq!(measure::read(&text[..]).unwrap(), nccl::read_bytes(&text), "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 10);
}
