//! The folder of a job on the storage that this machine shares with the nodes.
//!
//! ```text
//! {shared}/images/{digest}/   {shared}/jobs/{job}/
//!   job.sh         what was handed to sbatch          submitted.json   the number it gave
//!   cancel         somebody asked for the end         claim            link: the start that runs the benchmark
//!   refused/       starts that found it claimed       end.json         the job's own word, written last
//!   output/        what is collected                  standing.json    what was told of the end
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use model::JobEnd;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use supervisor::{Jobs, spool};

use super::state::Marks;
use crate::port::Standing;

/// One job's folder. Everything in it is created once and whole.
#[derive(Clone, Debug)]
pub struct Folder {
    shared: PathBuf,
    name: String,
}

/// An end that was told, as it is told ever after.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Ended(JobEnd),
    Lost { code: String, why: String },
}

impl Folder {
    /// The folder of a job under a cluster's shared folder.
    pub fn of(shared: &str, name: &str) -> Self {
        Self { shared: shared.into(), name: name.to_owned() }
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.shared.join("jobs").join(&self.name)
    }

    /// The jobs of the cluster, as their folders are laid out.
    pub fn jobs(&self) -> Jobs {
        Jobs::at(&self.shared)
    }

    /// Everything that the folder tells.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn marks(&self) -> io::Result<Marks> {
        let folder = self.path();
        let claim = match fs::read_link(folder.join("claim")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            link => Some(link?.display().to_string()),
        };
        Ok(Marks {
            cancelled: folder.join("cancel").try_exists()?,
            submitted: spool::read_json(&folder.join("submitted.json"))?,
            claim,
            refused: spool::names(&folder.join("refused"))?,
            end: spool::read_json(&folder.join("end.json"))?,
        })
    }

    /// Writes the script, anew: who submits twice writes the same.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write_script(&self, script: &str) -> io::Result<()> {
        fs::create_dir_all(self.path().join("output"))?;
        let draft = self.path().join(format!("job.sh.draft-{}", std::process::id()));
        fs::write(&draft, script)?;
        fs::rename(draft, self.path().join("job.sh"))
    }

    /// Notes the number that Slurm gave the job. The first note stands, and is returned.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn note_number(&self, number: u64) -> io::Result<u64> {
        self.note("submitted.json", &number)
    }

    /// What was told of its end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn told(&self) -> io::Result<Option<Standing>> {
        let told: Option<Told> = spool::read_json(&self.path().join("standing.json"))?;
        Ok(told.map(Standing::from))
    }

    /// Notes an end that is going to be told. The first one stands, and is returned: Slurm forgets, and its last word
    /// may change while nodes come and go.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn tell(&self, standing: Standing) -> io::Result<Standing> {
        let told = match standing {
            Standing::Ended(end) => Told::Ended(end),
            Standing::Lost { code, why } => Told::Lost { code, why },
            other => return Ok(other),
        };
        self.note("standing.json", &told).map(Standing::from)
    }

    /// Why it waits, for people: one line whenever that changes, collected with its output.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn waits(&self, reason: &str, now: model::Timestamp) -> io::Result<()> {
        let file = self.path().join("output").join("waiting.log");
        let before = fs::read_to_string(&file).unwrap_or_default();
        // Slurm has not thought about it yet.
        if reason == "None" || before.lines().last().is_some_and(|line| line.ends_with(&format!(" {reason}")))
        {
            return Ok(());
        }
        tracing::info!(job = %self.name, %reason, "the job waits");
        append(&file, &format!("{now} {reason}\n"))
    }

    fn note<T: Serialize + DeserializeOwned>(&self, file: &str, value: &T) -> io::Result<T> {
        let path = self.path().join(file);
        spool::create_json(&path, value)?;
        spool::read_json(&path)?.ok_or_else(|| io::Error::other(format!("{} is gone", path.display())))
    }
}

fn append(file: &Path, line: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    io::Write::write_all(&mut fs::File::options().create(true).append(true).open(file)?, line.as_bytes())
}

impl From<Told> for Standing {
    fn from(told: Told) -> Self {
        match told {
            Told::Ended(end) => Self::Ended(end),
            Told::Lost { code, why } => Self::Lost { code, why },
        }
    }
}
