//! Parameters are checked before any host is changed.

use crate::workspace::{Workspace, plan};

const GOOD: &str = "[slurm-master]\nlogin ansible_host=10.0.0.1\n[slurm-node]\ndgx[01:03]\n[nfs-server]\nlogin\n\
                    [slurm-cluster:children]\nslurm-master\nslurm-node\n";

fn run_with(inventory: &str, parameters: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut workspace = Workspace::new(inventory);
    for (name, value) in parameters {
        workspace = workspace.set(name, *value);
    }
    let (code, output) = workspace.python(&["check.py"]);
    assert_eq!(workspace.path().join("vars.json").exists(), code == Some(0));
    (code, output)
}

#[test]
#[ignore = "needs Python: .ci/ansible.sh"]
fn a_valid_inventory_is_accepted() {
    assert_eq!(
        run_with(GOOD, &[]),
        (Some(0), "inventory: 1 in [slurm-master], 3 in [slurm-node], 1 in [nfs-server]\n".into())
    );
}

#[test]
#[ignore = "needs Python: .ci/ansible.sh"]
fn an_invalid_inventory_is_reported_with_its_line() {
    for (bad, expected) in [
        ("[slurm-node]\na\n", "[slurm-master]: expected one host, found none"),
        ("[slurm-master]\nm\n", "[slurm-node]: expected at least one host"),
        ("[slurm-master]\nm\nn\n[slurm-node]\na\n", "[slurm-master]: expected one host, found 2"),
        (
            "[slurm-master]\nm\n[slurm-node]\na\na\n",
            "inventory:5: a: duplicate in [slurm-node], first in line 4",
        ),
        (
            "[slurm-master]\nm\n[slurm-node]\na[1:3]\na2\n",
            "inventory:5: a2: duplicate in [slurm-node], first in line 4",
        ),
        (
            "[slurm-master]\nm\n[slurm-node]\nm\n",
            "m: expected in [slurm-master] or in [slurm-node], found in both",
        ),
        (
            "[slurm-master]\nm ansible_host=10.0.0.1\n[slurm-node]\na ansible_host=10.0.0.1\n",
            "inventory:4: a: expected its own address, found 10.0.0.1 of m",
        ),
        (
            "[slurm-master]\nm\n[slurm-nodes]\na\n[slurm-node]\nb\n",
            "inventory:3: [slurm-nodes]: unknown group",
        ),
        ("a\n[slurm-master]\nm\n[slurm-node]\nb\n", "inventory:1: a: expected in a group"),
        (
            "[slurm-master]\nm\n[slurm-node]\na;reboot\n",
            "inventory:4: expected a host's name of letters, digits and -",
        ),
        ("[slurm-master]\nm\n[slurm-node]\n-oProxyCommand=x\n", "inventory:4: expected a host's name"),
        ("[slurm-master]\nm\n[slurm-node]\n$(reboot)\n", "inventory:4: expected a host's name"),
        ("[slurm-master]\nm\n[slurm-node]\n{{x}}\n", "inventory:4: expected a host's name"),
        ("[slurm-master]\nm\n[slurm-node]\nlocalhost\n", "inventory:4: expected a host's name"),
        (
            "[slurm-master]\nm\n[slurm-node]\na ansible_host=-oX\n",
            "inventory:4: ansible_host: expected an address or a name",
        ),
        (
            "[slurm-master]\nm\n[slurm-node]\na ansible_become_password=x\n",
            "a password is not allowed in the inventory",
        ),
        ("[slurm-master]\nm\n[slurm-node]\na colour=red\n", "inventory:4: 'colour': expected ansible_"),
        ("[slurm-master]\nm\n[slurm-node]\nc\na 'b\n", "inventory:5: cannot be read: No closing quotation"),
        ("[slurm-master]\nm\n[slurm-node]\na\n[nfs-server]\nn\n", "n: expected also in another group"),
    ] {
        let (code, output) = run_with(bad, &[]);
        assert_eq!(code, Some(64), "{bad}: {output}");
        assert!(output.contains(expected), "{bad}: {output}");
        assert_eq!(output.lines().count(), 2, "expected one error, found: {output}");
    }
}

