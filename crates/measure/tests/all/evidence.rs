//! Hardware evidence, on logs of two real H100 and of a real H200, and on their variants.

#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use std::{io::Read, path::Path};

use measure::evidence::EvidenceFilter;
use model::{NodeEvidence, metric::Severity};

/// `h100-load`: matrix products on both GPUs. `h100-xid-43`: a kernel that failed an assertion on GPU 1. `h100-xid-31`: a kernel
/// that wrote to an invalid address on GPU 0.
fn log(name: &str) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/evidence").join(format!("{name}.log"));
    std::fs::read_to_string(path).unwrap()
}

fn node(log: &str) -> NodeEvidence {
    let mut filter = EvidenceFilter::new(log.as_bytes());
    filter.read_to_end(&mut Vec::new()).unwrap();
    let [node] = <[NodeEvidence; 1]>::try_from(filter.finish()).unwrap();
    node
}

/// The log, with `from` replaced by `to` in the lines printed after the job.
fn after(log: &str, from: &str, to: &str) -> String {
    let changed = log.lines().map(|line| match line.contains(" after ") {
        true => line.replace(from, to) + "\n",
        false => line.to_owned() + "\n",
    });
    let changed: String = changed.collect();
    assert_ne!(changed, log, "{from}");
    changed
}

/// The log with a line of this moment and source added.
fn with_line(log: &str, moment: &str, source: &str, text: &str) -> String {
    let end = format!("burnin evidence: vm {moment} end ");
    log.replace(&end, &format!("burnin evidence: vm {moment} {source} {text}\n{end}"))
}

/// Code, severity and subject of each finding.
fn findings(log: &str) -> Vec<(String, Severity, String)> {
    let node = node(log);
    let finding = |it: model::metric::Finding| (it.code, it.severity, it.subject.to_string());
    node.findings.into_iter().map(finding).collect()
}

fn one(code: &str, severity: Severity, subject: &str) -> Vec<(String, Severity, String)> {
    vec![(code.to_owned(), severity, subject.to_owned())]
}

const GPU_0: &str = "node vm, gpu 0 (serial 1752624007694)";
const GPU_1: &str = "node vm, gpu 1 (serial 1752624018157)";

#[test]
fn a_healthy_load_has_no_findings_and_clocks_temperature_and_power_are_recorded() {
    let node = node(&log("h100-load"));
    assert_eq!((node.node.as_str(), node.missing.len(), node.findings.len()), ("vm", 0, 0));
    let during: Vec<_> = node.gpus.iter().map(|gpu| gpu.during.clone().unwrap()).collect();
    let hottest: Vec<_> = during.iter().map(|it| (it.highest_temperature_c, it.highest_power_w)).collect();
    assert_eq!(hottest, [(62, 699), (56, 697)]);
    assert_eq!((during[0].count, during[0].lowest_clock_mhz, during[0].highest_clock_mhz), (7, 345, 1980));
    assert_eq!(node.gpus[1].subject.bus_id.as_deref(), Some("0000:00:07"));
    assert_eq!(node.gpus[0].settings["vbios_version"], "96.00.DA.00.0C");
    assert_eq!(node.settings["nvidia"], "580.159.04");
}

#[test]
fn nvlink_evidence_is_not_missing_for_a_gpu_without_visible_nvlinks() {
    let node = node(&log("h200-idle"));
    assert_eq!((node.missing, node.findings), (Vec::<String>::new(), vec![]));
    assert_eq!(node.gpus[0].during.as_ref().unwrap().highest_temperature_c, 41);
    // A GPU that is registered with Fabric Manager has NVLinks.
    let joined = log("h200-idle").replace("No, N/A, None", "No, Completed, None");
    let missing = self::node(&joined).missing;
    assert_eq!(missing.len(), 4, "{missing:?}");
    assert!(missing.iter().all(|text| text.starts_with("NVLink")), "{missing:?}");
}

