//! Hostile input has a bounded cost: any text of 1 MB takes at most 64 MiB of memory and 10 s.

use std::{fs, process::Command, time::Instant};

use workflow::{Override, WorkflowFile, YamlDocument};

const MIB: usize = 1 << 20;
/// Maximum size of a workflow file, bytes.
const LARGEST: usize = 256 << 10;

/// Texts of 1 MB whose parsing could use gigabytes of memory.
fn hostile() -> Vec<(&'static str, String)> {
    let fill = |piece: &str| piece.repeat(MIB / piece.len());
    vec![
        ("a long explicit key with many children", {
            let children: String = (0..12_000).map(|child| format!("  k{child}: 1\n")).collect();
            format!("? {}\n:\n{children}", "x".repeat(40_000))
        }),
        ("a long key within the limit, repeated", {
            let key = "k".repeat(250);
            let mut text = String::new();
            for depth in 0..7 {
                text += &format!("{}{key}:\n", " ".repeat(depth));
            }
            for child in 0..60_000 {
                text += &format!("       c{child}: 1\n");
            }
            text.truncate(MIB);
            text
        }),
        ("a list of empty items", fill("- \n")),
        ("a flow list", format!("[{}]", "1,".repeat(MIB / 2 - 2))),
        ("brackets", fill("[")),
        ("braces", fill("{")),
        ("questions", fill("? ")),
        ("one text", fill("x")),
        ("one quoted text", format!("\"{}\"", "\\x41".repeat(MIB / 4 - 1))),
        (
            "unknown fields",
            (0..).map(|n| format!("f{n}: 1\n")).take(130_000).collect::<String>()[..MIB].to_owned(),
        ),
        ("line breaks", fill("\n")),
        ("comments", fill("#\n")),
        ("a span of a megabyte", format!("name: a\nlimits: {{job: {}}}\n", "1h ".repeat(300_000))),
        ("a text where a number belongs", format!("name: {}\nlimits: {{attempts: {}}}\n", fill("y"), "9")),
        ("documents", fill("--- a\n")),
        ("anchors", fill("- &a b\n")),
        ("wrong alternatives", fill("image: {build: 1}\ncluster: {rent: {x: [1, 2]}}\n")),
    ]
}

/// Value of a line in this process's memory statistics, KiB.
fn memory_kib(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let value = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    value.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Reads one of the texts in a separate process, to measure its peak memory.
#[test]
fn any_text_of_1_mb_takes_bounded_memory_and_time() {
    if let Ok(name) = std::env::var("HOSTILE") {
        let (name, whole) = name.split_once('/').unwrap();
        let (_, mut text) = hostile().into_iter().find(|(known, _)| *known == name).unwrap();
        if whole != "whole" {
            text.truncate(LARGEST);
        }
        let before = memory_kib("VmRSS:");
        let started = Instant::now();
        let read =
            YamlDocument::parse("w.yaml", &text).and_then(|document| document.read_as::<WorkflowFile>());
        let took = started.elapsed();
        let problems = read.err().map_or_else(String::new, |problems| problems.to_string());
        // The pages of the test program itself are not counted, because their number depends on the page cache.
        let peak = memory_kib("VmHWM:").saturating_sub(before);
        println!("HOSTILE {} {} {peak}", took.as_millis(), problems.len());
        return;
    }
    let texts = hostile();
    for name in texts.iter().flat_map(|(name, _)| [format!("{name}/whole"), format!("{name}/cut")]) {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["any_text_of_1_mb", "--nocapture", "--test-threads=1"]).env("HOSTILE", &name);
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split("HOSTILE ").nth(1));
        let line =
            line.unwrap_or_else(|| panic!("{name}: {text} {}", String::from_utf8_lossy(&output.stderr)));
        let numbers: Vec<u64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [millis, problems, peak_kib] = numbers[..] else { panic!("{name}: {line}") };
        assert!(problems < 100_000, "{name}: {problems} bytes of messages");
        assert!(peak_kib < 64 << 10, "{name}: {peak_kib} KiB");
        // Ten times the limit of an optimized program: the test program is not optimized and shares the machine with other tests.
        assert!(millis < 10_000, "{name}: {millis} ms");
        eprintln!("{name}: {millis} ms, {peak_kib} KiB, {problems} bytes of messages");
    }
}

#[test]
fn an_override_with_a_long_or_deeply_nested_field_is_rejected() {
    for field in ["a.".repeat(60_000) + "a", "k".repeat(300)] {
        let refused = format!("{field}=1").parse::<Override>().unwrap_err();
        assert!(refused.contains("--set") && refused.len() < 200, "{refused}");
    }
    assert!("limits.job=10m".parse::<Override>().is_ok());
}
