//! A simulated warehouse, written by the loader and read by the judge.

use std::sync::Arc;

use ::warehouse::{
    Error, FindingRow, Load, MeasurementRow, MetricRow, NodeResultRow, PastQuery, PastRun, VerdictRow,
    Warehouse,
};
use model::failpoint_is_active;
use service::PortError;

use super::answer::answered;
use crate::{
    ExternalEvent,
    effect::{EffectKind, Effects},
    world::WorldState,
};

/// Client of the warehouse in one process.
pub struct SimWarehouse(pub Effects);

fn unavailable(error: PortError) -> Error {
    match error {
        PortError::Transient(why) => Error::Transient(why),
        PortError::Permanent(failure) => Error::Permanent(failure.message),
    }
}

#[async_trait::async_trait]
impl Warehouse for SimWarehouse {
    async fn load(&self, load: &str, brought: &Load) -> Result<u64, Error> {
        let mut id = load.to_owned();
        if failpoint_is_active("random_in_a_load_id") {
            id = format!("{load}-{}", self.0.world.inner().random.below(1000));
        }
        let service = self.0.service;
        let effect = |inner: &mut WorldState| {
            if !inner.clouds.loads.contains_key(&id) {
                let brought = Arc::new(brought.clone());
                inner.clouds.history.remember(Arc::clone(&brought));
                inner.note(service, ExternalEvent::Loaded { load: id.clone(), rows: brought.rows.len() });
                inner.clouds.loads.insert(id.clone(), brought);
            }
            Ok(inner.clouds.loads[&id].count())
        };
        let result = answered(self.0.call(EffectKind::Provider, || format!("load {load}"), effect).await);
        if failpoint_is_active("load_errors_swallowed") && result.is_err() {
            return Ok(brought.count());
        }
        result.map_err(unavailable)
    }

    async fn rows(&self, run: &str) -> Result<Vec<MeasurementRow>, Error> {
        let effect = |inner: &mut WorldState| {
            let rows = inner.clouds.loads.values().flat_map(|load| &load.rows);
            Ok(rows.filter(|row| *row.run == *run).cloned().collect())
        };
        let what = || format!("read the rows of {run}");
        answered(self.0.call(EffectKind::Provider, what, effect).await).map_err(unavailable)
    }

    async fn metrics(&self, run: &str) -> Result<Vec<MetricRow>, Error> {
        let effect = |inner: &mut WorldState| {
            let metrics = inner.clouds.loads.values().flat_map(|load| &load.metrics);
            Ok(metrics.filter(|row| *row.run == *run).cloned().collect())
        };
        let what = || format!("read the metrics of {run}");
        answered(self.0.call(EffectKind::Provider, what, effect).await).map_err(unavailable)
    }

    async fn findings(&self, run: &str) -> Result<Vec<FindingRow>, Error> {
        let effect = |inner: &mut WorldState| {
            let findings = inner.clouds.loads.values().flat_map(|load| &load.findings);
            Ok(findings.filter(|row| *row.run == *run).cloned().collect())
        };
        let what = || format!("read the findings of {run}");
        answered(self.0.call(EffectKind::Provider, what, effect).await).map_err(unavailable)
    }

    async fn node_results(&self, run: &str) -> Result<Vec<NodeResultRow>, Error> {
        let effect = |inner: &mut WorldState| {
            let node_results = inner.clouds.loads.values().flat_map(|load| &load.node_results);
            Ok(node_results.filter(|row| *row.run == *run).cloned().collect())
        };
        let what = || format!("read the node_results of {run}");
        answered(self.0.call(EffectKind::Provider, what, effect).await).map_err(unavailable)
    }

    async fn verdicts(&self, run: &str) -> Result<Vec<VerdictRow>, Error> {
        let effect = |inner: &mut WorldState| {
            let verdicts = inner.clouds.loads.values().flat_map(|load| &load.verdicts);
            Ok(verdicts.filter(|verdict| *verdict.run == *run).cloned().collect())
        };
        let what = || format!("read the verdict of {run}");
        answered(self.0.call(EffectKind::Provider, what, effect).await).map_err(unavailable)
    }

    async fn past(&self, wanted: &PastQuery) -> Result<Vec<PastRun>, Error> {
        let effect = |inner: &mut WorldState| Ok(inner.clouds.history.chosen(wanted));
        let what = || format!("look up the earlier runs of {}", wanted.workflow);
        answered(self.0.call(EffectKind::Provider, what, effect).await).map_err(unavailable)
    }

    fn table(&self) -> String {
        "sim".to_owned()
    }
}
