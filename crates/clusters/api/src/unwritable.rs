//! Errors of writes to a folder that a workflow names.

use std::{io, path::Path};

use model::{Class, Failure};
use service::PortError;

/// The error of a failed write at `path`: permanent (`SETTINGS`) if the folder or the rights to it are wrong, so that the run ends with
/// the reason instead of waiting for its limit.
pub fn unwritable(path: &Path, error: &io::Error) -> PortError {
    use io::ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem};
    let path = path.display();
    match error.kind() {
        PermissionDenied | ReadOnlyFilesystem | NotADirectory => {
            let message = format!(
                "{path} cannot be written: {error}; grant write permission to the user that submits jobs, or set another folder"
            );
            PortError::Permanent(Failure::new(Class::Input, "SETTINGS", message))
        }
        _ => PortError::Transient(format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_rights_are_a_permanent_error_and_a_full_disk_a_transient_one() {
        let refused = |kind| unwritable(Path::new("/shared/jobs"), &io::Error::from(kind));
        let PortError::Permanent(failure) = refused(io::ErrorKind::PermissionDenied) else {
            panic!("transient")
        };
        assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "SETTINGS"));
        assert!(
            failure.message.starts_with("/shared/jobs cannot be written: permission denied; "),
            "{failure:?}"
        );
        assert!(matches!(refused(io::ErrorKind::StorageFull), PortError::Transient(_)));
    }
}
