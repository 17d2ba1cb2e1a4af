//! The loader's port to the warehouse.

use warehouse::{Error, Load, MeasurementRow, VerdictRow};

/// Why rows were not loaded.
#[derive(Debug)]
pub enum WarehouseError {
    /// Transient: retry later.
    Unavailable(String),
    /// Permanent: the warehouse refuses these rows.
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

/// Stores measurements.
#[async_trait::async_trait]
pub trait LoadTarget: Send + Sync + 'static {
    /// Loads all rows of a run or none. A repeated load id changes nothing and returns the number of measurements of the first
    /// load.
    ///
    /// # Errors
    /// Returns an error if nothing was loaded or the outcome is unknown: load again under the same id.
    async fn load(&self, id: &str, load: &Load) -> Result<u64, WarehouseError>;

    /// Measurements of a run.
    ///
    /// # Errors
    /// Returns an error if the warehouse request fails.
    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, WarehouseError>;

    /// Verdict rows of a run.
    ///
    /// # Errors
    /// Returns an error if the warehouse request fails.
    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, WarehouseError>;

    /// Name of the table, shown to users.
    fn table(&self) -> String;
}
