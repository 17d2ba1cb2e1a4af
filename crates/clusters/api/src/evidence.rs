//! Shell text (bash) that takes hardware evidence of a node around a program. Pure.
//!
//! The first process of each node prints lines `burnin evidence: NODE MOMENT SOURCE TEXT`, which the crate `measure` reads and
//! removes from the log. With GPU persistence mode a probe takes 0.1 s on two H100; a source that does not answer is given up after 2 s.

/// Defines `burnin_run COMMAND...`: prints the evidence, runs the command between, and ends with its exit status or signal.
const PROBE: &str = include_str!("evidence/probe.sh");

/// Shell text that runs the program in the positional parameters. Only the first process of a node takes evidence.
pub fn around_program() -> String {
    format!(
        "{PROBE}if [[ ${{SLURM_LOCALID:-${{OMPI_COMM_WORLD_LOCAL_RANK:-${{BURNIN_LOCAL_RANK:-0}}}}}} == 0 ]]; then burnin_run \"$@\"; fi\n\
         exec \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    fn run(words: &[&str], own: &[(&str, &str)]) -> Output {
        let mut bash = Command::new("bash");
        bash.env_clear().env("PATH", std::env::var("PATH").unwrap()).env("BURNIN_NODE_NAME", "n1");
        bash.envs(own.iter().copied()).args(["-uc", &around_program(), "rank"]).args(words);
        bash.output().unwrap()
    }

    fn moments(output: &Output) -> Vec<String> {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let ends =
            text.lines().filter(|line| !line.starts_with("burnin evidence: ") || line.contains(" end "));
        ends.map(str::to_owned).collect()
    }

    #[test]
    fn evidence_is_taken_before_and_after_the_program() {
        let output = run(&["printf", "%s\n", "it's a test"], &[]);
        let expected = [
            "burnin evidence: n1 before end complete",
            "it's a test",
            "burnin evidence: n1 after end complete",
        ];
        assert_eq!(moments(&output), expected);
        assert!(output.status.success());
    }

    #[test]
    fn only_the_first_process_of_a_node_takes_evidence() {
        for name in ["SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "BURNIN_LOCAL_RANK"] {
            let output = run(&["echo", "second"], &[(name, "1")]);
            assert_eq!(moments(&output), ["second"], "{name}");
        }
    }

    #[test]
    fn the_end_of_the_program_is_the_end_of_the_process() {
        use std::os::unix::process::ExitStatusExt;
        let output = run(&["bash", "-c", "exit 3"], &[]);
        assert_eq!(output.status.code(), Some(3));
        let output = run(&["bash", "-c", "kill -KILL $$"], &[]);
        assert_eq!(output.status.signal(), Some(9));
        assert_eq!(moments(&output).last().unwrap(), "burnin evidence: n1 after end complete");
        assert_eq!(run(&["/missing/program"], &[]).status.code(), Some(127));
    }

    /// Programs that never end and ignore SIGTERM, as a process in a broken driver does.
    #[test]
    fn programs_that_do_not_answer_neither_stop_the_program_nor_delay_it_for_long() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        for name in ["timeout", "nvidia-smi"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "#!/bin/bash\ntrap '' TERM\nwhile :; do sleep 30; done\n").unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let begun = std::time::Instant::now();
        let output = run(&["echo", "measured"], &[("PATH", &path)]);
        assert!(begun.elapsed() < std::time::Duration::from_secs(40), "{:?}", begun.elapsed());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\nmeasured\n") && text.contains("after end complete"), "{text}");
        // The end of one starts the next one.
        let hanging = format!("{}/", folder.path().display());
        let left = || {
            let processes = std::fs::read_dir("/proc").unwrap().flatten();
            let line = |process: &std::fs::DirEntry| {
                std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default()
            };
            processes
                .filter(|process| line(process).contains(&hanging))
                .map(|it| it.file_name())
                .collect::<Vec<_>>()
        };
        for _ in 0..50 {
            for pid in left() {
                // It may have ended meanwhile.
                let _ = Command::new("kill").arg("-KILL").arg(pid).output();
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(left().is_empty());
    }

    #[test]
    fn a_stopped_process_stops_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("started");
        let program =
            format!("sleep 60 & trap 'kill $!; echo stopped; exit 7' TERM; : >{}; wait", mark.display());
        let mut bash = Command::new("bash");
        bash.args(["-uc", &around_program(), "rank", "bash", "-c", &program])
            .stdout(std::process::Stdio::piped());
        let process = bash.spawn().unwrap();
        while !mark.exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let pid = process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        assert!(moments(&output).contains(&"stopped".to_owned()));
    }
}