#[test]
fn a_real_node_with_unchanged_versions_and_settings_has_no_finding() {
    let text = log("h200-settings");
    let all = node(&text);
    assert_eq!((all.missing, all.findings, all.recorded), (Vec::<String>::new(), vec![], vec![]));
    assert_eq!(all.settings["nccl"], "2.28.3");
    let updated = after(&text, "nccl nccl=2.28.3", "nccl nccl=2.29.1");
    assert_eq!(findings(&updated), one("SETTING_CHANGED", Severity::Configuration, "node vm"));
    let wrapped = after(&text, "oldest [    0.000000]", "oldest [   10.000000]");
    let text = "kernel log during the job: its ring buffer was overwritten: the oldest line ([   10.000000]) is newer than the newest line \
                before the job ([    3.726312])";
    assert_eq!(node(&wrapped).missing, [text]);
}

#[test]
fn only_lines_that_the_kernel_logged_during_the_job_are_findings() {
    assert_eq!(findings(&log("h100-xid-43")), one("XID_43", Severity::Software, GPU_1));
    // The earlier Xid 43 of GPU 1 is in the log before and after.
    assert_eq!(findings(&log("h100-xid-31")), one("XID_31", Severity::Software, GPU_0));
}

#[test]
fn each_counter_that_rises_names_its_gpu() {
    let load = log("h100-load");
    let errors = |columns: &str| after(&load, "16, 0, 0, 0, No, No, Completed", columns);
    let both =
        |code: &str, severity| [GPU_0, GPU_1].map(|gpu| (code.to_owned(), severity, gpu.to_owned())).to_vec();
    assert_eq!(
        findings(&errors("16, 2, 0, 0, No, No, Completed")),
        both("ECC_UNCORRECTABLE", Severity::Hardware)
    );
    assert_eq!(findings(&errors("16, 0, 9, 0, No, No, Completed")), [], "corrected errors are not a fault");
    assert_eq!(findings(&errors("16, 0, 0, 1, No, No, Completed")), both("ROW_REMAPPED", Severity::Hardware));
    assert_eq!(
        findings(&errors("16, 0, 0, 0, Yes, No, Completed")),
        both("ROW_REMAP_PENDING", Severity::Hardware)
    );
    assert_eq!(
        findings(&errors("16, 0, 0, 0, No, Yes, Completed")),
        both("ROW_REMAP_FAILED", Severity::Hardware)
    );
    assert_eq!(
        findings(&errors("8, 0, 0, 0, No, No, Completed")),
        both("PCIE_WIDTH_FELL", Severity::Hardware)
    );
    assert_eq!(
        findings(&errors("16, 0, 0, 0, No, No, In Progress")),
        both("FABRIC_NOT_READY", Severity::Configuration)
    );
    let lost = load
        .lines()
        .filter(|line| !line.contains("after gpus 1,"))
        .map(|line| line.to_owned() + "\n")
        .collect::<String>();
    assert_eq!(findings(&lost), one("GPU_LOST", Severity::Hardware, GPU_1));
}

#[test]
fn corrected_errors_are_recorded_and_are_not_findings() {
    let load = log("h100-load");
    let recorded = |log: &str| -> Vec<(String, String)> {
        let node = node(log);
        assert_eq!((node.findings, node.missing), (vec![], Vec::<String>::new()));
        node.recorded.into_iter().map(|it| (it.code, it.text)).collect()
    };
    assert_eq!(recorded(&load), []);
    let text = "ecc.errors.corrected.volatile.total rose from 0 to 9 during the job";
    let errors = recorded(&after(&load, "16, 0, 0, 0, No", "16, 0, 9, 0, No"));
    assert_eq!(errors, vec![("ECC_CORRECTED".to_owned(), text.to_owned()); 2]);
    let queried = load
        .replace(",remapped_rows.uncorrectable", ",remapped_rows.correctable,remapped_rows.uncorrectable")
        .replace("16, 0, 0, 0, No", "16, 0, 0, 3, 0, No");
    assert_eq!(recorded(&queried), []);
    let rows = recorded(&after(&queried, "16, 0, 0, 3, 0, No", "16, 0, 0, 4, 0, No"));
    let text = "remapped_rows.correctable rose from 3 to 4 during the job";
    assert_eq!(rows, vec![("ROW_REMAPPED_CORRECTABLE".to_owned(), text.to_owned()); 2]);
    let unreadable = node(&queried.replace("16, 0, 0, 3, 0, No", "16, 0, 0, [N/A], 0, No"));
    assert_eq!(unreadable.missing[0], "counters of GPU 0 before the job: remapped_rows.correctable [N/A]");
}

