//! The folder of a job on the agent's machine.
//!
//! ```text
//! {work_folder}/ssh/{digest}          ssh_config of a list of hosts
//! {work_folder}/images/{digest}/      {work_folder}/jobs/{job}/
//!   job.sh, rank.sh, bin/ssh, hostfile    written before the start       cancel   the job was cancelled
//!   claim      link `PID.START` to the launcher's process             end      the result, written last
//!   output/    collected output
//! ```

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use cluster_api::JobStatus;
use ledger::Digest;
use model::{Class, Failure, JobEnd, Timestamp};
use service::PortError;
use supervisor::lock_files;

use crate::{settings::Hosts, ssh};

/// Target of the claim link of a job that was cancelled before its start: the existing link prevents a later claim by
/// a launcher.
const NEVER: &str = "never";

#[derive(Clone, Debug)]
pub struct HostsFolder(PathBuf);

/// State of the launcher, the script that owns the claim of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// No launcher has claimed the job.
    None,
    /// The launcher is running.
    Running,
    /// The launcher has ended, or its process never existed.
    Gone,
}

/// Creates the work folder on this machine. The scripts and the ssh_config in this folder are executed, so a folder to which
/// another user may write is refused.
///
/// # Errors
/// Returns a permanent error if the folder cannot be used.
pub fn ensure_owned(hosts: &Hosts) -> Result<(), PortError> {
    let path = Path::new(&hosts.work_folder);
    let checked = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    let checked = checked.and_then(|()| fs::symlink_metadata(path)).map(|found| {
        let ours = found.uid() == rustix::process::geteuid().as_raw();
        found.is_dir() && ours && found.mode() & 0o022 == 0
    });
    let why = match checked {
        Ok(true) => return Ok(()),
        Ok(false) => "must be a folder that only this user can write to".to_owned(),
        Err(error) => error.to_string(),
    };
    let message = format!("{} on this machine {why}; correct work_folder", path.display());
    Err(PortError::Permanent(Failure::new(Class::Input, "SETTINGS", message)))
}

/// The ssh_config for these hosts; written once.
pub fn ssh_config(hosts: &Hosts) -> io::Result<PathBuf> {
    let (path, text) = rendered_ssh_config(hosts);
    lock_files::create(&path, text.as_bytes())?;
    Ok(path)
}

/// Path and content of the ssh_config of these hosts.
pub fn rendered_ssh_config(hosts: &Hosts) -> (PathBuf, String) {
    let text = ssh::config(hosts);
    let path = Path::new(&hosts.work_folder).join("ssh").join(&Digest::of(text.as_bytes()).sha256[..32]);
    (path, text)
}

impl HostsFolder {
    pub fn of(hosts: &Hosts, job: &str) -> Self {
        Self(Path::new(&hosts.work_folder).join("jobs").join(job))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn output(&self) -> PathBuf {
        self.0.join("output")
    }

    /// Writes the files that the launcher needs. A repeated write produces identical bytes.
    pub fn write(&self, files: &[(&str, String)]) -> io::Result<()> {
        fs::create_dir_all(self.output())?;
        fs::create_dir_all(self.0.join("bin"))?;
        for (name, text) in files {
            let draft = self.0.join(format!("{name}.draft-{}", std::process::id()));
            fs::write(&draft, text)?;
            fs::set_permissions(&draft, fs::Permissions::from_mode(0o755))?;
            fs::rename(draft, self.0.join(name))?;
        }
        Ok(())
    }

    /// State of the launcher that owns the claim. The kernel reuses process ids, so the start time of the process is
    /// compared too.
    pub fn launcher(&self) -> io::Result<Launcher> {
        let claim = match fs::read_link(self.0.join("claim")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Launcher::None),
            claim => claim?.display().to_string(),
        };
        let Some((process, start)) = claim.split_once('.') else { return Ok(Launcher::Gone) };
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Field 22 of proc(5); the second, the program's name, is in parentheses and may contain spaces.
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let alive = fields.get(19) == Some(&start) && fields.first() != Some(&"Z");
        Ok(if alive { Launcher::Running } else { Launcher::Gone })
    }

