//! Shell text (bash) that takes hardware evidence of a node before and after a program. Pure.
//!
//! The first process of each node prints lines `burnin evidence: NODE MOMENT SOURCE TEXT`, which the crate `measure` reads and
//! removes from the log. With GPU persistence mode a probe takes 0.1 s on two H100; a source that does not respond within 1.5 s is skipped.

use crate::shell::LOCAL_RANK;

/// Defines `burnin_run COMMAND...`: prints evidence before and after the command, and ends with the command's exit status or signal.
const PROBE: &str = include_str!("evidence/probe.sh");

/// Shell text that runs the program in the positional parameters. Only the first process of a node collects evidence.
pub fn around_program() -> String {
    format!(
        "{PROBE}if [[ {LOCAL_RANK} == 0 ]]; then burnin_run \"$@\"; fi\n\
         exec \"$@\"\n"
    )
}

/// Shell text for a process with `BURNIN_PAIR_INDEX=evidence`: it only collects evidence of the node, until standard input ends. A program
/// on pairs of nodes runs several times on each node; this process exists from before the first pair until after the last one.
pub fn while_input_is_open() -> String {
    format!("if [[ $BURNIN_PAIR_INDEX == evidence ]]; then\n{PROBE}burnin_run cat\nfi\n")
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::PermissionsExt,
        path::Path,
        process::{Command, Output},
        time::{Duration, Instant},
    };

    use super::*;

    /// Writes a stand-in for the program `name`, which the probe finds in `folder`.
    fn script(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A folder with these programs, and a `PATH` that begins with this folder.
    fn tools(scripts: &[(&str, &str)]) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in scripts {
            script(folder.path(), name, text);
        }
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        (folder, path)
    }

    /// Maximum duration of a probe of a node.
    const PROBE_LIMIT: Duration = Duration::from_secs(2);

    /// Output of a job whose probes call unresponsive tools. Each of the two probes may take [`PROBE_LIMIT`] longer than with tools that
    /// respond at once. A busy host delays processes and never accelerates them, so one of three measurements suffices.
    fn within_the_limit(path: &str) -> String {
        let (_folder, quick) = tools(&[("nvidia-smi", "exit 1"), ("dmesg", "echo '[ 1.0] booted'")]);
        let timed = |path: &str| {
            let begun = Instant::now();
            let output = run(&["echo", "measured"], &[("PATH", path)]);
            (begun.elapsed(), String::from_utf8(output.stdout).unwrap())
        };
        let mut delays = Vec::new();
        for _ in 0..3 {
            let ((own, _), (slow, text)) = (timed(&quick), timed(path));
            let delay = slow.saturating_sub(own);
            if delay <= 2 * PROBE_LIMIT {
                return text;
            }
            delays.push(delay);
        }
        panic!("two probes with unresponsive tools took {delays:?} longer than probes with responsive tools");
    }

    fn run(words: &[&str], own: &[(&str, &str)]) -> Output {
        let mut bash = Command::new("bash");
        bash.env_clear().env("PATH", std::env::var("PATH").unwrap()).env("BURNIN_NODE_NAME", "n1");
        bash.envs(own.iter().copied()).args(["-uc", &around_program(), "rank"]).args(words);
        bash.output().unwrap()
    }

    fn moments(output: &Output) -> Vec<String> {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let ends =
            text.lines().filter(|line| !line.starts_with("burnin evidence: ") || line.contains(" end "));
        ends.map(str::to_owned).collect()
    }

    #[test]
    fn evidence_is_taken_before_and_after_the_program() {
        let output = run(&["printf", "%s\n", "it's a test"], &[]);
        let expected = [
            "burnin evidence: n1 before end complete",
            "it's a test",
            "burnin evidence: n1 after end complete",
        ];
        assert_eq!(moments(&output), expected);
        assert!(output.status.success());
    }

    /// PCI configuration space with this access control register, as root reads it from sysfs.
    fn config_space(control: u16) -> Vec<u8> {
        let mut space = vec![0; 4096];
        // The extended capabilities are error reporting at 0x100 and access control services at 0x148.
        space[0x100..0x104].copy_from_slice(&0x1480_0001_u32.to_le_bytes());
        space[0x148..0x14c].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        space[0x14e..0x150].copy_from_slice(&control.to_le_bytes());
        space
    }

    /// Settings of a host whose sysfs has a GPU and an RDMA device below a switch with two ports.
    fn settings(host: &Path) -> Vec<String> {
        let root = host.to_str().unwrap();
        let text = around_program()
            .replace("/sys/", &format!("{root}/sys/"))
            .replace("/proc/", &format!("{root}/proc/"));
        let path = format!("{root}/bin:{}", std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.env_clear().env("PATH", path).env("BURNIN_NODE_NAME", "n1");
        let output = bash.args(["-uc", &text, "rank", "true"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("burnin evidence: n1 before settings "));
        lines.filter(|line| !line.starts_with("kernel=")).map(str::to_owned).collect()
    }

    fn host() -> tempfile::TempDir {
        use std::os::unix::fs::symlink;
        let host = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = host.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let port = "sys/devices/pci0000:15/0000:15:01.0";
        let gpu = format!("{port}/0000:16:00.0/0000:17:00.0/0000:18:00.0");
        let nic = format!("{port}/0000:16:00.0/0000:17:01.0/0000:19:00.0");
        write(&format!("{port}/config"), &config_space(0));
        write(&format!("{port}/0000:16:00.0/config"), &[0; 4096]);
        write(&format!("{port}/0000:16:00.0/0000:17:00.0/config"), &config_space(0x1d));
        write(&format!("{port}/0000:16:00.0/0000:17:01.0/config"), &config_space(0));
        write(&format!("{gpu}/iommu_group/type"), b"DMA-FQ\n");
        write(&format!("{nic}/iommu_group/type"), b"identity\n");
        write("sys/class/iommu/dmar0/x", b"");
        write("sys/module/mlx5_core/version", b"24.10-3.2.5\n");
        write("sys/class/infiniband/mlx5_0/fw_ver", b"28.43.8002\n");
        write("sys/class/infiniband/mlx5_0/ports/1/pkeys/0", b"0xffff\n");
        // Version line that driver 580.159.04 writes on an H100.
        let version = b"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)  \n";
        write("proc/driver/nvidia/version", version);
        write("proc/kallsyms", b"ffffffff81f8add0 t ib_umem_dmabuf_get_with_dma_device\n");
        std::fs::create_dir(host.path().join("bin")).unwrap();
        let toolkit = "printf '%s\\n' 'NVIDIA Container Toolkit CLI version 1.17.8' 'commit: 0'";
        script(&host.path().join("bin"), "nvidia-ctk", toolkit);
        std::fs::create_dir_all(host.path().join("sys/bus/pci/drivers/nvidia")).unwrap();
        symlink(host.path().join(gpu), host.path().join("sys/bus/pci/drivers/nvidia/0000:18:00.0")).unwrap();
        symlink(host.path().join(nic), host.path().join("sys/class/infiniband/mlx5_0/device")).unwrap();
        host
    }

    #[test]
    fn settings_of_pcie_iommu_and_dma_buf_are_read_from_sysfs() {
        let expected = [
            "mlx5_core=24.10-3.2.5",
            "container_toolkit=1.17.8",
            "iommu=on",
            "iommu_type=DMA-FQ identity",
            "acs=0000:17:00.0=001d",
            "dma_buf/nvidia=open",
            "dma_buf/rdma=yes",
            "infiniband/mlx5_0/fw_ver=28.43.8002",
            "infiniband/mlx5_0/ports/1/pkeys/0=0xffff",
        ];
        assert_eq!(settings(host().path()), expected);
    }

    #[test]
    fn an_unreadable_configuration_space_is_reported() {
        let acs = |bytes: &[u8]| {
            let host = host();
            let bridge = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/config";
            std::fs::write(host.path().join(bridge), bytes).unwrap();
            let lines = settings(host.path());
            lines.into_iter().find(|line| line.starts_with("acs=")).unwrap()
        };
        assert_eq!(acs(&config_space(0)), "acs=off");
        assert_eq!(acs(&config_space(0x1d)[..64]), "acs=unreadable");
        assert_eq!(acs(&[]), "acs=unreadable");
        // All bits are 1: the device does not respond.
        assert_eq!(acs(&[0xff; 4096]), "acs=off");
    }

    /// `journalctl` of a container: absent (as `timeout` reports it), or without a journal of the host.
    #[test]
    fn an_error_of_dmesg_is_reported_if_journalctl_has_no_lines() {
        let refused = "dmesg: read kernel buffer failed: Operation not permitted";
        let (folder, path) = tools(&[("dmesg", &format!("echo '{refused}' >&2; exit 1"))]);
        let absent = "timeout: failed to run command 'journalctl': No such file or directory";
        for (journalctl, expected) in [
            (format!("echo \"{absent}\" >&2; exit 127"), absent),
            ("echo 'No journal files were found.'".to_owned(), "the kernel log has no lines"),
        ] {
            script(folder.path(), "journalctl", &journalctl);
            let output = String::from_utf8(run(&["true"], &[("PATH", &path)]).stdout).unwrap();
            let line = format!("burnin evidence: n1 before kernel unreadable {refused}; {expected}\n");
            assert!(output.contains(&line), "{output}");
        }
    }

    #[test]
    fn driver_lines_never_displace_a_fault_and_the_counts_of_both_are_printed() {
        let dmesg = "echo '[ 1.0] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.'\n\
                     for i in {1..300}; do echo \"[ 2.$i] NVRM: noise $i\"; done";
        let (folder, path) = tools(&[("dmesg", dmesg)]);
        let kernel = || -> Vec<String> {
            let output = String::from_utf8(run(&["true"], &[("PATH", &path)]).stdout).unwrap();
            let lines =
                output.lines().filter_map(|line| line.strip_prefix("burnin evidence: n1 before kernel "));
            lines.map(str::to_owned).collect()
        };
        let lines = kernel();
        assert_eq!(lines[..4], ["lines 301", "oldest [ 1.0]", "newest [ 2.300]", "others 200 of 300"]);
        assert_eq!(
            (lines[4].as_str(), lines[203].as_str()),
            ("[ 2.101] NVRM: noise 101", "[ 2.300] NVRM: noise 300")
        );
        let fault = "[ 1.0] NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.";
        assert_eq!(lines[204..], ["faults 1 of 1", fault]);
        let many = "for i in {1..1200}; do echo \"[ $i.0] NVRM: Xid (PCI:0000:9b:00): 31, $i\"; done";
        script(folder.path(), "dmesg", many);
        let lines = kernel();
        assert_eq!((lines[4].as_str(), lines.len()), ("faults 1000 of 1200", 1005));
        assert_eq!(lines[5], "[ 201.0] NVRM: Xid (PCI:0000:9b:00): 31, 201");
    }

    /// Several processes filter the lines of a log with 1,000 faults within the time limit of a source.
    #[test]
    fn a_large_kernel_log_takes_a_small_part_of_the_time_limit() {
        let long = "for i in {1..1000}; do printf '[ %d.0] NVRM: Xid (PCI:0000:9b:00): 31, pid=%d %0350d\\n' $i $i 0; done";
        let folder = tempfile::tempdir().unwrap();
        let lines = Command::new("bash").args(["-c", long]).output().unwrap().stdout;
        assert!(lines.len() >= 390_000, "{}", lines.len());
        let log = folder.path().join("log");
        let plain = "[ 5.0] usb 1-1: new high-speed device number 7 using xhci_hcd, with more text in this line of the kernel log\n";
        for (name, text) in [("faults", lines), ("plain", plain.repeat(130_000).into_bytes())] {
            std::fs::write(&log, &text).unwrap();
            let (_tools, path) =
                tools(&[("dmesg", &format!("cat {}", log.display())), ("nvidia-smi", "exit 1")]);
            // A busy host delays processes and never accelerates them, so one of three measurements suffices.
            let attempt = || {
                let begun = Instant::now();
                let output = run(&["true"], &[("PATH", &path)]);
                (begun.elapsed(), String::from_utf8(output.stdout).unwrap())
            };
            let attempts: Vec<_> = (0..3).map(|_| attempt()).collect();
            let shown: Vec<_> = attempts.iter().map(|(elapsed, text)| (*elapsed, text.len())).collect();
            let expected = if name == "faults" { "faults 1000 of 1000\n" } else { "lines 130000\n" };
            let is_quick = |(elapsed, text): &(Duration, String)| {
                // The job has two probes.
                *elapsed < 2 * Duration::from_millis(1500)
                    && text.matches(&format!(" kernel {expected}")).count() == 2
            };
            assert!(attempts.iter().any(is_quick), "{name}: {shown:?}");
        }
    }

    /// A program that prints nothing, such as one ended at its timeout, leaves its setting unreadable.
    #[test]
    fn a_setting_without_a_value_is_unreadable() {
        let host = host();
        script(&host.path().join("bin"), "nvidia-ctk", "exit 124");
        std::fs::write(host.path().join("sys/class/infiniband/mlx5_0/fw_ver"), b"").unwrap();
        let lines = settings(host.path());
        for expected in ["container_toolkit=unreadable", "infiniband/mlx5_0/fw_ver=unreadable"] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:?}");
        }
    }

    #[test]
    fn the_header_of_a_journal_is_not_read_as_a_time() {
        let journal = "echo '-- Logs begin at Mon 2026-11-23. --'\n\
                       echo '2026-11-23T08:00:00+0000 n1 kernel: booted'\necho '2026-11-27T06:00:00+0000 n1 kernel: last'";
        let (_folder, path) = tools(&[("dmesg", "exit 1"), ("journalctl", journal)]);
        let output = String::from_utf8(run(&["true"], &[("PATH", &path)]).stdout).unwrap();
        assert!(output.contains("kernel oldest 2026-11-23T08:00:00+0000\n"), "{output}");
        assert!(output.contains("kernel newest 2026-11-27T06:00:00+0000\n"), "{output}");
    }

    #[test]
    fn only_the_first_process_of_a_node_takes_evidence() {
        for name in ["SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "BURNIN_LOCAL_RANK"] {
            let output = run(&["echo", "second"], &[(name, "1")]);
            assert_eq!(moments(&output), ["second"], "{name}");
        }
    }

    #[test]
    fn the_process_ends_with_the_exit_status_or_signal_of_the_program() {
        use std::os::unix::process::ExitStatusExt;
        let output = run(&["bash", "-c", "exit 3"], &[]);
        assert_eq!(output.status.code(), Some(3));
        let output = run(&["bash", "-c", "kill -KILL $$"], &[]);
        assert_eq!(output.status.signal(), Some(9));
        assert_eq!(moments(&output).last().unwrap(), "burnin evidence: n1 after end complete");
        assert_eq!(run(&["/missing/program"], &[]).status.code(), Some(127));
    }

    /// `nvidia-smi` responds after a minute, and the other tools at once.
    #[test]
    fn a_probe_skips_slow_sources_and_reports_each_of_them() {
        let (_folder, path) = tools(&[("nvidia-smi", "exec sleep 60"), ("dmesg", "echo '[ 1.0] booted'")]);
        let text = within_the_limit(&path);
        for moment in ["before", "after"] {
            let lines = |source: &str| -> Vec<_> {
                let mark = format!("burnin evidence: n1 {moment} {source} ");
                text.lines().filter_map(|line| line.strip_prefix(&mark)).collect()
            };
            for source in ["gpus", "links", "link_errors", "pcie"] {
                let line = lines(source).pop().unwrap_or_else(|| panic!("{moment} {source}: {text}"));
                assert!(
                    line == "no response within 1.5 s"
                        || line.starts_with("nvidia-smi ended with status 1")
                        || line.starts_with("at "),
                    "{line}"
                );
            }
            let kernel = ["lines 1", "oldest [ 1.0]", "newest [ 1.0]", "others 0 of 0", "faults 0 of 0"];
            assert_eq!(lines("kernel"), kernel, "{text}");
            assert_eq!(lines("end"), ["complete"]);
        }
    }

    #[test]
    fn the_version_of_nccl_is_that_of_the_loaded_library() {
        let version = |name: &str, bytes: &[u8]| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(name), bytes).unwrap();
            if name != "libnccl.so.2" {
                std::os::unix::fs::symlink(name, folder.path().join("libnccl.so.2")).unwrap();
            }
            let path = format!("/absent:{}", folder.path().display());
            let output = String::from_utf8(run(&["true"], &[("LD_LIBRARY_PATH", &path)]).stdout).unwrap();
            let line = output.lines().find_map(|line| line.split_once(" before nccl nccl="));
            line.map(|(_, version)| version.to_owned())
        };
        assert_eq!(version("libnccl.so.2.28.9", b"").as_deref(), Some("2.28.9"));
        // The file name of a wheel's library has no version, so the version is read from the text of the library.
        let text = b"\x7fELF\0\0NCCL version 2.27.5+cuda12.9\0CUDA driver version %d\n\0";
        assert_eq!(version("libnccl.so.2", text).as_deref(), Some("2.27.5"));
        assert_eq!(version("libnccl.so.2", b"\x7fELF").as_deref(), Some("unreadable"));
    }

    #[test]
    fn settings_are_printed_despite_an_unresponsive_library_folder() {
        let (_folder, path) = tools(&[("ldconfig", "exec sleep 3")]);
        // On a busy host the settings may also exceed the time limit, so the probe is repeated.
        let attempt = || String::from_utf8(run(&["true"], &[("PATH", &path)]).stdout).unwrap();
        let expected = ["n1 before settings kernel=", "n1 before nccl no response within 1.5 s\n"];
        let outputs: Vec<_> = (0..3).map(|_| attempt()).collect();
        let is_complete = |output: &String| expected.iter().all(|line| output.contains(line));
        assert!(outputs.iter().any(is_complete), "{outputs:?}");
    }

    /// With `errexit` the first `grep` without a match would end the probe and the job.
    #[test]
    fn a_job_that_sets_errexit_has_complete_evidence() {
        let output = run(&["printf", "%s\n", "measured"], &[("SHELLOPTS", "errexit")]);
        let expected = ["before", "after"].map(|moment| format!("burnin evidence: n1 {moment} end complete"));
        let [before, after] = &expected;
        assert_eq!(moments(&output), [before, "measured", after]);
    }

    /// A longer write to the pipe of the sources is not atomic.
    #[test]
    fn a_line_of_a_source_is_cut_to_4000_bytes() {
        let long = "echo \"[ 1.0] NVRM: $(printf '\u{fc}%.0s' {1..3000})\"";
        let (_folder, path) = tools(&[("dmesg", long)]);
        let output = run(&["true"], &[("PATH", &path), ("LC_ALL", "C.UTF-8")]).stdout;
        let mark = b"burnin evidence: n1 before kernel ";
        let lines = output.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(mark));
        let lengths: Vec<_> = lines.map(<[u8]>::len).collect();
        let (first, others) = ([b"lines 1".len(), b"oldest [ 1.0]".len()], b"others 1 of 1".len());
        assert_eq!(lengths, [first[0], first[1], first[1], others, 4000, others]);
    }

    /// Programs that never end and ignore SIGTERM, as a process in a broken driver does.
    #[test]
    fn unresponsive_tools_delay_the_program_by_less_than_two_seconds_a_probe() {
        let hangs = "trap '' TERM\nwhile :; do sleep 30; done";
        let (folder, path) = tools(&[("timeout", hangs), ("nvidia-smi", hangs)]);
        let text = within_the_limit(&path);
        assert!(text.contains("\nmeasured\n") && text.contains("after end complete"), "{text}");
        // When one of these processes ends, the probe may start another process, so kill repeatedly.
        let hanging = format!("{}/", folder.path().display());
        let left = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let line = |process: &std::fs::DirEntry| {
                std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default()
            };
            processes
                .filter(|process| line(process).contains(&hanging))
                .map(|it| it.file_name())
                .collect::<Vec<_>>()
        };
        for _ in 0..50 {
            for pid in left() {
                // The process may have ended already.
                let _ = Command::new("kill").arg("-KILL").arg(pid).output();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(left().is_empty());
    }

    /// Driver 580 on four H200: `nvidia-smi -l` printed each sample at once, and ended up to a second after SIGTERM.
    #[test]
    fn samples_are_kept_although_nvidia_smi_ends_a_second_after_sigterm() {
        let smi = "[[ $* == *' -l '* ]] || exit 1\ntrap stopped=1 TERM\nwhile :; do\n\
                   echo '0, 1980, 35, 265.12, 0x0000000000000000'\n\
                   for second in {1..5}; do sleep 1 >/dev/null 2>&1; ((${stopped:-0})) && exit; done\ndone";
        let (_folder, path) = tools(&[("nvidia-smi", smi)]);
        for duration in ["0.1", "1.3", "3.4"] {
            let output = String::from_utf8(run(&["sleep", duration], &[("PATH", &path)]).stdout).unwrap();
            let sample = "\nburnin evidence: n1 during samples 0 1 1980 1980 35 265 0x0000000000000000\n";
            assert!(output.contains(sample), "{duration}: {output}");
        }
    }

    #[test]
    fn sigterm_to_the_process_stops_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("started");
        let program =
            format!("sleep 60 & trap 'kill $!; echo stopped; exit 7' TERM; : >{}; wait", mark.display());
        let mut bash = Command::new("bash");
        bash.args(["-uc", &around_program(), "rank", "bash", "-c", &program])
            .stdout(std::process::Stdio::piped());
        let process = bash.spawn().unwrap();
        while !mark.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        assert!(moments(&output).contains(&"stopped".to_owned()));
    }
}
