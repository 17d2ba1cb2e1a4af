//! What the runs before a run measured, for those who look at more than one.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use futures::{StreamExt, TryStreamExt, stream};
use ledger::Artefacts;
use model::{RunId, Stage, Timestamp, measurement::Table};
use verdict::Fingerprint;

use crate::{Line, State, View, ViewError, told::together};

/// Runs of a series, with the one that is looked at.
const MOST: usize = 60;
/// Read at a time.
const ABREAST: usize = 16;
/// Curves that are remembered: closed runs do not change. One of them takes some kilobytes.
const REMEMBERED: usize = 2000;

/// What a run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The run.
    pub run: RunId,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// Its one table.
    pub table: Table,
}

/// Runs that are comparable, oldest first.
pub type Curves = Vec<Arc<Curve>>;

/// Curves by run; none for what measured none, or more than one.
pub(crate) type Known = BTreeMap<RunId, Option<Arc<Curve>>>;

impl View {
    /// The curves of a judged run and of the runs of its workflow before it that are comparable with it, oldest first. Of
    /// damaged logs there is no curve.
    ///
    /// # Errors
    /// When a store does not answer.
    pub async fn curves(&self, run: &RunId) -> Result<Curves, ViewError> {
        let comparable = {
            let index = self.fresh().await?;
            let mut lines = index.newest().skip_while(|line| line.run != *run);
            let Some(own) = lines.next() else { return Ok(Vec::new()) };
            let identity = |line: &Line| Fingerprint(line.setup.clone()).identity();
            let wanted = identity(own);
            let earlier = lines.filter(|line| {
                let judged = line.state == State::Closed && line.verdict.is_some();
                judged && line.workflow == own.workflow && identity(line) == wanted
            });
            let mut comparable: Vec<RunId> = earlier.take(MOST - 1).map(|line| line.run.clone()).collect();
            comparable.reverse();
            comparable.extend(own.verdict.map(|_| run.clone()));
            comparable
        };
        let curves = stream::iter(comparable).map(|run| self.curve(run)).buffered(ABREAST);
        let curves: Vec<_> = curves.try_collect().await?;
        Ok(curves.into_iter().flatten().collect())
    }

    async fn curve(&self, run: RunId) -> Result<Option<Arc<Curve>>, ViewError> {
        let known = self.curves.lock().unwrap_or_else(PoisonError::into_inner).get(&run).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let Some(folded) = self.folded(&run).await? else { return Ok(None) };
        let state = folded.state;
        let Some(logs) = state.logs() else { return Ok(None) };
        let read = Artefacts::new(Arc::clone(&self.store));
        let read = read.logs(logs, state.attempt(Stage::Job), |body| nccl::read(body)).await;
        let reading = match read {
            Ok(logs) => together(logs.into_iter().map(|(_, reading)| reading)),
            Err(ledger::ArtefactError::Store(error)) => return Err(error.into()),
            Err(ledger::ArtefactError::Damaged { .. }) => None,
        };
        let tables = reading.map(|reading| reading.tables).unwrap_or_default();
        let table = <[Table; 1]>::try_from(tables).ok();
        let requested_at = state.requested_at;
        let curve = table.map(|[table]| Arc::new(Curve { run: run.clone(), requested_at, table }));
        if state.closed.is_some() {
            let mut known = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(run, curve.clone());
        }
        Ok(curve)
    }
}