#[test]
fn versions_and_settings_that_change_during_the_job_are_findings() {
    // The probe that recorded this log printed the settings after the program as well.
    let load = log("h100-load");
    assert_eq!(findings(&load), []);
    let updated = after(&load, "nvidia=580.159.04", "nvidia=580.178.04");
    assert_eq!(findings(&updated), one("SETTING_CHANGED", Severity::Configuration, "node vm"));
    let text = "nvidia was 580.159.04 before the job and is 580.178.04 after it";
    assert_eq!(node(&updated).findings[0].text, text);
    let gone = after(&load, "settings nvidia=580.159.04", "settings other=1");
    assert_eq!(findings(&gone).len(), 2, "one setting is absent before, another one after the job");
    let without = load.replace(" after settings ", " after other ");
    assert_eq!(findings(&without), [], "a log of an earlier version has no settings after the job");
    let late = with_line(&without, "after", "settings", "no response within 1.5 s");
    assert_eq!(node(&late).missing, ["settings after the job: no response within 1.5 s"]);
    assert_eq!(findings(&late), []);
    let nccl = with_line(&with_line(&load, "before", "nccl", "nccl=2.28.9"), "after", "nccl", "nccl=2.29.1");
    assert_eq!(findings(&nccl), one("SETTING_CHANGED", Severity::Configuration, "node vm"));
    for unreadable in ["nccl=unreadable", "nccl="] {
        assert_eq!(findings(&nccl.replace("nccl=2.29.1", unreadable)), [], "{unreadable} after the job");
        assert_eq!(findings(&nccl.replace("nccl=2.28.9", unreadable)), [], "{unreadable} before the job");
    }
    let driver = after(&load, "580.159.04, 96.00", "580.178.04, 96.00");
    let both =
        [GPU_0, GPU_1].map(|gpu| ("SETTING_CHANGED".to_owned(), Severity::Configuration, gpu.to_owned()));
    assert_eq!(findings(&driver), both);
}

/// The real probe, with stand-ins for `dmesg` before and after the program.
fn probed(before: &str, after: &str) -> NodeEvidence {
    use std::os::unix::fs::PermissionsExt;
    static PROBE: &str = include_str!("../../../clusters/api/src/evidence/probe.sh");
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let ran = folder.path().join("ran").display().to_string();
    script("dmesg", format!("if [[ -e {ran} ]]; then {after}; else {before}; fi"));
    script("nvidia-smi", "exit 1".to_owned());
    let text = format!("{PROBE}burnin_run \"$@\"\n");
    let output = std::process::Command::new("bash")
        .env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap()))
        .env("BURNIN_NODE_NAME", "vm")
        .args(["-uc", &text, "rank", "touch", &ran])
        .output()
        .unwrap();
    node(&String::from_utf8(output.stdout).unwrap())
}

#[test]
fn lost_lines_of_the_kernel_log_are_missing_evidence() {
    let lines = |from: u32, to: u32| {
        format!("for i in {{{from}..{to}}}; do echo \"[ $i.0] NVRM: Xid (PCI:0000:9b:00): 31, pid=$i\"; done")
    };
    let gaps = |node: &NodeEvidence| -> Vec<String> {
        let own = node.missing.iter().filter(|part| part.starts_with("kernel log"));
        own.cloned().collect()
    };
    let unchanged = probed(&lines(100, 102), &lines(100, 102));
    assert_eq!((gaps(&unchanged), unchanged.findings), (vec![], vec![]));
    // The ring buffer lost old lines, but still contains lines from before the job.
    let moved = probed(&lines(100, 105), &lines(103, 110));
    assert_eq!((gaps(&moved), moved.findings.len()), (vec![], 5));
    let overwritten = probed(&lines(100, 105), &lines(107, 110));
    let text = "kernel log during the job: its ring buffer was overwritten: the oldest line ([ 107.0]) is newer than the newest line \
                before the job ([ 105.0])";
    assert_eq!((gaps(&overwritten), overwritten.findings.len()), (vec![text.to_owned()], 4));
    // Both logs have more faults than are printed. The printed faults of `many` begin before the job, so all faults during the job are
    // known; those of `cut` begin during the job.
    let many = probed(&lines(100, 1300), &lines(100, 1310));
    assert_eq!((gaps(&many), many.findings.len()), (vec![], 10));
    let cut = probed(&lines(100, 102), &lines(100, 1310));
    let text = "kernel log during the job: only the last 1000 of 1211 lines about faults were printed";
    assert_eq!(gaps(&cut), [text]);
    let untimed = probed("echo booted", "echo other");
    let text = "kernel log during the job: its oldest line changed from booted to other, and its lines have no times, so lines may be lost";
    assert_eq!(gaps(&untimed), [text]);
}

