//! The machines of `tests/testbed/ansible`, which the gate has started.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace::Workspace;

pub struct AnsibleBed(PathBuf);

impl AnsibleBed {
    pub fn here() -> Self {
        Self(
            std::env::var_os("BURNIN_ANSIBLE_BED")
                .expect("BURNIN_ANSIBLE_BED is set by .ci/ansible.sh")
                .into(),
        )
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Leaves a file for the gate.
    pub fn leave(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Runs a shell command on a host as root; returns its output.
    pub fn on(&self, host: &str, line: &str) -> String {
        let output = Command::new(self.0.join("on")).args([host, "bash", "-c", line]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    pub fn cut(&self, host: &str) {
        assert!(Command::new(self.0.join("cut")).arg(host).status().unwrap().success());
    }

    pub fn mend(&self, host: &str) {
        assert!(Command::new(self.0.join("mend")).arg(host).status().unwrap().success());
    }

    /// Parameters for these machines, which have simulated GPUs and no cgroups of their own.
    pub fn workspace(&self) -> Workspace {
        Workspace::new(&self.file("inventory"))
            .set("_SSH_USER", "ops")
            .set("_SSH_KEY", self.0.join("ssh/id").to_str().unwrap())
            .set("_GPUS", "2")
            .set("_GPU_PROBE", "devices")
            .set("_PROCESS_TRACKING", "linuxproc")
            .set("_NCCL_TESTS_FROM", self.0.join("nccl-tests").to_str().unwrap())
            .set("_NCCL_TESTS_COMMIT", self.file("nccl-tests.commit").trim())
    }

    pub fn hosts(&self) -> Vec<String> {
        let inventory = self.file("inventory");
        inventory.lines().filter(|line| line.contains("ansible_host=")).map(first_word).collect()
    }
}

fn first_word(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().to_owned()
}
