//! Files that are created once and whole, and locks that tell who lives.

use std::{
    fs::{self, File, TryLockError},
    io::{self, ErrorKind, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// How often a lock is tried, and how long to wait between two tries. Whoever looks at a lock has it for a moment.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Creates a file with this content unless it is there. True when it is ours.
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

/// Creates a JSON file unless it is there. True when it is ours.
pub fn create_json(path: &Path, value: &impl Serialize) -> io::Result<bool> {
    create(path, &serde_json::to_vec_pretty(value)?)
}

/// Reads a JSON file; none when it is not there.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes a lock for as long as the file lives; none when somebody else has it.
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

/// Somebody holds the lock.
pub fn is_locked(path: &Path) -> io::Result<bool> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        // Shared, so that any number may look at once; an owner about to take its own tries again.
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        },
    }
}

/// Names of a folder's entries, sorted; none where there is no folder. Drafts do not count.
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
