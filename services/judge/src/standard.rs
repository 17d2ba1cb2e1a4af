//! Baseline of a run: the baseline that the workflow names or a person pinned, or else a baseline learned from earlier
//! runs of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use model::{Criteria, Reason, Timestamp, Verdict, count, measurement::Reading};
use verdict::{
    Baseline, Fingerprint, Pin,
    baseline::{
        Healthy, MetricHistory, Paired, Unlearnable, halves, learn, learn_paired, learn_without_outliers,
        levels,
    },
    directed,
    repeat::{self, RepeatLevel},
};
use warehouse::{MeasurementKind, PastQuery, PastRun, Warehouse};

use crate::past::{self, MAX_RUNS, SINCE};

/// Minimum number of passed runs for a baseline.
const FEWEST: usize = 5;
/// Minimum number of passed runs before the judge reports that results do not repeat.
const ENOUGH: usize = 10;

/// A baseline and the later runs.
#[derive(Debug, Default)]
pub struct ClusterStandard {
    /// Measurements of the healthy cluster; `None` if no baseline exists.
    pub baseline: Option<Baseline>,
    /// Level of every later run, oldest first.
    pub earlier: Vec<f64>,
    /// Levels of the metrics of every later run, oldest first, in the order of the baseline's fleets.
    pub earlier_metrics: Vec<Vec<Option<f64>>>,
    /// Number of the baseline's first runs that define the healthy state; absent if a person chose all runs of the baseline.
    pub defining_runs: Option<usize>,
    /// The pin, if a person decided on the baseline.
    pub pin: Option<Pin>,
    /// Reasons that concern the baseline itself: dropped runs, or the reason why no baseline exists.
    pub reasons: Vec<Reason>,
}

/// A baseline from the workflow's file or from a pin, not learned from the history.
#[derive(Debug)]
pub struct ChosenBaseline {
    pub baseline: Baseline,
    /// The pin; `None` if the workflow's file names the baseline.
    pub pin: Option<Pin>,
}

/// The baseline for a run with this fingerprint, if the workflow or the history has one.
pub async fn cluster_standard(
    history: &dyn Warehouse,
    criteria: &Criteria,
    chosen: Option<ChosenBaseline>,
    of: (&str, &Fingerprint, Option<Timestamp>),
    reading: &Reading,
) -> Result<ClusterStandard, warehouse::Error> {
    let (workflow, fingerprint, Some(before)) = of else {
        return Ok(chosen.map_or_else(ClusterStandard::default, |fixed| fixed.with_history(&[])));
    };
    if chosen.is_none() && !criteria.history {
        return Ok(ClusterStandard::default());
    }
    let is_table = reading.metrics.is_empty() || !reading.tables.is_empty();
    let wanted = PastQuery {
        workflow: workflow.to_owned(),
        identity: fingerprint.identity(),
        before,
        oldest: MAX_RUNS,
        newest: SINCE,
        measured: MeasurementKind::Table,
    };
    if is_table {
        let past = history.past(&wanted).await?;
        return Ok(chosen.map_or_else(|| learned(&past), |fixed| fixed.with_history(&past)));
    }
    let direct = |mut past: PastRun| {
        for metric in &mut past.metrics {
            metric.better = criteria.better(metric).unwrap_or(metric.better);
        }
        past
    };
    let values = reading.metrics.len();
    if let Some(fixed) = chosen {
        let baseline = fixed.baseline.clone().with_fleets();
        let mut levels = Vec::new();
        let visit = |past: PastRun| {
            let past = direct(past);
            let of_run = baseline.fleet_levels([&past.metrics[..]]);
            levels.extend(of_run.into_iter().map(|levels| (past.run.clone(), past.requested_at, levels)));
        };
        past::each(history, wanted, values, visit).await?;
        return Ok(fixed.with_metric_history(levels));
    }
    let reading = directed(reading, criteria);
    let mut history_of_metrics = MetricHistory::of(&reading);
    let mut runs = Vec::new();
    let visit = |past: PastRun| {
        let past = direct(past);
        history_of_metrics.add(&past.metrics);
        runs.push((past.verdict, Fingerprint(past.fingerprint)));
    };
    past::each(history, wanted, values, visit).await?;
    Ok(learned_of_metrics(&runs, &history_of_metrics))
}

