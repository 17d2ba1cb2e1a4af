//! Slurm's commands: arguments only, no shell, a clean environment, a time limit each.

use std::{ffi::OsString, time::Duration};

use model::{Class, Failure};
use service::PortError;
use supervisor::{Answer, ask};

use super::state::Row;

/// The longest any of them may take. Each has shorter limits and repetitions of its own.
const LIMIT: Duration = Duration::from_secs(90);

/// Slurm as its commands show it.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Where the commands are searched before the `PATH`.
    pub first: Option<OsString>,
}

impl Commands {
    async fn ask(&self, argv: Vec<String>) -> Result<Answer, PortError> {
        // Times are written in the zone of whoever asks.
        let mut env = vec![("TZ", OsString::from("UTC0"))];
        env.extend(self.path());
        ask(&argv, &env, LIMIT).await.map_err(PortError::passing)
    }

    fn path(&self) -> Option<(&'static str, OsString)> {
        let mut path = self.first.clone()?;
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        Some(("PATH", path))
    }

    /// Submits, and says the number.
    ///
    /// # Errors
    /// [`PortError::Final`] when Slurm refuses the job as such; otherwise nobody knows whether it has taken it.
    pub async fn submit(&self, options: &[String], folder: &std::path::Path) -> Result<u64, PortError> {
        let mut argv = vec!["sbatch".to_owned()];
        argv.extend_from_slice(options);
        // The script is named relative to its folder, where sbatch is not.
        if let Some(script) = argv.last_mut() {
            *script = folder.join(&*script).display().to_string();
        }
        let env: Vec<_> = self.path().into_iter().collect();
        let answer = ask(&argv, &env, LIMIT).await.map_err(PortError::passing)?;
        let number = answer.said.trim().split(';').next().and_then(|number| number.parse().ok());
        match number {
            Some(number) if answer.good => Ok(number),
            _ => Err(refusal(&answer.complained)),
        }
    }

