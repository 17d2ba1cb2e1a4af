//! `burnin init` and `schema`: their files load without a warning, and existing files are kept.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

const KINDS: [&str; 8] = ["quickstart", "slurm", "kubernetes", "hosts", "a3-mega", "a4", "dgx", "logs"];

/// A user's folder, and a folder of programs that is the only folder on the `PATH`.
struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        fs::create_dir(home.path("bin")).unwrap();
        fs::create_dir(home.path("work")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn burnin(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
        command.current_dir(self.path("work")).env("PATH", self.path("bin")).env("HOME", "/home/me");
        command.args(arguments).output().unwrap()
    }

    /// Files below `work`, with their content.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(&self.path("work"), &mut files);
        files
    }

    fn workflow(&self) -> PathBuf {
        let folder = self.path("work/workflows");
        let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.extension().is_some_and(|it| it == "yaml"));
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks that each YAML file with a schema line names an existing schema and conforms to it. Returns the number of these files.
fn valid_by_their_schemas(files: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
    let mut checked = 0;
    for (path, content) in files.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "yaml")) {
        let content = text(content);
        let Some(schema) = content.strip_prefix("# yaml-language-server: $schema=") else { continue };
        let schema = path.parent().unwrap().join(schema.lines().next().unwrap());
        let schema: serde_json::Value = serde_json::from_slice(&fs::read(&schema).unwrap_or_else(|error| {
            panic!("{}: {}: {error}", path.display(), schema.display());
        }))
        .unwrap();
        let document = workflow::YamlDocument::parse(&path.display().to_string(), &content).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<_> = validator.iter_errors(&document.value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        checked += 1;
    }
    checked
}

#[test]
fn every_kind_loads_without_a_warning_and_has_a_plan() {
    for kind in KINDS {
        let home = Home::new();
        let done = home.burnin(&["init", kind]);
        assert!(done.status.success(), "{kind}: {}", text(&done.stderr));
        let workflow = home.workflow();
        let named = workflow.strip_prefix(home.path("work")).unwrap().display().to_string();
        let stdout = text(&done.stdout);
        assert!(stdout.ends_with(&format!("burnin run {named}\n")), "{stdout}");
        let checked = home.burnin(&["check", "--strict", &named]);
        assert!(checked.status.success(), "{kind}: {}", text(&checked.stderr));
        assert_eq!(text(&checked.stderr), "", "{kind}");
        let plan = home.burnin(&["plan", &named]);
        assert!(plan.status.success() && text(&plan.stdout).contains("  job "), "{}", text(&plan.stdout));
        assert!(
            valid_by_their_schemas(&home.files()) >= 2,
            "{kind}: expected a workflow and criteria that are valid by their schemas"
        );
        let drafts = fs::read_dir(home.path("work")).unwrap().count();
        assert_eq!(drafts, 1, "{kind}: only the folder of the workflows remains");
    }
}

#[test]
fn several_kinds_share_a_folder() {
    let home = Home::new();
    for kind in KINDS {
        let done = home.burnin(&["init", kind]);
        assert!(done.status.success(), "{kind}: {}", text(&done.stderr));
    }
    let before = home.files();
    assert!(home.burnin(&["init", "quickstart"]).status.success(), "identical files do not conflict");
    assert_eq!(home.files(), before);
}

#[test]
fn the_repositorys_examples_name_their_schemas() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workflows");
    let mut files = BTreeMap::new();
    for folder in ["", "criteria", "suites"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "yaml") {
                files.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    assert_eq!(valid_by_their_schemas(&files), files.len(), "every example names its schema");
    assert!(files.len() > 20);
}

#[test]
fn the_folders_of_build_steps_are_complete_and_contain_no_ignored_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (kind, folder) in [
        ("a3-mega", "a3-mega"),
        ("a4", "a4-gke-testbed"),
        ("dgx", "dgx-slurm-perf"),
        ("quickstart", "quickstart"),
    ] {
        let tracked = Command::new("git")
            .arg("-C")
            .arg(&root)
            .args(["ls-files", &format!("workflows/{folder}")])
            .output()
            .unwrap();
        let mut tracked: Vec<_> = text(&tracked.stdout).lines().map(str::to_owned).collect();
        if tracked.is_empty() {
            continue; // a copy of the source without git
        }
        let home = Home::new();
        home.burnin(&["init", kind]);
        let inner = home.path("work/workflows").join(folder);
        let mut written: Vec<_> = home
            .files()
            .into_keys()
            .filter(|path| path.starts_with(&inner))
            .map(|path| path.strip_prefix(home.path("work")).unwrap().display().to_string())
            .collect();
        written.retain(|name| !name.ends_with("/inventory"));
        tracked.sort();
        written.sort();
        assert_eq!(written, tracked);
    }
}