#[test]
#[ignore = "needs Python: .ci/ansible.sh"]
fn an_invalid_parameter_is_reported_by_name() {
    for (name, value, expected) in [
        ("_SHARE", "smb", "_SHARE: expected existing or nfs, found 'smb'"),
        ("_SHARED_FOLDER", "/mnt/../etc", "_SHARED_FOLDER: expected an absolute path"),
        ("_SHARED_FOLDER", "/", "_SHARED_FOLDER: expected an absolute path"),
        ("_SHARED_FOLDER", "/mnt/$(reboot)", "_SHARED_FOLDER: expected an absolute path"),
        ("_GPUS", "eight", "_GPUS: expected a number from 0 to 64"),
        ("_MPI", "openmpi", "_MPI: expected pmix or pmi2 or none"),
        ("_CLUSTER", "../x", "_CLUSTER: expected a word"),
        ("_PARTITION", "a,b", "_PARTITION: expected a name"),
        ("_SSH_USER", "-oX", "_SSH_USER: expected a user's name"),
        ("_SSH_KEY", "/no/such/key", "_SSH_KEY: /no/such/key cannot be read on this host"),
        ("_SET_HOSTNAMES", "yes", "_SET_HOSTNAMES: expected true or false"),
        ("_NCCL_TESTS", "nccl", "_NCCL_TESTS: expected build, or an absolute path"),
        ("_NCCL_TESTS_COMMIT", "master", "_NCCL_TESTS_COMMIT: expected a commit"),
        ("_NCCL_TESTS_FROM", "ext::sh -c x", "_NCCL_TESTS_FROM: expected an https:// URL"),
        ("_BENCHMARK_IMAGE", "--rw", "_BENCHMARK_IMAGE: expected REGISTRY#IMAGE:TAG"),
        (
            "_SSH_PASSWORD_FILE",
            "/no/such/file",
            "_SSH_PASSWORD_FILE: /no/such/file cannot be read on this host",
        ),
        (
            "_SSH_KEY",
            "projects/p/secrets/x",
            "_SSH_KEY: expected projects/PROJECT/secrets/NAME/versions/VERSION, or an absolute",
        ),
        (
            "_SSH_KEY",
            "projects/my-project/secrets/x/versions/1",
            "_SSH_KEY: expected the absolute path of a file, because this run was started manually",
        ),
        ("_AGENT", "agent", "_AGENT: expected gs://BUCKET/OBJECT, or an absolute path"),
        ("_AGENT", "gs://b$(x)/agent", "_AGENT: expected gs://BUCKET/OBJECT"),
        ("_AGENT_SHA256", "abc", "_AGENT_SHA256: expected a SHA-256 of 64 hexadecimal digits"),
        ("_AGENT_CREDENTIALS", "key.json", "_AGENT_CREDENTIALS: expected an absolute path"),
        ("_AGENT_ACCOUNT", "me@example.com", "_AGENT_ACCOUNT: expected a service account's address"),
        ("_AGENT_PORT", "80", "_AGENT_PORT: expected a number from 1024 to 65535"),
        ("_BURNIN_PROJECT", "X", "_BURNIN_PROJECT: expected a project's id"),
        ("_ARTEFACTS", "gs://x", "_ARTEFACTS: expected a bucket's name without gs://"),
        ("_STATE", "state", "_STATE: expected gs://BUCKET/FOLDER"),
        ("_INVENTORY", "elsewhere", "_INVENTORY: elsewhere cannot be read"),
    ] {
        let (code, output) = run_with(GOOD, &[(name, value)]);
        assert_eq!(code, Some(64), "{name}={value}: {output}");
        assert!(output.contains(expected), "{name}={value}: {output}");
    }
    let (_, output) = run_with("[slurm-node]\n", &[("_MPI", "x"), ("_GPUS", "x")]);
    assert_eq!(output.lines().count(), 5, "all problems are reported together: {output}");
}