impl ChosenBaseline {
    fn with_history(self, past: &[PastRun]) -> ClusterStandard {
        let since = &past[self.first_index(past.iter().map(|past| (past.run.as_str(), past.requested_at)))..];
        let Self { baseline, pin } = self;
        let earlier = since.iter().filter_map(|past| baseline.level(&past.table)).collect();
        ClusterStandard { baseline: Some(baseline.with_fleets()), earlier, pin, ..ClusterStandard::default() }
    }

    /// `levels`: id, time and levels of each earlier run.
    fn with_metric_history(
        self,
        mut levels: Vec<(String, Option<Timestamp>, Vec<Option<f64>>)>,
    ) -> ClusterStandard {
        let first = self.first_index(levels.iter().map(|(run, at, _)| (run.as_str(), *at)));
        let earlier_metrics = levels.drain(first..).map(|(_, _, levels)| levels).collect();
        let Self { baseline, pin } = self;
        ClusterStandard {
            baseline: Some(baseline.with_fleets()),
            earlier_metrics,
            pin,
            ..ClusterStandard::default()
        }
    }

    /// Position of the first run of the history: a pin replaces the runs up to the pinned one. If that run was not read, because it is
    /// between the oldest and the newest ones, the history starts after the time of the pin.
    fn first_index<'a>(&self, runs: impl Iterator<Item = (&'a str, Option<Timestamp>)> + Clone) -> usize {
        let Some(pin) = &self.pin else { return 0 };
        let pinned = runs.clone().position(|(run, _)| run == pin.run.as_str());
        pinned
            .map_or_else(|| runs.take_while(|(_, at)| at.is_some_and(|at| at <= pin.at)).count(), |at| at + 1)
    }
}

/// Fingerprint and positions of the runs of the first setup with at least [`FEWEST`] of the `passed` runs. A field that only one of two
/// runs has is no difference. `alike` compares other properties of two runs, by their positions.
fn first_setup(
    passed: &[(usize, Fingerprint)],
    alike: impl Fn(usize, usize) -> bool,
) -> Option<(Fingerprint, Vec<usize>)> {
    passed.iter().find_map(|(first, fingerprint)| {
        let (mut setup, mut runs) = (fingerprint.clone(), Vec::new());
        for (run, fingerprint) in passed {
            if alike(*first, *run) && setup.differences(fingerprint).next().is_none() {
                setup.fill(fingerprint);
                runs.push(*run);
            }
        }
        (runs.len() >= FEWEST).then_some((setup, runs))
    })
}

/// Learns from the oldest passed runs that repeat, or from later, faster ones: slow first runs must neither define the healthy
/// state nor prevent a baseline permanently. Uses only runs of one setup and one set of sizes: the first with enough passed runs.
fn learned(past: &[PastRun]) -> ClusterStandard {
    let passed = past.iter().enumerate().filter(|(_, past)| past.verdict == Some(Verdict::Pass));
    let (mut setups, mut points) = (Vec::new(), BTreeMap::new());
    for (run, past) in passed {
        setups.push((run, Fingerprint(past.fingerprint.clone())));
        points.insert(run, halves(&past.table).map(|(key, _)| key).collect::<BTreeSet<_>>());
    }
    let Some((fingerprint, runs)) = first_setup(&setups, |one, other| points[&one] == points[&other]) else {
        return ClusterStandard::default();
    };
    let healthy: Vec<_> = runs.into_iter().map(|run| (run, &past[run])).collect();
    let readings: Vec<_> = healthy.iter().map(|(_, past)| reading(past)).collect();
    let runs: Vec<_> =
        readings.iter().map(|reading| Healthy { reading, fingerprint: fingerprint.clone() }).collect();
    // Runs with one rank have no level.
    let Ok(levels) = levels(&runs) else { return ClusterStandard::default() };
    let learned = repeat::learned_range(&levels, FEWEST, MAX_RUNS as usize);
    let Some((range, (baseline, out))) =
        learned.and_then(|range| Some((range.clone(), learn_without_outliers(&runs[range]).ok()?)))
    else {
        return ClusterStandard {
            reasons: unrepeated(&runs).into_iter().collect(),
            ..ClusterStandard::default()
        };
    };
    let (last, _) = healthy[range.end - 1];
    let earlier = past[last + 1..].iter().filter_map(|past| baseline.level(&past.table)).collect();
    let reasons = left_out(&healthy[range.clone()], &out);
    let reasons = reasons.into_iter().collect();
    // The later runs of the baseline passed before the level was known, so these runs are searched for changes too.
    ClusterStandard {
        baseline: Some(baseline),
        earlier,
        defining_runs: Some(FEWEST),
        reasons,
        ..ClusterStandard::default()
    }
}

