//! Reads output files of a job as untrusted input.
//!
//! Names may contain any bytes, links may point anywhere, and opening a pipe may block. Therefore links are
//! not followed, only regular files are opened, and the traversal is limited.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, ErrorKind},
    os::{
        fd::AsFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::MetadataExt,
        },
    },
    path::Path,
};

use rustix::fs::{Mode, OFlags, open, openat};

/// Maximum folder depth.
const DEPTH: usize = 16;
/// Maximum number of entries.
const ENTRIES: usize = 50_000;

/// Content of a folder and its subfolders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileListing {
    /// Regular files, sorted by name.
    pub files: Vec<FileEntry>,
    /// Entries that are not regular files or were skipped, by name, with the reason.
    pub others: Vec<(String, &'static str)>,
}

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Path below the folder, encoded by [`shown`].
    pub name: String,
    /// Size at the time of listing, bytes.
    pub size_bytes: u64,
    /// Device and inode number, which differ if the file was replaced.
    pub identity: (u64, u64),
}

/// Lists a folder. An absent folder is empty.
///
/// # Errors
/// Returns an error if the folder itself cannot be read.
pub fn list(root: &Path) -> io::Result<FileListing> {
    let mut listing = FileListing::default();
    let mut left = ENTRIES;
    let mut open = vec![(root.to_path_buf(), Vec::new(), 0)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if depth == 0 && error.kind() == ErrorKind::NotFound => return Ok(listing),
            Err(error) if depth == 0 => return Err(error),
            Err(_) => {
                listing.others.push((shown(&prefix), "a folder that cannot be read"));
                continue;
            }
            Ok(entries) => entries,
        };
        for entry in entries {
            let entry = entry?;
            let mut name = prefix.clone();
            name.extend_from_slice(entry.file_name().as_bytes());
            if left == 0 {
                listing
                    .others
                    .push((shown(&name), "exceeds the maximum of 50,000 entries; the rest was skipped"));
                open.clear();
                break;
            }
            left -= 1;
            // Read the metadata of the entry itself, not of a link's target.
            let Ok(found) = entry.metadata() else { continue };
            if found.is_file() {
                let identity = (found.dev(), found.ino());
                listing.files.push(FileEntry { name: shown(&name), size_bytes: found.len(), identity });
            } else if found.is_dir() && depth < DEPTH {
                name.push(b'/');
                open.push((entry.path(), name, depth + 1));
            } else {
                listing.others.push((shown(&name), kind(&found)));
            }
        }
    }
    listing.files.sort_by(|a, b| a.name.cmp(&b.name));
    listing.others.sort();
    Ok(listing)
}

fn kind(found: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a folder deeper than the maximum of 16 levels"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Opens a listed file for reading. No part of its path may have become a link.
///
/// # Errors
/// Returns an error if the file is absent, unreadable or not a regular file: `NotFound`, `PermissionDenied` or
/// `InvalidInput`. Other errors may be transient.
pub fn open_file(root: &Path, name: &str) -> io::Result<File> {
    let path = bytes(name);
    let parts: Vec<_> = path.split(|byte| *byte == b'/').map(OsStr::from_bytes).collect();
    let refused = |why: &'static str| io::Error::new(ErrorKind::InvalidInput, why);
    if parts.iter().any(|part| matches!(part.as_bytes(), b"" | b"." | b"..")) {
        return Err(refused("is outside the folder"));
    }
    let folder = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut at = open(root, folder, Mode::empty())?;
    let (file, folders) = parts.split_last().ok_or_else(|| refused("has no name"))?;
    let link = |error: rustix::io::Errno| match error {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => refused("has become a link"),
        error => error.into(),
    };
    for part in folders {
        at = openat(at.as_fd(), *part, folder | OFlags::NOFOLLOW, Mode::empty()).map_err(link)?;
    }
    // Without `NONBLOCK`, opening a pipe would block.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(at.as_fd(), *file, flags, Mode::empty()).map_err(link)?);
    if !file.metadata()?.is_file() {
        return Err(refused("is not a regular file"));
    }
    Ok(file)
}

/// A name as text: invalid UTF-8 as `\xff`, a backslash as two. The encoding is unique.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// Decodes a name from [`shown`].
fn bytes(shown: &str) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = shown;
    while let Some((plain, escape)) = rest.split_once('\\') {
        name.extend_from_slice(plain.as_bytes());
        let byte = escape.strip_prefix('x').and_then(|digits| digits.get(..2));
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                name.push(byte);
                rest = &escape[3..];
            }
            None => {
                name.push(b'\\');
                rest = escape.strip_prefix('\\').unwrap_or(escape);
            }
        }
    }
    name.extend_from_slice(rest.as_bytes());
    OsString::from_vec(name).into_vec()
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_shown_name_is_decoded_to_the_same_bytes() {
        for name in
            [&b"plain.log"[..], b"a\\xff", b"a\xffb", b"\\", b"\\\\x00", b"new\nline", "é/ü".as_bytes()]
        {
            assert_eq!(bytes(&shown(name)), name, "{}", shown(name));
        }
    }

    #[test]
    fn only_regular_files_within_the_folder_are_listed_and_opened() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let at = |name: &[u8]| root.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(at(b"deep/er")).unwrap();
        for name in [&b"a.log"[..], b"bad\xff\n.log", b"deep/er/b.log", b".hidden"] {
            fs::write(at(name), name).unwrap();
        }
        symlink(outside.path().join("secret"), at(b"link")).unwrap();
        symlink(outside.path(), at(b"folder")).unwrap();
        let pipe = at(b"pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at(b"socket")).unwrap();
        let listing = list(root.path()).unwrap();
        let files: Vec<_> = listing.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(files, [".hidden", "a.log", "bad\\xff\n.log", "deep/er/b.log"]);
        let others: Vec<_> = listing.others.iter().map(|(name, why)| (name.as_str(), *why)).collect();
        assert_eq!(
            others,
            [
                ("folder", "a symbolic link"),
                ("link", "a symbolic link"),
                ("pipe", "a pipe"),
                ("socket", "a socket")
            ]
        );
        for file in &listing.files {
            let mut content = Vec::new();
            open_file(root.path(), &file.name).unwrap().read_to_end(&mut content).unwrap();
            assert_eq!(content, bytes(&file.name));
        }
        for name in ["link", "folder/secret", "pipe", "../x", "/etc/passwd", "a.log/x", ""] {
            let refused = open_file(root.path(), name).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name}: {refused}");
        }
        assert_eq!(open_file(root.path(), "gone").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
