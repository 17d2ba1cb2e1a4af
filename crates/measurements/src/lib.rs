//! The parsed logs of a judged run: `measurements.json`, in the folder of `verdict.json`; `measurements.json.gz` for large clusters.
//!
//! The judge parses the logs once and [`write()`]s them; the loader, the reports and the dashboard [`read`] them. The fact
//! `verdict.reached` names the object and its digest, so its content is verified like that of the logs. Verdicts of older versions do not
//! name the object: the logs of their runs are parsed.

use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use ledger::{ArtefactError, Artefacts};
use measure::evidence::EvidenceFilter;
use model::{
    Attempt, CommandId, Logs, MeasurementsFile, RunId, VerdictReached,
    measurement::{NodesOfHosts, Reading},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the object in the folder of the verdict.
pub const OBJECT: &str = "measurements.json";
/// Value of the field `schema` in measurements.json.
pub const SCHEMA: &str = "burnin/measurements/v1";
/// Name of the object if its JSON exceeds 16 MiB.
pub const COMPRESSED: &str = "measurements.json.gz";
/// Maximum size of uncompressed JSON, bytes. A fleet of 2,048 nodes with 24 metrics of each GPU has about 100 MB.
const PLAIN: u64 = 16 << 20;
/// Maximum size of JSON before compression, bytes. Larger measurements are not stored, and their logs are parsed.
const MAX_BYTES: u64 = 512 << 20;

/// The parsed logs of a job attempt, and their source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurements {
    /// `burnin/measurements/v1`.
    pub schema: String,
    /// Run that was judged.
    pub run: RunId,
    /// Attempt of the job that wrote the logs.
    pub job_attempt: Attempt,
    /// Object name of the logs' manifest.
    pub manifest: String,
    /// SHA-256 of the logs' manifest, hex.
    pub manifest_sha256: String,
    /// The logs, in the order of the manifest.
    pub logs: Vec<ParsedLog>,
}

/// The content of one log, with its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParsedLog {
    /// Object name in the folder of the manifest.
    pub log: String,
    /// SHA-256 of the log, hex.
    pub sha256: String,
    /// Parsed content.
    pub reading: Reading,
}

impl Measurements {
    #[must_use]
    pub fn of(run: &RunId, logs: &Logs, job_attempt: Attempt, parsed: Vec<ParsedLog>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            run: run.clone(),
            job_attempt,
            manifest: logs.manifest.clone(),
            manifest_sha256: logs.sha256.clone(),
            logs: parsed,
        }
    }

    /// Checks that these are the parsed `logs` of that job attempt; otherwise returns the field and its value.
    fn check(&self, run: &RunId, logs: &Logs, job_attempt: Attempt) -> Result<(), String> {
        let fields = [
            ("schema", &self.schema, SCHEMA),
            ("run", &self.run.to_string(), run.as_str()),
            ("job_attempt", &self.job_attempt.to_string(), &job_attempt.to_string()),
            ("manifest", &self.manifest, &logs.manifest),
            ("manifest_sha256", &self.manifest_sha256, &logs.sha256),
        ];
        match fields.into_iter().find(|(_, found, wanted)| found != wanted) {
            Some((field, found, wanted)) => Err(format!("{field} is `{found}`, expected `{wanted}`")),
            None => Ok(()),
        }
    }
}

/// Stores the measurements in the folder of the judging command, compressed by gzip if they are larger than 16 MiB. Returns `None` if the
/// measurements are larger than 512 MiB, or if another version of the program has already stored different content; the logs then remain
/// the only source.
///
/// # Errors
/// Returns an error if the store request fails.
pub async fn write(
    artefacts: &Artefacts,
    judging: &CommandId,
    measurements: &Measurements,
) -> Result<Option<MeasurementsFile>, ArtefactError> {
    let Some((name, body)) = encoded(measurements).map_err(|error| {
        let name = Artefacts::folder(judging) + OBJECT;
        ArtefactError::Damaged { name, why: error.to_string() }
    })?
    else {
        return Ok(None);
    };
    let stored = artefacts.try_put(judging, name, Box::new(Cursor::new(body))).await?;
    let object = Artefacts::folder(judging) + name;
    Ok(stored.map(|stored| MeasurementsFile { object, sha256: stored.sha256 }))
}