#[test]
fn pending_and_failed_row_remaps_are_findings_even_if_older_than_the_job() {
    let load = log("h100-load");
    let always = |columns: &str| {
        let first = |line: &str| line.contains(" gpus 1,");
        let changed = load.lines().map(|line| match first(line) {
            true => line.replace("16, 0, 0, 0, No, No, Completed", columns) + "\n",
            false => line.to_owned() + "\n",
        });
        findings(&changed.collect::<String>())
    };
    let failed = always("16, 0, 0, 2, No, Yes, Completed");
    assert_eq!(failed, one("ROW_REMAP_FAILED", Severity::Hardware, GPU_1));
    let pending = always("16, 0, 0, 2, Yes, No, Completed");
    assert_eq!(pending, one("ROW_REMAP_PENDING", Severity::Unknown, GPU_1));
    assert_eq!(
        always("16, 7, 0, 2, No, No, Completed"),
        [],
        "a counter that did not rise during the job is not a finding"
    );
}

#[test]
fn inactive_nvlinks_are_findings_even_if_inactive_before_the_job() {
    let load = log("h100-load");
    let link = "node vm, gpu 1, link nvlink3 (serial 1752624018157)";
    let down = with_line(&load, "after", "links", "\t Link 3: <inactive>");
    assert_eq!(findings(&down), one("NVLINK_DOWN", Severity::Hardware, link));
    let always = with_line(&down, "before", "links", "\t Link 3: <inactive>");
    assert_eq!(findings(&always), one("NVLINK_DOWN", Severity::Hardware, link));

    let all = "NVML: Unable to retrieve NVLink information as all links are inActive";
    let header = "links GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-cf8f9c59-19fd-eab2-ecc1-7cc45b197beb)";
    let first = |log: &str, moment: &str| {
        let header = format!("burnin evidence: vm {moment} {header}\n");
        log.replace(&header, &format!("{header}burnin evidence: vm {moment} links {all}\n"))
    };
    let every = with_line(&with_line(&load, "before", "links", all), "after", "links", all);
    let every = first(&first(&every, "before"), "after");
    let found = findings(&every);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().all(|(code, severity, _)| code == "NVLINK_DOWN" && *severity == Severity::Configuration)
    );
    let cards = every.replace("H100 80GB HBM3", "H100 PCIe").replace("No, Completed", "No, N/A");
    assert_eq!(findings(&cards), [], "inactive links of cards without a bridge are not findings");
}

#[test]
fn only_nvlink_errors_during_the_job_are_findings() {
    let load = log("h100-load");
    let link = "node vm, gpu 1, link nvlink7 (serial 1752624018157)";
    let rose = with_line(&load, "after", "link_errors", "\t Link 7: Recovery Errors: 3");
    assert_eq!(findings(&rose), one("NVLINK_ERRORS", Severity::Hardware, link));
    let same = with_line(&rose, "before", "link_errors", "\t Link 7: Recovery Errors: 3");
    assert_eq!(findings(&same), []);
    let replays = with_line(&load, "after", "link_errors", "\t Link 7: Replay Errors: 1");
    assert_eq!(findings(&replays), one("NVLINK_ERRORS", Severity::Unknown, link));
}

