//! Hardware evidence from public captures of nvidia-smi, which other people recorded on other drivers and GPUs.

#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use std::{collections::BTreeMap, fmt::Write, io::Read, path::Path};

use measure::evidence::EvidenceFilter;
use model::{NodeEvidence, metric::Severity};

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// A capture: every field of `--query-gpu` without and with load, and `nvlink -s`.
struct Capture {
    known: Vec<String>,
    links: String,
    idle: BTreeMap<String, String>,
    load: BTreeMap<String, String>,
}

impl Capture {
    fn of(name: &str) -> Self {
        let text = file(&format!("tests/captures/{name}.txt"));
        let section = |title: &str| {
            let after =
                text.split_once(&format!("## {title}\n")).unwrap_or_else(|| panic!("{name}: {title}")).1;
            after.split("\n## ").next().unwrap().trim_end().to_owned()
        };
        let names = section("capabilities :: help-query-gpu");
        let known = names.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        let row = |title| {
            let text = section(title);
            let (header, values) = text.split_once('\n').unwrap();
            // The capture has a unit after each field name and each value.
            let first = |text: &str| text.split(" [").next().unwrap().to_owned();
            let without_unit = |text: &str| match text.rsplit_once(' ') {
                Some((number, _)) if number.parse::<f64>().is_ok() => number.to_owned(),
                _ => text.to_owned(),
            };
            header.split(", ").map(first).zip(values.split(", ").map(without_unit)).collect()
        };
        let (idle, load) = (row("idle :: query-gpu"), row("load :: query-gpu"));
        Self { known, links: section("capabilities :: nvlink -s"), idle, load }
    }

    /// The evidence of a job that began idle and ended under load, with the same states of the NVLinks.
    fn evidence(&self, links: &str) -> NodeEvidence {
        self.evidence_with(links, links)
    }

    fn evidence_with(&self, links_before: &str, links_after: &str) -> NodeEvidence {
        let fields = fields();
        let mut log = String::new();
        for (moment, row, links) in [("before", &self.idle, links_before), ("after", &self.load, links_after)]
        {
            let mut line = |source: &str, text: &str| {
                writeln!(log, "burnin evidence: vm {moment} {source} {text}").unwrap();
            };
            line("gpus", &format!("fields {}", fields.join(",")));
            line("gpus", &fields.iter().map(|name| row[*name].as_str()).collect::<Vec<_>>().join(", "));
            // Selects the same lines as `burnin_links` of the probe.
            let lower = |text: &str| text.to_lowercase();
            let selected = |text: &&str| {
                text.starts_with("GPU") || ["status", "inactive"].iter().any(|it| lower(text).contains(it))
            };
            links.lines().filter(selected).for_each(|text| line("links", text));
            links.lines().filter(|text| text.starts_with("GPU")).for_each(|text| line("link_errors", text));
            line("pcie", "at 100");
            line("pcie", &format!("GPU 0: {} (UUID: {})", row["name"], row["uuid"]));
            line("kernel", "lines 0");
            line("end", "complete");
        }
        let (clock, heat) = (&self.load["clocks.current.sm"], &self.load["temperature.gpu"]);
        writeln!(log, "burnin evidence: vm during samples 0 1 {clock} {clock} {heat} 300 0x0000000000000000")
            .unwrap();
        let mut filter = EvidenceFilter::new(log.as_bytes());
        filter.read_to_end(&mut Vec::new()).unwrap();
        let [node] = <[NodeEvidence; 1]>::try_from(filter.finish()).unwrap();
        node
    }
}

/// The fields that the probe queries of a current driver.
fn fields() -> Vec<&'static str> {
    static PROBE: &str = include_str!("../../../clusters/api/src/evidence/probe.sh");
    let lists =
        PROBE.lines().filter_map(|line| line.trim().strip_prefix("local ")).flat_map(|line| line.split(' '));
    let lists = lists
        .filter_map(|list| list.split_once('='))
        .filter(|(name, _)| matches!(*name, "fields" | "counters" | "rows"));
    let lists: Vec<_> = lists.map(|(_, list)| list).collect();
    let [first, counters, rows, sampled] = lists.as_slice() else { panic!("{lists:?}") };
    assert!(sampled.ends_with("clocks_throttle_reasons.active"), "{sampled}");
    let more = "fabric.state,gpu_recovery_action";
    assert!(PROBE.contains(&format!("\"$counters,$rows,{more}\"")));
    [first, counters, rows, more].iter().flat_map(|list| list.split(',')).collect()
}

