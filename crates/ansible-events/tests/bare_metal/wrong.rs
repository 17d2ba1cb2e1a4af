//! Problems of the machines are reported, and the machines stay unchanged.

use cloudbuild::BuildStatus;

use crate::agent;
use crate::bed::{ACCOUNT, AnsibleBed};

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
    let bed = AnsibleBed::new();
    let before = state(&bed);
    bed.cut("dgx03");
    let workspace = bed.workspace();
    let ran = workspace.run("provision.yaml");
    bed.mend("dgx03");
    assert_eq!((ran.status, ran.last.as_str()), (BuildStatus::Failure, "reach"), "{}", ran.log);
    let findings = workspace.findings("reach");
    assert!(findings.ended && !findings.is_success());
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
    let bed = AnsibleBed::new();
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
    assert!(workspace.findings("reach").is_success());
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn an_unshared_folder_is_reported() {
    let bed = AnsibleBed::new();
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
    let bed = AnsibleBed::new();
    if bed.on("login", "modprobe nfsd 2>/dev/null; grep -w nfsd /proc/filesystems").contains("nfsd") {
        println!("skipped: this kernel has NFS, and the test needs one without it");
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
        "all hosts are reported together: {findings:#?}"
    );
    assert!(findings.unchanged());
    assert_eq!(state(&bed), before);
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn a_foreign_slurm_configuration_is_kept() {
    let bed = AnsibleBed::new();
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

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn an_agent_program_with_a_wrong_digest_is_reported_before_any_host_is_contacted() {
    let bed = AnsibleBed::new();
    let right = bed.workspace_with_agent().substitutions["_AGENT_SHA256"].clone();
    let wrong = "0".repeat(64);
    let workspace = bed.workspace_with_agent().set("_AGENT_SHA256", &wrong);
    let ran = workspace.run("provision.yaml");
    assert_eq!((ran.status, ran.last.as_str()), (BuildStatus::Failure, "check"), "{}", ran.log);
    let expected = format!("_AGENT: gs://programs/burnin-agent has the SHA-256 {right}, expected {wrong}");
    assert!(ran.log.contains(&expected), "{}", ran.log);
    assert!(workspace.played().is_empty());
    // The parameter may also be the path of a program on this host.
    let file = workspace.path().join("program");
    std::fs::write(&file, "x").unwrap();
    let workspace = workspace.set("_AGENT", file.to_str().unwrap());
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let (code, output) = workspace.python(&["agent.py", "fetch"]);
    assert!(
        code == Some(1) && output.contains(&format!("{} has the SHA-256 2d71", file.display())),
        "{output}"
    );
    let workspace = workspace.set("_AGENT", "/no/such/program");
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let (code, output) = workspace.python(&["agent.py", "fetch"]);
    assert!(code == Some(1) && output.contains("/no/such/program cannot be read on this host"), "{output}");
    assert_eq!(bed.cloud(), <[&str; 0]>::default());
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn missing_credentials_of_the_agent_are_reported() {
    let bed = AnsibleBed::new();
    let before = state(&bed);
    let workspace = bed.workspace_with_agent();
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let task = "Check the agent's credentials";
    let (code, output) = workspace.python(&["play.py", "reach", "--start-at-task", task]);
    assert_eq!(code, Some(2), "{output}");
    let failure = workspace.findings("reach").failure.unwrap();
    assert_eq!(
        (failure.host.as_str(), failure.play.as_str()),
        ("login", "The agent can use its credentials")
    );
    let expected = format!(
        "_AGENT_CREDENTIALS: on login: /home/ops/agent.json: No such file or directory; put the credentials of {ACCOUNT} there"
    );
    assert_eq!(failure.message.trim(), expected);
    assert_eq!(state(&bed), before);
}

#[test]
#[ignore = "needs the test bed: .ci/ansible.sh"]
fn a_partially_installed_agent_is_removed() {
    let bed = AnsibleBed::new();
    let workspace = bed.workspace_with_agent();
    let state = workspace.path().join("state").to_str().unwrap().to_owned();
    let workspace = workspace.set("_STATE", state);
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    assert_eq!(workspace.python(&["agent.py", "fetch"]).0, Some(0));
    bed.cloud_fault("right", "ERROR: (gcloud) PERMISSION_DENIED: User not authorized\n");
    let (code, output) = workspace.python(&["agent.py", "install"]);
    assert!(
        code == Some(1)
            && output.contains(
                "FAILED: gcloud pubsub failed with exit status 1: ERROR: (gcloud) PERMISSION_DENIED"
            ),
        "{output}"
    );
    assert_eq!(bed.cloud(), ["subscription b761fca33-agent"]);
    // A subscription that cannot be deleted is reported.
    bed.cloud_fault("delete-subscription", "ERROR: PERMISSION_DENIED\n");
    let (code, output) = workspace.python(&["agent.py", "remove"]);
    assert_eq!(code, Some(0), "{output}");
    let gone: serde_json::Value = serde_json::from_str(&workspace.read("gone.json")).unwrap();
    assert_eq!(gone["left"], serde_json::json!(["subscription b761fca33-agent"]));
    let ran = workspace.run("release.yaml");
    assert_eq!(ran.status, BuildStatus::Success, "{}", ran.log);
    agent::assert_absent(&bed, &workspace);
}
