//! A warehouse in memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::{
    port::{Warehouse, WarehouseError},
    rows::Row,
};

/// Loads by id.
#[derive(Default)]
pub struct FakeWarehouse {
    loads: Mutex<BTreeMap<String, Vec<Row>>>,
}

#[async_trait::async_trait]
impl Warehouse for FakeWarehouse {
    async fn load(&self, load: &str, rows: &[Row]) -> Result<u64, WarehouseError> {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(loads.entry(load.to_owned()).or_insert_with(|| rows.to_vec()).len() as u64)
    }

    async fn rows(&self, run: &str) -> Result<Vec<Row>, WarehouseError> {
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(loads.values().flatten().filter(|row| row.run == run).cloned().collect())
    }

    fn table(&self) -> String {
        "memory".to_owned()
    }
}
