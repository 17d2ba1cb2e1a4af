//! Problems of the machines are reported, and the machines stay unchanged.

use cloudbuild::BuildStatus;

use crate::bed::AnsibleBed;

/// State that a run must not change.
fn state(bed: &AnsibleBed) -> Vec<String> {
    bed.hosts()
        .iter()
        .map(|host| bed.on(host, "cat /etc/hosts; ls -A /etc/slurm /etc/munge; find /mnt/shared"))
        .collect()
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn an_unreachable_host_is_reported() {
    let bed = AnsibleBed::here();
    let before = state(&bed);
    bed.cut("dgx03");
    let workspace = bed.workspace();
    let ran = workspace.run("provision.yaml");
    bed.mend("dgx03");
    assert_eq!((ran.status, ran.last.as_str()), (BuildStatus::Failure, "reach"), "{}", ran.log);
    let findings = workspace.findings("reach");
    assert!(findings.ended && !findings.good());
    let [lost] = &findings.unreachable[..] else { panic!("{findings:#?}") };
    assert_eq!(lost.host, "dgx03");
    assert!(lost.reason.contains("ssh: connect to host 10.78.0.1"), "{}", lost.reason);
    assert!(findings.hosts["dgx01"].ok > 0 && findings.hosts["dgx03"].ok == 0);
    // The last lines of a failed build are quoted.
    let last: Vec<_> = ran.log.lines().rev().take(5).collect();
    assert!(last.iter().any(|line| line.contains("UNREACHABLE dgx03")), "{}", ran.log);
    assert_eq!(workspace.played(), ["reach.jsonl"]);
    assert_eq!(state(&bed), before);
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn a_wrong_sudo_password_is_reported() {
    let bed = AnsibleBed::here();
    let before = state(&bed);
    let workspace = bed.workspace().set("_SSH_USER", "asked");
    let file = workspace.path().join("secret");
    std::fs::write(&file, "swordfish\n").unwrap();
    let workspace = workspace.set("_SUDO_PASSWORD_FILE", file.to_str().unwrap());
    let ran = workspace.run("provision.yaml");
    assert_eq!((ran.status, ran.last.as_str()), (BuildStatus::Failure, "reach"), "{}", ran.log);
    let failure = workspace.findings("reach").failure.unwrap();
    assert_eq!((failure.task.as_str(), failure.message.as_str()), ("Sudo works", "Incorrect sudo password"));
    assert_eq!(workspace.findings("reach").hosts.values().filter(|host| host.failures == 1).count(), 5);
    assert!(!ran.log.contains("swordfish") && !workspace.read("events/reach.jsonl").contains("swordfish"));
    assert_eq!(state(&bed), before);
    // The same play passes with the right password.
    std::fs::write(&file, "right\n").unwrap();
    let (code, output) = workspace.python(&["play.py", "reach"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(workspace.findings("reach").good());
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn an_unshared_folder_is_reported() {
    let bed = AnsibleBed::here();
    bed.on("dgx02", "umount /mnt/shared && mkdir -p /mnt/shared && chmod 777 /mnt/shared");
    let workspace = bed.workspace();
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let (code, output) = workspace.python(&["play.py", "share"]);
    bed.on("dgx02", "mount --bind \"$(dirname \"$(cat /etc/bed)\")/shared\" /mnt/shared");
    assert_eq!(code, Some(2), "{output}");
    let failure = workspace.findings("share").failure.unwrap();
    assert_eq!(
        (failure.host.as_str(), failure.task.as_str()),
        ("dgx02", "The controller's file is readable")
    );
    assert!(
        failure.message.contains("/mnt/shared on this host is not the folder of login"),
        "{}",
        failure.message
    );
    let (code, output) = workspace.python(&["play.py", "share"]);
    assert_eq!(code, Some(0), "{output}");
    assert!(workspace.findings("share").unchanged());
    assert_eq!(bed.on("login", "ls -A /mnt/shared/burnin-dgx; rmdir /mnt/shared/burnin-dgx"), "");
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn a_kernel_without_nfs_is_reported() {
    let bed = AnsibleBed::here();
    if bed.on("login", "modprobe nfsd 2>/dev/null; grep -w nfsd /proc/filesystems").contains("nfsd") {
        println!("skipped: a kernel without NFS, because this one has it");
        return;
    }
    let before = state(&bed);
    let workspace = bed.workspace().set("_SHARE", "nfs");
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let (code, output) = workspace.python(&["play.py", "share"]);
    assert_eq!(code, Some(2), "{output}");
    let findings = workspace.findings("share");
    let message = findings.failure.as_ref().unwrap().message.as_str();
    assert!(
        message.contains("this host's kernel has no nfs") && message.contains("_SHARE=existing"),
        "{message}"
    );
    assert!(
        findings.hosts.values().all(|host| host.failures == 1),
        "all hosts are reported at once: {findings:#?}"
    );
    assert!(findings.unchanged());
    assert_eq!(state(&bed), before);
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn a_foreign_slurm_configuration_is_kept() {
    let bed = AnsibleBed::here();
    bed.on("dgx01", "echo ClusterName=production > /etc/slurm/slurm.conf");
    let before = state(&bed);
    let workspace = bed.workspace();
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let (code, _) = workspace.python(&["play.py", "slurm"]);
    assert_eq!(code, Some(2));
    let findings = workspace.findings("slurm");
    let failure = findings.failure.as_ref().unwrap();
    assert_eq!((failure.host.as_str(), failure.play.as_str()), ("dgx01", "No foreign Slurm"));
    assert!(failure.message.contains("was not written by these playbooks"), "{}", failure.message);
    assert!(findings.unchanged());
    assert_eq!(state(&bed), before);
    bed.on("dgx01", "rm /etc/slurm/slurm.conf");
}
