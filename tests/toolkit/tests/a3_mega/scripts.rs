//! Scripts of nodes and jobs, tested separately.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use model::Verdict;
use tempfile::TempDir;
use toolkit::{Cloud, DIGEST, registry, repository};
use verdict::{ClueReader, RunEvidence, diagnose::diagnose};

fn node(script: &str) -> PathBuf {
    repository("workflows/a3-mega/blueprints/nodes").join(script)
}

fn job(script: &str) -> PathBuf {
    repository("workflows/a3-mega/job").join(script)
}

fn bash(script: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("bash");
    command.arg(script).args(arguments).envs(environment.iter().copied()).output().unwrap()
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

/// The prolog's check of the distribution: `DEBIAN` in versions since August 2024, `BOTH` in versions since June 2025.
const DEBIAN: &str = r#"if (grep -q "ID=debian" /etc/os-release && lsb_release -rs | grep -q "12"); then"#;
const BOTH: &str = r#"if ( (grep -q "ID=debian" /etc/os-release && lsb_release -rs | grep -q "12") || (grep -q "ID=ubuntu" /etc/os-release) ); then"#;

#[test]
fn the_prolog_is_patched_only_if_necessary() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("rxdm");
    let path = file.to_str().unwrap();
    let around = |line: &str| format!("#!/bin/bash\nset -e\n\t{line}\n\t\techo profile\n\tfi\n");
    // The line number does not matter.
    fs::write(&file, around(DEBIAN)).unwrap();
    let patched = bash(&node("mend-prolog.sh"), &[path], &[]);
    assert!(patched.status.success(), "{}", text(&patched.stderr));
    let ubuntu = r#"if (grep -q "ID=ubuntu" /etc/os-release && lsb_release -rs | grep -q "22.04"); then"#;
    assert_eq!(fs::read_to_string(&file).unwrap(), around(ubuntu));
    let again = bash(&node("mend-prolog.sh"), &[path], &[]);
    assert!(again.status.success() && text(&again.stdout).contains("supports Ubuntu already"));
    assert_eq!(fs::read_to_string(&file).unwrap(), around(ubuntu), "patched once");

    fs::write(&file, around(BOTH)).unwrap();
    assert!(bash(&node("mend-prolog.sh"), &[path], &[]).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), around(BOTH), "upstream supports Ubuntu");

    fs::write(&file, around("if true; then")).unwrap();
    let refused = bash(&node("mend-prolog.sh"), &[path], &[]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("found neither"));
    assert_eq!(fs::read_to_string(&file).unwrap(), around("if true; then"), "not changed");
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    text(&output.stdout)[..64].to_owned()
}

#[test]
fn prologs_are_pinned_and_stay_patched() {
    let folder = TempDir::new().unwrap();
    let (root, from) = (folder.path().join("slurm"), folder.path().join("from"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("receive-data-path-manager-mega"), "rxdm\n").unwrap();
    fs::write(from.join("sudo-oslogin"), "sudo\n").unwrap();
    let url = format!("file://{}", from.display());
    let environment = [("SLURM_ROOT", root.to_str().unwrap()), ("PROLOGS_FROM", url.as_str())];
    let (rxdm, sudo) =
        (sha256(&from.join("receive-data-path-manager-mega")), sha256(&from.join("sudo-oslogin")));
    let run = |rxdm: &str| bash(&node("prologs.sh"), &["a-commit", rxdm, &sudo, "a3mega"], &environment);

    let refused = run(&"0".repeat(64));
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("does not have the pinned SHA-256"), "{}", text(&refused.stderr));
    assert!(!root.join("scripts/rxdm").exists(), "an unverified prolog is not installed");

    for _ in 0..2 {
        let installed = run(&rxdm);
        assert!(installed.status.success(), "{}", text(&installed.stderr));
        let link = root.join("partition-a3mega-prolog_slurmd.d/rxdm.prolog_slurmd");
        assert!(fs::read_to_string(link).unwrap().starts_with("rxdm\n"));
        assert!(root.join("epilog_slurmd.d/sudo-oslogin.epilog_slurmd").exists());
        assert_eq!(fs::read_to_string(root.join("etc/slurm_mux.conf")).unwrap(), "set -e\n");
        // A patched prolog is not replaced at the next boot.
        fs::write(root.join("scripts/rxdm"), "rxdm\nmended\n").unwrap();
    }
    assert_eq!(fs::read_to_string(root.join("scripts/rxdm")).unwrap(), "rxdm\nmended\n");
}

/// Environment with the node's stand-ins on the path.
fn on_a_node(cloud: &Cloud) -> Vec<(String, String)> {
    let programs = repository("tests/testbed/toolkit/node");
    let path = std::env::var("PATH").unwrap();
    vec![
        ("PATH".to_owned(), format!("{}:/usr/bin:{path}", programs.display())),
        ("TOOLKIT_WORLD".to_owned(), cloud.path().display().to_string()),
        ("STANDIN_NODE".to_owned(), "b0-gpu-0".to_owned()),
    ]
}