/// Learns each value of this run from the oldest passed runs that also have the value: a scheduler may choose other nodes for each run.
/// Uses only passed runs of one setup: the first with enough passed runs. `runs`: verdict and setup of each run of the history.
fn learned_of_metrics(
    runs: &[(Option<Verdict>, Fingerprint)],
    history: &MetricHistory<'_>,
) -> ClusterStandard {
    let passed = (0..).zip(runs).filter(|(_, (verdict, _))| *verdict == Some(Verdict::Pass));
    let passed: Vec<_> = passed.map(|(run, (_, setup))| (run, setup.clone())).collect();
    let Some((_, of_setup)) = first_setup(&passed, |_, _| true) else { return ClusterStandard::default() };
    let healthy: Vec<_> = of_setup.into_iter().map(|run| (run, &runs[run].1)).collect();
    let learned = learn_paired(history, &healthy, (FEWEST, MAX_RUNS as usize));
    let Ok(Paired { baseline, earlier, missing }) = learned else { return ClusterStandard::default() };
    let reasons = without_past(&missing, baseline.metrics.len()).into_iter().collect();
    // If most values lack a baseline, the run is not compared with the cluster's past.
    if baseline.metrics.is_empty() || missing.len() > baseline.metrics.len() {
        return ClusterStandard { reasons, ..ClusterStandard::default() };
    }
    let (earlier_metrics, defining_runs) = (earlier, Some(FEWEST));
    ClusterStandard {
        baseline: Some(baseline),
        earlier_metrics,
        defining_runs,
        reasons,
        ..ClusterStandard::default()
    }
}

/// Maximum number of values named in a reason.
const NAMED: usize = 8;

/// Names the values of this run with fewer than [`FEWEST`] passed runs.
fn without_past(missing: &[String], learned: usize) -> Option<Reason> {
    let named = missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let of = count((missing.len() + learned) as u64, "value");
    let text = match missing.len() {
        1 => format!(
            "1 of {of} has fewer than {FEWEST} passed runs and is not compared with its past: {named}"
        ),
        several => format!(
            "{several} of {of} have fewer than {FEWEST} passed runs and are not compared with their past: {named}{more}"
        ),
    };
    let weighs = Verdict::Pass;
    (!missing.is_empty()).then(|| Reason { code: "PAST_INCOMPLETE".to_owned(), weighs, text })
}

/// Names the runs dropped from the baseline.
fn left_out(healthy: &[(usize, &PastRun)], out: &[RepeatLevel]) -> Option<Reason> {
    let named = out.iter().map(|level| format!("{} ({:.0} GB/s)", healthy[level.run].1.run, level.busbw));
    let named = named.collect::<Vec<_>>().join(", ");
    let text = format!(
        "{} of {} earlier runs are on another level and not in the baseline: {named}",
        out.len(),
        healthy.len()
    );
    (!out.is_empty()).then(|| Reason { code: "OUTLIERS_LEFT_OUT".to_owned(), weighs: Verdict::Pass, text })
}

