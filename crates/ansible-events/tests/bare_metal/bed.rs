//! The machines of `tests/testbed/ansible`, which the gate has started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::Workspace;

pub const ACCOUNT: &str = "burnin-agent@my-project.iam.gserviceaccount.com";
/// Addresses of the stand-ins on this machine, in the hosts' network.
pub const PUBSUB: &str = "10.78.0.1:8085";
pub const STORAGE: &str = "10.78.0.1:8086";

pub struct AnsibleBed(PathBuf);

impl AnsibleBed {
    pub fn new() -> Self {
        Self(
            std::env::var_os("BURNIN_ANSIBLE_BED")
                .expect("BURNIN_ANSIBLE_BED is set by .ci/ansible.sh")
                .into(),
        )
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Writes a file into the bed's folder, where the gate and the stand-ins read it.
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

    /// Parameters for these machines, which have simulated GPUs and no separate cgroups.
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

    /// A workspace that also deploys an agent. The simulated cloud has the agent's program, and the controller has the agent's credentials.
    pub fn workspace_with_agent(&self) -> Workspace {
        let program = self.0.join("cloud/gcs/programs/burnin-agent");
        self.workspace()
            .set("_AGENT", "gs://programs/burnin-agent")
            .set("_AGENT_SHA256", sha256(&program))
            .set("_AGENT_CREDENTIALS", "/home/ops/agent.json")
            .set("_AGENT_ACCOUNT", ACCOUNT)
            .set("_BURNIN_PROJECT", "my-burnin")
            .set("_ARTEFACTS", "my-artefacts")
            .set("_RUN", "r-1")
            .set("_EXPIRES", "1800000000")
            .set("_STATE", "gs://state/dgx")
    }

    /// Writes the agent's credentials, with `account` as their owner, and the addresses of the stand-ins for its service.
    pub fn credentials(&self, account: &str) {
        let url = format!(
            "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
        );
        let credentials = serde_json::json!({
            "type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": "https://sts.googleapis.com/v1/token",
            "service_account_impersonation_url": url, "credential_source": {"file": "/home/ops/token"},
        });
        let variables = format!(
            "Environment=PUBSUB_EMULATOR_HOST={PUBSUB} STORAGE_EMULATOR_HOST=http://{STORAGE} BURNIN_LOOK=1s"
        );
        let folder = "/etc/systemd/system/burnin-agent-.service.d";
        let line = format!(
            "echo '{credentials}' >/home/ops/agent.json && mkdir -p {folder} && printf '[Service]\n{variables}\n' >{folder}/bed.conf"
        );
        assert_eq!(self.on("login", &line), "");
    }

    /// Resources of the simulated cloud, as `kind name`.
    pub fn cloud(&self) -> Vec<String> {
        let text =
            std::fs::read_to_string(self.0.join("cloud/things.json")).unwrap_or_else(|_| "{}".to_owned());
        let kinds: BTreeMap<String, BTreeMap<String, serde_json::Value>> =
            serde_json::from_str(&text).unwrap();
        let named = |(kind, things): (String, BTreeMap<String, _>)| {
            things.into_keys().map(move |name| format!("{kind} {name}")).collect::<Vec<_>>()
        };
        kinds.into_iter().flat_map(named).collect()
    }

    /// Makes calls of this gcloud operation fail: one line per call, and an empty line for a call that succeeds.
    pub fn cloud_fault(&self, operation: &str, lines: &str) {
        std::fs::create_dir_all(self.0.join("cloud/faults")).unwrap();
        self.leave(&format!("cloud/faults/{operation}"), lines);
    }

    pub fn gcloud(&self, words: &[&str]) {
        assert!(Command::new(self.0.join("bin/gcloud")).args(words).status().unwrap().success(), "{words:?}");
    }

    pub fn hosts(&self) -> Vec<String> {
        let inventory = self.file("inventory");
        inventory.lines().filter(|line| line.contains("ansible_host=")).map(first_word).collect()
    }
}

fn first_word(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

/// SHA-256 of a file, in hex.
fn sha256(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    first_word(&String::from_utf8(output.stdout).unwrap())
}
