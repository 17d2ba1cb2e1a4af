//! Reads the output folder of a job.

use std::{io, path::PathBuf};

use ledger::ObjectReader;
use model::{Class, Failure};
use service::PortError;
use supervisor::files;

use crate::scheduler::{FileTail, Outputs, WrittenFile};

/// Lists the files of a job below its output folder, and the entries that cannot be collected.
pub async fn outputs(folder: PathBuf) -> Result<Outputs, PortError> {
    let listing = blocking(move || files::list(&folder)).await.map_err(PortError::transient)?;
    let written = |file: files::FileEntry| WrittenFile {
        name: file.name,
        size_bytes: Some(file.size_bytes),
        identity: Some(file.identity),
    };
    Ok(Outputs {
        files: listing.files.into_iter().map(written).collect(),
        others: listing.others.into_iter().map(|(name, why)| (name, why.to_owned())).collect(),
    })
}

/// Opens one file.
pub async fn output(folder: PathBuf, file: &str) -> Result<ObjectReader, PortError> {
    let file = file.to_owned();
    let opened = blocking(move || files::open_file(&folder, &file)).await.map_err(unreadable)?;
    Ok(Box::new(tokio::fs::File::from_std(opened)))
}

/// Opens the last bytes of one file.
pub async fn read_tail(folder: PathBuf, file: &str, bytes: u64) -> Result<FileTail, PortError> {
    let file = file.to_owned();
    let opened = blocking(move || {
        let mut opened = files::open_file(&folder, &file)?;
        let from = opened.metadata()?.len().saturating_sub(bytes);
        io::Seek::seek(&mut opened, io::SeekFrom::Start(from))?;
        Ok((from, opened))
    });
    let (from, opened) = opened.await.map_err(unreadable)?;
    Ok(FileTail { from, body: Box::new(tokio::fs::File::from_std(opened)) })
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
}

/// A permanent error concerns only this file; the rest of the job's output is still collected.
fn unreadable(error: io::Error) -> PortError {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
    match error.kind() {
        InvalidInput | NotFound | PermissionDenied => {
            PortError::Permanent(Failure::new(Class::Workload, "UNREADABLE", error.to_string()))
        }
        _ => PortError::transient(error),
    }
}
