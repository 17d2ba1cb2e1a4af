//! Runs the image's and the nodes' scripts with commands that only record their arguments.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use tempfile::TempDir;
use toolkit::repository;

/// A machine whose commands append their arguments to a file and then run a script.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new(commands: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        for (name, script) in commands {
            let file = root.path().join("bin").join(name);
            let text = format!("#!/bin/bash\necho \"{name} $*\" >>\"$MACHINE/calls\"\n{script}\n");
            fs::write(&file, text).unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { root }
    }

    /// Runs a node's script with paths below `/etc` and `/usr/share` moved to this machine; returns its calls.
    fn run(&self, script: &str, arguments: &[&str]) -> (bool, String) {
        let here = self.root.path().display().to_string();
        let text = fs::read_to_string(repository("workflows/a3-mega/blueprints/nodes").join(script)).unwrap();
        // `/tmp/` is replaced first, because `here` begins with it.
        let mut moved = text;
        for folder in ["/tmp/", "/etc/", "/usr/share/"] {
            moved = moved.replace(folder, &format!("{here}{folder}"));
        }
        let file = self.root.path().join(script);
        fs::write(&file, moved).unwrap();
        for folder in ["etc/apt/sources.list.d", "etc/google-cloud-ops-agent", "usr/share/keyrings", "tmp"] {
            fs::create_dir_all(self.root.path().join(folder)).unwrap();
        }
        let path = format!("{here}/bin:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        let status =
            command.arg(file).args(arguments).env("PATH", path).env("MACHINE", &here).status().unwrap();
        let calls = fs::read_to_string(self.root.path().join("calls")).unwrap_or_default();
        (status.success(), calls.replace(&here, ""))
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root.path().join(file)).unwrap_or_default()
    }
}

/// Rejects a package that dpkg lists as not installed, as apt-mark on Debian 12 does.
const APT_MARK: &str = r#"[[ "$*" != *unsigned* ]] || exit 100"#;

#[test]
fn only_installed_packages_are_held() {
    let listed = "installed google-guest-agent\\ninstalled linux-image-6.1.0-21-cloud-amd64\\nnot-installed linux-image-6.1.0-21-cloud-amd64-unsigned\\n";
    let query = format!("printf '{listed}'");
    let machine = Machine::new(&[("systemctl", ""), ("apt-mark", APT_MARK), ("dpkg-query", &query)]);
    let (good, calls) = machine.run("hold.sh", &[]);
    assert!(good, "{calls}");
    assert!(calls.contains("linux-image-6.1.0-21-cloud-amd64") && !calls.contains("unsigned"), "{calls}");
}

#[test]
fn kernel_headers_are_downloaded_in_the_kernels_version() {
    let curl = ("curl", "");
    let (uname, version) = (("uname", "echo 6.1.0-21-cloud-amd64"), ("dpkg-query", "printf 6.1.90-1"));
    let machine = Machine::new(&[("apt-get", ""), curl, uname, version]);
    let (good, calls) = machine.run("headers.sh", &["https://archive.example/debian/1"]);
    assert!(good, "{calls}");
    for file in [
        // Upstream's image blueprint names the first file (v1.39.0, install_headers_archive.yml).
        "https://archive.example/debian/1/pool/main/l/linux/linux-headers-6.1.0-21-cloud-amd64_6.1.90-1_amd64.deb",
        "https://archive.example/debian/1/pool/main/l/linux/linux-headers-6.1.0-21-common_6.1.90-1_all.deb",
    ] {
        assert!(calls.contains(file), "{file}: {calls}");
    }
    let machine = Machine::new(&[("apt-get", ""), uname]);
    let (good, calls) = machine.run("headers.sh", &[]);
    assert!(good && calls.ends_with("apt-get install --yes linux-headers-6.1.0-21-cloud-amd64\n"), "{calls}");
}

fn drivers(release: &str) -> (Machine, bool, String) {
    let curl = ("curl", r#"while (($#)); do [[ $1 == --output ]] && echo content >"$2"; shift; done"#);
    let gpg = ("gpg", r#"while (($#)); do [[ $1 == --output ]] && cat >"$2" </dev/null; shift; done"#);
    let machine = Machine::new(&[("apt-get", ""), ("systemctl", ""), curl, gpg]);
    machine.write("etc/os-release", release);
    let (good, calls) = machine
        .run("drivers.sh", &["1.3.4", "https://toolkit.example", "ar+https://tcpxo.example/projects/x"]);
    (machine, good, calls)
}

#[test]
fn the_repository_is_added_before_the_monitoring_packages() {
    for (release, folder, transport) in [
        ("ID=debian\nVERSION_ID=\"12\"\n", "debian12", false),
        ("ID=ubuntu\nVERSION_ID=\"22.04\"\n", "ubuntu2204", true),
    ] {
        let (machine, good, calls) = drivers(release);
        assert!(good, "{calls}");
        let keyring = calls.find(&format!("/{folder}/x86_64/cuda-keyring_1.1-1_all.deb"));
        let installed = calls.find("datacenter-gpu-manager libnvidia-nscq-550");
        assert!(keyring.is_some() && keyring < installed, "{calls}");
        let source = machine.read("etc/apt/sources.list.d/apt-transport-artifact-registry.list");
        assert_eq!(source.contains("apt-transport-artifact-registry-stable main"), transport, "{source}");
        let tcpxo = machine.read("etc/apt/sources.list.d/gpudirect-tcpxo.list");
        assert_eq!(tcpxo, "deb [arch=all] ar+https://tcpxo.example/projects/x gpudirect-tcpxo-apt main\n");
    }
}

#[test]
fn the_monitoring_agent_is_restarted_with_its_new_configuration() {
    let machine = Machine::new(&[("systemctl", "")]);
    machine.write("etc/google-cloud-ops-agent/config.yaml", "# empty\n");
    for _ in 0..2 {
        let (good, calls) = machine.run("monitoring.sh", &["true"]);
        assert!(good && calls.ends_with("systemctl restart google-cloud-ops-agent.service\n"), "{calls}");
        let config = machine.read("etc/google-cloud-ops-agent/config.yaml");
        assert_eq!(config.matches("type: dcgm").count(), 1, "{config}");
    }
    let machine = Machine::new(&[("systemctl", "")]);
    let (good, calls) = machine.run("monitoring.sh", &["false"]);
    assert!(
        good && calls.contains("disable --now nvidia-dcgm.service google-cloud-ops-agent.service"),
        "{calls}"
    );
}
