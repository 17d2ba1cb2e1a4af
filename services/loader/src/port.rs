//! What the loader needs of the outside world.

use crate::rows::Row;

/// Why rows were not loaded.
#[derive(Debug)]
pub enum WarehouseError {
    /// It may work later.
    Unavailable(String),
    /// The warehouse will never take these rows.
    Refused(String),
}

/// Somewhere measurements are kept.
#[async_trait::async_trait]
pub trait Warehouse: Send + Sync + 'static {
    /// Loads rows under an id, all or none, once: loading under the same id again changes nothing and says how many rows
    /// the first load brought.
    ///
    /// # Errors
    /// When the rows were not loaded, or it is not known whether they were: load again.
    async fn load(&self, load: &str, rows: &[Row]) -> Result<u64, WarehouseError>;

    /// Rows of a run.
    ///
    /// # Errors
    /// When the warehouse does not answer.
    async fn rows(&self, run: &str) -> Result<Vec<Row>, WarehouseError>;

    /// Where a person looks.
    fn table(&self) -> String;
}
