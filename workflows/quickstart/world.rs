//! Starts one process per rank if no launcher did, and runs the ranks of this process.

use std::{
    env, fs,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    LOST,
    benchmark::benchmark,
    failure::{fail, host},
    name,
    options::ProgramOptions,
    ring::Ring,
};

/// Starts one copy per rank and waits for all of them. If a rank fails, the other ranks are killed 2 s later, so that
/// they can report their own errors.
pub fn launch(ranks: usize) -> i32 {
    let folder = env::temp_dir().join(format!("{}-{}", name(), process::id()));
    let outcome = fs::create_dir(&folder).and_then(|()| launch_in(&folder, ranks));
    let _ = fs::remove_dir_all(&folder);
    outcome.unwrap_or_else(|error| {
        eprintln!("{}: cannot start {ranks} ranks: {error}", name());
        1
    })
}

fn launch_in(folder: &Path, ranks: usize) -> io::Result<i32> {
    use std::os::unix::process::CommandExt;
    let program = env::current_exe()?;
    let mut children = Vec::new();
    for rank in 0..ranks {
        // The copy's standard input is a pipe from this process, so the copy reads end of file after this process has
        // ended.
        let child = Command::new(&program)
            .arg0(name())
            .args(env::args_os().skip(1))
            .env("BURNIN_RANK", rank.to_string())
            .env("BURNIN_RANKS", ranks.to_string())
            .env("BURNIN_RENDEZVOUS", folder)
            .env("BURNIN_COPY", "1")
            .stdin(Stdio::piped())
            .spawn()?;
        children.push(child);
    }
    let (mut code, mut failed) = (0, None);
    while !children.is_empty() {
        children.retain_mut(|child| {
            let Ok(Some(status)) = child.try_wait() else { return true };
            let this = exit_code(status);
            if this != 0 {
                failed.get_or_insert_with(Instant::now);
                // A lost neighbor is a consequence: another rank's exit code is the cause.
                code = if code == 0 || (code == LOST && this != LOST) { this } else { code };
            }
            false
        });
        if failed.is_some_and(|when: Instant| when.elapsed() > Duration::from_secs(2)) {
            // An error means that the process has just ended.
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(code)
}

fn exit_code(status: process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// The ranks of this process, and the folder with the addresses of the others.
pub struct Ranks {
    first: usize,
    local: usize,
    ranks: usize,
    rendezvous: PathBuf,
    fault: Option<(String, FaultTarget, u64)>,
}

impl Ranks {
    pub fn from_environment(local: usize) -> Result<Option<Self>, String> {
        let number = |name: &str| match env::var(name) {
            Err(_) => Ok(None),
            Ok(text) => text
                .parse::<usize>()
                .map(Some)
                .map_err(|_| format!("{name}: expected a number, found {text:?}")),
        };
        let sources = [
            ("BURNIN_RANK", "BURNIN_RANKS"),
            ("SLURM_PROCID", "SLURM_NTASKS"),
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ];
        for (rank_name, count_name) in sources {
            let (Some(rank), Some(count)) = (number(rank_name)?, number(count_name)?) else { continue };
            if rank >= count {
                return Err(format!("{rank_name}: expected less than {count_name} ({count}), found {rank}"));
            }
            let copy = env::var_os("BURNIN_COPY").is_some();
            if copy {
                thread::spawn(|| {
                    let _ = io::stdin().read(&mut [0]);
                    process::exit(LOST);
                });
            } else if count == 1 {
                break;
            }
            let Some(rendezvous) = env::var_os("BURNIN_RENDEZVOUS").map(PathBuf::from) else {
                return Err("BURNIN_RENDEZVOUS: expected a folder that all ranks share".to_owned());
            };
            let local = if copy { 1 } else { local };
            let (first, ranks) = (rank * local, count * local);
            return Ok(Some(Self { first, local, ranks, rendezvous, fault: fault()? }));
        }
        Ok(None)
    }

    /// Runs the ranks of this process, the first rank in this thread. Returns the process's exit code.
    pub fn run(&self, options: ProgramOptions) -> i32 {
        if let Err(error) = fs::create_dir_all(&self.rendezvous) {
            fail(line!(), 1, &format!("{}: {error}", self.rendezvous.display()));
        }
        thread::scope(|scope| {
            let options = &options;
            let others: Vec<_> = (1..self.local)
                .map(|index| scope.spawn(move || self.run_rank(self.first + index, options)))
                .collect();
            let code = self.run_rank(self.first, options);
            others.into_iter().map(|other| other.join().unwrap_or(1)).fold(code, i32::max)
        })
    }

    fn run_rank(&self, rank: usize, options: &ProgramOptions) -> i32 {
        let mut ring = Ring::join(rank, self.ranks, &self.rendezvous, options);
        let fault = self.fault.as_ref().filter(|(_, target, _)| match target {
            FaultTarget::Rank(target) => *target == rank,
            FaultTarget::Host(target) => *target == host(),
        });
        if let Some((_, _, micros)) = fault.filter(|(kind, ..)| kind == "slow") {
            ring.delay = Duration::from_micros(*micros);
        }
        benchmark(&mut ring, options, fault.map(|(kind, _, value)| (kind.as_str(), *value)))
    }
}

/// Ranks with an injected fault: one rank, or all ranks of a host.
enum FaultTarget {
    Rank(usize),
    Host(String),
}

fn fault_target(text: &str) -> Option<FaultTarget> {
    match text.strip_prefix('@') {
        Some(host) => Some(FaultTarget::Host(host.to_owned())),
        None => text.parse().ok().map(FaultTarget::Rank),
    }
}

fn fault() -> Result<Option<(String, FaultTarget, u64)>, String> {
    let Ok(text) = env::var("BURNIN_FAULT") else { return Ok(None) };
    let parts: Vec<&str> = text.split(':').collect();
    let parsed = match parts[..] {
        [kind @ ("corrupt" | "hang"), target] => {
            fault_target(target).map(|target| (kind.to_owned(), target, 0))
        }
        [kind @ ("slow" | "exit"), target, value] => fault_target(target)
            .zip(value.parse().ok())
            .map(|(target, value)| (kind.to_owned(), target, value)),
        _ => None,
    };
    parsed.map(Some).ok_or_else(|| format!("BURNIN_FAULT is invalid: {text:?}"))
}