/// The lines of an H200 with driver 580.159, with changed counts.
#[test]
fn pcie_replays_above_the_maximum_rate_are_findings() {
    let with = |seconds: u64, replays: u64, rollovers: u64| {
        let mut log = log("h100-load");
        let gpu = "GPU 1: NVIDIA H200 (UUID: GPU-397a0c93-90ec-a304-5217-cbac5547bca0)";
        let later = 1_764_105_000 + seconds;
        for (moment, at, replays, rollovers) in
            [("before", 1_764_105_000, 7, 0), ("after", later, 7 + replays, rollovers)]
        {
            for line in [
                format!("at {at}"),
                gpu.to_owned(),
                format!("    REPLAY_COUNTER:          {replays}"),
                format!("    REPLAY_ROLLOVER_COUNTER: {rollovers}"),
            ] {
                log = with_line(&log, moment, "pcie", &line);
            }
        }
        log
    };
    assert_eq!(
        findings(&with(61, 16, 0)),
        [],
        "16 replays in 61 s, rounded up to two minutes, are not a finding"
    );
    assert_eq!(findings(&with(61, 17, 0)), one("PCIE_REPLAYS", Severity::Unknown, GPU_1));
    assert_eq!(findings(&with(600, 0, 1)), one("PCIE_REPLAYS", Severity::Unknown, GPU_1));
    let found = node(&with(60, 90, 0)).findings;
    assert!(found[0].text.contains("90 a minute; expected at most 8"), "{}", found[0].text);
    let unreadable = with_line(&log("h100-load"), "after", "pcie", "at 1764105000");
    assert_eq!(node(&unreadable).missing, ["PCIe counters after the job: nvidia-smi printed nothing"]);
}

#[test]
fn changed_ports_and_new_pcie_errors_are_findings() {
    let port = "/sys/class/infiniband/mlx5_3/ports/1";
    let both = |log: String, text: &str| {
        with_line(&with_line(&log, "before", "ports", text), "after", "ports", text)
    };
    let up = both(
        both(log("h100-load"), &format!("{port}/state:4: ACTIVE")),
        &format!("{port}/rate:400 Gb/sec (4X NDR)"),
    );
    assert_eq!(findings(&up), []);
    let subject = "node vm, link mlx5_3/1";
    let down = after(&up, "4: ACTIVE", "1: DOWN");
    assert_eq!(findings(&down), one("PORT_DOWN", Severity::Hardware, subject));
    let slow = after(&up, "400 Gb/sec (4X NDR)", "100 Gb/sec (4X EDR)");
    assert_eq!(findings(&slow), one("PORT_RATE_FELL", Severity::Hardware, subject));
    let flapped = with_line(&up, "after", "ports", &format!("{port}/counters/link_downed:2"));
    assert_eq!(findings(&flapped), one("PORT_DOWN", Severity::Hardware, subject));
    let errors = with_line(&up, "after", "ports", &format!("{port}/counters/symbol_error:7"));
    assert_eq!(findings(&errors), one("PORT_ERRORS", Severity::Unknown, subject));
    let fatal = "/sys/bus/pci/devices/0000:9b:00.0/aer_dev_fatal:TOTAL_ERR_FATAL 1";
    let fatal = with_line(&up, "after", "ports", fatal);
    assert_eq!(findings(&fatal), one("PCIE_AER", Severity::Hardware, "node vm (bus 0000:9b:00.0)"));
}

#[test]
fn thermal_slowdown_is_a_finding_and_the_power_limit_is_not() {
    let load = log("h100-load");
    let hot = load.replace("699 0x0000000000000001", "699 0x0000000000000040");
    assert_eq!(findings(&hot), one("GPU_THROTTLED", Severity::Hardware, GPU_0));
    let warm = load.replace("699 0x0000000000000001", "699 0x0000000000000020");
    assert_eq!(findings(&warm), one("GPU_THROTTLED", Severity::Unknown, GPU_0));
}