/// Reason for runs that do not repeat; `None` for fewer than [`ENOUGH`] passed runs.
fn unrepeated(runs: &[Healthy<'_>]) -> Option<Reason> {
    let runs = &runs[..runs.len().min(MAX_RUNS as usize)];
    let Err(Unlearnable::Unrepeated { groups, .. }) = learn(runs) else { return None };
    let groups: Vec<_> =
        groups.iter().map(|group| format!("{} at {:.1} GB/s", group.runs.len(), group.busbw)).collect();
    let text = format!(
        "the {} oldest passed runs do not repeat, so they cannot be a baseline: {}; pin a good run with `burnin baseline pin`, or \
         set `history: false` in the criteria",
        runs.len(),
        groups.join(", ")
    );
    (runs.len() >= ENOUGH).then(|| Reason {
        code: "UNSTABLE_BASELINE".to_owned(),
        weighs: Verdict::Inconclusive,
        text,
    })
}

fn reading(past: &PastRun) -> Reading {
    Reading {
        ended: past.table.ended,
        first_error: None,
        tables: vec![past.table.clone()],
        ..Reading::default()
    }
}

#[cfg(test)]
mod tests {
    use model::{
        Attempt, MetricCriterion, RunId, VerdictReached,
        measurement::{Half, LogEnd, Row, Table},
        metric::{Better, Metric, Scope},
    };
    use verdict::{Clues, Judgement, RunEvidence, Standard};
    use warehouse::{Load, memory::Memory};

    use super::*;

    /// A passed run of `all_reduce_perf` from 8 bytes to 4 GiB with this driver; `slower`: factor on all times.
    fn past_table(number: i64, driver: Option<&str>, slower: f64) -> PastRun {
        let half = |size: u64| {
            let time_us = (20.0 + size as f64 / 400e3) * slower;
            Some(Half { time_us, busbw: size as f64 / time_us / 1e3, ..Half::default() })
        };
        let row = |power: u32| {
            let size_bytes = 1 << power;
            Row { size_bytes, out_of_place: half(size_bytes), in_place: half(size_bytes), ..Row::default() }
        };
        let rows = (3..33).map(row).collect();
        PastRun {
            run: format!("night-{number}"),
            requested_at: Some(Timestamp::from_millis(number)),
            verdict: Some(Verdict::Pass),
            fingerprint: driver.map(|driver| ("driver".to_owned(), driver.to_owned())).into_iter().collect(),
            table: Table { ranks: Some(16), rows, ..Table::empty(LogEnd::Complete) },
            metrics: Vec::new(),
        }
    }

    #[test]
    fn a_baseline_of_a_curve_is_learned_from_the_first_setup_with_enough_runs() {
        // A setup with too few runs is followed by one with enough; the runs of a third setup are only the history.
        let setups = [(3, "0", 1.0), (6, "1", 1.01), (7, "2", 1.0)];
        let of = setups.iter().flat_map(|(count, driver, slower)| (0..*count).map(move |_| (driver, slower)));
        let past: Vec<_> = (0..)
            .zip(of)
            .map(|(number, (driver, slower))| past_table(number, Some(driver), *slower))
            .collect();
        let standard = learned(&past);
        let baseline = standard.baseline.expect("six runs of a setup are enough");
        assert_eq!((baseline.runs, baseline.fingerprint.get("driver")), (6, Some("1")));
        assert_eq!(standard.earlier.len(), 7);
        assert!(learned(&past[..7]).baseline.is_none(), "no setup has five runs yet");
    }

    #[test]
    fn a_run_without_a_field_does_not_mix_two_setups() {
        let driver = |number| if number == 0 { None } else { Some(if number < 6 { "1" } else { "2" }) };
        let past: Vec<_> = (0..12).map(|number| past_table(number, driver(number), 1.0)).collect();
        let baseline = learned(&past).baseline.unwrap();
        assert_eq!((baseline.runs, baseline.fingerprint.get("driver")), (6, Some("1")));
    }

    /// A run with one value of each of these nodes.
    fn run(nodes: &[u32], factor: f64) -> Reading {
        let metric = |node: &u32| Metric {
            name: "hpl.gflops".into(),
            unit: "GB/s".into(),
            better: Better::Higher,
            scope: Scope::Node,
            subject: model::metric::Subject { node: Some(format!("n{node}").into()), ..Default::default() },
            labels: Default::default(),
            value: Some((100_000.0 + f64::from(*node)) * factor),
            resolution: Some(1.0),
            unmeasurable: None,
            line: 1,
        };
        let metrics = nodes.iter().map(metric).collect();
        Reading { ended: LogEnd::Complete, format: Some("hpl".to_owned()), metrics, ..Reading::default() }
    }

    fn fingerprint(driver: &str) -> Fingerprint {
        Fingerprint([("driver".to_owned(), driver.to_owned())].into())
    }

    /// Earlier runs, each with its verdict.
    async fn history(runs: &[(Reading, Verdict, &str)]) -> Memory {
        let history = Memory::default();
        for (at, (reading, verdict, driver)) in (1..).zip(runs) {
            let id: RunId = format!("night-{at}").parse().unwrap();
            let mut load = Load::of(&id, ("nightly", None), Attempt::FIRST, Some(Timestamp::from_millis(at)));
            load.log("1/node.log", reading);
            let setup = fingerprint(driver);
            let reached = VerdictReached {
                verdict: *verdict,
                reasons: Vec::new(),
                criteria: "c".to_owned(),
                baseline: None,
                fingerprint: setup.0.clone(),
                log_sha256: None,
                suspects: Vec::new(),
                object: "o".to_owned(),
                measurements: None,
            };
            history.load(id.as_str(), &load.judged(Some(&reached), &setup.identity())).await.unwrap();
        }
        history
    }

    async fn judged(history: &Memory, reading: &Reading) -> (ClusterStandard, Judgement) {
        let floor =
            MetricCriterion { metric: "hpl.gflops".to_owned(), floor: Some(1.0), ..Default::default() };
        let criteria = Criteria { metrics: vec![floor], ..Criteria::named("nightly") };
        let of = ("nightly", &fingerprint("1"), Some(Timestamp::from_millis(1_000)));
        let learned = cluster_standard(history, &criteria, None, of, reading).await.unwrap();
        let standard = Standard {
            criteria: Some(&criteria),
            baseline: learned.baseline.as_ref(),
            earlier_metrics: &learned.earlier_metrics,
            defining_runs: learned.defining_runs,
            learned: &learned.reasons,
            ..Standard::default()
        };
        let judgement = verdict::judge(&RunEvidence::of(reading, &Clues::default()), &standard);
        (learned, judgement)
    }

    fn reason<'a>(judgement: &'a Judgement, code: &str) -> Option<&'a str> {
        let found = judgement.reasons.iter().find(|reason| reason.code == code);
        found.map(|reason| reason.text.as_str())
    }

    const NODES: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[tokio::test]
    async fn a_lasting_change_of_a_metric_since_the_baseline_fails() {
        let night = |level: f64, verdict| (run(&NODES, level), verdict, "1");
        let mut runs: Vec<_> = (0..24).map(|_| night(1.0, Verdict::Pass)).collect();
        runs.extend((0..4).map(|_| night(0.985, Verdict::Fail)));
        let (learned, judgement) = judged(&history(&runs).await, &run(&NODES, 0.985)).await;
        assert_eq!((learned.baseline.unwrap().runs, learned.earlier_metrics.len()), (20, 8));
        assert_eq!(judgement.verdict, Verdict::Fail, "{:?}", judgement.reasons);
        assert!(
            reason(&judgement, "DRIFTED")
                .unwrap()
                .starts_with("in the last 5 runs hpl.gflops is 1.5 % worse")
        );
        // After 24 healthy runs one slower run is no lasting change.
        let (_, judgement) = judged(&history(&runs[..24]).await, &run(&NODES, 0.985)).await;
        assert_eq!((judgement.verdict, reason(&judgement, "DRIFTED")), (Verdict::Pass, None));
    }

    /// A run of seven nodes and an eighth node. With `is_new` a slower node has replaced the eighth node.
    fn with_eighth(is_new: bool, level: f64) -> Reading {
        let mut reading = run(&NODES[..7], level);
        let mut eighth = run(&[if is_new { 90 } else { 7 }], if is_new { 0.97 * level } else { level });
        reading.metrics.append(&mut eighth.metrics);
        reading
    }

    #[tokio::test]
    async fn a_replaced_node_neither_hides_nor_causes_a_change_of_the_other_nodes() {
        // The new node has two runs, fewer than a baseline needs, or six, including those after the change.
        for since in [2, 6] {
            let nights = |changed: usize| -> Vec<_> {
                let level = |night| if night < 90 - changed { 1.0 } else { 0.985 };
                let night = |night| (with_eighth(night >= 90 - since, level(night)), Verdict::Pass, "1");
                (0..90).map(night).collect()
            };
            let (learned, judgement) = judged(&history(&nights(4)).await, &with_eighth(true, 0.985)).await;
            let baseline = learned.baseline.unwrap();
            assert_eq!(
                (baseline.metrics.len(), learned.earlier_metrics.len()),
                (if since < 5 { 7 } else { 8 }, 70)
            );
            let drifted = reason(&judgement, "DRIFTED").unwrap();
            assert!(
                drifted.starts_with("in the last 5 runs hpl.gflops is 1.5 % worse"),
                "{since}: {drifted}"
            );
            let (_, judgement) = judged(&history(&nights(0)).await, &with_eighth(true, 1.0)).await;
            assert_eq!(judgement.verdict, Verdict::Pass, "{since}: {:?}", judgement.reasons);
            assert_eq!(reason(&judgement, "SHIFTED"), None, "{since}");
        }
    }

    #[tokio::test]
    async fn a_value_measured_only_in_earlier_runs_on_the_node_is_reported_as_missing() {
        let of_gpus = |gpus: std::ops::Range<u32>| {
            let mut reading = run(&[7], 1.0);
            let gpu = |gpu| Metric {
                name: "copy".into(),
                scope: Scope::Gpu,
                subject: model::metric::Subject {
                    node: Some("n7".into()),
                    ..model::metric::Subject::gpu(gpu)
                },
                ..reading.metrics[0].clone()
            };
            let copies: Vec<_> = gpus.map(gpu).collect();
            reading.metrics.extend(copies);
            reading
        };
        let runs: Vec<_> = (0..6).map(|_| (of_gpus(0..8), Verdict::Pass, "1")).collect();
        let history = history(&runs).await;
        let (_, judgement) = judged(&history, &of_gpus(0..8)).await;
        assert_eq!(judgement.verdict, Verdict::Pass, "{:?}", judgement.reasons);
        let (_, judgement) = judged(&history, &of_gpus(0..7)).await;
        assert_eq!(judgement.verdict, Verdict::Inconclusive, "{:?}", judgement.reasons);
        assert!(reason(&judgement, "NOT_MEASURED").unwrap().contains("gpu 7"), "{:?}", judgement.reasons);
    }

    #[tokio::test]
    async fn nodes_that_a_scheduler_chose_again_are_compared_with_their_own_past() {
        // Each run has seven of the nodes, and one node that no other run has.
        let runs: Vec<_> = (0..10u32)
            .map(|night| {
                let mut nodes: Vec<u32> = NODES.iter().copied().filter(|node| *node != night % 8).collect();
                nodes.push(100 + night);
                (run(&nodes, 1.0), Verdict::Pass, "1")
            })
            .collect();
        let history = history(&runs).await;
        let (learned, judgement) = judged(&history, &run(&[0, 1, 2, 3, 50], 0.9)).await;
        assert_eq!(learned.baseline.unwrap().metrics.len(), 4);
        assert!(reason(&judgement, "WORSE_THAN_BASELINE").is_some(), "{:?}", judgement.reasons);
        assert_eq!(
            reason(&judgement, "PAST_INCOMPLETE"),
            Some(
                "1 of 5 values has fewer than 5 passed runs and is not compared with its past: hpl.gflops of node n50"
            )
        );
        // Fewer than half of the values have earlier measurements.
        let (learned, judgement) = judged(&history, &run(&[0, 50, 51], 1.0)).await;
        assert!(learned.baseline.is_none());
        assert!(
            reason(&judgement, "PAST_INCOMPLETE").unwrap().starts_with("2 of 3 values"),
            "{:?}",
            judgement.reasons
        );
    }

    #[tokio::test]
    async fn a_baseline_is_learned_from_the_first_setup_with_enough_runs() {
        let of = |count, driver| (0..count).map(move |_| (run(&NODES, 1.0), Verdict::Pass, driver));
        let runs: Vec<_> = of(3, "0").chain(of(6, "1")).chain(of(2, "2")).collect();
        let (learned, judgement) = judged(&history(&runs).await, &run(&NODES, 0.9)).await;
        let baseline = learned.baseline.unwrap();
        assert_eq!((baseline.runs, baseline.fingerprint.get("driver")), (6, Some("1")));
        assert!(reason(&judgement, "WORSE_THAN_BASELINE").is_some());
    }
}
