//! Stages an image's files on a cluster: atomically, once, verified by digest.

use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use ledger::{Digester, Store};
use model::{Class, Failure, Image};
use service::PortError;

use crate::unwritable;

/// Number for unique draft names: a command that is delivered twice may stage an image twice at the same time.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Downloads the image's files from the bucket into `folder`, which contains only this image.
///
/// # Errors
/// Returns an error if the download fails: [`PortError::Permanent`] if a file is missing, its digest differs, or the folder cannot be
/// written.
pub async fn stage(store: &dyn Store, image: &Image, folder: &Path) -> Result<(), PortError> {
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    for file in &image.files {
        let place = folder.join(Path::new(&file.name).file_name().unwrap_or_default());
        if place.exists() {
            continue;
        }
        let object = format!("{}{}", image.reference, file.name);
        let damaged = |why: &str| {
            let message = format!("{object} {why}; rebuild the image");
            PortError::Permanent(Failure::new(Class::Infrastructure, "IMAGE_DAMAGED", message))
        };
        let body = store.open(&object).await.map_err(PortError::transient)?;
        let mut body = Digester::new(body.ok_or_else(|| damaged("is missing"))?);
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = place.with_extension(format!("draft-{}-{number}", std::process::id()));
        let written = async {
            let mut out = tokio::fs::File::create(&draft).await?;
            tokio::io::copy(&mut body, &mut out).await?;
            tokio::io::AsyncWriteExt::flush(&mut out).await?;
            out.set_permissions(std::fs::Permissions::from_mode(0o755)).await
        };
        written.await.map_err(|error| unwritable(&draft, &error))?;
        if body.finish().sha256 != file.sha256 {
            return Err(damaged("does not match its digest"));
        }
        std::fs::rename(&draft, &place).map_err(PortError::transient)?;
    }
    Ok(())
}
