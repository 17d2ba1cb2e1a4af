//! Runs Slurm's commands without a shell, in a clean environment, each with a timeout.

use std::{ffi::OsString, time::Duration};

use model::{Class, Drained, Failure};
use service::PortError;
use supervisor::{ProgramOutput, run_program};

use crate::state::{SlurmJobRow, SlurmStateKind};

/// Timeout of each command; Slurm's own timeouts and retries are shorter.
const LIMIT: Duration = Duration::from_secs(90);

/// Runs `squeue`, `sbatch` and the other tools of Slurm.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Folder that is searched for commands before the `PATH`.
    pub first: Option<OsString>,
}

impl Commands {
    async fn run(&self, argv: Vec<String>) -> Result<ProgramOutput, PortError> {
        // Slurm prints times in the caller's time zone.
        let mut env = vec![("TZ", OsString::from("UTC0"))];
        env.extend(self.path());
        run_program(&argv, &env, LIMIT).await.map_err(PortError::transient)
    }

    fn path(&self) -> Option<(&'static str, OsString)> {
        let mut path = self.first.clone()?;
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        Some(("PATH", path))
    }

    /// The command line that submits a job.
    pub fn submission(options: &[String], folder: &std::path::Path) -> Vec<String> {
        let mut argv = vec!["sbatch".to_owned()];
        argv.extend_from_slice(options);
        // The script is named relative to its folder, which is not sbatch's working directory.
        if let Some(script) = argv.last_mut() {
            *script = folder.join(&*script).display().to_string();
        }
        argv
    }

    /// Submits a job and returns its id.
    ///
    /// # Errors
    /// Returns an error if the submission fails: [`PortError::Permanent`] if Slurm refuses the job; after any other
    /// error the outcome is unknown.
    pub async fn submit(&self, options: &[String], folder: &std::path::Path) -> Result<u64, PortError> {
        let argv = Self::submission(options, folder);
        let env: Vec<_> = self.path().into_iter().collect();
        let answer = run_program(&argv, &env, LIMIT).await.map_err(PortError::transient)?;
        let number = answer.stdout.trim().split(';').next().and_then(|number| number.parse().ok());
        match number {
            Some(number) if answer.good => Ok(number),
            _ => Err(refusal(&answer.stderr)),
        }
    }

    /// All jobs of this name and user in the controller's records.
    ///
    /// # Errors
    /// Returns an error if the controller request fails.
    pub async fn jobs(&self, name: &str) -> Result<Vec<SlurmJobRow>, PortError> {
        let user = format!("--user={}", user());
        let name = format!("--name={name}");
        let numbers = ["squeue", "--noheader", "--states=all", "--format=%i", &user, &name];
        let listed = self.run_checked(&numbers).await?;
        let mut rows = Vec::new();
        for number in listed.lines().map(str::trim).filter(|number| !number.is_empty()) {
            let argv = ["scontrol", "--oneliner", "show", "job", number].map(str::to_owned);
            let shown = self.run(argv.into()).await?;
            match shown.good {
                true => rows.extend(SlurmJobRow::from_scontrol(&shown.stdout)),
                // The job was purged between the two requests.
                false if shown.stderr.contains("Invalid job id") => {}
                false => return Err(PortError::Transient(shown.stderr)),
            }
        }
        Ok(rows)
    }

    /// All jobs of this name in the accounting; empty without accounting storage.
    ///
    /// # Errors
    /// Returns an error if the accounting request fails.
    pub async fn accounting_rows(&self, name: &str) -> Result<Vec<SlurmJobRow>, PortError> {
        let (user, name) = (format!("--user={}", user()), format!("--name={name}"));
        let format = format!("--format={}", SlurmJobRow::ACCOUNTING_COLUMNS);
        let argv = [
            "sacct",
            "--allocations",
            "--parsable2",
            "--noheader",
            "--starttime=now-60days",
            &user,
            &name,
            &format,
        ];
        let answer = self.run(argv.map(str::to_owned).into()).await?;
        match answer.good {
            true => Ok(answer.stdout.lines().filter_map(SlurmJobRow::from_accounting).collect()),
            false if answer.stderr.contains("accounting storage is disabled") => Ok(Vec::new()),
            false => Err(PortError::Transient(answer.stderr)),
        }
    }