/// Name and content of the object; `None` if it is too large.
fn encoded(measurements: &Measurements) -> serde_json::Result<Option<(&'static str, Vec<u8>)>> {
    let mut plain = Limited { to: Vec::new(), left: PLAIN };
    match serde_json::to_writer(&mut plain, measurements) {
        Ok(()) => return Ok(Some((OBJECT, plain.to))),
        Err(error) if error.is_io() => drop(plain),
        Err(error) => return Err(error),
    }
    let compressed = GzEncoder::new(Vec::new(), Compression::fast());
    let mut limited = Limited { to: BufWriter::new(compressed), left: MAX_BYTES };
    match serde_json::to_writer(&mut limited, measurements) {
        Ok(()) => {}
        Err(error) if error.is_io() => return Ok(None),
        Err(error) => return Err(error),
    }
    let body = limited.to.into_inner().map_err(io::IntoInnerError::into_error).and_then(GzEncoder::finish);
    Ok(Some((COMPRESSED, body.map_err(serde_json::Error::io)?)))
}

/// A writer that fails after a maximum number of bytes.
struct Limited<W> {
    to: W,
    left: u64,
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.to.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The parsed logs of a run: the stored ones if the verdict names them, otherwise the logs are parsed.
///
/// # Errors
/// Returns an error if the store request fails, or the logs or the stored measurements are missing, changed or
/// those of another run.
pub async fn read(
    artefacts: &Artefacts,
    run: &RunId,
    (logs, job_attempt): (&Logs, Attempt),
    verdict: Option<&VerdictReached>,
) -> Result<Vec<ParsedLog>, ArtefactError> {
    let Some(file) = verdict.and_then(|reached| reached.measurements.as_ref()) else {
        let parse = |body: &mut dyn Read| {
            let mut log = EvidenceFilter::unpacked(body);
            let mut reading = measure::read(&mut log)?;
            let hosts = log.take_hosts();
            reading.evidence = log.finish();
            Ok((reading, hosts))
        };
        let parsed = artefacts.logs(logs, job_attempt, parse).await?;
        let nodes = NodesOfHosts::of_logs(parsed.iter().map(|(_, (_, hosts))| hosts));
        let log = |(object, (mut reading, _)): (model::ManifestObject, (Reading, _))| {
            let (log, sha256) = (object.name, object.sha256);
            reading.name_nodes(&nodes);
            ParsedLog { log, sha256, reading }
        };
        return Ok(parsed.into_iter().map(log).collect());
    };
    let stored = read_stored(artefacts, file).await?;
    let damaged = |why| ArtefactError::Damaged { name: file.object.clone(), why };
    stored.check(run, logs, job_attempt).map_err(damaged)?;
    Ok(stored.logs)
}

/// The stored measurements that a verdict names.
///
/// # Errors
/// Returns an error if the object cannot be read, has another digest, or is invalid.
pub async fn read_stored(
    artefacts: &Artefacts,
    file: &MeasurementsFile,
) -> Result<Measurements, ArtefactError> {
    let body = artefacts.read_verified(&file.object, &file.sha256, MAX_BYTES).await?;
    let stored: serde_json::Result<Measurements> = if file.object.ends_with(COMPRESSED) {
        serde_json::from_reader(BufReader::new(GzDecoder::new(&body[..]).take(MAX_BYTES)))
    } else {
        serde_json::from_slice(&body)
    };
    stored.map_err(|error| ArtefactError::Damaged { name: file.object.clone(), why: error.to_string() })
}