#[test]
fn unreadable_sources_are_reported_as_missing() {
    let load = log("h100-load");
    let missing = |log: &str| node(log).missing;
    let restricted = after(
        &load,
        "kernel lines 371",
        "kernel unreadable dmesg: read kernel buffer failed: Operation not permitted",
    );
    let expected = "kernel log after the job: dmesg: read kernel buffer failed: Operation not permitted";
    assert_eq!(missing(&restricted), [expected]);
    let killed = load.split("burnin evidence: vm after").next().unwrap();
    assert_eq!(missing(killed), ["evidence after the job: the probe did not print its last line"]);
    let started: String =
        load.lines().filter(|line| !line.contains(" before ")).map(|line| line.to_owned() + "\n").collect();
    let late = format!("burnin evidence: vm before late it was not complete when the pairs began\n{started}");
    assert_eq!(missing(&late)[0], "evidence before the job: it was not complete when the pairs began");
    let rows = |line: &str| !(line.contains(" gpus 0,") || line.contains(" gpus 1,"));
    let none: String = load.lines().filter(|line| rows(line)).map(|line| line.to_owned() + "\n").collect();
    let none = with_line(&none, "before", "gpus", "nvidia-smi ended with status 9");
    assert_eq!(
        missing(&none),
        [
            "GPUs before the job: nvidia-smi ended with status 9",
            "GPUs after the job: nvidia-smi printed nothing"
        ]
    );
}

#[test]
fn absent_samples_and_throttle_reasons_are_reported_as_missing() {
    let load = log("h100-load");
    let none: String = load
        .lines()
        .filter(|line| !line.contains(" during samples 1 "))
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert_eq!(node(&none).missing, ["samples of GPU 1 during the job: none were printed"]);
    assert_eq!(node(&none).gpus.iter().filter(|gpu| gpu.during.is_some()).count(), 1);
    for (printed, reason) in
        [("[Not Supported]", "[Not Supported]"), ("", "nothing was printed"), ("0x0|[N/A]", "[N/A]")]
    {
        let changed = load.replace(
            "699 0x0000000000000001|0x0000000000000000|0x0000000000000004",
            &format!("699 {printed}"),
        );
        let node = node(&changed);
        assert_eq!(node.missing, [format!("throttle reasons of GPU 0 during the job: {reason}")]);
        assert_eq!(node.gpus[0].during.as_ref().unwrap().highest_power_w, 699);
    }
    let hot = load.replace("699 0x0000000000000001", "699 [N/A]|0x0000000000000040");
    assert_eq!(findings(&hot), one("GPU_THROTTLED", Severity::Hardware, GPU_0));
}

#[test]
fn counters_that_were_not_queried_are_reported_as_missing() {
    let load = log("h100-load");
    let old = load
        .replace(",remapped_rows.uncorrectable,remapped_rows.pending,remapped_rows.failure,fabric.state", "");
    let old = old.replace(", 0, No, No, Completed", "");
    let missing = node(&old).missing;
    let fields = "remapped_rows.uncorrectable not queried, remapped_rows.pending not queried, remapped_rows.failure not queried";
    assert_eq!(missing.len(), 4, "evidence of two GPUs is missing before and after the job: {missing:?}");
    assert_eq!(missing[0], format!("counters of GPU 0 before the job: {fields}"));
    // The driver does not print remapped rows with MIG.
    let mig = old.replace("Enabled, Enabled, Disabled", "Enabled, Enabled, Enabled");
    assert_eq!(node(&mig).missing, Vec::<String>::new());
}

#[test]
fn a_gpu_that_nvidia_smi_cannot_read_is_reported_as_missing() {
    let load = log("h100-load");
    let lost = "gpus Unable to determine the device handle for GPU0000:00:08.0: GPU is lost";
    let line = with_line(&load, "after", "gpus", lost.strip_prefix("gpus ").unwrap());
    let expected = "a part of the GPUs after the job: Unable to determine the device handle for GPU0000:00:08.0: GPU is lost";
    assert_eq!(node(&line).missing, [expected]);
    let unlisted: String = load
        .lines()
        .filter(|line| !(line.contains(" after links GPU 1:") || line.contains(" after link_errors GPU 1:")))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let expected = ["NVLinks", "NVLink errors"]
        .map(|what| format!("{what} of GPU 1 after the job: nvidia-smi did not list the GPU"));
    assert_eq!(node(&unlisted).missing, expected);
}

