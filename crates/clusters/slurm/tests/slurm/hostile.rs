//! Hostile values: each arrives byte for byte, or is refused with the name of its field.

use cluster_api::{JobSpec, Scheduler, Settings};
use service::PortError;

use crate::bed::{SlurmBed, ended};

/// Special characters of shells, Slurm, printf, paths and terminals.
fn values() -> Vec<String> {
    let parts = [
        "'",
        "\"",
        "`id`",
        "$(touch /tmp/burnin-was-here)",
        "${HOME}",
        "$HOME",
        "\\",
        "\\n",
        "\n",
        "\r\n",
        "\t",
        "%j",
        "%%",
        "%s%n",
        ";reboot",
        "&& false",
        "|| true",
        "| cat",
        "> /dev/null",
        "< /etc/passwd",
        "*",
        "?",
        "[a-z]",
        "{a,b}",
        "~",
        "#SBATCH --partition=short",
        "\n#SBATCH --nodes=1\n",
        "--uid=0",
        "-p",
        "--",
        "=",
        ",",
        "a,b",
        ":",
        "@",
        "!",
        "!!",
        "\u{1b}[31m",
        "\u{7}",
        "\u{7f}",
        "\u{85}",
        "é",
        "日本",
        "🙂",
        "\u{202e}",
        "\u{feff}",
        " ",
        "  ",
        "",
        "..",
        "../..",
        ".",
        "/",
        "//",
        "EOF",
        "<<EOF",
        "\u{1}",
        "x y",
        "'; scancel -u root; '",
        "\"; exit 0; \"",
        "(",
        ")",
        "((1+1))",
        "$((1+1))",
        "nul",
        "None",
        "(null)",
        "0",
        "-1",
        "1e9",
        "true",
        "\\'",
        "'\\''",
        "$'\\x41'",
        "\"'\"'\"",
        "a\\\nb",
    ];
    let mut values: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
    values.extend(parts.iter().map(|part| format!("a{part}b")));
    values.extend(parts.iter().map(|part| format!("{part} {part}")));
    values.push("x".repeat(8000));
    values
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn values_of_the_environment_reach_the_ranks_byte_for_byte() {
    let bed = SlurmBed::new("environment");
    let values = values();
    assert!(values.len() >= 200, "{}", values.len());
    let mut job = bed.job("environment", "[ $SLURM_PROCID = 0 ] && env -0 >env; true");
    let mut slurm = cluster_slurm::Slurm::of(&job.cluster).unwrap();
    slurm.environment =
        values.iter().enumerate().map(|(n, value)| (format!("V{n}"), value.clone())).collect();
    job.cluster.access = slurm.access();
    bed.jobs().submit(&job).await.unwrap();
    assert_eq!(ended(&bed.jobs(), &job).await.state, "COMPLETED");
    let seen = String::from_utf8(std::fs::read(bed.folder("environment").join("env")).unwrap()).unwrap();
    let seen: std::collections::BTreeMap<_, _> =
        seen.split('\0').filter_map(|line| line.split_once('=')).collect();
    for (n, value) in values.iter().enumerate() {
        assert_eq!(seen.get(format!("V{n}").as_str()), Some(&value.as_str()));
    }
    assert!(!std::path::Path::new("/tmp/burnin-was-here").exists(), "no part of the value was executed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn folders_of_any_name_work_or_are_refused() {
    let bed = SlurmBed::new("folders");
    // Each folder is either accepted or rejected, never misread. A sample of the accepted folders runs a complete job.
    let run = ["'", "\"", "$HOME", "`id`", "日本", "x y", "*", ";reboot", "#SBATCH --partition=short"];
    let (mut taken, mut refused) = (0, 0);
    for value in values() {
        let shared = bed.shared.join("f").display().to_string() + &value;
        let mut job = bed.job("folder", "pwd -P");
        let mut slurm = cluster_slurm::Slurm::of(&job.cluster).unwrap();
        slurm.shared_folder = shared.clone();
        job.cluster.access = slurm.access();
        if slurm.problems().is_empty() {
            taken += 1;
            if run.contains(&value.as_str()) {
                job.name = format!("folder-{taken}");
                std::fs::create_dir_all(&shared).unwrap();
                bed.jobs().submit(&job).await.unwrap_or_else(|error| panic!("{value:?}: {error:?}"));
                assert_eq!(ended(&bed.jobs(), &job).await.state, "COMPLETED", "{value:?}");
                let log = crate::bed::text(&bed.jobs(), &job, "benchmark.log").await;
                assert!(log.contains(&format!("{shared}/jobs/{}\n", job.name)), "{value:?}: {log}");
            }
        } else {
            refused += 1;
            let PortError::Permanent(failure) = bed.jobs().submit(&job).await.unwrap_err() else {
                panic!("{value:?}")
            };
            assert!(failure.message.contains(": shared_folder: expected"), "{}", failure.message);
        }
    }
    assert!(
        taken > 100 && refused > 20,
        "expected more than 100 accepted and 20 refused folders, found {taken} and {refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn names_that_slurm_could_misread_are_refused_with_the_field_name() {
    let bed = SlurmBed::new("names");
    let before = bed.run("squeue -h -t all -o %i");
    let jobs = bed.jobs();
    let whole = bed.job("names", "true");
    let mut harmless = 0;
    for value in values() {
        for field in ["partition", "account", "qos", "reservation", "mpi"] {
            let mut settings = serde_json::to_value(&bed.slurm).unwrap();
            settings[field] = value.clone().into();
            let slurm: cluster_slurm::Slurm = serde_json::from_value(settings).unwrap();
            if slurm.problems().is_empty() {
                harmless += 1; // a word: Slurm itself checks whether the name exists
                continue;
            }
            let cluster = model::Cluster { access: slurm.access(), ..whole.cluster.clone() };
            let PortError::Permanent(failure) =
                jobs.submit(&JobSpec { cluster, ..whole.clone() }).await.unwrap_err()
            else {
                panic!("{field}: {value:?}")
            };
            assert!(failure.message.contains(&format!(": {field}: expected")), "{}", failure.message);
            assert!(!failure.message.contains(char::is_control), "{:?}", failure.message);
        }
        let named = jobs.poll(&whole.cluster, &value).await;
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
        if value.len() > 128
            || !value.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !value.chars().all(letters)
        {
            assert!(
                matches!(&named, Err(PortError::Permanent(failure)) if failure.message.starts_with("job name: ")),
                "{value:?}"
            );
        }
    }
    assert!(harmless < 150, "expected fewer than 150 accepted values, found {harmless}");
    assert_eq!(bed.run("squeue -h -t all -o %i"), before, "nothing was submitted");
}

/// Slurm itself rejects an unknown partition, with its own message.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a Slurm cluster; start it with .ci/slurm.sh"]
async fn plain_words_reach_slurm_unchanged() {
    let bed = SlurmBed::new("words");
    let mut job = bed.job("words", "true");
    job.cluster = bed.cluster_with(|slurm| slurm.partition = Some("a@b.c+d:e-f".into()));
    let PortError::Permanent(failure) = bed.jobs().submit(&job).await.unwrap_err() else { panic!() };
    assert_eq!(failure.message, "Slurm refuses the job: Invalid partition name specified");
}