#[test]
fn existing_files_are_kept_without_force() {
    let home = Home::new();
    fs::create_dir_all(home.path("work/workflows/criteria")).unwrap();
    fs::write(home.path("work/workflows/quickstart.yaml"), "mine").unwrap();
    fs::write(home.path("work/workflows/other.yaml"), "also mine").unwrap();
    std::os::unix::fs::symlink("absent", home.path("work/workflows/criteria/node-memory.yaml")).unwrap();
    let refused = home.burnin(&["init", "quickstart"]);
    assert_eq!(refused.status.code(), Some(64));
    let stderr = text(&refused.stderr);
    for part in ["workflows/quickstart.yaml", "workflows/criteria/node-memory.yaml", "--force"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(
        !home.path("work/workflows/quickstart").exists() && !home.path("work/workflows/schemas").exists()
    );
    let forced = home.burnin(&["init", "quickstart", "--force"]);
    assert!(forced.status.success(), "{}", text(&forced.stderr));
    assert_eq!(fs::read(home.path("work/workflows/other.yaml")).unwrap(), b"also mine");
    assert!(!home.path("work/absent").exists(), "the link is replaced, not followed");
    assert!(home.burnin(&["check", "--strict", "workflows/quickstart.yaml"]).status.success());
}

#[test]
fn a_failed_init_leaves_the_folder_as_it_was() {
    let home = Home::new();
    fs::create_dir_all(home.path("work/workflows")).unwrap();
    fs::write(home.path("work/workflows/quickstart.yaml"), "mine").unwrap();
    // The files of this folder are written after the files of other folders.
    fs::write(home.path("work/workflows/criteria"), "a file").unwrap();
    let before = home.files();
    let failed = home.burnin(&["init", "quickstart", "--force"]);
    assert_eq!(failed.status.code(), Some(64), "{}", text(&failed.stderr));
    assert!(text(&failed.stderr).contains("nothing was changed"), "{}", text(&failed.stderr));
    assert_eq!(home.files(), before);
    assert!(
        !home.path("work/workflows/schemas").exists() && !home.path("work/workflows/quickstart").exists()
    );
    assert_eq!(fs::read_dir(home.path("work")).unwrap().count(), 1);
}

#[test]
fn the_scheduler_the_gpus_and_the_contexts_of_a_host_are_detected() {
    let home = Home::new();
    home.program("sinfo", "echo 'cpu*|up|40|(null)'; echo 'gpu|up|16|gpu:h100:8(S:0-1)'");
    home.program("srun", "echo 'MPI plugin types are...'; echo '\tnone'; echo '\tpmix'");
    home.program("nvidia-smi", "echo NVIDIA H100; echo NVIDIA H100");
    home.program("all_reduce_perf", "exit 0");
    let done = home.burnin(&["init"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(
        text(&done.stdout).contains("Slurm: partition gpu, 16 nodes with 8 GPUs each"),
        "{}",
        text(&done.stdout)
    );
    let workflow = fs::read_to_string(home.path("work/workflows/slurm.yaml")).unwrap();
    let bin = home.path("bin").display().to_string();
    for line in [
        "nodes: 4",
        "partition: gpu",
        "gpus_per_node: 8",
        "mpi: pmix",
        "shared_folder: /home/me/burnin",
        &bin,
    ] {
        assert!(workflow.contains(line), "{line}: {workflow}");
    }
    assert!(home.burnin(&["check", "--strict", "workflows/slurm.yaml"]).status.success());

    home.program(
        "kubectl",
        "case $1 in config) echo 'my: \"context';; get) printf '8\\n8\\n8\\n<none>\\n';; esac",
    );
    let done = home.burnin(&["init", "kubernetes"]);
    assert!(
        !text(&done.stdout).contains("Kubernetes"),
        "a name with a space is left out: {}",
        text(&done.stdout)
    );
    home.program(
        "kubectl",
        "case $1 in config) echo 'arn:aws:eks:x:cluster/a';; get) printf '8\\n8\\n8\\n<none>\\n';; esac",
    );
    let done = home.burnin(&["init", "kubernetes", "--folder", "k8s"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let workflow = fs::read_to_string(home.path("work/k8s/kubernetes.yaml")).unwrap();
    for line in ["context: \"arn:aws:eks:x:cluster/a\"", "nodes: 3", "gpus_per_node: 8"] {
        assert!(workflow.contains(line), "{line}: {workflow}");
    }
}

/// Programs of the host may hang, fail, or print any text.
#[test]
fn hostile_programs_neither_block_init_nor_change_the_workflow() {
    let home = Home::new();
    home.program("sinfo", "exec /bin/sleep 60");
    home.program("nvidia-smi", "printf '\\033[31mEVIL\\033[0m\\n$(reboot)\\n'");
    home.program("all_reduce_perf", "exit 0");
    home.program("kubectl", "/bin/sleep 60 & echo x");
    let started = Instant::now();
    for kind in ["slurm", "hosts", "kubernetes"] {
        let done = home.burnin(&["init", kind]);
        assert!(done.status.success(), "{kind}: {}", text(&done.stderr));
        assert!(!text(&done.stdout).contains('\u{1b}'));
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    for content in home.files().values() {
        assert!(!content.windows(4).any(|part| part == b"EVIL"));
    }
}

#[test]
fn printed_schemas_equal_the_published_files() {
    for (kind, file) in
        [("workflow", "workflow"), ("criteria", "criteria"), ("suite", "suite"), ("build", "build")]
    {
        let home = Home::new();
        let printed = home.burnin(&["schema", kind]);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../schemas/{file}.json"));
        assert_eq!(text(&printed.stdout), fs::read_to_string(path).unwrap());
    }
    let home = Home::new();
    assert_eq!(home.burnin(&["schema"]).stdout, home.burnin(&["schema", "workflow"]).stdout);
}

#[test]
fn burnin_without_a_command_prints_the_first_commands_to_try() {
    let home = Home::new();
    let done = home.burnin(&[]);
    assert_eq!(done.status.code(), Some(0));
    let stdout = text(&done.stdout);
    assert_eq!(stdout.lines().count(), 5);
    assert!(stdout.lines().all(|line| line.len() <= 80), "{stdout}");
    for command in ["burnin init", "burnin run", "burnin judge"] {
        assert!(stdout.contains(command), "{stdout}");
    }
}