#[test]
fn a_container_is_imported_once_and_only_with_the_required_digest() {
    let cloud = Cloud::new().unwrap();
    let environment = on_a_node(&cloud);
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let image = format!("{}#nvidia/pytorch:24.04-py3", registry().unwrap());
    let folder = cloud.path().to_str().unwrap();
    let import = |digest: &str| bash(&job("import.sh"), &[&image, digest, folder], &environment);

    let other = format!("sha256:{}", "c".repeat(64));
    let refused = import(&other);
    assert!(!refused.status.success());
    let expected = format!("CONTAINER: {image}: expected the digest {other}, found {DIGEST}");
    assert!(text(&refused.stderr).contains(&expected), "{}", text(&refused.stderr));
    assert_eq!(cloud.calls(), "");
    for _ in 0..2 {
        let imported = import(DIGEST);
        assert!(imported.status.success(), "{}", text(&imported.stderr));
    }
    assert_eq!(cloud.calls().matches("enroot").count(), 1, "{}", cloud.calls());
    let dead = bash(&job("import.sh"), &["127.0.0.1:9#a/b:c", &other, folder], &environment);
    assert!(
        text(&dead.stderr).contains("cannot read the digest from the registry"),
        "{}",
        text(&dead.stderr)
    );
}

#[test]
fn a_failed_setup_is_reported_with_its_first_error() {
    let cloud = Cloud::new().unwrap();
    let (root, environment) = (cloud.path().to_str().unwrap(), on_a_node(&cloud));
    let mut environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    environment.push(("READY_ROOT", root));
    let nodes = serde_json::json!({"instance": {"b0-gpu-0": {"name": "b0-gpu-0"}}});
    fs::write(cloud.path().join("things.json"), nodes.to_string()).unwrap();
    let ready = || text(&bash(&job("ready.sh"), &["a3mega"], &environment).stdout);
    assert_eq!(ready(), "login ready\npartition up\nnode b0-gpu-0 idle\n");
    fs::create_dir_all(cloud.path().join("etc")).unwrap();
    fs::create_dir_all(cloud.path().join("slurm/scripts")).unwrap();
    fs::write(cloud.path().join("etc/motd"), "*** Slurm setup failed! Please view log ***\n").unwrap();
    let log = "INFO: begun\nERROR: mount of path '/home' failed: exit status 32\nERROR: giving up\n";
    fs::write(cloud.path().join("slurm/scripts/setup.log"), log).unwrap();
    assert_eq!(ready(), "setup failed: ERROR: mount of path '/home' failed: exit status 32\n");
}

/// Compact states that Slurm prints, from `node_state_string_compact` of slurm_protocol_defs.c.
#[test]
fn an_idle_node_that_backfill_planned_is_ready() {
    let wait = |states: [&str; 2]| {
        let output =
            format!("login ready\npartition up\nnode b0-gpu-0 {}\nnode b0-gpu-1 {}\n", states[0], states[1]);
        let script =
            "import ready, sys; print(ready.missing({'nodes': 2, 'partition': 'a3mega'}, sys.argv[1]))";
        let ran = Command::new("python3")
            .args(["-BSc", script, &output])
            .current_dir(repository("workflows/a3-mega"))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        text(&ran.stdout)
    };
    assert_eq!(wait(["idle", "plnd"]), "None\n");
    for state in ["idle*", "idle~", "mix-", "drain", "drng", "resv", "maint", "comp"] {
        let expected = format!("1 of 2 nodes are idle: b0-gpu-0 plnd, b0-gpu-1 {state}\n");
        assert_eq!(wait(["plnd", state]), expected);
    }
}

/// Sources the profile on a node as a job script does, and starts a benchmark.
fn profiled(cloud: &Cloud) -> Output {
    let folder = cloud.path().join("shared");
    let here = folder.join("job");
    fs::create_dir_all(&here).unwrap();
    for script in ["profile.sh", "preflight.sh", "storage.sh"] {
        fs::copy(job(script), here.join(script)).unwrap();
    }
    let settings = format!(
        "container={0}/c.sqsh\nfolder={0}\nstorage_type=nfs storage_folder=/home storage_source=10.1.2.3:/nfsshare storage_room={0}\n",
        folder.display()
    );
    fs::write(here.join("settings.sh"), settings).unwrap();
    let nodes =
        serde_json::json!({"instance": {"b0-gpu-0": {"name": "b0-gpu-0"}, "b0-gpu-1": {"name": "b0-gpu-1"}}});
    fs::write(cloud.path().join("things.json"), nodes.to_string()).unwrap();
    // Tests cannot write the plug-in's file at its own path: the profile reads it from the cloud's folder instead.
    let profile = fs::read_to_string(here.join("profile.sh")).unwrap();
    let own = cloud.path().join("nccl-env-profile.sh");
    fs::write(&own, "export NCCL_CROSS_NIC=0 NCCL_FASTRAK_IFNAME=eth1\n").unwrap();
    let moved = profile.replace("/var/lib/tcpxo/lib64/nccl-env-profile.sh", &own.display().to_string());
    assert_ne!(moved, profile);
    fs::write(here.join("profile.sh"), moved).unwrap();
    let script = format!(
        "set -u\nexport SLURM_JOB_NUM_NODES=2 SLURM_JOB_ID=7 NCCL_NET=x\nset +u\n. '{}' || exit 9\nset -u\nexport NCCL_DEBUG=INFO\n\
         srun --ntasks-per-node=1 --ntasks=2 --label hostname\n\
         srun --label --kill-on-bad-exit=1 --mpi='pmi2' '/tests/build/all_reduce_perf' -b 8 -c 1 || exit 8\n",
        here.join("profile.sh").display()
    );
    let file = cloud.path().join("job.sh");
    fs::write(&file, script).unwrap();
    let environment = on_a_node(cloud);
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    bash(&file, &[], &environment)
}

