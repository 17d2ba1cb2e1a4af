//! What the loader needs of the outside world.

use warehouse::{Error, Load, Row, VerdictRow};

/// Why rows were not loaded.
#[derive(Debug)]
pub enum WarehouseError {
    /// It may work later.
    Unavailable(String),
    /// The warehouse will never take these rows.
    Refused(String),
}

impl From<Error> for WarehouseError {
    fn from(error: Error) -> Self {
        match error {
            Error::Unavailable(why) => Self::Unavailable(why),
            Error::Refused(why) => Self::Refused(why),
        }
    }
}

/// Somewhere measurements are kept.
#[async_trait::async_trait]
pub trait Warehouse: Send + Sync + 'static {
    /// Loads what a run brings under an id, all or none, once: loading under the same id again changes nothing and says
    /// how many measurements the first load brought.
    ///
    /// # Errors
    /// When nothing was loaded, or it is not known whether it was: load again.
    async fn load(&self, id: &str, load: &Load) -> Result<u64, WarehouseError>;

    /// Measurements of a run.
    ///
    /// # Errors
    /// When the warehouse does not answer.
    async fn rows(&self, run: &str) -> Result<Vec<Row>, WarehouseError>;

    /// What was said of a run.
    ///
    /// # Errors
    /// When the warehouse does not answer.
    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, WarehouseError>;

    /// Where a person looks.
    fn table(&self) -> String;
}
