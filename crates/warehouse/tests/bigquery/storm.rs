//! Several concurrent loaders, with random faults of requests and jobs, and dropped calls.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bigquery_standin::RandomFaults;
use fastrand::Rng;
use futures::future::join_all;
use storage_standin::{Fault, FaultKind, StorageRequest};
use warehouse::{
    Error, Load, Warehouse,
    bigquery::{BigQuery, BigQueryOptions},
};

use super::{BigQueryBed, MEASUREMENTS, VERDICTS, load, short_waits};

const LOADERS: usize = 4;
const RUNS: usize = 40;
/// Number of concurrent callers of each load, like repeated deliveries of one command.
const CALLERS: usize = 2;

/// Repeats a load until its result is final. Returns this result and the number of dropped calls.
async fn load_until_final(
    loaders: &[Arc<BigQuery>],
    id: &str,
    load: &Load,
    mut dice: Rng,
) -> (Result<u64, String>, u32) {
    let mut dropped = 0;
    loop {
        let loader = &loaders[dice.usize(..loaders.len())];
        // Half of the calls have a timeout of less than 250 ms, the others of 30 s; a call is dropped at its timeout.
        let life =
            if dice.bool() { Duration::from_millis(dice.u64(1..250)) } else { Duration::from_secs(30) };
        match tokio::time::timeout(life, loader.load(id, load)).await {
            Err(_) => dropped += 1,
            Ok(Ok(rows)) => return (Ok(rows), dropped),
            Ok(Err(Error::Permanent(why))) => return (Err(why), dropped),
            Ok(Err(Error::Transient(_))) => {}
        }
    }
}

async fn random_faults(seed: u64) -> u32 {
    let bed = BigQueryBed::new().await;
    let mut dice = Rng::with_seed(seed);
    bed.bigquery.random_faults(RandomFaults { rng: dice.fork(), percent: 40 });
    bed.bigquery.jobs_take(Duration::from_millis(30));
    bed.bigquery.reject_rows_with("the rejected text");
    // The bucket has faults, too. A response that is lost after its effect is the most severe fault.
    for wants in [StorageRequest::Insert, StorageRequest::Get, StorageRequest::Media, StorageRequest::List] {
        for kind in
            [FaultKind::CutAfter, FaultKind::Refuse(503), FaultKind::FailAfter(503), FaultKind::CutBefore]
        {
            let after = dice.u32(0..40);
            bed.bucket.faults(Fault { on: wants, kind, times: 6, after });
        }
    }
    let options = BigQueryOptions {
        wait_for_others: Duration::from_millis(dice.u64(1..60)),
        most: 12,
        ..short_waits()
    };
    let loaders: Vec<_> = (0..LOADERS).map(|_| bed.warehouse(options.clone())).collect();
    let loads: Vec<_> = (0..RUNS)
        .map(|number| {
            let mut load = load(&format!("run-{number}"), 1 + number as u32 % 5);
            if number % 13 == 5 {
                load.rows[0].dtype = "the rejected text".to_owned();
            }
            (format!("run-{number}.1"), load)
        })
        .collect();
    let callers = loads.iter().flat_map(|(id, load)| [(id, load); CALLERS]).map(|(id, load)| {
        let dice = dice.fork();
        let loaders = &loaders;
        async move { (id, load, load_until_final(loaders, id, load, dice).await) }
    });
    let results = tokio::time::timeout(Duration::from_secs(150), join_all(callers))
        .await
        .expect("timeout: the loads have not ended");

    let (measured, judged) = (bed.count(MEASUREMENTS), bed.count(VERDICTS));
    let mut refused = BTreeSet::new();
    for (id, load, (end, _)) in &results {
        let run = &*load.verdicts[0].run;
        let there = (measured.get(run).copied(), judged.get(run).copied());
        match end {
            Ok(rows) => assert_eq!(
                (*rows, there),
                (load.rows.len() as u64, (Some(*rows), Some(1))),
                "seed {seed}: {id}: every row exists once"
            ),
            Err(why) => {
                assert!(
                    load.rows[0].dtype.starts_with("the rejected"),
                    "seed {seed}: {id} is refused: {why}"
                );
                assert_eq!(there, (None, None), "seed {seed}: {id} is refused, but its rows exist");
                refused.insert(run);
            }
        }
    }
    assert_eq!(refused.len(), (0..RUNS).filter(|number| number % 13 == 5).count(), "seed {seed}");
    results.iter().map(|(_, _, (_, dropped))| dropped).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_loaded_exactly_once() {
    let mut dropped = 0;
    for seed in 0..2 {
        dropped += random_faults(seed).await;
    }
    assert!(dropped > 50, "{dropped} calls were dropped; the test requires more than 50");
}
