//! The quickstart's build: its real config, built and tested by the local runner, then run with four ranks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cloudbuild::{Artifact, BuildStatus};
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

use crate::bed::BuildHost;

const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// Path of the compiled benchmark. Tests may run in separate processes, so the file name contains a digest of the sources.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        for path in sources() {
            std::fs::read(path).unwrap().hash(&mut hasher);
        }
        let kept = Path::new(CACHE).join(format!("all_reduce_perf-{:016x}", hasher.finish()));
        if !kept.exists() {
            // Moves instead of copying: executing a file that this process has just written can fail with "text file
            // busy".
            let (_world, artifacts) = build();
            let artifact = artifacts.iter().find(|artifact| artifact.name == "all_reduce_perf").unwrap();
            std::fs::rename(&artifact.path, &kept).unwrap();
        }
        kept
    })
}

fn build() -> (BuildHost, Vec<Artifact>) {
    let mut bed = BuildHost::within(Path::new(CACHE));
    hide_gpus(&mut bed);
    for path in sources() {
        std::fs::copy(&path, bed.path(path.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(bed.run(config()));
    assert_eq!(outcome.status, BuildStatus::Success, "{}", bed.log());
    (bed, outcome.artifacts)
}

fn source(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../workflows/quickstart")).join(name)
}

/// All files of the folder, sorted.
fn sources() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(source("")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Replaces `nvidia-smi` by a program that fails, so that the build finds no GPU on any machine.
fn hide_gpus(bed: &mut BuildHost) {
    let fakes = bed.outside().join("fakes");
    std::fs::create_dir(&fakes).unwrap();
    std::os::unix::fs::symlink("/bin/false", fakes.join("nvidia-smi")).unwrap();
    let mut path = fakes.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    bed.request.environment.push(("PATH".into(), path));
}

fn config() -> Value {
    yaml(&std::fs::read_to_string(source("image.yaml")).unwrap())
}

/// Parses the subset of YAML that the build config uses.
fn yaml(text: &str) -> Value {
    let mut events = Parser::new_from_str(text)
        .map(|event| event.expect("YAML").0)
        .filter(|event| !matches!(event, Event::StreamStart | Event::DocumentStart(_) | Event::Nothing));
    node(&mut events)
}

fn node<'a>(events: &mut impl Iterator<Item = Event<'a>>) -> Value {
    value(events.next().expect("a node"), events)
}

fn value<'a>(event: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Value {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) if text == "true" => Value::Bool(true),
        Event::Scalar(text, ..) => Value::String(text.into_owned()),
        Event::SequenceStart(..) => {
            let mut list = Vec::new();
            while let Some(event) = events.next().filter(|event| *event != Event::SequenceEnd) {
                list.push(value(event, events));
            }
            Value::Array(list)
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            while let Some(Event::Scalar(key, ..)) = events.next() {
                map.insert(key.into_owned(), node(events));
            }
            Value::Object(map)
        }
        other => panic!("not expected in a build config: {other:?}"),
    }
}

/// A running benchmark.
struct BenchmarkProcess(Child);

impl BenchmarkProcess {
    fn start(program: &str, args: &str, environment: &[(&str, &str)]) -> Self {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(built());
        command.arg0(program).args(args.split_whitespace()).envs(environment.iter().copied());
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    fn finish(self) -> (i32, String) {
        let Output { status, stdout, stderr } = self.0.wait_with_output().unwrap();
        let text = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
        (status.code().expect("the program has an exit code"), text)
    }
}

fn run(args: &str, environment: &[(&str, &str)]) -> (i32, String) {
    BenchmarkProcess::start("all_reduce_perf", args, environment).finish()
}

/// The rows of the table, as words.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|row| row.len() == 13).collect()
}

#[test]
fn the_quickstart_build_creates_and_tests_its_image() {
    let (bed, artifacts) = build();
    let mut names: Vec<_> = artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    names.sort_unstable();
    let collectives = names.iter().filter(|name| **name != "node_perf").copied();
    assert_eq!(collectives.collect::<Vec<_>>(), COLLECTIVES.map(|(name, ..)| name));
    assert!(names.contains(&"node_perf"), "{names:?}");
    assert!(artifacts.iter().all(|artifact| artifact.size_bytes > 100_000 && artifact.sha256.len() == 64));
    let log = bed.log();
    assert_eq!(log.matches("Step #1 - \"smoke\": # Out of bounds values : 0 OK\n").count(), 6, "{log}");
    assert!(log.contains("no GPU, or nccl-tests is not on the PATH"), "{log}");
}

/// On a machine with a GPU and some programs of nccl-tests, the image contains only these programs and the quickstart's program.
#[test]
fn an_image_on_a_machine_with_gpus_contains_every_installed_program_of_nccl_tests() {
    let mut bed = BuildHost::within(Path::new(CACHE));
    let fakes = bed.outside().join("fakes");
    std::fs::create_dir(&fakes).unwrap();
    for (name, text) in [
        ("nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'"),
        ("all_gather_perf", "the installed all_gather_perf"),
        ("scatter_perf", "the installed scatter_perf"),
    ] {
        std::fs::write(fakes.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(fakes.join(name), mode).unwrap();
    }
    for path in sources() {
        std::fs::copy(&path, bed.path(path.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    // The compiler's folder must not contain a program of nccl-tests.
    let path = format!("{}:{}", fakes.display(), std::env::var("PATH").unwrap());
    bed.request.environment.push(("PATH".into(), path.into()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(bed.run(config()));
    assert_eq!(outcome.status, BuildStatus::Success, "{}", bed.log());
    assert!(outcome.artifacts.iter().any(|artifact| artifact.name == "node_perf"), "{}", bed.log());
    let mut programs: Vec<_> = (outcome.artifacts.iter().filter(|artifact| artifact.name != "node_perf"))
        .map(|artifact| (artifact.name.as_str(), std::fs::read_to_string(&artifact.path).unwrap()))
        .collect();
    programs.sort_unstable();
    let installed = |name: &str| format!("#!/bin/sh\nthe installed {name}\n");
    assert_eq!(programs, ["all_gather_perf", "scatter_perf"].map(|name| (name, installed(name))));
}

/// Program; operation and root; bytes and count; ratio of bus to algorithm bandwidth; wrong elements in place.
type CollectiveCase = (&'static str, [&'static str; 2], [u64; 2], f64, &'static str);

/// Output and results of each program of nccl-tests 2.19.6 with four ranks (`src/*.cu`): operation and root (`*RunTest`), size in
/// bytes and element count for a requested size of 1,000 bytes (`*GetCollByteCount`: parts are rounded down to 16 bytes), ratio of bus to
/// algorithm bandwidth (`*GetBw`), and the in-place column of wrong elements (`reportErrors` in `*InitData`).
const COLLECTIVES: [CollectiveCase; 6] = [
    ("all_gather_perf", ["none", "-1"], [960, 60], 0.75, "0"),
    ("all_reduce_perf", ["sum", "-1"], [1000, 250], 1.5, "0"),
    ("alltoall_perf", ["none", "-1"], [960, 60], 0.75, "N/A"),
    ("broadcast_perf", ["none", "0"], [1000, 250], 1.0, "0"),
    ("reduce_scatter_perf", ["sum", "-1"], [960, 60], 0.75, "0"),
    ("sendrecv_perf", ["sum", "-1"], [1000, 250], 1.0, "N/A"),
];

#[test]
fn every_collective_follows_nccl_tests_and_checks_its_data() {
    for (name, operation, [bytes, count], factor, in_place) in COLLECTIVES {
        for ranks in [1, 2, 3, 4, 7] {
            let args = format!("-b 1000 -e 4M -f 64 -n 2 -w 1 -g {ranks}");
            let (code, text) = BenchmarkProcess::start(name, &args, &[]).finish();
            assert_eq!(code, 0, "{name} over {ranks}: {text}");
            assert!(text.contains(&format!("# Collective test starting: {name}\n")), "{text}");
            let rows = rows(&text);
            assert_eq!(rows.len(), 3, "{name} over {ranks}: {text}");
            for row in rows {
                assert_eq!((&row[3..5], row[8], row[12]), (&operation[..], "0", in_place), "{name}: {row:?}");
                let number = |at: usize| row[at].parse::<f64>().unwrap();
                if ranks == 4 {
                    assert!(
                        (number(7) - factor * number(6)).abs() < 0.011 + number(6) * 0.02,
                        "{name}: {row:?}"
                    );
                }
                if ranks == 4 && number(0) < 1001.0 {
                    assert_eq!((row[0], row[1]), (&*bytes.to_string(), &*count.to_string()), "{name}");
                }
            }
        }
        // One wrong element on one rank is found in every collective.
        let (code, text) =
            BenchmarkProcess::start(name, "-b 1K -e 1K -n 2 -g 3", &[("BURNIN_FAULT", "corrupt:2")]).finish();
        assert_eq!((code, rows(&text)[0][8]), (7, "1"), "{name}: {text}");
    }
    let (code, text) = BenchmarkProcess::start("hypercube_perf", "-b 8", &[]).finish();
    assert!(code == 6 && text.contains("start it as one of all_reduce_perf"), "{text}");
}

#[test]
fn four_ranks_print_a_complete_table() {
    let (code, text) = run("-b 8 -e 4M -f 4 -n 5 -w 1 -g 4", &[]);
    assert_eq!(code, 0, "{text}");
    let rows = rows(&text);
    let sizes: Vec<u64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    assert_eq!(sizes, (0..10).map(|power| 8 << (2 * power)).collect::<Vec<u64>>());
    for row in &rows {
        let number = |at: usize| row[at].parse::<f64>().unwrap();
        assert_eq!((number(1), &row[2..5]), (number(0) / 4.0, &["float", "sum", "-1"][..]));
        for half in [5, 9] {
            assert_eq!(row[half + 3], "0", "{row:?}");
            let algbw = number(0) / number(half) / 1e3;
            assert!(
                (algbw - number(half + 1)).abs() < 0.006 + algbw * 0.01,
                "size, time and algbw agree: {row:?}"
            );
            assert!((number(half + 2) - 1.5 * algbw).abs() < 0.006 + algbw * 0.02, "2(n-1)/n: {row:?}");
        }
    }
    for line in [
        "# Collective test starting: all_reduce_perf",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
        "# Out of bounds values : 0 OK",
        "# Collective test concluded: all_reduce_perf",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("#  Rank ").count(), 4);
    assert!(text.contains("This is not NCCL") && !text.contains("nccl-library"), "{text}");
}

#[test]
fn wrong_data_is_counted_and_fails_the_benchmark() {
    let (code, text) = run("-b 8 -e 512 -f 4 -n 2 -g 4", &[("BURNIN_FAULT", "corrupt:2")]);
    assert_eq!(code, 7, "{text}");
    assert!(rows(&text).iter().all(|row| row[8] == "1" && row[12] == "1"), "{text}");
    assert!(
        text.contains("# Out of bounds values : 8 FAILED\n") && text.contains(": Test failure "),
        "{text}"
    );
}

#[test]
fn a_failed_rank_ends_the_others() {
    built();
    let started = Instant::now();
    let (code, text) = run("-b 8 -e 512 -f 4 -n 2 -g 4", &[("BURNIN_FAULT", "exit:1:9")]);
    assert_eq!(code, 9, "expected the exit code of the failed rank: {text}");
    assert!(text.contains(": Test failure collective_perf.rs:") && text.contains(" lost rank 1"), "{text}");
    assert!(!text.contains("Out of bounds"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_hanging_rank_ends_the_run_at_the_timeout() {
    let (code, text) = run("-b 8 -e 512 -f 4 -n 2 -g 4 -T 1", &[("BURNIN_FAULT", "hang:3")]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("timeout (1s): rank 0 waits for rank 3"), "{text}");
}

#[test]
fn a_slow_rank_slows_all_ranks() {
    let (code, text) = run("-b 8 -e 8 -n 5 -g 4", &[("BURNIN_FAULT", "slow:1:20000")]);
    assert_eq!(code, 0, "{text}");
    assert!(rows(&text)[0][5].parse::<f64>().unwrap() > 19_000.0, "{text}");
}

#[test]
fn separate_processes_connect_through_the_rendezvous_folder() {
    for (rank, count) in [("BURNIN_RANK", "BURNIN_RANKS"), ("SLURM_PROCID", "SLURM_NTASKS")] {
        let folder = tempfile::tempdir().unwrap();
        let start = |index: &str| {
            let meet = folder.path().to_str().unwrap();
            BenchmarkProcess::start(
                "all_reduce_perf",
                "-b 1K -e 1K -g 2",
                &[(rank, index), (count, "2"), ("BURNIN_RENDEZVOUS", meet)],
            )
        };
        let (second, first) = (start("1"), start("0"));
        let (code, text) = first.finish();
        assert_eq!((code, rows(&text).len(), text.matches("#  Rank ").count()), (0, 1, 4), "{text}");
        assert_eq!(second.finish(), (0, String::new()));
    }
}

#[test]
fn an_absent_rank_ends_the_run_at_the_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let meet = folder.path().to_str().unwrap();
    let environment = [("BURNIN_RANK", "0"), ("BURNIN_RANKS", "2"), ("BURNIN_RENDEZVOUS", meet)];
    let (code, text) = run("-b 8 -e 8 -T 1", &environment);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("rank 1 did not appear within 1s"), "{text}");
}

#[test]
fn wrong_usage_is_reported() {
    for (args, code) in [("-x 1", 6), ("-d half", 6), ("-n", 6), ("-b 2K -e 1K", 255), ("-h", 0)] {
        assert_eq!(run(args, &[]).0, code, "{args}");
    }
    assert_eq!(run("", &[("BURNIN_FAULT", "nonsense"), ("BURNIN_RANK", "0"), ("BURNIN_RANKS", "2")]).0, 6);
}