fn codes(node: &NodeEvidence) -> Vec<(&str, Severity)> {
    node.findings.iter().map(|finding| (finding.code.as_str(), finding.severity)).collect()
}

const CAPTURES: [&str; 4] = ["h100-590", "h100-mig-590", "h200-590", "l40s-595"];

#[test]
fn every_driver_prints_the_fields_of_the_probe() {
    let sampled = ["index", "clocks.sm", "temperature.gpu", "power.draw", "clocks_throttle_reasons.active"];
    for name in CAPTURES {
        let known = Capture::of(name).known;
        assert!(known.len() > 200, "{name}: {} fields", known.len());
        for field in fields().into_iter().chain(sampled) {
            assert!(known.iter().any(|known| known == field), "{name}: {field}");
        }
    }
}

#[test]
fn healthy_gpus_under_load_have_no_finding() {
    for name in CAPTURES {
        let capture = Capture::of(name);
        let node = capture.evidence(&capture.links);
        assert_eq!((codes(&node), &node.missing), (vec![], &vec![]), "{name}");
        assert_eq!(node.gpus[0].settings["driver_version"], capture.idle["driver_version"], "{name}");
        assert_eq!(node.gpus[0].settings["pcie.link.width.current"], "16", "{name}");
    }
}

#[test]
fn counters_that_a_gpu_does_not_print_are_reported_as_missing() {
    let mut capture = Capture::of("l40s-595");
    for row in [&mut capture.idle, &mut capture.load] {
        row.insert("ecc.errors.uncorrected.volatile.total".into(), "[N/A]".into());
        row.insert("remapped_rows.pending".into(), "[Not Supported]".into());
    }
    let node = capture.evidence(&capture.links);
    let fields = "ecc.errors.uncorrected.volatile.total [N/A], remapped_rows.pending [Not Supported]";
    let expected = ["before", "after"].map(|moment| format!("counters of GPU 0 {moment} the job: {fields}"));
    assert_eq!((codes(&node), &node.missing), (vec![], &expected.to_vec()));
    capture.load.insert("pcie.link.width.current".into(), "[GPU requires reset]".into());
    let missing = capture.evidence(&capture.links).missing;
    assert!(missing[1].contains("pcie.link.width.current [GPU requires reset]"), "{missing:?}");
}

#[test]
fn a_recommended_recovery_is_a_finding() {
    let mut capture = Capture::of("h100-590");
    for action in ["Reset", "Reboot", "Drain P2P", "Drain and Reset"] {
        capture.load.insert("gpu_recovery_action".into(), action.into());
        let node = capture.evidence(&capture.links);
        assert_eq!(codes(&node), [("GPU_RECOVERY_NEEDED", Severity::Hardware)]);
        assert!(node.findings[0].text.contains(&format!("`{action}`")), "{:?}", node.findings);
    }
    capture.idle.insert("gpu_recovery_action".into(), "Reset".into());
    assert_eq!(codes(&capture.evidence(&capture.links)), [("GPU_RECOVERY_NEEDED", Severity::Unknown)]);
    capture.load.insert("gpu_recovery_action".into(), "None".into());
    assert_eq!(codes(&capture.evidence(&capture.links)), [], "a reset repaired the GPU");
}

#[test]
fn nvlinks_are_read_in_the_spelling_of_each_driver() {
    let capture = Capture::of("h100-590");
    assert_eq!(codes(&capture.evidence(&file("tests/captures/nvlink-a100.txt"))), []);
    // The capture contains only GPU 6 of eight GPUs; the other captures contain GPU 0.
    let inactive = file("tests/captures/nvlink-a100-all-inactive.txt").replace("GPU 6:", "GPU 0:");
    for text in [inactive.clone(), inactive.replace("links are inactive", "links are inActive")] {
        let node = capture.evidence_with(&capture.links, &text);
        assert_eq!(codes(&node), [("NVLINK_DOWN", Severity::Hardware)], "{text}");
    }
    // The output for an A10 is empty: complete for a card, missing for a GPU that requires NVLinks.
    let nothing = file("tests/captures/nvlink-a10.txt");
    assert_eq!(Capture::of("l40s-595").evidence(&nothing).missing, Vec::<String>::new());
    assert_eq!(capture.evidence(&nothing).missing.len(), 4, "states and errors, before and after");
}