#[test]
fn unreadable_ports_are_reported_as_missing() {
    let load = log("h100-load");
    let device = with_line(&load, "before", "settings", "infiniband/mlx5_3/fw_ver=28.43.2026");
    let expected =
        ["before", "after"].map(|moment| format!("ports of mlx5_3 {moment} the job: none could be read"));
    assert_eq!(node(&device).missing, expected);
    let port = "/sys/class/infiniband/mlx5_3/ports/1";
    let with =
        |log: &str, text: &str| with_line(&with_line(log, "before", "ports", text), "after", "ports", text);
    let state = with(&device, &format!("{port}/state:4: ACTIVE"));
    let expected = ["before", "after"].map(|moment| format!("port mlx5_3/1 {moment} the job: no rate"));
    assert_eq!(node(&state).missing, expected);
    let readable = with(&state, &format!("{port}/rate:400 Gb/sec (4X NDR)"));
    assert_eq!(node(&readable).missing, Vec::<String>::new());
    let denied = format!("grep: {port}/state: Permission denied");
    let refused = with_line(&readable, "after", "ports", &denied);
    assert_eq!(node(&refused).missing, [format!("ports after the job: {denied}")]);
}

/// Lines of the probe after a source exceeded its timeout of 1.5 s.
#[test]
fn a_source_that_exceeds_its_timeout_is_reported_as_missing() {
    let load = log("h100-load");
    let late = |source: &str| -> Vec<String> {
        let mark = format!(" after {source} ");
        let other: String =
            load.lines().filter(|line| !line.contains(&mark)).map(|line| line.to_owned() + "\n").collect();
        let late = with_line(&other, "after", source, "no response within 1.5 s");
        node(&late).missing
    };
    for (source, part) in [
        ("gpus", "GPUs"),
        ("links", "NVLinks"),
        ("link_errors", "NVLink errors"),
        ("pcie", "PCIe counters"),
        ("kernel", "kernel log"),
        ("ports", "ports"),
    ] {
        let expected = format!("{part} after the job: no response within 1.5 s");
        assert!(late(source).contains(&expected), "{source}: {:?}", late(source));
    }
    let settings = with_line(
        &load.replace(" before settings ", " before other "),
        "before",
        "settings",
        "no response within 1.5 s",
    );
    assert_eq!(node(&settings).missing, ["settings before the job: no response within 1.5 s"]);
    // The version of NCCL is a separate source: the settings are read without it.
    let before = with_line(&load, "before", "settings", "iommu=on");
    let nccl = node(&with_line(&before, "before", "nccl", "no response within 1.5 s"));
    assert_eq!(nccl.missing, ["nccl before the job: no response within 1.5 s"]);
    assert_eq!(nccl.settings.get("iommu").map(String::as_str), Some("on"));
    let nccl = node(&with_line(&before, "before", "nccl", "nccl=2.28.9"));
    assert_eq!(nccl.settings.get("nccl").map(String::as_str), Some("2.28.9"));
    // If the ports after the job are unknown, a port from before the job is not reported as down.
    let port = "/sys/class/infiniband/mlx5_3/ports/1";
    let mut up = with_line(&load, "before", "ports", &format!("{port}/state:4: ACTIVE"));
    up = with_line(&up, "before", "ports", &format!("{port}/rate:400 Gb/sec (4X NDR)"));
    up = with_line(&up, "after", "ports", "no response within 1.5 s");
    assert!(findings(&up).iter().all(|finding| !format!("{finding:?}").contains("PORT_DOWN")));
}

#[test]
fn nvidia_smi_without_output_after_the_job_is_a_finding() {
    let load = log("h100-load");
    let rows = |line: &&str| !line.contains("after gpus 0,") && !line.contains("after gpus 1,");
    let silent: String = load.lines().filter(rows).map(|line| line.to_owned() + "\n").collect();
    assert_eq!(findings(&silent), one("SMI_ERROR", Severity::Unknown, "node vm"));
    assert_eq!(node(&silent).gpus.len(), 2, "the GPUs are those before the job");
}

#[test]
fn a_cut_log_is_never_complete_evidence() {
    let load = log("h100-load");
    let last = load.rfind("burnin evidence: vm after end").unwrap();
    for cut in (0..last).step_by(97) {
        let mut filter = EvidenceFilter::new(&load.as_bytes()[..cut]);
        filter.read_to_end(&mut Vec::new()).unwrap();
        for node in filter.finish() {
            assert!(!node.missing.is_empty(), "cut at {cut}");
        }
    }
}
