//! Never green when broken: each way of being broken, and what is said of it.

use std::sync::LazyLock;

use proptest::prelude::*;
use terms::{
    Cluster, Collective, Criteria, Floor, JobEnd, Node, Verdict, Workload,
    measurement::{Ended, Half, OutOfBounds, Reading, Row, Table},
};
use verdict::{Clues, Evidence, Judgement, Standard, judge};

static NOTHING: LazyLock<Clues> = LazyLock::new(Clues::default);
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster {
    name: "test".into(),
    nodes: ["node-0", "node-1"].map(|name| Node { name: name.into(), slots: 2 }).to_vec(),
    endpoint: String::new(),
});

fn workload() -> Workload {
    Workload {
        collective: Collective::AllReduce,
        min_bytes: 1 << 20,
        max_bytes: 1 << 24,
        step_factor: 4,
        iterations: 20,
        warmup_iterations: 5,
        check: true,
    }
}

fn criteria() -> Criteria {
    let floors = vec![Floor { size_bytes: 1 << 24, busbw: 1.0 }];
    Criteria { floors, ..Criteria::named("test") }
}

fn half(size: u64) -> Half {
    let algbw = 2.0;
    Half {
        time_us: size as f64 / algbw / 1e3,
        algbw,
        busbw: 3.0,
        wrong: Some(0),
        error: None,
        copybw: None,
        iterations: None,
    }
}

fn good() -> (Reading, JobEnd) {
    let row = |size| Row {
        size_bytes: size,
        count: size / 4,
        dtype: "float".into(),
        redop: Some("sum".into()),
        timestamp: None,
        processes: None,
        root: Some(-1),
        out_of_place: Some(half(size)),
        in_place: Some(half(size)),
    };
    let table = Table {
        collective: Some("all_reduce".into()),
        ranks: Some(4),
        devices: vec![],
        nccl_tests_version: None,
        nccl_version: None,
        rows: workload().sizes().into_iter().map(row).collect(),
        out_of_bounds: Some(OutOfBounds { count: 0, ok: true }),
        average_busbw: Some(3.0),
        ended: Ended::Complete,
    };
    let end = JobEnd {
        state: "COMPLETED".into(),
        exit_code: Some(0),
        signal: None,
        started_at: None,
        ended_at: None,
    };
    (Reading { ended: Ended::Complete, first_error: None, tables: vec![table] }, end)
}

fn evidence<'a>(reading: &'a Reading, job: &'a JobEnd, workload: &'a Workload) -> Evidence<'a> {
    Evidence {
        job: Some(job),
        workload: Some(workload),
        cluster: Some(&CLUSTER),
        ..Evidence::of(reading, &NOTHING)
    }
}

fn by(evidence: &Evidence<'_>, criteria: &Criteria) -> Judgement {
    judge(evidence, &Standard { criteria: Some(criteria), ..Standard::default() })
}

fn judged(change: impl FnOnce(&mut Reading, &mut JobEnd)) -> Judgement {
    let (mut reading, mut job) = good();
    change(&mut reading, &mut job);
    by(&evidence(&reading, &job, &workload()), &criteria())
}

#[test]
fn a_good_run_passes_and_says_why() {
    let judgement = judged(|_, _| {});
    assert_eq!(judgement.verdict, Verdict::Pass);
    let codes: Vec<_> = judgement.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(codes, ["SANE", "ABOVE_FLOOR"]);
}

#[test]
fn every_way_of_being_broken_is_named() {
    type Break = fn(&mut Reading, &mut JobEnd);
    let cases: &[(Verdict, &str, Break)] = &[
        (Verdict::Inconclusive, "NO_TABLE", |reading, _| reading.tables.clear()),
        (Verdict::Inconclusive, "MANY_TABLES", |reading, _| reading.tables.push(reading.tables[0].clone())),
        (Verdict::Inconclusive, "TRUNCATED", |reading, _| reading.tables[0].ended = Ended::Truncated),
        (Verdict::Fail, "BENCHMARK_FAILED", |reading, _| reading.tables[0].ended = Ended::Failed),
        (Verdict::Inconclusive, "WRONG_COLLECTIVE", |reading, _| {
            reading.tables[0].collective = Some("all_gather".into());
        }),
        (Verdict::Inconclusive, "WRONG_RANKS", |reading, _| reading.tables[0].ranks = Some(1)),
        (Verdict::Inconclusive, "WRONG_RANKS", |reading, _| reading.tables[0].ranks = None),
        (Verdict::Inconclusive, "MISSING_SIZE", |reading, _| drop(reading.tables[0].rows.pop())),
        (Verdict::Inconclusive, "MISSING_SIZE", |reading, _| reading.tables[0].rows[1].in_place = None),
        (Verdict::Fail, "WRONG_DATA", |reading, _| {
            reading.tables[0].rows[0].in_place.as_mut().unwrap().wrong = Some(1);
        }),
        (Verdict::Fail, "WRONG_DATA", |reading, _| {
            reading.tables[0].out_of_bounds = Some(OutOfBounds { count: 1, ok: false });
        }),
        (Verdict::Inconclusive, "UNCHECKED", |reading, _| {
            reading.tables[0].rows[0].out_of_place.as_mut().unwrap().wrong = None;
        }),
        (Verdict::Inconclusive, "IMPLAUSIBLE", |reading, _| {
            reading.tables[0].rows[2].out_of_place.as_mut().unwrap().algbw = 400.0;
        }),
        (Verdict::Inconclusive, "IMPLAUSIBLE", |reading, _| {
            reading.tables[0].rows[0].out_of_place.as_mut().unwrap().busbw = f64::NAN;
        }),
        (Verdict::Fail, "BELOW_FLOOR", |reading, _| {
            reading.tables[0].rows[2].in_place.as_mut().unwrap().busbw = 0.99;
        }),
        (Verdict::Fail, "JOB_FAILED", |_, job| (job.state, job.exit_code) = ("FAILED".into(), Some(7))),
        (Verdict::Fail, "JOB_FAILED", |_, job| job.exit_code = Some(1)),
        (Verdict::Inconclusive, "JOB_STOPPED", |_, job| job.state = "TIMEOUT".into()),
    ];
    for (verdict, code, change) in cases {
        let judgement = judged(change);
        assert_eq!(
            (judgement.verdict, judgement.reasons[0].code.as_str()),
            (*verdict, *code),
            "{judgement:?}"
        );
    }
}

#[test]
fn nothing_is_no_pass() {
    let (_, job) = good();
    let nothing = Reading { ended: Ended::Empty, first_error: None, tables: vec![] };
    let no_floors = Criteria { floors: vec![], require_check: false, ..criteria() };
    let workload = workload();
    assert_eq!(by(&evidence(&nothing, &job, &workload), &no_floors).verdict, Verdict::Inconclusive);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is taken out of a good run, what is left does not pass.
    #[test]
    fn less_evidence_never_passes(row in 0..3usize, which in 0..4u8) {
        let judgement = judged(|reading, _| {
            let row = &mut reading.tables[0].rows[row];
            match which {
                0 => row.out_of_place = None,
                1 => row.in_place = None,
                2 => row.in_place.as_mut().unwrap().wrong = None,
                _ => row.size_bytes += 1,
            }
        });
        prop_assert_ne!(judgement.verdict, Verdict::Pass);
    }
}
