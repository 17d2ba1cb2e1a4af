//! Properties of every format, checked with every sample.

#![expect(clippy::disallowed_methods, reason = "tests read files")]

use std::{
    collections::BTreeSet,
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

#[test]
fn a_truncated_log_is_never_complete_with_missing_metrics_or_findings() {
    for sample in samples() {
        let whole = read(sample.format, &sample.text);
        for length in 0..sample.text.len() {
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
    const IDENTITY: &str = "the identity of a device; its index, serial number and bus id are read once";
    const USE: &str = "the use of a device at one moment, not a fault";
    const CLOCK: &str = "a clock; the clock of the multiprocessors and its maximum are read";
    const PART: &str = "a part or an input of the result, which is read";
    const CHECK: &str = "a value that the program itself checks; the outcome of the check is read";
    const SPREAD: &str = "the spread of a value whose mean is read";
    const FIRST: &str = "values until the first thread ends; those until the last one are read";
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
            (r#"^\s*"(average|max|min)" : .*"#, DERIVED),
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
            (r"^(Mtu|Number_of_qps|TX_depth ?|CQ_Moderation|Max_inline_data|n_iterations): .*", SETTING),
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
        "kernel-log" => &[
            (r"^(\[[^\]]+\]|[A-Z][a-z]{2} \d\d [\d:]+|\d{4}-\S+)", "the time of a line"),
            (r"^-- Journal begins.*", "the time of the first line that the journal keeps"),
            (r"nvidia-nvswitch(?<digits>\d)", "a number of the driver; the bus id is read"),
            (r"SXid .*, Data \{.*", "the raw data of an SXid, whose number and text precede them"),
            (r"NVRM: (GPU|Rate limiting| ).*", "details of an Xid, whose own line is read"),
            (
                r"\] (CPU:|Hardware name|Call Trace|<TASK>| |WARNING: kernel stack|unwind stack|clocksource).*",
                "no fault of a device",
            ),
            (r" node-\d kernel: (Linux version|nvidia 0000:).*", "no fault of a device"),
        ],
        "nvidia-smi" => &[
            (r"^<\?xml .*|^<!DOCTYPE .*", "the schema, whose names of fields are read"),
            (r"^\s*(<timestamp>|Timestamp +:).*", "the time of the report"),
            (r"^\s*(<cuda_version>|CUDA Version +:).*", VERSION),
            (r"^\s*<(vbios_version|img_version|oem_object|ecc_object|gsp_firmware_version)>.*", VERSION),
            (r"^\s*(VBIOS Version|Image Version|OEM Object|ECC Object|GSP Firmware Version) +:.*", VERSION),
            (r"^\s*<(uuid|pdi|minor_number|board_id|board_part_number|gpu_part_number)>.*", IDENTITY),
            (r"^\s*<(gpu_module_id|module_id|pci_\w+)>.*", IDENTITY),
            (
                r"^\s*(GPU UUID|GPU PDI|Minor Number|Board ID|Board Part Number|GPU Part Number|Module Id) +:.*",
                IDENTITY,
            ),
            (
                r"^\s*(Bus|Device|Domain|Base Classcode|Sub Classcode|Device Id|Bus Id|Sub System Id) +:.*",
                IDENTITY,
            ),
            (r"^\s*</?bar1_memory_usage>|^\s*BAR1 Memory Usage", "a digit in the name of a section"),
            (r"^\s*<c2c_mode>.*|^\s*GPU C2C Mode +:.*", "a digit in the name of a field"),
            (r"^\s*(<accounting_mode_buffer_size>|Accounting Mode Buffer Size +:).*", SETTING),
            (r"^\s*<(total|reserved|used|free)>.*", USE),
            (r"^\s*(Total|Reserved|Used|Free) +: \d+ MiB", USE),
            (r"^\s*<(tx|rx|gpu|memory|encoder|decoder|jpeg|ofa)_util>.*", USE),
            (
                r"^\s*(Tx Throughput|Rx Throughput|GPU|Memory|Encoder|Decoder|JPEG|OFA) +: [\d.]+ (%|KB/s)",
                USE,
            ),
            (r"^\s*<(session_count|average_fps|average_latency|fan_speed)>.*", USE),
            (r"^\s*(Active Sessions|Average FPS|Average Latency) +:.*", USE),
            (r"^\s*<(performance_state|power_state|average_power_draw|graphics_volt)>.*", USE),
            (r"^\s*(Performance State|Average Power Draw) +:.*", USE),
            (r"^\s*<\w+_power_limit>.*|^\s*<power_limit>.*", SETTING),
            (r"^\s*(Requested|Default|Min|Max) Power Limit +:.*", SETTING),
            (r"^\s*<gpu_temp_\w+_threshold>.*|^\s*<gpu_target_temp\w*>.*", "a limit of the device"),
            (
                r"^\s*<gpu_temp_tlimit>.*|T\.Limit Temp +:.*",
                "a limit of the device, and the distance from it",
            ),
            (r"^\s*<(graphics|video|mem)_clock>.*|^\s*(Graphics|Video|Memory) +: \d+ MHz", CLOCK),
            (r"^\s*<sm_clock>.*|^\s*SM +: \d+ MHz", CLOCK),
            (
                r"^\s*<clocks_\w+_reasons_counters_\w+>.*|^\s*(SW Power Capping|Sync Boost|SW Thermal Slowdown|HW Thermal Slowdown|HW Power Braking) +: \d+ us",
                "times since the driver was loaded, not of the test; active reasons are read",
            ),
            (
                r"^\s*<(device_current_link_gen|max_device_link_gen|max_host_link_gen)>.*|^\s*Device (Current|Max) +:.*",
                "parts of the generation of the link and of its maximum, which are read",
            ),
            (
                r"^\s*(<replay_rollover_counter>|Replay Number Rollovers +:).*",
                "the counter of replays is read",
            ),
            (
                r"^\s*<row_remapper_histogram_\w+>.*|^\s*(Max|High|Partial|Low|None) +: \d+ bank.*",
                "spare rows; remapped ones are read",
            ),
            (
                r"^\s*<remapped_row_\w+_inactive>.*|^\s*Inactive (Unc|C)orrectable Error +:.*",
                "remapped rows that are not in use",
            ),
            (
                r"^\s*<sram_(l2|sm|microcontroller|pcie|other)>.*|^\s*SRAM (L2|SM|Microcontroller|PCIE|Other) +:.*",
                "parts of the uncorrectable errors, whose number is read",
            ),
            (
                r"^\s*<(index|gpu_instance_id|compute_instance_id|\w+_count|sram_uncorrectable)>.*",
                "a MIG device; the counters of its GPU include its errors",
            ),
        ],
        "hpl" => &[
            (r"^HPLinpack .* (?<digits>\w+ \d+, \d{4})$", "the date of the release"),
            (r"^HPLinpack 2.1 .*", "the release that HPL-NVIDIA is based on; its own version is read"),
            (
                r"^(N|NB|P|Q|NBMIN|NDIV|DEPTH|SWAP|ALIGN|BCAST|L1) +: .*",
                "HPL.dat; the labels of a result have its own parameters",
            ),
            (
                r"^- (The relative machine|Computational tests).*",
                "the threshold of the residual; the program compares them",
            ),
            (r"^(Column|Prog)=.*", PROGRESS),
            (r"^HPL_pdgesv\(\) .*", "start and end of a test; its duration is read"),
            (r"^  (Peak clock|SM version|Number of SMs).*", "a property of the device"),
            (r"^\|\|\S*\|\|_oo  ?[. ]+= .*", "parts of the residual, which is read"),
        ],
        "hpcg" => &[
            (r"^(Release date|start of application|\d{4}-\d\d-\d\d ).*", "a time, or the number of threads"),
            (
                r"^ *(Distributed Processes|Threads per processes|Global n[xyz]|np[xyz]|n[xyz]|Lower ipz|Upper ipz): .*",
                SETTING,
            ),
            (
                r"^(Machine Summary|Global Problem Dimensions|Processor Dimensions|Local Domain Dimensions)::.*",
                SETTING,
            ),
            (
                r"^ *(Number of|Grid Level|Setup Time|Setup time|Total memory|Memory used|Memory use|Bytes per equation).*",
                PART,
            ),
            (
                r"^(Setup Information|Linear System Information|Multigrid Information|Memory Use Information)::.*",
                PART,
            ),
            (
                r"^ *(Maximum iteration|Expected iteration|Departure|Reference CG|Optimized CG|Total number|Scaled residual|scaled res).*",
                CHECK,
            ),
            (
                r"^(Spectral Convergence Tests|Departure from Symmetry|Iteration Count Information|Reproducibility Information).*",
                CHECK,
            ),
            (
                r"^ *(Optimization phase|DDOT|WAXPBY|SpMV|SymGS|MG|Total|Raw|total|Setup|Optimization|Convergence) *(\w|[^=:])*[:=].*",
                PART,
            ),
            (
                r"^(Benchmark Time Summary|Floating Point Operations Summary|GB/s Summary|User Optimization Overheads).*",
                PART,
            ),
            (r"^GFLOP/s Summary::.*", PART),
            (r"^(Final Summary::| *)HPCG 2.4 .ating .*", "another rating of earlier versions"),
            (
                r"^(Final Summary::| *)(Results are valid but|Official results).*",
                "the duration of a short test",
            ),
            (r"^(GPU: |.* process grid|.* local domain).*", SETTING),
            (r"^(Performing|progress|Completed|Iterations per set).*", PROGRESS),
            (r"^final = .*GF (?<digits>\(.*)", PART),
        ],
        "osu" => &[
            (r"^# \[ pairs.*", SETTING),
            (
                r"^\d+ +[\d.]+(?<digits> +[\d.]+ +[\d.]+ +\d+)$",
                "the spread of the average, and the number of iterations",
            ),
        ],
        "fio" => &[
            (
                r#"^ *"(groupid|timestamp\w*|time|runtime|io_bytes|io_kbytes|total_ios|bw|drop_ios|short_ios)" *: .*"#,
                PART,
            ),
            (r#"^ *"(min|max|mean|stddev|N)" *: .*"#, SPREAD),
            (r#"^ *"\d\d\.\d{6}" *: .*"#, "a percentile other than the 99th"),
            (r#"^ *"(bw_bytes|iops)" *: 0.*"#, "0 in a direction that the test does not use"),
            (r"^note: .*", SETTING),
        ],
        "ior" => &[
            (r"^(Began|Finished|StartTime) .*|^\w+ +: \w{3} \w{3} .*", "a time"),
            (r"^(write|read) +[\d.]+ .*", "a single repetition; the largest one is read"),
            (r"MiB/sec (?<digits>\([\d.]+ MB/sec\))", DERIVED),
            (
                r"^WARNING: Incorrect data on (write|read) (?<digits>\(\d+ errors found\))",
                "any number of errors is a fault",
            ),
        ],
        "mdtest" => &[
            (r"^-- (started|finished) at .*", "a time"),
            (r"was launched with .*", SETTING),
            (r"^(Command line used|\d+ tasks).*|^SUMMARY.*", SETTING),
            (r"^   (Directory|File) \w+ +:(?<digits> +\S+ +\S+)", SPREAD),
            (r"^   (Directory|File) \w+ +: +\S+ +\S+ +\S+(?<digits> +\S+)", SPREAD),
            (r"^   (Directory|File) \w+ +: +\d\.\d+ .*", "the duration of a test, whose rate is read"),
        ],
        "elbencho" => &[
            (r"^(?<digits>\d{4}-[^,]+),", "the time of a test"),
            (r",(dir|file),(?<digits>\d*,\d*,\d*,\d*,\d*),", SETTING),
            (r",(?<digits>\d*,\d*,\d*,\d*,\d*,\d*,\d*),(WRITE|READ|MKDIRS),", SETTING),
            (r",(WRITE|READ|MKDIRS),(?<digits>\d*,\d*,\d*),", FIRST),
            (r",(WRITE|READ|MKDIRS),(\d*,){4}(?<digits>\d*),", FIRST),
            (r",(WRITE|READ|MKDIRS),(\d*,){6}(?<digits>\d*),", FIRST),
            (r",(WRITE|READ|MKDIRS),(\d*,){8}(?<digits>(\d*,){9})", PART),
            (r",(WRITE|READ|MKDIRS),(\d*,){17}(?<digits>\d*),\d+,", SPREAD),
            (r",(WRITE|READ|MKDIRS),(\d*,){19}(?<digits>\d*),", SPREAD),
            (r",(WRITE|READ),(\d*,){8}(?<digits>\d*),\d+,\d+,3\.0-1", SPREAD),
            (r",(?<digits>\d+),3\.0-1,", SPREAD),
            (r"(?<digits>3\.[01]-\d),", "the version was read from the first test"),
            (r#""elbencho[ "].*"#, SETTING),
            (r#""(phase_id|iso_start_date|paths|hosts|threads|dirs|files|io_depth)":"[^"]*""#, SETTING),
            (r#""version":"[^"]*""#, "the version was read from the first test"),
            (r#""command":"([^"\\]|\\.)*""#, SETTING),
            (r#""first_done":\{[^}]*\}"#, FIRST),
            (r#""(elapsed_time_ms|entries|bytes|cpu%)":"\d+""#, PART),
            (r#""latency":\{"entries":\{[^}]*\}"#, "the latency of files and folders, whose rate is read"),
            (r#""(min|max)_us":"\d+""#, SPREAD),
        ],
        "training" => &[
            (r"^\[[\d: .-]+\]", "the time of a line"),
            (r"iteration +\d+/ *(?<digits>\d+) ", "the planned number; the last iteration is the end mark"),
            (r"(consumed \w+|global batch size|actual seqlen): +\d+", SETTING),
            (
                r"(learning rate|loss scale|grad norm|samples per second): +\S+",
                "the settings and state of the optimizer",
            ),
            (r"^(using world size|.*number of parameters|.*setting training).*", SETTING),
            (r"datetime: .*", "the time of a line"),
            (r"^ +File .*, line \d+.*", "the position of an error in a program"),
            (r"^vm-(?<digits>\d\d-\d\d):", "the host of the process that prints the results of all"),
            (r"^vm-[\d-]+: +(\[|>|DeepSpeed|saving|\(min).*", "messages of DeepSpeed"),
        ],
        _ => &[],
    }
}

/// The lines of a sample with the position of each; gpu-burn ends most of them with a carriage return.
fn lines_of(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0;
    text.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')).map(move |line| {
        start += line.len();
        (start - line.len(), line)
    })
}

/// Positions of the digits that a pattern exempts: those of its named group, or of the whole match if it has none.
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

/// Positions of the digits of a sample whose change leaves its reading unchanged. Every digit is changed.
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

/// Each digit either changes the reading or has an exemption with its reason, and no exemption is unneeded: it would hide digits of later
/// samples.
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