#[test]
fn a_job_runs_its_benchmark_in_the_container_with_tcpxos_environment() {
    let cloud = Cloud::new().unwrap();
    let output = profiled(&cloud);
    // The benchmark's program does not exist here.
    assert_eq!(output.status.code(), Some(8), "{}{}", text(&output.stdout), text(&output.stderr));
    let calls = cloud.calls();
    let last = calls.lines().last().unwrap();
    let words: Vec<String> = serde_json::from_str(last).unwrap();
    let find =
        |flag: &str| words.iter().find_map(|word| word.strip_prefix(flag)).unwrap_or_default().to_owned();
    assert!(words.contains(&"--mpi=pmi2".to_owned()), "{last}");
    assert_eq!(find("--container-image="), "CLOUD/shared/c.sqsh");
    let variables = find("--container-env=");
    for name in ["NCCL_CROSS_NIC", "NCCL_DEBUG", "NCCL_FASTRAK_IFNAME", "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY"]
    {
        assert!(variables.split(',').any(|variable| variable == name), "{name}: {variables}");
    }
    assert!(find("--container-mounts=").contains("/var/lib/tcpxo/lib64:/var/lib/tcpxo/lib64"));
    let program = words.iter().position(|word| word == "/tests/build/all_reduce_perf").unwrap();
    let arguments = &words[program + 1..];
    assert_eq!(&arguments[..4], ["-b", "8", "-c", "1"]);
    assert!(arguments[4] == "-J" && arguments[5].ends_with("/output/nccl-tests.json"), "{arguments:?}");
    let plain = calls.lines().rev().nth(4).unwrap();
    assert!(plain.contains("hostname") && !plain.contains("container"), "{plain}");
}

/// Causes that a verdict diagnoses from a log.
fn diagnosed(log: &str) -> Vec<String> {
    let mut clue_reader = ClueReader::new(log.as_bytes());
    let reading = nccl::read(&mut clue_reader).unwrap();
    let clues = clue_reader.finish();
    let found = diagnose(&RunEvidence::of(&reading, &clues), Some("FasTrak"), Verdict::Inconclusive);
    found
        .into_iter()
        .map(|diagnosis| serde_json::to_value(diagnosis.cause).unwrap().as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_job_on_a_faulty_node_fails_before_the_benchmark_with_the_cause() {
    let cases = [
        ("rxdm=", "PREFLIGHT: b0-gpu-0: RxDM not ready on b0-gpu-0: no container", Some("rxdm_not_ready")),
        ("mounts=", "STORAGE: b0-gpu-0: /home: is not mounted", Some("storage_broken")),
        (
            "mounts=/home ext4 /dev/sdb",
            "STORAGE: b0-gpu-0: /home: expected a mount of type nfs, found ext4",
            Some("storage_broken"),
        ),
        (
            "dev/aperture_devices/0000:04:00.0=",
            "APERTURE devices failed to initialize: /dev/aperture_devices is empty",
            Some("aperture_devices_missing"),
        ),
        ("dev/aperture_devices=", "/dev/aperture_devices: No such file", Some("aperture_devices_missing")),
        ("sys/class/net/enp13s0=", "Failed to find interface enp13s0", Some("interface_not_found")),
        ("var/lib/tcpxo/lib64/libnccl-net.so=", "Could not find: libnccl-net.so", Some("plugin_not_found")),
        (
            "var/lib/tcpxo/lib64/nccl-env-profile.sh=",
            "nccl-env-profile.sh: No such file or directory",
            Some("profile_missing"),
        ),
        (
            "gpus=7",
            "Number of GPUs detected 7 is not equal to the actual number of GPUs 8",
            Some("rxdm_gpu_count"),
        ),
    ];
    for (fault, expected, cause) in cases {
        let cloud = Cloud::new().unwrap();
        cloud.fault("node", fault).unwrap();
        let output = profiled(&cloud);
        assert_eq!(output.status.code(), Some(8), "{fault}: {}", text(&output.stderr));
        let printed = text(&output.stdout);
        assert!(
            printed.contains(expected)
                && (printed.contains("0: PREFLIGHT: b0-gpu-0: ") || expected.starts_with("STORAGE: ")),
            "{fault}: {printed}"
        );
        assert!(!cloud.calls().contains("all_reduce_perf"), "{fault}");
        let named = diagnosed(&printed);
        assert_eq!(named.first().map(String::as_str), cause, "{fault}: {named:?}");
    }
}
