//! Runs programs to their end, without a shell, with a timeout.

use std::{ffi::OsString, io, process::Stdio, time::Duration};

use tokio::process::Command;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Whether the program exited with 0.
    pub good: bool,
    pub stdout: String,
    /// Standard error; if empty, the exit status of the program.
    pub stderr: String,
}

/// Variables inherited by every program. No other variable of this process's environment is passed: neither secrets nor
/// variables that change a program's behavior.
const KEPT: [&str; 6] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "SLURM_CONF"];

/// Runs `argv` with a clean environment and `env`, for at most `limit`.
///
/// # Errors
/// Returns an error if the program cannot be started, or if it exceeds the limit and is killed.
pub async fn run_program(
    argv: &[String],
    env: &[(&str, OsString)],
    limit: Duration,
) -> io::Result<ProgramOutput> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::other("the command line is empty"))?;
    let mut command = Command::new(program);
    let kept = KEPT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.args(arguments).env_clear().envs(kept).envs(env.iter().map(|(name, value)| (*name, value)));
    // The program is looked up on the child's own `PATH`, not on that of this process.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{program}: {error}"));
    let output = tokio::time::timeout(limit, command.output()).await;
    let output = output.map_err(|_| {
        let why = format!("{program} did not end within {} s and was killed", limit.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, why)
    })?;
    let output = output.map_err(named)?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let silent = stderr.is_empty() && !output.status.success();
    Ok(ProgramOutput {
        good: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: if silent { format!("{program} ended with {}", output.status) } else { stderr },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[tokio::test]
    async fn the_environment_contains_only_permitted_variables() {
        let answer =
            run_program(&argv(&["env"]), &[("A", "x y".into())], Duration::from_secs(20)).await.unwrap();
        assert!(answer.good && answer.stdout.lines().any(|line| line == "A=x y"), "{answer:?}");
        let foreign =
            |line: &str| !line.starts_with("A=") && !KEPT.contains(&line.split('=').next().unwrap());
        assert_eq!(answer.stdout.lines().find(|line| foreign(line)), None);
    }

    #[tokio::test]
    async fn a_timeout_and_a_missing_program_are_errors() {
        let late = run_program(&argv(&["sleep", "60"]), &[], Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let missing =
            run_program(&argv(&["no-such-program"]), &[], Duration::from_secs(5)).await.unwrap_err();
        assert!(missing.to_string().starts_with("no-such-program: "), "{missing}");
        let silent = run_program(&argv(&["false"]), &[], Duration::from_secs(20)).await.unwrap();
        assert!(!silent.good && silent.stderr.contains("exit status: 1"), "{silent:?}");
    }
}
