//! `burnin export` and `verify`: a closed run as one signed file, and its offline check.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use bundle::{BundleError, BundleKey, InvalidBundle, PublicKey};
use model::RunId;

use crate::{
    commands::{note, print_plain},
    exit::{CliError, Exit},
    local::DataFolder,
    output::{self, replaceable},
};

/// Exports a run as one signed file.
pub async fn export(
    data: DataFolder,
    run: &RunId,
    key: &Path,
    save: Option<PathBuf>,
) -> Result<Exit, CliError> {
    let named = |why: &dyn std::fmt::Display| CliError::usage(format!("--key {}: {why}", key.display()));
    let (pem, mode) = read_key(key).map_err(|error| named(&error))?;
    if mode & 0o077 != 0 {
        let path = key.display();
        note(format_args!(
            "warning: --key {path}: other users can read it (mode {mode:03o}); `chmod 600 {path}`"
        ));
    }
    let key = BundleKey::read(&pem).map_err(|why| named(&why))?;
    let report = data.run_report(run, None).await?;
    let handover = handover_of(&data, run).await?;
    let save = save.unwrap_or_else(|| PathBuf::from(format!("{run}.burnin.tar")));
    replaceable(&save)?;
    let documents = bundle::Documents { report: report::html(&report.input()), handover };
    let contents =
        bundle::write(&data.store, run, documents, &key, &save).await.map_err(|error| match error {
            BundleError::NoRun(_) | BundleError::Open(_) => CliError::usage(error),
            BundleError::Artifact { .. } => CliError::new(error.to_string(), Exit::Fail),
            error => CliError::infrastructure(error),
        })?;
    print_plain(&format!(
        "{}: {}, signed with {}\n",
        save.display(),
        report::count(contents.files.len() as u64, "file"),
        contents.key
    ));
    Ok(Exit::Pass)
}

/// Prints the hand-over document of a run.
pub async fn handover(data: DataFolder, run: &RunId) -> Result<Exit, CliError> {
    let document = handover_of(&data, run).await?;
    let nothing = || {
        CliError::usage(format!(
            "{run} has no benchmark and no checks, so it has no hand-over document; `burnin show {run}` prints its report"
        ))
    };
    print_plain(&document.ok_or_else(nothing)?);
    Ok(Exit::Pass)
}

async fn handover_of(data: &DataFolder, run: &RunId) -> Result<Option<String>, CliError> {
    let (_, state) = data.state(run).await?;
    let mut reports = Vec::new();
    for check in state.summarized_checks() {
        reports.push(data.run_report(run, Some(check)).await?);
    }
    let inputs: Vec<_> = reports.iter().map(|report| report.input()).collect();
    Ok((!inputs.is_empty()).then(|| report::handover(&inputs)))
}

/// Reads a key file and its permissions. A key has less than 1 KiB: the maximum stops an endless read from a device or
/// a wrong file.
fn read_key(path: &Path) -> io::Result<(String, u32)> {
    const MAX_BYTES: u64 = 16 << 10;
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut pem = String::new();
    fs::File::open(path)?.take(MAX_BYTES).read_to_string(&mut pem)?;
    Ok((pem, found.permissions().mode() & 0o777))
}

pub fn verify(path: &Path, key: Option<&Path>) -> Result<Exit, CliError> {
    let named =
        |path: &Path, why: &dyn std::fmt::Display| CliError::usage(format!("{}: {why}", path.display()));
    let trusted = match key {
        Some(key) => {
            let (pem, _) = read_key(key).map_err(|error| named(key, &error))?;
            Some(PublicKey::read(&pem).map_err(|why| named(key, &why))?)
        }
        None => None,
    };
    // Opening a pipe would block.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(named(path, &"not a regular file"));
    }
    let file = fs::File::open(path).map_err(|error| named(path, &error))?;
    match bundle::verify(std::io::BufReader::new(file), trusted.as_ref()) {
        Ok(checked) => {
            let contents = &checked.contents;
            let verdict = contents.verdict.map_or_else(|| "none".to_owned(), |verdict| verdict.to_string());
            let vouched = if checked.trusted {
                "the trusted key".to_owned()
            } else {
                format!("{}; name a trusted key with --key: any key can sign", contents.key)
            };
            print_plain(&format!(
                "{} is valid\n  run         {} ({}), requested at {}\n  conclusion  {}, verdict {verdict}\n  contents    {}, {}\n  version     burnin {}\n  signer      {vouched}\n",
                path.display(),
                contents.run,
                contents.workflow,
                output::display_time(contents.requested_at),
                contents.conclusion,
                report::count(contents.records, "record"),
                report::count(contents.files.len() as u64, "file"),
                contents.version,
            ));
            Ok(Exit::Pass)
        }
        Err(error @ InvalidBundle::NoBundle(_)) => Err(named(path, &error)),
        Err(error) => Err(CliError::new(format!("{} is invalid: {error}", path.display()), Exit::Fail)),
    }
}
