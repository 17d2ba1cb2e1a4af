//! Process groups: known by their leader and the moment it began, so that a number used again is not mistaken for it.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};

use crate::spool;

/// A process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its id, which is its leader's process id.
    id: i32,
    /// When its leader began, in clock ticks since boot.
    leader_began: u64,
}

impl Group {
    /// The group led by a process that was just started.
    pub fn led_by(leader: i32) -> Self {
        Self { id: leader, leader_began: began(leader).unwrap_or(0) }
    }

    /// Something of the group is running. Once the leader's number belongs to another process, the group is gone: the
    /// kernel does not give a number away while a group still bears it.
    fn is_alive(self) -> bool {
        let ours = match began(self.id) {
            Some(began) => began == self.leader_began || self.leader_began == 0,
            None => true, // the leader has ended; others may not have
        };
        ours && Pid::from_raw(self.id).is_some_and(|id| test_kill_process_group(id).is_ok())
            && has_members(self.id)
    }

    fn signal(self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.id).filter(|_| self.is_alive()) {
            // It may have ended since: that is what is wanted.
            kill_process_group(id, signal).ok();
        }
    }

    /// Ends the group: asks first, then makes it. True once nothing of it runs.
    pub fn end(self, grace: Duration) -> bool {
        self.signal(Signal::TERM);
        if self.wait(grace) {
            return true;
        }
        self.signal(Signal::KILL);
        self.wait(Duration::from_secs(5))
    }

    /// Ends the group at once.
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

/// Ends every group noted in a folder, and says how many would not end.
pub fn end_noted(folder: &Path, grace: Duration) -> io::Result<usize> {
    let mut left = 0;
    for name in spool::names(folder)? {
        if let Some(group) = spool::read_json::<Group>(&folder.join(name))? {
            left += usize::from(!group.end(grace));
        }
    }
    Ok(left)
}

/// The variable that everything started for a cluster carries in its environment, whatever group it moved to.
pub const MARK: &str = "BURNIN_CLUSTER";

/// The variable that everything a node starts carries in its environment.
pub const NODE_MARK: &str = "BURNIN_NODE";

/// The variable that every step of a build carries in its environment.
pub const BUILD_MARK: &str = "BURNIN_BUILD";

/// Kills every process that carries this mark, and says how many are left.
pub fn end_marked(variable: &str, mark: &Path) -> usize {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let left = marked(variable, mark);
        if left.is_empty() || Instant::now() >= until {
            return left.len();
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            // It may have ended since: that is what is wanted.
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

/// The fields of /proc/{pid}/stat after the command's name, which may itself hold blanks and brackets.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn began(pid: i32) -> Option<u64> {
    stat(pid)?.get(19)?.parse().ok()
}

/// A group of zombies answers signals but runs nothing.
fn has_members(group: i32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).any(|pid: i32| {
        stat(pid).is_some_and(|stat| {
            let state = stat.first().map(String::as_str);
            stat.get(2).and_then(|id| id.parse().ok()) == Some(group) && !matches!(state, Some("Z" | "X"))
        })
    })
}
