//! Properties of every format, checked with every sample.

#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use measure::{FORMATS, Format};
use model::{
    measurement::{LogEnd, Reading},
    metric::{Metric, Scope},
};
use regex::Regex;

struct Sample {
    format: &'static Format,
    name: String,
    text: Vec<u8>,
}

/// The samples of a format, or of all of them.
fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for format in FORMATS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format.name);
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let name = format!("{}/{}", format.name, file.file_name().unwrap().to_string_lossy());
            samples.push(Sample { format, name, text: fs::read(&file).unwrap() });
        }
    }
    samples
}

fn read(format: &Format, text: &[u8]) -> Reading {
    measure::read_as(format, text).unwrap()
}

/// Reads a log with detection of its format, if the format can be detected.
fn automatic(format: &Format, text: &[u8]) -> Reading {
    if format.is_detected() { measure::read(text).unwrap() } else { read(format, text) }
}

/// A reading in one line per metric, finding and GPU.
fn shown(reading: &Reading) -> String {
    let mut text = format!("{:?}, version {:?}\n", reading.ended, reading.version);
    if let Some(error) = &reading.first_error {
        _ = writeln!(text, "error {error}");
    }
    for metric in &reading.metrics {
        let Metric { name, unit, better, scope, subject, labels, value, resolution, unmeasurable, line } =
            metric;
        let value = value
            .map_or_else(|| format!("none: {}", unmeasurable.as_deref().unwrap()), |value| value.to_string());
        let step = resolution.map_or_else(String::new, |step| format!(" ±{step}"));
        _ = writeln!(
            text,
            "{line}: {name} {labels:?} {value}{step} {unit} | {scope:?} {better:?} | {subject}"
        );
    }
    for finding in &reading.findings {
        let severity = finding.severity;
        _ = writeln!(
            text,
            "{}: {} {severity:?} | {} | {}",
            finding.line, finding.code, finding.subject, finding.text
        );
    }
    for gpu in &reading.gpus {
        _ = writeln!(text, "gpu {} {:?}", gpu.subject, gpu.name);
    }
    text
}

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

/// The tested positions of a text: all near its end, one line end in seven, and every n-th of all others.
fn positions(text: &[u8], most: usize) -> impl Iterator<Item = usize> {
    let step = text.len() / most + 1;
    let near = text.len().saturating_sub(most);
    (0..text.len()).filter(move |&at| at % step == 0 || at >= near || at % 7 == 0 && text[at] == b'\n')
}

