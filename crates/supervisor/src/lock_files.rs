//! Files created once and atomically, and locks of running processes.

use std::{
    fs::{self, File, TryLockError},
    io::{self, ErrorKind, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Maximum attempts to lock, and the pause between them. A check of a lock holds it briefly, so an attempt may fail.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Creates a file with this content unless it exists. Returns whether it was created.
pub fn create(path: &Path, content: &[u8]) -> io::Result<bool> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let draft =
        folder.join(format!(".draft-{}-{}", std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed)));
    let mut file = File::create(&draft)?;
    let linked = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| {
        match fs::hard_link(&draft, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    });
    fs::remove_file(&draft)?;
    linked
}

/// Creates a JSON file unless it exists. Returns whether it was created.
pub fn create_json(path: &Path, value: &impl Serialize) -> io::Result<bool> {
    create(path, &serde_json::to_vec_pretty(value)?)
}

/// Reads a JSON file; `None` if absent.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks a file until the returned file is closed; `None` if another process holds the lock.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether another process holds the lock.
pub fn is_locked(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        // The lock is shared, so that several processes can check it concurrently; an owner that locks the file
        // meanwhile retries.
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        },
    }
}

/// Sorted names of a folder's entries, without drafts, whose names begin with a dot; empty if the folder is absent.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok().filter(|name| !name.starts_with('.')));
    }
    names.sort();
    Ok(names)
}
