//! Jobs that must not continue, on commands that print recorded output of Slurm: after the cancel, Slurm reports `CANCELLED`.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use cluster_api::{JobStatus, Scheduler, Settings};
use cluster_slurm::{Slurm, SlurmJobs};
use ledger::MemoryStore;
use model::{Class, Cluster, Failure};
use service::PortError;

const JOB: &str = "accept-1.job.1";

/// Slurm's commands as scripts: one job, which `scancel` cancels. A file `fails-COMMAND` makes the next call of the command fail, for
/// `scancel` after its effect.
struct ScriptedSlurm(tempfile::TempDir);

impl ScriptedSlurm {
    /// A job in the state of a recorded `scontrol show job`.
    fn new(recorded: &str) -> Self {
        let bed = Self(tempfile::tempdir().unwrap());
        let (folder, bin) = (bed.0.path().display().to_string(), bed.0.path().join("bin"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(bed.job_folder().join("output")).unwrap();
        let record = fs::read_to_string(Path::new("tests/data").join(recorded)).unwrap();
        // `--oneliner` prints the same fields in one line.
        let record = record.split_whitespace().collect::<Vec<_>>().join(" ");
        fs::write(bed.0.path().join("record"), record + "\n").unwrap();
        let fails = |command: &str| format!("rm '{folder}/fails-{command}' 2>/dev/null && exit 1");
        for (name, script) in [
            ("squeue", "echo 11".to_owned()),
            ("scontrol", format!("cat '{folder}/record'")),
            ("sinfo", format!("{}\necho 'n1: Prolog error'", fails("sinfo"))),
            (
                "scancel",
                format!(
                    "sed -i 's/JobState=[A-Z]*/JobState=CANCELLED/; s/Reason=[^ ]*/Reason=None/' '{folder}/record'\n{}\nexit 0",
                    fails("scancel")
                ),
            ),
        ] {
            let file = bin.join(name);
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        bed
    }

    fn job_folder(&self) -> std::path::PathBuf {
        self.0.path().join("jobs").join(JOB)
    }

    fn fails_once(&self, command: &str) {
        fs::write(self.0.path().join(format!("fails-{command}")), "").unwrap();
    }

    fn is_cancelled(&self) -> bool {
        fs::read_to_string(self.0.path().join("record")).unwrap().contains("JobState=CANCELLED")
    }

    /// Result of a poll by a new agent.
    async fn poll(&self) -> Result<JobStatus, PortError> {
        let settings = serde_json::json!({"nodes": 4, "shared_folder": self.0.path()});
        let access = serde_json::from_value::<Slurm>(settings).unwrap().access();
        let cluster = Cluster { name: "bed".into(), nodes: vec![], access };
        let jobs = SlurmJobs::new(Arc::new(MemoryStore::default())).with_commands(self.0.path().join("bin"));
        jobs.poll(&cluster, JOB).await
    }
}

#[tokio::test]
async fn a_lost_job_stays_lost_after_an_error_before_or_after_its_cancel() {
    for version in ["22.05", "24.11"] {
        for command in ["sinfo", "scancel"] {
            let slurm = ScriptedSlurm::new(&format!("slurm-{version}/prolog-failed.scontrol-job.txt"));
            slurm.fails_once(command);
            let failed = slurm.poll().await;
            assert!(matches!(failed, Err(PortError::Transient(_))), "{version}, {command}: {failed:?}");
            for _ in 0..2 {
                let JobStatus::Lost { code, why } = slurm.poll().await.unwrap() else {
                    panic!("{version}, {command}: the loss is not reported")
                };
                assert_eq!(code, "LAUNCH_FAILED");
                assert!(why.ends_with("; out of service: n1: Prolog error"), "{why}");
            }
            assert!(slurm.is_cancelled(), "{version}, {command}: Slurm would run the job again");
        }
    }
}

#[tokio::test]
async fn a_job_that_can_never_start_is_an_input_error_also_after_its_cancel() {
    let slurm = ScriptedSlurm::new("slurm-22.05/pending-impossible.scontrol-job.txt");
    for _ in 0..2 {
        let Err(PortError::Permanent(Failure { class, code, .. })) = slurm.poll().await else {
            panic!("the job is not rejected")
        };
        assert_eq!((class, code.as_str()), (Class::Input, "PartitionNodeLimit"));
    }
    assert!(slurm.is_cancelled());
}
