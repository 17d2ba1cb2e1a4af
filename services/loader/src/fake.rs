//! A warehouse in memory.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use warehouse::{Load, MeasurementRow, VerdictRow};

use crate::port::{LoadTarget, WarehouseError};

/// Loads by id.
#[derive(Default)]
pub struct FakeWarehouse {
    loads: Mutex<BTreeMap<String, Load>>,
}

impl FakeWarehouse {
    fn every<T>(&self, of: impl Fn(&Load) -> Vec<T>) -> Vec<T> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner).values().flat_map(of).collect()
    }
}

#[async_trait::async_trait]
impl LoadTarget for FakeWarehouse {
    async fn load(&self, id: &str, load: &Load) -> Result<u64, WarehouseError> {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(loads.entry(id.to_owned()).or_insert_with(|| load.clone()).rows.len() as u64)
    }

    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, WarehouseError> {
        Ok(self.every(|load| load.rows.iter().filter(|row| *row.run == *run).cloned().collect()))
    }

    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, WarehouseError> {
        Ok(self.every(|load| load.verdicts.iter().filter(|row| *row.run == *run).cloned().collect()))
    }

    fn table(&self) -> String {
        "memory".to_owned()
    }
}
