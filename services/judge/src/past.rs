//! Metrics of earlier runs, read in parts: 400 runs of 2,048 nodes with eight GPUs and five metrics have 33 million values, about 15 GB
//! at 450 bytes each, and a judge in the cloud has 2 GiB.

use model::Span;
use warehouse::{MeasurementKind, PastQuery, PastRun, Warehouse};

/// Maximum number of runs in a baseline. The baseline is then fixed: a moving baseline would hide a drift of the cluster.
pub(crate) const MAX_RUNS: u32 = 20;
/// Maximum number of later runs searched for a change.
pub(crate) const SINCE: u32 = 200;
/// Maximum number of values of all earlier runs that are read. The judge keeps 8 bytes of each: 64 MiB. For a large fleet fewer earlier
/// runs are read: 102 with 2,048 nodes, eight GPUs and five metrics; a judge then used 179 MiB in total.
const VALUES: usize = 1 << 23;
/// Maximum number of values in one response of the warehouse, except for the values of a single run. A row of BigQuery's response needs
/// about 2 KB, so the largest response needs 256 MiB.
const VALUES_OF_ANSWER: usize = 1 << 17;

/// Limits of the earlier runs that the judge reads for one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Maximum number of oldest runs, and of newest runs.
    runs: u32,
    /// Maximum number of runs in one response.
    of_answer: u32,
}

impl Extent {
    fn of(values: usize) -> Self {
        let fitting = |values_of_all: usize| u32::try_from(values_of_all / values.max(1)).unwrap_or(u32::MAX);
        Self {
            // A baseline needs its runs regardless of their size.
            runs: (fitting(VALUES) / 2).clamp(MAX_RUNS, SINCE),
            of_answer: fitting(VALUES_OF_ANSWER).max(1),
        }
    }
}

