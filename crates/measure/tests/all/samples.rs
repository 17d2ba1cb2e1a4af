//! The content of the samples.

#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::{fs, path::Path};

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

#[test]
fn metrics_and_findings_are_in_the_registry() {
    for sample in samples() {
        let reading = read(sample.format, &sample.text);
        for metric in &reading.metrics {
            let known = sample.format.metrics.iter().any(|known| {
                known.describes(&metric.name)
                    && (known.unit == "printed"
                        || (known.unit, known.better, known.scope)
                            == (&metric.unit, metric.better, metric.scope))
            });
            assert!(known, "{}: {metric:?}", sample.name);
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
            let known = sample.format.findings.iter().any(|(code, _)| {
                let prefix = code.split('<').next().unwrap();
                *code == finding.code || prefix != *code && finding.code.starts_with(prefix)
            });
            assert!(known, "{}: {}", sample.name, finding.code);
        }
    }
}

/// Category and severity of an error of DCGM 4, with the severity of its finding: C configuration, H hardware, S software,
/// U unknown. Columns: `error_severity` 1 to 6.
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

#[test]
fn logs_of_nccl_tests_have_the_same_reading_as_from_the_crate_nccl() {
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