/// A build config declares each parameter with the default of the check.
#[test]
#[ignore = "needs Python: .ci/ansible.sh"]
fn build_configs_and_the_check_have_the_same_defaults() {
    let list = "import check; [print(v[0], v[1], sep='\\t') for v in check.PARAMETERS.values()]";
    let (_, output) = Workspace::new(GOOD).python(&["-c", list]);
    assert!(output.lines().count() > 10, "{output}");
    for config in ["provision.yaml", "release.yaml"] {
        let plan = plan(config, &Default::default());
        let environment = &plan.steps[0].env;
        for line in output.lines() {
            let (name, default) = line.split_once('\t').unwrap();
            let value = environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
            assert_eq!(value, Some(default), "{config}: {name}");
        }
    }
}

#[test]
#[ignore = "needs Python: .ci/ansible.sh"]
fn an_agent_needs_more_parameters_and_gcloud() {
    let workspace = Workspace::new(GOOD).set("_AGENT", "/opt/burnin-agent");
    // This `PATH` has no gcloud.
    let only = workspace.path().join("bin");
    std::fs::create_dir(&only).unwrap();
    std::os::unix::fs::symlink("/usr/bin/python3", only.join("python3")).unwrap();
    let workspace = workspace.set("PATH", only.to_str().unwrap());
    let (code, output) = workspace.python(&["check.py"]);
    assert_eq!((code, output.lines().count()), (Some(64), 7), "{output}");
    for name in ["_AGENT_SHA256", "_AGENT_CREDENTIALS", "_AGENT_ACCOUNT", "_BURNIN_PROJECT", "_ARTEFACTS"] {
        assert!(
            output.contains(&format!("{name}: expected a value with _AGENT, found no value; the ")),
            "{output}"
        );
    }
    assert!(output.contains("_AGENT: expected the program gcloud on this host"), "{output}");
    // Without an agent, neither these parameters nor gcloud are needed.
    let workspace = workspace.set("_AGENT", "");
    assert_eq!(workspace.python(&["check.py"]).0, Some(0));
    assert_eq!(workspace.python(&["agent.py", "fetch"]), (Some(0), String::new()));
    assert_eq!(
        workspace.python(&["agent.py", "install"]),
        (Some(0), "_AGENT is empty: no agent is installed\n".into())
    );
    assert_eq!(workspace.python(&["agent.py", "remove"]), (Some(0), "remaining resources: none\n".into()));
    assert!(workspace.read("gone.json").contains(r#""left": []"#));
}

/// The script that the playbook runs on the controller.
#[test]
#[ignore = "needs Python: .ci/ansible.sh"]
fn unusable_agent_credentials_are_reported() {
    let workspace = Workspace::new(GOOD);
    let file = workspace.path().join("credentials.json");
    let account = "burnin-agent@my-project.iam.gserviceaccount.com";
    let why = |content: &str, mode: u32| {
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        workspace.python(&["playbooks/files/agent_credentials.py", file.to_str().unwrap(), account])
    };
    let key = |account: &str| format!(r#"{{"type": "service_account", "client_email": "{account}"}}"#);
    let federated = |account: &str| {
        let url = format!(
            "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
        );
        format!(r#"{{"type": "external_account", "service_account_impersonation_url": "{url}"}}"#)
    };
    assert_eq!(why(&key(account), 0o600), (Some(0), String::new()));
    assert_eq!(why(&federated(account), 0o644), (Some(0), String::new()));
    let another = "another-agent@my-project.iam.gserviceaccount.com";
    for (content, mode, expected) in [
        (key(account), 0o644, "other users can access this key; run chmod 600 ".to_owned()),
        (
            key(another),
            0o600,
            format!("expected credentials of {account} (_AGENT_ACCOUNT), found those of {another}"),
        ),
        (federated(another), 0o600, format!("found those of {another}")),
        (
            r#"{"type": "external_account"}"#.to_owned(),
            0o600,
            format!("create it with --service-account={account}"),
        ),
        (r#"{"type": "authorized_user"}"#.to_owned(), 0o600, "found 'authorized_user'".to_owned()),
        ("[]".to_owned(), 0o600, "expected the type service_account or external_account".to_owned()),
        ("secret".to_owned(), 0o600, "expected JSON; put a service account's key".to_owned()),
    ] {
        let (code, output) = why(&content, mode);
        assert!(
            code == Some(1) && output.contains(&expected) && !output.contains("secret"),
            "{content}: {output}"
        );
    }
}