/// Reads the oldest and the newest runs before the judged run, oldest first. `wanted`: workflow, identity and time. `values`: number of
/// values of the judged run, the first estimate for earlier runs. An earlier run may have more, for example if the judged run ended early:
/// the oldest and the newest one are read first, and after a response with more values the next queries request fewer runs.
pub(crate) async fn each(
    history: &dyn Warehouse,
    wanted: PastQuery,
    values: usize,
    mut visit: impl FnMut(PastRun),
) -> Result<(), warehouse::Error> {
    let ends = PastQuery { oldest: 1, newest: 1, measured: MeasurementKind::Metrics, ..wanted.clone() };
    let earlier = history.past(&ends).await?.iter().map(|past| past.metrics.len()).max();
    let mut largest = values.max(earlier.unwrap_or(0));
    let Extent { runs, of_answer } = Extent::of(largest);
    let wanted = PastQuery { oldest: runs, newest: runs, ..wanted };
    if of_answer >= 2 * runs {
        let query = PastQuery { measured: MeasurementKind::Metrics, ..wanted };
        history.past(&query).await?.into_iter().for_each(visit);
        return Ok(());
    }
    let listed = history.past(&PastQuery { measured: MeasurementKind::Nothing, ..wanted.clone() }).await?;
    // Other runs may lie between the oldest and the newest runs, so no response has runs of both groups.
    let (oldest, newest) = listed.split_at(listed.len().min(runs as usize));
    for mut rest in [oldest, newest] {
        while !rest.is_empty() {
            let (part, later) = rest.split_at(rest.len().min(Extent::of(largest).of_answer as usize));
            rest = later;
            let Some(last) = part.last().and_then(|past| past.requested_at) else { continue };
            let query = PastQuery {
                before: last + Span::from_millis(1),
                oldest: 0,
                newest: u32::try_from(part.len()).unwrap_or(u32::MAX),
                measured: MeasurementKind::Metrics,
                ..wanted.clone()
            };
            let answer = history.past(&query).await?;
            largest = answer.iter().map(|past| past.metrics.len()).fold(largest, usize::max);
            // A run that was loaded after the list was read may have replaced a listed one.
            answer
                .into_iter()
                .filter(|past| part.iter().any(|listed| listed.run == past.run))
                .for_each(&mut visit);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        ops::Range,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use model::{
        Criteria, Timestamp, Verdict,
        measurement::{LogEnd, Reading},
        metric::{Better, Metric, Scope, Subject},
    };
    use verdict::Fingerprint;
    use warehouse::{
        Error, FindingRow, Load, MeasurementRow, MetricRow, NodeResultRow, VerdictRow, memory::Memory,
    };

    use super::*;

    #[test]
    fn a_larger_fleet_has_smaller_answers_and_fewer_earlier_runs() {
        assert_eq!(Extent::of(0), Extent { runs: 200, of_answer: 131_072 });
        // The values of 31 nodes with eight GPUs and one metric fit into one response.
        assert_eq!(Extent::of(31 * 8), Extent { runs: 200, of_answer: 528 });
        assert_eq!(Extent::of(2_048 * 8), Extent { runs: 200, of_answer: 8 });
        assert_eq!(Extent::of(2_048 * 8 * 5), Extent { runs: 51, of_answer: 1 });
        assert_eq!(Extent::of(10_000_000), Extent { runs: 20, of_answer: 1 });
    }

    /// A warehouse with 1,000 passed runs of a fleet. The runs are generated when they are read; run N was requested after N seconds.
    struct GeneratedHistory {
        nodes: u32,
        metrics: u32,
        /// Number of runs in the largest response with metrics.
        largest: AtomicUsize,
    }

    const RUNS: u32 = 1_000;

    impl GeneratedHistory {
        fn of(nodes: u32, metrics: u32) -> Self {
            Self { nodes, metrics, largest: AtomicUsize::new(0) }
        }

        fn values(&self) -> Vec<Metric> {
            let places = (0..self.nodes).flat_map(|node| (0..8).map(move |gpu| (node, gpu)));
            let metric = |(node, gpu): (u32, u32), metric: u32| Metric {
                name: format!("gemm.throughput.{metric}").into(),
                unit: "TFLOP/s".into(),
                better: Better::Higher,
                scope: Scope::Gpu,
                subject: Subject { node: Some(format!("node-{node:04}").into()), ..Subject::gpu(gpu) },
                labels: Default::default(),
                value: Some(600.0 + f64::from(gpu)),
                resolution: Some(0.1),
                unmeasurable: None,
                line: 1,
            };
            places.flat_map(|place| (0..self.metrics).map(move |number| metric(place, number))).collect()
        }

        fn reading(&self) -> Reading {
            let format = Some("sample".to_owned());
            Reading { ended: LogEnd::Complete, format, metrics: self.values(), ..Reading::default() }
        }
    }

    #[async_trait::async_trait]
    impl Warehouse for GeneratedHistory {
        async fn load(&self, id: &str, load: &Load) -> Result<u64, Error> {
            Memory::default().load(id, load).await
        }

        async fn rows(&self, _: &str) -> Result<Vec<MeasurementRow>, Error> {
            Ok(Vec::new())
        }

        async fn metrics(&self, _: &str) -> Result<Vec<MetricRow>, Error> {
            Ok(Vec::new())
        }

        async fn findings(&self, _: &str) -> Result<Vec<FindingRow>, Error> {
            Ok(Vec::new())
        }

        async fn node_results(&self, _: &str) -> Result<Vec<NodeResultRow>, Error> {
            Ok(Vec::new())
        }

        async fn verdicts(&self, _: &str) -> Result<Vec<VerdictRow>, Error> {
            Ok(Vec::new())
        }

        async fn past(&self, wanted: &PastQuery) -> Result<Vec<PastRun>, Error> {
            let moment = |run: u32| Timestamp::from_millis(i64::from(run) * 1_000);
            let end = (0..RUNS).take_while(|run| moment(*run) < wanted.before).count() as u32;
            let oldest = 0..wanted.oldest.min(end);
            let newest = end.saturating_sub(wanted.newest).max(oldest.end)..end;
            let is_read = wanted.measured == MeasurementKind::Metrics;
            let verdict = |run: u32| VerdictRow {
                run: format!("run-{run:04}").into(),
                requested_at: Some(moment(run)),
                verdict: Some(Verdict::Pass),
                fingerprint: "{}".into(),
                ..VerdictRow::default()
            };
            let metrics = || if is_read { self.values() } else { Vec::new() };
            let past = |run: u32| PastRun { metrics: metrics(), ..PastRun::of(&verdict(run), &[], &[]) };
            if is_read {
                self.largest.fetch_max(oldest.len() + newest.len(), Ordering::Relaxed);
            }
            Ok(oldest.chain(newest).map(past).collect())
        }

        fn table(&self) -> String {
            "fleet".to_owned()
        }
    }

    fn wanted() -> PastQuery {
        PastQuery {
            workflow: "w".to_owned(),
            identity: "i".to_owned(),
            before: Timestamp::from_millis(1_000_000),
            oldest: 0,
            newest: 0,
            measured: MeasurementKind::Table,
        }
    }

    #[tokio::test]
    async fn the_oldest_and_the_newest_runs_are_read_once_and_in_order() {
        let history = GeneratedHistory::of(1, 1);
        let names = |runs: Range<u32>| runs.map(|run| format!("run-{run:04}"));
        // The cases: one query; queries of 26 runs each, the last of fewer; queries of one run.
        for (values, half) in [(8, 200), (5_000, 200), (200_000, 20)] {
            let mut read = Vec::new();
            each(&history, wanted(), values, |past| read.push(past.run)).await.unwrap();
            let expected: Vec<_> = names(0..half).chain(names(RUNS - half..RUNS)).collect();
            assert_eq!(read, expected, "{values}");
        }
    }

    /// A run that ended early has fewer values than the earlier runs.
    #[tokio::test]
    async fn answers_are_bounded_by_the_earlier_runs() {
        let history = GeneratedHistory::of(512, 1);
        let mut read = 0;
        each(&history, wanted(), 1, |_| read += 1).await.unwrap();
        assert_eq!((read, history.largest.into_inner()), (400, 32));
    }

    fn peak_mib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
    }

    /// To run it with another size: `JUDGED_NODES=2048 JUDGED_METRICS=5 cargo nextest run -p judge bounded_memory --no-capture`. Each
    /// process of nextest runs one test, so the peak memory is this test's.
    #[tokio::test]
    async fn the_history_of_a_fleet_is_read_in_bounded_memory() {
        let of = |name: &str, default| std::env::var(name).map_or(default, |number| number.parse().unwrap());
        let history = GeneratedHistory::of(of("JUDGED_NODES", 512), of("JUDGED_METRICS", 1));
        let reading = history.reading();
        let (before, setup) = (peak_mib(), Fingerprint::default());
        let of = ("w", &setup, Some(wanted().before));
        let own = crate::standard::cluster_standard(&history, &Criteria::named("c"), None, of, &reading)
            .await
            .unwrap();
        let runs = 20 + own.earlier_metrics.len();
        println!(
            "{} values in each of {runs} runs: {} MiB, {before} MiB before",
            reading.metrics.len(),
            peak_mib()
        );
        assert_eq!(runs as u32, 2 * Extent::of(reading.metrics.len()).runs);
        assert_eq!(own.baseline.unwrap().metrics.len(), reading.metrics.len());
        // All runs together would need 500 MiB.
        assert!(peak_mib() <= before + 160, "{} MiB, {before} MiB before", peak_mib());
    }
}
