//! Process groups, identified by their leader and its start time, so that a reused id is not mistaken for the
//! group.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};

use crate::lock_files;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisedGroup {
    /// Group id: the leader's process id.
    id: i32,
    /// Start time of the leader, in clock ticks since boot.
    leader_began: u64,
}

impl SupervisedGroup {
    /// The group of a newly started leader.
    pub fn led_by(leader: i32) -> Self {
        Self { id: leader, leader_began: began(leader).unwrap_or(0) }
    }

    /// Whether a process of the group is running. If the leader's id belongs to another process, the group
    /// has ended: the kernel does not reuse an id while a group has it.
    fn is_alive(self) -> bool {
        let ours = match began(self.id) {
            Some(began) => began == self.leader_began || self.leader_began == 0,
            None => true, // the leader has ended; other members may be running
        };
        ours && Pid::from_raw(self.id).is_some_and(|id| test_kill_process_group(id).is_ok())
            && cloudbuild::local::has_running_process(self.id)
    }

    fn signal(self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.id).filter(|_| self.is_alive()) {
            // An error means that the group has already ended.
            kill_process_group(id, signal).ok();
        }
    }

    /// Ends the group: `SIGTERM`, then `SIGKILL` after the grace period. Returns whether all members have ended.
    pub fn end(self, grace: Duration) -> bool {
        self.signal(Signal::TERM);
        if self.wait(grace) {
            return true;
        }
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(5))
    }

    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    fn wait(self, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        while self.is_alive() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

/// Ends all groups recorded in a folder, and returns the number of remaining groups.
pub fn end_noted(folder: &Path, grace: Duration) -> io::Result<usize> {
    let mut left = 0;
    for name in lock_files::names(folder)? {
        if let Some(group) = lock_files::read_json::<SupervisedGroup>(&folder.join(name))? {
            left += usize::from(!group.end(grace));
        }
    }
    Ok(left)
}

/// Environment variable of all processes of a cluster, in any process group.
pub const MARK: &str = "BURNIN_CLUSTER";

/// Environment variable of all processes of a node.
pub const NODE_MARK: &str = "BURNIN_NODE";

/// Environment variable of all steps of a build.
pub const BUILD_MARK: &str = "BURNIN_BUILD";

/// Kills all processes with this mark, and returns the number of remaining processes.
pub fn end_marked(variable: &str, mark: &Path) -> usize {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let left = marked(variable, mark);
        if left.is_empty() || Instant::now() >= until {
            return left.len();
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            // An error means that the process has already ended.
            kill_process(pid, Signal::KILL).ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn marked(variable: &str, mark: &Path) -> Vec<i32> {
    use std::os::unix::ffi::OsStrExt;
    let wanted = [variable.as_bytes(), b"=", mark.as_os_str().as_bytes()].concat();
    let carries = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(carries).collect()
}

/// The fields of /proc/{pid}/stat after the command name, which may contain blanks and brackets.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn began(pid: i32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}