#[test]
fn a_truncated_log_is_never_complete_with_missing_metrics_or_findings() {
    for sample in samples() {
        let whole = read(sample.format, &sample.text);
        for length in positions(&sample.text, 1500) {
            let cut = read(sample.format, &sample.text[..length]);
            // A cut list of findings leads to the same verdict if it contains at least one of them.
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

/// Text whose digits do not change the reading, by format, with the proof that they are irrelevant for any verdict.
fn irrelevant(format: &str) -> &'static [(&'static str, &'static str)] {
    const VERSION: &str = "a version other than the program's own, which is in the environment of the run";
    const DERIVED: &str = "computed by the program from values that are read";
    const PROGRESS: &str = "an intermediate value; the result of the program counts, and it is read";
    const SETTING: &str = "a setting of the command line, which the workflow states";
    match format {
        "nvbandwidth" => &[
            (r"^CUDA (Runtime|Driver) Version:.*", VERSION),
            (r"^Driver Version:.*", VERSION),
            (r#"^\s*"(CUDA Runtime|Driver) Version".*"#, VERSION),
            (r"^Built from Git version:.*", VERSION),
            (r#"^\s*"git_version".*"#, VERSION),
            (r"^ +\d[ \d]*$", "the header of a matrix: the position of a column is its number"),
            (r#"^\s*"sum".*"#, DERIVED),
            (r"^SUM .*", DERIVED),
        ],
        "gemm" => &[
            (
                r#""(ms|tflops)": [\d.]{15,}(?<digits>\d)\b"#,
                "the last digit exceeds the precision of a floating-point number: the value is equal",
            ),
            (r"^(built_cuda_arch|compute_cap)=.*", "a property of the device, whose name is read"),
            (r"^(window_seconds|gemm_iterations)=.*", SETTING),
            (r"^total_kernel_ms=.*", DERIVED),
            (r"^max_abs_\w+=.*", "depends on the shape; the relative error is read"),
        ],
        "dcgm-diag" => &[
            (r#""device_id" ?: .*"#, "the model of a device; its index and serial number are read"),
            (r#""entity_group_id" ?: .*"#, "a number for `entity_group`, which is read"),
            (r#""Driver Version Detected" ?: .*"#, VERSION),
            (
                r#""error_(category|severity)" ?: .*"#,
                "several values mean the same severity; `findings_of_dcgm_have_the_severity_of_their_category` has all of them",
            ),
            (r"^\s+.(Error getting the SRAM|GPU 0 allocated).*", "the text of a passed or skipped test"),
            (r#"^\s+"2330",?$"#, "the model of a device; its index and serial number are read"),
            (
                r#"^\s+"(Allocated|GPU to Host|Host to GPU|bidirectional) .*"#,
                "text beside a passed test; DCGM itself compares the value with its threshold",
            ),
            (
                r#"^\t{9}"(error_id|warning)" .*"#,
                "the summary of a test repeats the warnings of its results, which are read",
            ),
        ],
        "perftest" => &[
            (
                r"^ *(Dual-port|Number of qps|Connection|PCIe|ibv_wr|TX depth|CQ Mod|CQE Poll|Mtu|Link type|Max inline|Outstand reads|rdma_cm|Data ex|GID).*",
                SETTING,
            ),
            (r"^ *(local|remote).*", "addresses, which differ in each run"),
            (
                r#""(Mtu|Number_of_qps|TX_depth|CQ_Moderation|Max_inline_data|n_iterations|GID_index)": .*"#,
                SETTING,
            ),
            (r"^ *sl: .*", SETTING),
            (r"^ *\d+ +(?<digits>\d+) ", "the number of iterations, a setting of the command line"),
            (r"99(\.9)?% percentile", "a title; another title ends the table, which the cut test covers"),
        ],
        "openmetrics" => &[(r" (?<digits>1767614400)$", "the time of the sample")],
        "bmf" => &[(r#""(lower|upper)_value": .*"#, "the spread of the value; bounds apply to the value")],
        "github-action-benchmark" => {
            &[(r#""range": .*"#, "the spread of the value; bounds apply to the value")]
        }
        "key-value" => &[(r"^nic=.*", "a name, not a number: `nic=mlx5_0`")],
        "gpu-burn" => &[
            (r"^.*%  proc'd: .*", PROGRESS),
            (r"Summary at: .*", "the time of a report"),
            (r".*Initialized device .*", "memory sizes before the test"),
            (r"^(Burning for|Results are|Freed memory for dev|cuInit returned).*", SETTING),
        ],
        "gpu-fryer" => &[
            (r"^(\d+ \(|GPU #\d+: Using|Running ).*", PROGRESS),
            (r"dev: [\d.]+", DERIVED),
            (r"\(min: \d\d\.00", "the lowest temperature, which no bound of the program or of Burnin uses"),
            (r#"^.*"type":"progress".*"#, PROGRESS),
            (r#""(temp_sum|temp_min|n_iters|flops_sum)":[\[\d]+"#, DERIVED),
            (r"^Using (precision|BF16).*", SETTING),
        ],
        _ => &[],
    }
}

/// Text whose digits change the reading, for formats in which most of the output is not read, and the reason why the rest is
/// irrelevant.
fn relevant(format: &str) -> Option<(&'static [&'static str], &'static str)> {
    Some(match format {
        "kernel-log" => (
            &[
                r"NVRM: Xid \(PCI:(?<digits>.*)",
                r"SXid \([^)]*\): \d+, [FN].*",
                r"(Hardware Error|AER|memory: ).*",
            ],
            "other lines of the kernel report no fault of a device; times of lines differ in each run",
        ),
        "nvidia-smi" => (
            &[
                r"(Driver Version|Attached GPUs|Serial Number|Product Name|^GPU) .*",
                r"[SD]RAM (Uncorr|Corr)[\w -]+ : .*",
                r"^        (Correctable|Uncorrectable) Error.*",
                r"^ {16}(Max|Current) .*",
                r"^        (GPU Current Temp|Memory Current Temp|Replays Since).*",
                r"^        SM .*[37].. MHz",
                r"<(driver_version|attached_gpus|serial|product_name|gpu id).*",
                r"^(\t+| {0,20})<[sd]ram_(un)?correctable.*",
                r"<(remapped_row_corr|remapped_row_unc|current_link_gen|max_link_gen|sm_clock>3|gpu_temp|memory_temp)>.*",
                r"<(current|max)_link_width>(?<digits>\d+)",
                r"<replay_counter>.*",
            ],
            "memory sizes, utilization, clock lists, and the errors of a MIG device, which the count of its GPU includes",
        ),
        "hpl" => (
            &[
                r"^W.*",
                r"^\|\|Ax.*= +(?<digits>.*)",
                r"^(Finished|  +\d tests completed).*",
                r"^HPL-NVIDIA.*",
            ],
            "parameters of HPL.dat, start and end times, and the progress before a result",
        ),
        "hpcg" => (
            &[r"HPCG result is .*rating of[=:].*", r"^final = +(?<digits>[\d.]+)"],
            "parts of the rating, residuals and progress: the program derives its result and `VALID` from them",
        ),
        "osu" => {
            (&[r"^\d.* (?<digits>\d+\.\d+)", r"^\d+ "], "titles and options; every row of values is read")
        }
        "fio" => (
            &[r#""(bw_bytes|iops|99.000000|error)": [1-9].*"#, r"fio-.*"],
            "settings, percentiles below p99, histograms and CPU use, which no metric of the registry uses",
        ),
        "ior" => (
            &[r"^Max \w+: +[\d.]+"],
            "settings and single repetitions; the program prints the largest of them, which is read",
        ),
        "mdtest" => (
            &[r"^   (Directory|File) \w+ +: +\d{3}\S+ +\S+ +(?<digits>\S+)", r"mdtest-[\d.]+"],
            "settings, and minimum, maximum and deviation beside the mean, which is read",
        ),
        "elbencho" => (
            &[
                r",(?<digits>\d+),\d+,\d+,\d+,3\.0",
                r",(WRITE|READ|MKDIRS),\d+,\d+,\d*,(?<digits>\d+),",
                r",(WRITE|READ),\d+,\d+,\d*,\d*,\d*,(?<digits>\d+),",
                r",(WRITE|READ),\d+,\d+,\d*,\d*,\d*,\d*,\d*,(?<digits>\d+),",
                r#""last_done":[{]"elapsed_time_ms":"\d+"(?<digits>(,"(entries.?/s|iops|bytes.?/s)":"\d+")+)"#,
                r#""IO":[{]"min_us":"\d+","avg_us":"(?<digits>\d+)"#,
                r#""(file|block)_size":"\d+"#,
            ],
            "settings, times, processor use, totals and the columns of the first thread",
        ),
        "training" => (
            &[
                r"elapsed time per iteration \(ms\): [\d.]+",
                r"(TFLOP/s/GPU\)|TFLOPs): [\d.]+",
                r"lm loss: \S+",
                r" iteration +(?<digits>\d+)/",
                r"number of (skipped|nan) iterations: +\d+",
            ],
            "sample counts, learning rate, gradient norms and memory, which no metric of the registry uses",
        ),
        _ => return None,
    })
}

#[test]
fn a_changed_digit_changes_the_reading() {
    let mut failures = Vec::new();
    for sample in samples() {
        let whole = read(sample.format, &sample.text);
        let only = relevant(sample.format.name);
        let exempt = || irrelevant(sample.format.name).iter().map(|(pattern, _)| *pattern).collect();
        let patterns: Vec<&str> = only.map_or_else(exempt, |(patterns, _)| patterns.to_vec());
        let patterns: Vec<_> = patterns.into_iter().map(|pattern| Regex::new(pattern).unwrap()).collect();
        let mut skip = vec![only.is_some(); sample.text.len()];
        let mut start = 0;
        for line in sample.text.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let text = String::from_utf8_lossy(line);
            let text = text.trim_end_matches(['\r', '\n']);
            for found in patterns.iter().flat_map(|pattern| pattern.captures_iter(text)) {
                // The named group, or the whole match if the pattern has none.
                let found = found.name("digits").or(found.get(0)).unwrap();
                skip[start + found.start()..start + found.end()].fill(only.is_none());
            }
            start += line.len();
        }
        let digits: Vec<_> =
            (0..skip.len()).filter(|&at| !skip[at] && sample.text[at].is_ascii_digit()).collect();
        let all = sample.text.iter().filter(|byte| byte.is_ascii_digit()).count();
        assert!(digits.len() > 3 || all <= 4, "{}: nothing is tested", sample.name);
        let mut unseen = std::collections::BTreeSet::new();
        for &at in digits.iter().step_by(digits.len() / 1500 + 1) {
            let mut changed = sample.text.clone();
            changed[at] = b'0' + (changed[at] - b'0' + 1) % 10;
            let reading = read(sample.format, &changed);
            if reading == whole {
                let start = sample.text[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                let line = sample.text[start.max(at.saturating_sub(80))..]
                    .split(|&byte| byte == b'\n')
                    .next()
                    .unwrap();
                unseen.insert(String::from_utf8_lossy(line).into_owned());
            }
        }
        failures.extend(unseen.into_iter().map(|line| format!("{}: {line}", sample.name)));
    }
    assert!(failures.is_empty(), "digits without effect in\n{}", failures.join("\n"));
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

/// An exemption that no sample needs is removed: it would hide digits of later samples.
#[test]
fn every_exemption_is_needed_and_has_a_reason() {
    let samples = samples();
    for format in FORMATS {
        let texts = || samples.iter().filter(|sample| sample.format.name == format.name);
        let exempt = irrelevant(format.name);
        assert!(exempt.is_empty() || relevant(format.name).is_none(), "{}", format.name);
        for (pattern, reason) in exempt {
            assert!(!reason.is_empty(), "{pattern}");
            let pattern = Regex::new(pattern).unwrap();
            let is_used = |sample: &Sample| {
                let text = String::from_utf8_lossy(&sample.text).replace('\r', "\n");
                text.lines().any(|line| {
                    pattern.captures(line).is_some_and(|found| {
                        let digits = found.name("digits").or(found.get(0)).unwrap();
                        digits.as_str().bytes().any(|byte| byte.is_ascii_digit())
                    })
                })
            };
            assert!(texts().any(is_used), "{}: no sample has a digit in {pattern}", format.name);
        }
        let Some((patterns, reason)) = relevant(format.name) else { continue };
        assert!(!reason.is_empty() && !patterns.is_empty(), "{}", format.name);
    }
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
const UNITS: [(&str, &str, &str); 15] = [
    ("nvbandwidth", "(GB/s)", "(XB/s)"),
    ("gpu-fryer", "Gflops/s (min", "Xflops/s (min"),
    ("perftest", "[MB/sec]", "[XB/sec]"),
    ("perftest", "[usec]", "[xsec]"),
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
    ("github-action-benchmark", "GB/s", "XB/s"),
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

/// Format, and the text in its samples that identifies a value together with its unit, with another unit.
const UNITS_OF_NAMES: [(&str, &str, &str); 8] = [
    ("gpu-burn", " Gflop/s)", " Xflop/s)"),
    ("gpu-burn", " C ", " X "),
    ("training", "iteration (ms)", "iteration (xs)"),
    ("training", "(TFLOP/s/GPU)", "(XFLOP/s/GPU)"),
    ("training", "TFLOPs:", "XFLOPs:"),
    ("elbencho", "MiB/s [last]", "XiB/s [last]"),
    ("fio", "\"bw_bytes\"", "\"bw_xbytes\""),
    ("gemm", "\"tflops\"", "\"xflops\""),
];

/// Without the known unit the value is absent: it is never read in another one.
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
fn nccl_tests_are_read_as_before() {
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