    /// Marks the job as cancelled. A job without a claim never starts afterwards.
    pub fn cancel(&self) -> io::Result<()> {
        lock_files::create(&self.0.join("cancel"), b"")?;
        match symlink(NEVER, self.0.join("claim")) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    pub fn is_cancelled(&self) -> io::Result<bool> {
        self.0.join("cancel").try_exists()
    }

    /// Whether the job was cancelled before any start claimed it.
    pub fn never_started(&self) -> bool {
        fs::read_link(self.0.join("claim")).is_ok_and(|claim| claim == Path::new(NEVER))
    }

    /// The recorded result; `None` before a result is recorded.
    pub fn end(&self) -> io::Result<Option<JobStatus>> {
        match fs::read_to_string(self.0.join("end")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => parse(&text?).map(Some).ok_or_else(|| {
                io::Error::other(format!(
                    "{}: the result of the job cannot be read",
                    self.0.join("end").display()
                ))
            }),
        }
    }

    /// Records a result unless one exists. Returns the first recorded result, which is final.
    pub fn record(&self, state: &str, why: &str, now: Timestamp) -> io::Result<JobStatus> {
        let line: String = why.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let text = format!("{state}\n\n{now}\n{now}\n{line}\n");
        lock_files::create(&self.0.join("end"), text.as_bytes())?;
        self.end()?.ok_or_else(|| io::Error::other("the result of the job is absent after its creation"))
    }
}

/// Five lines: state, exit code, start, end, reason. A state with a reason means that the infrastructure lost the job.
fn parse(text: &str) -> Option<JobStatus> {
    let lines: Vec<_> = text.lines().collect();
    let [state, exit_code, started_at, ended_at, why] = lines[..] else { return None };
    if !why.is_empty() {
        return Some(JobStatus::Lost { code: state.to_owned(), why: why.to_owned() });
    }
    Some(JobStatus::Ended(JobEnd {
        state: state.to_owned(),
        exit_code: exit_code.parse().ok(),
        signal: None,
        started_at: started_at.parse().ok(),
        ended_at: ended_at.parse().ok(),
        nodes: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, HostsFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = HostsFolder(root.path().join("job"));
        folder.write(&[("job.sh", "true".to_owned())]).unwrap();
        (root, folder)
    }

    #[test]
    fn a_work_folder_that_others_can_write_to_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let work = root.path().join(name);
            let settings = serde_json::json!({"hosts": [{"name": "n1"}], "work_folder": work});
            (work, serde_json::from_value::<Hosts>(settings).unwrap())
        };
        let (work, fresh) = at("new/er");
        ensure_owned(&fresh).unwrap();
        ensure_owned(&fresh).unwrap();
        assert_eq!(fs::metadata(&work).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&work, fs::Permissions::from_mode(0o770)).unwrap();
        let (link, linked) = at("link");
        symlink(root.path(), link).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        for (settings, expected) in
            [(fresh, "only this user"), (linked, "only this user"), (at("file").1, "File exists")]
        {
            let Err(PortError::Permanent(failure)) = ensure_owned(&settings) else { panic!("{settings:?}") };
            assert!(failure.message.contains(expected), "{}", failure.message);
        }
    }

    #[test]
    fn a_launcher_is_reported_as_running_until_its_process_ends() {
        let (_root, folder) = folder();
        assert_eq!(folder.launcher().unwrap(), Launcher::None);
        let mut process = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().to_owned();
        symlink(format!("{}.{start}", process.id()), folder.path().join("claim")).unwrap();
        assert_eq!(folder.launcher().unwrap(), Launcher::Running);
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(folder.launcher().unwrap(), Launcher::Gone);
    }

    #[test]
    fn a_cancelled_job_can_no_longer_be_claimed() {
        let (_root, folder) = folder();
        folder.cancel().unwrap();
        folder.cancel().unwrap();
        assert!(folder.is_cancelled().unwrap() && folder.never_started());
        assert!(symlink("1.1", folder.path().join("claim")).is_err());
    }

    #[test]
    fn the_first_result_is_final() {
        let (_root, folder) = folder();
        assert_eq!(folder.end().unwrap(), None);
        let now = Timestamp::from_millis(1_800_000_000_000);
        let lost = folder.record("NODE_LOST", "n1:\ngone", now).unwrap();
        assert_eq!(lost, JobStatus::Lost { code: "NODE_LOST".into(), why: "n1: gone".into() });
        assert_eq!(folder.record("COMPLETED", "", now).unwrap(), lost);
        let ended = parse("FAILED\n7\n2026-01-01T00:00:00.000Z\n2026-01-01T00:00:01.500Z\n\n").unwrap();
        let JobStatus::Ended(end) = ended else { panic!("{ended:?}") };
        assert_eq!((end.state.as_str(), end.exit_code), ("FAILED", Some(7)));
        assert!(end.started_at < end.ended_at);
        assert_eq!(parse("FAILED\n7\n"), None);
    }
}
