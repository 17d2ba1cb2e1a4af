//! Faults in forms that the samples do not contain.

#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use measure::{FORMATS, read_as};
use model::{
    measurement::{LogEnd, Reading},
    metric::Severity,
};

fn read(format: &str, log: &str) -> Reading {
    let format = FORMATS.iter().find(|known| known.name == format).unwrap();
    read_as(format, log.as_bytes()).unwrap()
}

#[test]
fn a_process_killed_at_the_limit_of_its_cgroup_is_a_finding() {
    let log = "[337533.314412] Memory cgroup out of memory: Killed process 23793 (python3) total-vm:2623712kB, anon-rss:516452kB\n\
               -- end of kernel log --\n";
    let reading = read("kernel-log", log);
    assert_eq!(reading.ended, LogEnd::Complete);
    let findings: Vec<_> = reading.findings.iter().map(|it| (it.code.as_str(), it.severity)).collect();
    assert_eq!(findings, [("OUT_OF_MEMORY", Severity::Software)]);
}

#[test]
fn an_xid_of_a_mig_instance_belongs_to_its_gpu() {
    let log = "NVRM: GPU at PCI:0000:01:00: GPU-11aa\n\
               NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, name=python3, Contained: CE User Channel (0x9).\n\
               NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:01): 94, pid=7195, name=python3, Contained: CE User Channel (0x9).\n\
               -- end of kernel log --\n";
    let reading = read("kernel-log", log);
    assert_eq!(reading.findings.len(), 2);
    for finding in &reading.findings {
        let of = (finding.subject.bus_id.as_deref(), finding.subject.serial.as_deref());
        assert_eq!((finding.code.as_str(), of), ("XID_94", (Some("0000:01:00"), Some("GPU-11aa"))));
    }
}

#[test]
fn a_gpu_that_is_not_registered_with_the_fabric_is_a_finding() {
    for (name, state) in [
        ("580-h100.txt", "        State                                          : N/A"),
        ("580-h100.xml", "<state>N/A</state>"),
        ("535-a100-mig.xml", "<state>N/A</state>"),
    ] {
        let path = format!("{}/tests/samples/nvidia-smi/{name}", env!("CARGO_MANIFEST_DIR"));
        let log = std::fs::read_to_string(path).unwrap();
        assert!(log.contains(state), "{name}");
        let count = |log: &str| {
            let findings = read("nvidia-smi", log).findings;
            findings.iter().filter(|finding| finding.code == "FABRIC_NOT_READY").count()
        };
        assert_eq!(count(&log), 0, "{name}");
        assert_eq!(count(&log.replace(state, &state.replace("N/A", "Completed"))), 0, "{name}");
        for bad in ["In Progress", "Not Started"] {
            assert!(count(&log.replace(state, &state.replace("N/A", bad))) > 0, "{name}: {bad}");
        }
    }
}