    /// Cancels all jobs of this name and user, in any state.
    ///
    /// # Errors
    /// Returns an error if the controller request fails.
    pub async fn cancel(&self, name: &str) -> Result<(), PortError> {
        let (user, name) = (format!("--user={}", user()), format!("--name={name}"));
        self.run_checked(&["scancel", "--quiet", &user, &name]).await.map(drop)
    }

    /// Cancels a job unless it has started. A held job cannot start, so that its state after the hold is final. The state is needed, because
    /// `scontrol hold` with a number sends the change for a running job as well (src/scontrol/update_job.c of Slurm).
    ///
    /// # Errors
    /// Returns an error if the controller request fails.
    pub async fn cancel_waiting(&self, number: u64) -> Result<(), PortError> {
        let number = number.to_string();
        let held = self.run(["scontrol", "hold", &number].map(str::to_owned).into()).await?;
        if !held.good {
            return Ok(()); // the started job finds the claim and exits
        }
        let shown = self.run_checked(&["scontrol", "--oneliner", "show", "job", &number]).await?;
        match SlurmJobRow::from_scontrol(&shown).is_some_and(|row| row.kind() == SlurmStateKind::Waiting) {
            true => self.run_checked(&["scancel", "--quiet", &number]).await.map(drop),
            false => Ok(()),
        }
    }

    /// The drained or down nodes among `nodes`, or of a partition, each with its reason.
    ///
    /// # Errors
    /// Returns an error if the controller request fails.
    pub async fn drained(&self, nodes: &str, partition: Option<&str>) -> Result<Vec<String>, PortError> {
        let mut argv = ["sinfo", "--noheader", "--Node", "--states=drain,down,fail", "--format=%N: %E"]
            .map(str::to_owned)
            .to_vec();
        argv.extend((!nodes.is_empty()).then(|| format!("--nodes={nodes}")));
        argv.extend(partition.map(|partition| format!("--partition={partition}")));
        let answer = self.run(argv).await?;
        if !answer.good {
            return Err(PortError::Transient(answer.stderr));
        }
        let mut nodes: Vec<_> = answer.stdout.lines().map(|line| line.trim().to_owned()).collect();
        nodes.dedup();
        Ok(nodes)
    }

    /// Expands a node list such as `n[1-4],n7`.
    ///
    /// # Errors
    /// Returns an error if `scontrol` fails.
    pub async fn expand(&self, nodes: &str) -> Result<Vec<String>, PortError> {
        let output = self.run_checked(&["scontrol", "show", "hostnames", nodes]).await?;
        Ok(output.lines().map(|line| line.trim().to_owned()).filter(|node| !node.is_empty()).collect())
    }

    /// Drains a node unless it is drained already.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`PortError::Permanent`] if the node was drained for another reason, or
    /// Slurm refuses.
    pub async fn drain(&self, node: &str, reason: &str) -> Result<(), PortError> {
        let left = |why: String| PortError::Permanent(Failure::new(Class::Input, "NOT_DRAINED", why));
        if let Some(out) = self.drained(node, None).await?.into_iter().next() {
            let because = out.split_once(": ").map_or("", |(_, because)| because);
            return if because == reason { Ok(()) } else { Err(left(format!("already drained: {because}"))) };
        }
        let (node, reason) = (format!("nodename={node}"), format!("reason={reason}"));
        let argv = ["scontrol", "update", &node, "state=drain", &reason].map(str::to_owned);
        self.changed(argv.into(), "NOT_DRAINED").await
    }

    /// Returns a drained node to service unless it is in service already.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`PortError::Permanent`] if Slurm refuses, or the node was not drained by Burnin.
    pub async fn resume(&self, node: &str) -> Result<(), PortError> {
        let left = |why: String| PortError::Permanent(Failure::new(Class::Input, "NOT_RETURNED", why));
        let Some(out) = self.drained(node, None).await?.into_iter().next() else { return Ok(()) };
        let because = out.split_once(": ").map_or("", |(_, because)| because);
        if !Drained::is_ours(because) {
            return Err(left(format!("{node} is out of service for another reason: {because}")));
        }
        let node = format!("nodename={node}");
        let argv = ["scontrol", "update", &node, "state=resume"].map(str::to_owned);
        self.changed(argv.into(), "NOT_RETURNED").await
    }

