use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Maximum wait for killed processes: the kernel may delay the end of a process, for example in a network filesystem.
const KILLED: Duration = Duration::from_secs(5);

/// A process that leads its own group.
///
/// The leader is reaped only after the group has been killed: until then its id cannot be reused, so no
/// signal can reach an unrelated process.
pub(super) struct ProcessGroup {
    child: Child,
    leader: Pid,
    reaped: bool,
}

pub(super) struct StartedProcess {
    pub(super) group: ProcessGroup,
    /// Both output streams, in the order of writing.
    pub(super) output: Receiver,
    /// Completes when the leader has ended.
    pub(super) exit: JoinHandle<()>,
}

pub(super) fn start(
    program: &Path,
    args: &[OsString],
    environment: &[(OsString, OsString)],
    dir: &Path,
) -> io::Result<StartedProcess> {
    let (reader, writer) = io::pipe()?;
    let output = Receiver::from_owned_fd(reader.into())?;
    // The command holds the write ends of the pipe, so the pipe ends only after the command is dropped.
    let child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(environment.iter().map(|(key, value)| (key, value)))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .spawn()?;
    let leader = Pid::from_child(&child);
    let group = ProcessGroup { child, leader, reaped: false };
    let exit = tokio::task::spawn_blocking(move || wait_without_reaping(leader));
    Ok(StartedProcess { group, output, exit })
}

impl ProcessGroup {
    pub(super) fn id(&self) -> i32 {
        self.leader.as_raw_nonzero().get()
    }

    /// Sends `SIGTERM` to the whole group.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills the whole group, waits until its processes have ended, and returns the exit status of its leader.
    pub(super) async fn kill(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let ended = async {
            while has_running_process(self.id()) {
                sleep(Duration::from_millis(2)).await;
            }
        };
        // Do not wait longer than `KILLED`: the kernel ends the remaining processes later.
        let _ = timeout(KILLED, ended).await;
        self.reap()
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.reaped = true;
        self.child.wait()
    }

    fn signal(&self, signal: Signal) {
        // An error means that the group has ended already.
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
            let _ = self.reap();
        }
    }
}

/// Whether a process group has a process that is not a zombie. Zombies still accept signals, and remain if the init process does not reap
/// them.
pub fn has_running_process(group: i32) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    ids.filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())).any(|id| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
        // The command name may contain blanks and brackets; state, parent and group follow it.
        let Some((_, fields)) = stat.rsplit_once(')') else { return false };
        let mut fields = fields.split_whitespace();
        let state = fields.next();
        fields.nth(1).and_then(|id| id.parse().ok()) == Some(group) && !matches!(state, Some("Z" | "X"))
    })
}

/// The exit code as reported by a container.
pub(super) fn exit_code(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

fn wait_without_reaping(leader: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(leader), options), Err(Errno::INTR)) {}
}
