//! A checkout of DeepOps instead of Burnin's playbooks. Its playbooks are stand-ins that record their calls.

use std::fs;

use crate::workspace::Workspace;

const INVENTORY: &str = "[slurm-master]\nlogin\n[slurm-node]\ndgx01\n[kube-node]\ndgx02\n[slurm-cluster:children]\n\
                         slurm-master\nslurm-node\n[all:vars]\nansible_connection=local\n\
                         ansible_python_interpreter=/usr/bin/python3\n";

/// A workspace with a checkout that has these playbooks.
fn checkout(playbooks: &[&str]) -> (Workspace, tempfile::TempDir) {
    let folder = tempfile::TempDir::new().unwrap();
    for file in playbooks {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let playbook = format!(
            "- hosts: all\n  gather_facts: false\n  tasks:\n    - ansible.builtin.shell: >-\n        \
             echo '{file}' '{{{{ inventory_hostname }}}}' {{{{ colour | quote }}}} \"$PWD\" >> {}/calls\n",
            folder.path().display()
        );
        fs::write(path, playbook).unwrap();
    }
    let config = folder.path().join("config");
    fs::create_dir(&config).unwrap();
    fs::write(config.join("inventory"), INVENTORY).unwrap();
    let workspace = Workspace::new("")
        .set("_DEEPOPS", folder.path().to_str().unwrap())
        .set("_INVENTORY", config.join("inventory").to_str().unwrap())
        .set("_DEEPOPS_EXTRA_VARS", r#"{"colour": "it's $(red)"}"#);
    (workspace, folder)
}

/// The recorded calls, sorted: playbook and host.
fn calls(folder: &tempfile::TempDir) -> Vec<String> {
    let text = fs::read_to_string(folder.path().join("calls")).unwrap_or_default();
    let mut calls: Vec<_> =
        text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    calls.sort();
    calls
}

#[test]
#[ignore = "needs Ansible: .ci/ansible.sh"]
fn the_version_of_the_checkout_selects_the_playbooks() {
    let young = [
        "playbooks/slurm-cluster.yml",
        "playbooks/slurm-cluster/slurm-validation.yml",
        "playbooks/generic/nfs-server.yml",
    ];
    let middle = [
        "playbooks/slurm-cluster.yml",
        "playbooks/slurm-perf-cluster.yml",
        "playbooks/generic/nfs-server.yml",
        "playbooks/generic/nfs-client.yml",
    ];
    let old = ["playbooks/nfs.yml", "playbooks/slurm-perf-cluster.yml", "playbooks/slurm-validation.yml"];
    let all = &["dgx01", "dgx02", "login"][..];
    // The playbooks are limited to the cluster, so they do not run on the Kubernetes node.
    let cluster = &["dgx01", "login"][..];
    for (playbooks, called, hosts) in [
        (&young[..], &[young[0], young[1]][..], cluster),
        (&middle[..], &[middle[3], middle[2], middle[1]][..], all),
        (&old[..], &old[..], all),
    ] {
        let expected: Vec<_> =
            called.iter().flat_map(|file| hosts.iter().map(move |host| format!("{file} {host}"))).collect();
        let validated = called.last().is_some_and(|file| file.contains("validation"));
        let (workspace, folder) = checkout(playbooks);
        assert_eq!(workspace.python(&["check.py"]).0, Some(0));
        for step in ["nfs", "cluster"].into_iter().chain(validated.then_some("validation")) {
            let (code, output) = workspace.python(&["deepops.py", step]);
            assert_eq!(code, Some(0), "{step}: {output}");
        }
        assert_eq!(calls(&folder), expected);
        let text = fs::read_to_string(folder.path().join("calls")).unwrap();
        let place = folder.path().canonicalize().unwrap();
        // The playbook receives the variables as stated. Ansible changes from DeepOps' folder to the playbook's folder.
        let end = format!(" it's $(red) {}/playbooks", place.display());
        assert!(text.lines().all(|line| line.contains(&end)), "{text}");
        assert!(workspace.findings("deepops-cluster-0").is_success());
    }
}

#[test]
#[ignore = "needs Python: .ci/ansible.sh"]
fn a_folder_without_a_checkout_is_refused() {
    for playbooks in [&[][..], &["playbooks/slurm-cluster.yml"], &["playbooks/slurm-perf-cluster.yml"]] {
        let (workspace, folder) = checkout(playbooks);
        assert_eq!(workspace.python(&["check.py"]).0, Some(0));
        let (code, output) = workspace.python(&["deepops.py", "cluster"]);
        assert_eq!(code, Some(64), "{output}");
        for looked in [
            "20.10: playbooks/slurm-cluster.yml, playbooks/slurm-cluster/slurm-validation.yml",
            "playbooks/nfs.yml",
        ] {
            assert!(output.contains(looked), "{output}");
        }
        assert!(calls(&folder).is_empty());
    }
    let (workspace, _folder) = checkout(&["playbooks/nfs.yml", "playbooks/slurm-perf-cluster.yml"]);
    let workspace = workspace.set("_DEEPOPS_EXTRA_VARS", "[1]");
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    let (code, output) = workspace.python(&["deepops.py", "nfs"]);
    assert!(code == Some(64) && output.contains("_DEEPOPS_EXTRA_VARS: expected a JSON object"), "{output}");
}