    /// Creates a reservation of the nodes for this user, without an end time, unless it exists. Its jobs may also use other nodes (`FLEX`),
    /// and running jobs of other users end undisturbed (`IGNORE_JOBS`); scontrol(1), 22.05.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`PortError::Permanent`] if Slurm refuses.
    pub async fn reserve(&self, name: &str, nodes: &[String]) -> Result<(), PortError> {
        let argv = [
            "scontrol".to_owned(),
            "create".to_owned(),
            "reservation".to_owned(),
            format!("ReservationName={name}"),
            format!("Nodes={}", nodes.join(",")),
            "StartTime=now".to_owned(),
            "Duration=UNLIMITED".to_owned(),
            format!("Users={}", user()),
            "Flags=MAINT,IGNORE_JOBS,FLEX".to_owned(),
        ];
        match self.changed(argv.into(), "NOT_RESERVED").await {
            Err(PortError::Permanent(failure)) if failure.message.contains("Duplicate reservation name") => {
                Ok(())
            }
            changed => changed,
        }
    }

    /// Deletes a reservation if it exists.
    ///
    /// # Errors
    /// Returns an error if the request fails: [`PortError::Permanent`] if Slurm refuses.
    pub async fn unreserve(&self, name: &str) -> Result<(), PortError> {
        let argv = ["scontrol".to_owned(), "delete".to_owned(), format!("reservation={name}")];
        match self.changed(argv.into(), "NOT_RELEASED").await {
            Err(PortError::Permanent(failure))
                if failure.message.contains("Requested reservation is invalid") =>
            {
                Ok(())
            }
            // A job of the reservation is still completing.
            Err(PortError::Permanent(failure)) if failure.message.contains("in use") => {
                Err(PortError::Transient(failure.message))
            }
            changed => changed,
        }
    }

    /// Runs a command that changes the cluster. `code`: code of a refusal.
    async fn changed(&self, argv: Vec<String>, code: &str) -> Result<(), PortError> {
        let answer = self.run(argv).await?;
        match answer.good {
            true => Ok(()),
            false if is_transient(&answer.stderr) => Err(PortError::Transient(answer.stderr)),
            false => Err(PortError::Permanent(Failure::new(Class::Input, code, answer.stderr))),
        }
    }

    async fn run_checked(&self, argv: &[&str]) -> Result<String, PortError> {
        let answer = self.run(argv.iter().map(|&word| word.to_owned()).collect()).await?;
        if answer.good { Ok(answer.stdout) } else { Err(PortError::Transient(answer.stderr)) }
    }
}

/// Users are identified by id, because the name may be unknown on this host.
fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Meaning of a failed submission. After a connection error the outcome is unknown; an error message of the controller about
/// the job is final.
fn refusal(complaint: &str) -> PortError {
    if is_transient(complaint) || !complaint.contains("sbatch: ") {
        return PortError::Transient(complaint.to_owned());
    }
    let last = complaint.lines().rev().find(|line| line.contains("error: ")).unwrap_or(complaint);
    let reason = last.rsplit("failed: ").next().unwrap_or(last).trim_start_matches("sbatch: error: ").trim();
    let message = format!("Slurm refuses the job: {reason}");
    PortError::Permanent(Failure::new(Class::Input, "REFUSED", message))
}

/// Whether the error is transient.
fn is_transient(complaint: &str) -> bool {
    const TRANSIENT_MESSAGES: [&str; 16] = [
        "timed out",
        "Unable to contact",
        "Connection",
        "connection",
        "temporarily",
        "in standby mode",
        "Zero Bytes",
        "Transport endpoint",
        "Communication",
        "communication",
        "try again",
        "authentication",
        "munge",
        "Munge",
        "ended with signal",
        "database",
    ];
    TRANSIENT_MESSAGES.iter().any(|word| complaint.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_connection_error_the_outcome_is_unknown() {
        for complaint in [
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
            "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
            "sbatch ended with signal: 9 (SIGKILL)",
            "sbatch: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\"",
        ] {
            assert!(matches!(refusal(complaint), PortError::Transient(_)), "{complaint}");
        }
    }

    #[test]
    fn a_job_refused_by_slurm_is_an_input_error_with_slurms_message() {
        for (complaint, reason) in [
            (
                "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid partition name specified",
                "Invalid partition name specified",
            ),
            (
                "sbatch: error: Batch job submission failed: Requested node configuration is not available",
                "Requested node configuration is not available",
            ),
            ("sbatch: error: Invalid --time specification", "Invalid --time specification"),
        ] {
            let PortError::Permanent(failure) = refusal(complaint) else { panic!("{complaint}") };
            assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "REFUSED"));
            assert_eq!(failure.message, format!("Slurm refuses the job: {reason}"));
        }
    }
}
