//! A warehouse.

use kit::PortError;
use loader::{Row, Warehouse, WarehouseError};
use terms::planted;

use super::answered;
use crate::{
    Happening,
    door::{Door, Kind},
    world::Inner,
};

/// The warehouse, as one process sees it.
pub struct SimWarehouse(pub Door);

fn unavailable(error: PortError) -> WarehouseError {
    match error {
        PortError::Passing(why) => WarehouseError::Unavailable(why),
        PortError::Final(failure) => WarehouseError::Refused(failure.message),
    }
}

#[async_trait::async_trait]
impl Warehouse for SimWarehouse {
    async fn load(&self, load: &str, rows: &[Row]) -> Result<u64, WarehouseError> {
        let mut id = load.to_owned();
        if planted("random_in_a_load_id") {
            id = format!("{load}-{}", self.0.world.inner().dice.below(1000));
        }
        let service = self.0.service;
        let effect = |inner: &mut Inner| {
            if !inner.clouds.loads.contains_key(&id) {
                inner.clouds.loads.insert(id.clone(), rows.to_vec());
                inner.note(service, Happening::Loaded { load: id.clone(), rows: rows.len() });
            }
            Ok(inner.clouds.loads[&id].len() as u64)
        };
        let said = answered(self.0.call(Kind::Provider, || format!("load {load}"), effect).await);
        if planted("load_errors_swallowed") && said.is_err() {
            return Ok(rows.len() as u64);
        }
        said.map_err(unavailable)
    }

    async fn rows(&self, run: &str) -> Result<Vec<Row>, WarehouseError> {
        let effect = |inner: &mut Inner| {
            Ok(inner.clouds.loads.values().flatten().filter(|row| row.run == run).cloned().collect())
        };
        let what = || format!("read the rows of {run}");
        answered(self.0.call(Kind::Provider, what, effect).await).map_err(unavailable)
    }

    fn table(&self) -> String {
        "sim".to_owned()
    }
}