    /// Every job of this name that the controller knows, of this user.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub async fn jobs(&self, name: &str) -> Result<Vec<Row>, PortError> {
        let user = format!("--user={}", user());
        let name = format!("--name={name}");
        let numbers = ["squeue", "--noheader", "--states=all", "--format=%i", &user, &name];
        let listed = self.good(&numbers).await?;
        let mut rows = Vec::new();
        for number in listed.lines().map(str::trim).filter(|number| !number.is_empty()) {
            let argv = ["scontrol", "--oneliner", "show", "job", number].map(str::to_owned);
            let shown = self.ask(argv.into()).await?;
            match shown.good {
                true => rows.extend(Row::shown(&shown.said)),
                // Forgotten between the two questions.
                false if shown.complained.contains("Invalid job id") => {}
                false => return Err(PortError::Passing(shown.complained)),
            }
        }
        Ok(rows)
    }

    /// Every job of this name that is in the accounts, where accounts are kept.
    ///
    /// # Errors
    /// When the accounts do not answer.
    pub async fn accounted(&self, name: &str) -> Result<Vec<Row>, PortError> {
        let (user, name) = (format!("--user={}", user()), format!("--name={name}"));
        let format = format!("--format={}", Row::ACCOUNTED);
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
        let answer = self.ask(argv.map(str::to_owned).into()).await?;
        match answer.good {
            true => Ok(answer.said.lines().filter_map(Row::accounted).collect()),
            false if answer.complained.contains("accounting storage is disabled") => Ok(Vec::new()),
            false => Err(PortError::Passing(answer.complained)),
        }
    }

    /// Ends every job of this name and user, in whatever state it is.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub async fn cancel(&self, name: &str) -> Result<(), PortError> {
        let (user, name) = (format!("--user={}", user()), format!("--name={name}"));
        self.good(&["scancel", "--quiet", &user, &name]).await.map(drop)
    }

    /// Ends a job unless it has begun. What waits can be held, what runs cannot.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub async fn cancel_waiting(&self, number: u64) -> Result<(), PortError> {
        let number = number.to_string();
        let held = self.ask(["scontrol", "hold", &number].map(str::to_owned).into()).await?;
        match held.good {
            true => self.good(&["scancel", "--quiet", &number]).await.map(drop),
            false => Ok(()), // it finds the claim
        }
    }

    /// Of these nodes, or of all of a partition, the ones that are out of service, each with its reason.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub async fn drained(&self, nodes: &str, partition: Option<&str>) -> Result<Vec<String>, PortError> {
        let mut argv = ["sinfo", "--noheader", "--Node", "--states=drain,down,fail", "--format=%N: %E"]
            .map(str::to_owned)
            .to_vec();
        argv.extend((!nodes.is_empty()).then(|| format!("--nodes={nodes}")));
        argv.extend(partition.map(|partition| format!("--partition={partition}")));
        let answer = self.ask(argv).await?;
        if !answer.good {
            return Err(PortError::Passing(answer.complained));
        }
        let mut nodes: Vec<_> = answer.said.lines().map(|line| line.trim().to_owned()).collect();
        nodes.dedup();
        Ok(nodes)
    }

    /// The nodes of a list such as `n[1-4],n7`.
    ///
    /// # Errors
    /// When `scontrol` cannot be asked.
    pub async fn expand(&self, nodes: &str) -> Result<Vec<String>, PortError> {
        let said = self.good(&["scontrol", "show", "hostnames", nodes]).await?;
        Ok(said.lines().map(|line| line.trim().to_owned()).filter(|node| !node.is_empty()).collect())
    }

    /// Takes a node out of service, unless it is out already.
    ///
    /// # Errors
    /// [`PortError::Final`] when somebody else took it out, or Slurm refuses.
    pub async fn drain(&self, node: &str, reason: &str) -> Result<(), PortError> {
        let left = |why: String| PortError::Final(Failure::new(Class::Input, "NOT_DRAINED", why));
        if let Some(out) = self.drained(node, None).await?.into_iter().next() {
            let because = out.split_once(": ").map_or("", |(_, because)| because);
            return if because == reason {
                Ok(())
            } else {
                Err(left(format!("out of service already: {because}")))
            };
        }
        let (node, reason) = (format!("nodename={node}"), format!("reason={reason}"));
        let argv = ["scontrol", "update", &node, "state=drain", &reason].map(str::to_owned);
        let answer = self.ask(argv.into()).await?;
        match answer.good {
            true => Ok(()),
            false if passes(&answer.complained) => Err(PortError::Passing(answer.complained)),
            false => Err(left(answer.complained)),
        }
    }

    async fn good(&self, argv: &[&str]) -> Result<String, PortError> {
        let answer = self.ask(argv.iter().map(|&word| word.to_owned()).collect()).await?;
        if answer.good { Ok(answer.said) } else { Err(PortError::Passing(answer.complained)) }
    }
}

/// By number: a name may not be known on this machine.
fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// What a failed submission means. Who cannot talk to the controller does not know what it did; whatever the controller
/// itself says of the job is its answer.
fn refusal(complaint: &str) -> PortError {
    if passes(complaint) || !complaint.contains("sbatch: ") {
        return PortError::Passing(complaint.to_owned());
    }
    let last = complaint.lines().rev().find(|line| line.contains("error: ")).unwrap_or(complaint);
    let reason = last.rsplit("failed: ").next().unwrap_or(last).trim_start_matches("sbatch: error: ").trim();
    let message = format!("Slurm refuses the job: {reason}");
    PortError::Final(Failure::new(Class::Input, "REFUSED", message))
}

/// What is complained of may pass.
fn passes(complaint: &str) -> bool {
    const PASSING: [&str; 16] = [
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
    PASSING.iter().any(|word| complaint.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_reach_the_controller_does_not_know() {
        for complaint in [
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
            "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
            "sbatch ended with signal: 9 (SIGKILL)",
            "sbatch: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\"",
        ] {
            assert!(matches!(refusal(complaint), PortError::Passing(_)), "{complaint}");
        }
    }

    #[test]
    fn what_slurm_refuses_is_wrong_input_in_its_own_words() {
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
            let PortError::Final(failure) = refusal(complaint) else { panic!("{complaint}") };
            assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "REFUSED"));
            assert_eq!(failure.message, format!("Slurm refuses the job: {reason}"));
        }
    }
}
