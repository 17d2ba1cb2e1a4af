//! Scripts for sbatch as reviewed files, and quoted words, read back by a shell.

use std::{io::Write, process::Command};

use cluster_api::{JobSpec, Settings, shell::quote};
use cluster_slurm::{Slurm, script};
use model::{Cluster, ClusterAccess, Collective, Program, Span, Workload};
use proptest::prelude::*;

fn job() -> JobSpec {
    let workload = Workload {
        collective: Collective::AllGather,
        min_bytes: 8 << 20,
        max_bytes: 8 << 30,
        step_factor: 2,
        iterations: 200,
        warmup_iterations: 5,
        check: true,
        datatype: None,
        extra_args: Default::default(),
    };
    let cluster = Cluster { name: "lab".into(), nodes: vec![], access: ClusterAccess::processes("") };
    JobSpec {
        name: "nightly-39dbed17-job-1".into(),
        cluster,
        image: None,
        program: Program::NcclTests(workload),
        limit: Span::from_secs(1000),
        environment: Default::default(),
        evidence: false,
        labels: [("burnin-attempt", "1"), ("burnin-run", "nightly-1a2b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    }
}

fn rendered(slurm: serde_json::Value, programs: Option<&str>) -> String {
    let slurm: Slurm = serde_json::from_value(slurm).unwrap();
    assert_eq!(slurm.problems(), []);
    let folder = format!("{}/jobs/nightly-39dbed17-job-1", slurm.shared_folder);
    let options = script::options(&job(), &slurm, &folder).join("\n");
    format!("{options}\n----\n{}", script::script(&job(), &slurm, &folder, programs))
}

#[test]
fn minimal_settings_give_the_reviewed_script() {
    insta::assert_snapshot!(rendered(serde_json::json!({"nodes": 2, "shared_folder": "/home/burnin"}), None));
}

#[test]
fn complete_settings_give_the_reviewed_script() {
    let slurm = serde_json::json!({
        "nodes": 16, "ranks_per_node": 8, "shared_folder": "/home/it's \"shared\" $HOME",
        "partition": "a3mega", "account": "burnin", "qos": "high", "reservation": "maintenance",
        "constraint": "rack1&rack2", "node_list": "n[1-16]", "gpus_per_node": 8, "memory_mib": 0,
        "mpi": "pmix", "profile": "/var/lib/tcpxo/lib64/nccl-env-profile.sh", "nccl_debug": "WARN",
        "environment": {"NCCL_LIB_DIR": "/var/lib/tcpxo/lib64", "WORDS": "two 'words'\r\n$(and) a line"},
    });
    insta::assert_snapshot!(rendered(slurm, Some("/home/programs")));
}

/// Runs one shell for all words; it prints each word and a zero byte.
fn read_back(words: &[String]) -> Vec<String> {
    let quoted: String = words.iter().map(|word| format!("printf '%s\\0' {}\n", quote(word))).collect();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(quoted.as_bytes()).unwrap();
    let output = Command::new("bash").arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn quoted_words_are_read_back_unchanged(words in prop::collection::vec("[^\\x00]{0,40}", 1..40)) {
        prop_assert_eq!(read_back(&words), words);
    }

    #[test]
    fn no_script_contains_characters_refused_by_sbatch(word in "[^\\x00]{0,60}") {
        prop_assert!(!quote(&word).contains(char::is_control) || word.chars().any(|c| c.is_control() && !c.is_ascii()));
    }
}
