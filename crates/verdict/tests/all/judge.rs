//! Every fault prevents a pass, and is reported with its reason.

use std::{io, sync::LazyLock};

use model::{
    Cluster, Collective, Criteria, CurvePoint, Floor, JobEnd, MetricCriterion, Node, OneRank, Reference,
    Unequal, Verdict, Workload,
    measurement::{Device, Half, LogEnd, OutOfBounds, PartialHalf, Placement, Reading, Row, Table},
};
use proptest::prelude::*;
use verdict::{Baseline, ClueReader, Clues, Fingerprint, Judgement, RunEvidence, Standard, baseline, judge};

static NOTHING: LazyLock<Clues> = LazyLock::new(Clues::default);
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| Cluster {
    name: "test".into(),
    nodes: ["node-0", "node-1"].map(|name| Node::new(name, 2)).to_vec(),
    access: model::ClusterAccess::processes(""),
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
        datatype: None,
        extra_args: Default::default(),
    }
}

fn criteria() -> Criteria {
    let floors = vec![Floor::everywhere(1 << 24, 1.0)];
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
        partial: None,
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
        started_at: None,
        unmeasured: 0,
        rows: workload().sizes().into_iter().map(row).collect(),
        out_of_bounds: Some(OutOfBounds { count: 0, ok: true }),
        average_busbw: Some(3.0),
        ended: LogEnd::Complete,
    };
    let end = JobEnd::new("COMPLETED", Some(0));
    (Reading { ended: LogEnd::Complete, first_error: None, tables: vec![table], ..Reading::default() }, end)
}

fn evidence<'a>(reading: &'a Reading, job: &'a JobEnd, workload: &'a Workload) -> RunEvidence<'a> {
    RunEvidence {
        job: Some(job),
        workload: Some(workload),
        cluster: Some(&CLUSTER),
        ..RunEvidence::of(reading, &NOTHING)
    }
}

fn by(evidence: &RunEvidence<'_>, criteria: &Criteria) -> Judgement {
    judge(evidence, &Standard { criteria: Some(criteria), ..Standard::default() })
}

fn judged(change: impl FnOnce(&mut Reading, &mut JobEnd)) -> Judgement {
    let (mut reading, mut job) = good();
    change(&mut reading, &mut job);
    by(&evidence(&reading, &job, &workload()), &criteria())
}

#[test]
fn metric_criteria_for_a_table_are_inconclusive() {
    let ((reading, job), workload) = (good(), workload());
    let evidence = evidence(&reading, &job, &workload);
    assert_eq!(by(&evidence, &criteria()).verdict, Verdict::Pass);
    let name = "nccl_tests.bus_bandwidth";
    let metric = MetricCriterion { metric: name.into(), floor: Some(1e9), ..MetricCriterion::default() };
    let judgement = by(&evidence, &Criteria { metrics: vec![metric], ..criteria() });
    assert_eq!(judgement.verdict, Verdict::Inconclusive);
    assert!(judgement.reasons[0].text.contains(name), "{:?}", judgement.reasons);
}

#[test]
fn a_healthy_run_passes_with_reasons() {
    let judgement = judged(|_, _| {});
    assert_eq!(judgement.verdict, Verdict::Pass);
    let codes: Vec<_> = judgement.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(codes, ["SANE", "ABOVE_FLOOR"]);
}

#[test]
fn every_kind_of_failure_is_reported() {
    type Break = fn(&mut Reading, &mut JobEnd);
    let cases: &[(Verdict, &str, Break)] = &[
        (Verdict::Inconclusive, "NO_TABLE", |reading, _| reading.tables.clear()),
        (Verdict::Inconclusive, "MANY_TABLES", |reading, _| reading.tables.push(reading.tables[0].clone())),
        (Verdict::Inconclusive, "TRUNCATED", |reading, _| reading.tables[0].ended = LogEnd::Truncated),
        (Verdict::Fail, "BENCHMARK_FAILED", |reading, _| reading.tables[0].ended = LogEnd::Failed),
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
        (Verdict::Inconclusive, "NOT_STARTED", |reading, job| {
            reading.tables.clear();
            (job.state, job.exit_code) = ("FAILED".into(), Some(127));
        }),
        (Verdict::Inconclusive, "NOT_STARTED", |reading, job| {
            reading.tables.clear();
            (job.state, job.exit_code, job.signal) = ("FAILED".into(), None, Some(9));
        }),
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

/// The judgement by criteria alone, without a workload.
fn judged_alone(change: impl FnOnce(&mut Vec<Row>, &mut u64)) -> Judgement {
    let (mut reading, _) = good();
    let table = &mut reading.tables[0];
    change(&mut table.rows, &mut table.unmeasured);
    by(&RunEvidence::of(&reading, &NOTHING), &criteria())
}

#[test]
fn gaps_in_a_table_are_found_without_a_request() {
    let sized = |rows: &mut Vec<Row>, sizes: &[u64]| {
        let row = rows[0].clone();
        let half = |size| Some(half(size));
        let row = |size: &u64| Row {
            size_bytes: *size,
            out_of_place: half(*size),
            in_place: half(*size),
            ..row.clone()
        };
        *rows = sizes.iter().map(row).collect();
    };
    const M: u64 = 1 << 20;
    type RowEdit<'a> = &'a dyn Fn(&mut Vec<Row>, &mut u64);
    let whole: [RowEdit<'_>; 5] = [
        &|_, _| {},
        &|rows, _| rows.iter_mut().for_each(|row| row.in_place = None),
        &|rows, _| sized(rows, &[8 * M, 12 * M, 16 * M, 20 * M, 24 * M]),
        // Sizes are rounded to whole elements of three ranks.
        &|rows, _| {
            let sizes: Vec<u64> = (4..24).map(|power| (1 << power) / 12 * 12).collect();
            sized(rows, &[sizes, vec![16 * M]].concat());
        },
        &|rows, _| sized(rows, &[M, 16 * M]),
    ];
    for (case, change) in whole.into_iter().enumerate() {
        let judgement = judged_alone(change);
        assert_eq!(judgement.verdict, Verdict::Pass, "{case}: {:?}", judgement.reasons);
    }
    let cut = |row: &mut Row| {
        row.in_place = None;
        row.partial = Some(Box::new(PartialHalf::unread(Placement::InPlace)));
    };
    let broken: [(RowEdit<'_>, &str); 6] = [
        (
            // All rows lack the other half, so no row differs from the others.
            &|rows, _| rows.iter_mut().for_each(cut),
            "at 1 MiB the in-place columns are truncated or have an unreadable number",
        ),
        (&|rows, _| rows[1].out_of_place = None, "at 4 MiB nothing was measured out of place"),
        (&|rows, _| rows[0].in_place = None, "at 1 MiB nothing was measured in place"),
        (&|_, unmeasured| *unmeasured = 1, "rows printed with an invalid number: 1"),
        (
            &|rows, _| sized(rows, &[M, 2 * M, 4 * M, 16 * M, 32 * M]),
            "a size of the series is missing between 4 MiB and 16 MiB",
        ),
        (
            &|rows, _| sized(rows, &[8 * M, 12 * M, 16 * M, 24 * M, 28 * M]),
            "a size of the series is missing between 16 MiB and 24 MiB",
        ),
    ];
    for (change, expected) in broken {
        let judgement = judged_alone(change);
        let reason = judgement.reasons.iter().find(|reason| reason.code == "MISSING_SIZE");
        let text = &reason.unwrap_or_else(|| panic!("{expected}: {:?}", judgement.reasons)).text;
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(judgement.verdict, Verdict::Inconclusive, "{expected}");
    }
}

/// nccl-tests always prints `N/A` in place for these two; the other placement is judged.
#[test]
fn alltoall_and_sendrecv_are_checked_out_of_place_only() {
    for (collective, in_place_too) in [
        (Collective::Alltoall, false),
        (Collective::Sendrecv, false),
        (Collective::AllGather, true),
        (Collective::Broadcast, true),
    ] {
        let workload = Workload { collective, ..workload() };
        let (mut reading, job) = good();
        reading.tables[0].collective = Some(collective.as_str().to_owned());
        for row in &mut reading.tables[0].rows {
            row.in_place.as_mut().unwrap().wrong = None;
        }
        let judgement = by(&evidence(&reading, &job, &workload), &criteria());
        let unchecked = judgement.reasons.iter().any(|reason| reason.code == "UNCHECKED");
        assert_eq!(unchecked, in_place_too, "{collective:?}: {:?}", judgement.reasons);
        reading.tables[0].rows[1].out_of_place.as_mut().unwrap().wrong = None;
        let judgement = by(&evidence(&reading, &job, &workload), &criteria());
        assert_eq!(judgement.verdict, Verdict::Inconclusive, "{collective:?}");
    }
}

/// Judges the measurement of one rank on one GPU.
fn alone(reading: &Reading, criteria: &Criteria, baseline: Option<&Baseline>) -> Judgement {
    let cluster = Cluster { nodes: vec![Node::new("node-0", 1)], ..CLUSTER.clone() };
    let (_, job) = good();
    let evidence =
        RunEvidence { job: Some(&job), cluster: Some(&cluster), ..RunEvidence::of(reading, &NOTHING) };
    let standard = Standard { criteria: Some(criteria), baseline, ..Standard::default() };
    judge(&evidence, &standard)
}

/// The output of nccl-tests for one rank: the bus bandwidth is 0, and an in-place operation is a no-op.
fn one_rank(in_place_us: f64) -> Reading {
    let (mut reading, _) = good();
    reading.tables[0].ranks = Some(1);
    for row in &mut reading.tables[0].rows {
        row.out_of_place.as_mut().unwrap().busbw = 0.0;
        let algbw = (row.size_bytes as f64 / in_place_us / 1e3).round();
        row.in_place = Some(Half { time_us: in_place_us, algbw, busbw: 0.0, ..half(row.size_bytes) });
    }
    reading
}

/// A baseline of one healthy run.
fn learned() -> Baseline {
    let (two, _) = good();
    baseline::learn(&[baseline::Healthy { reading: &two, fingerprint: Fingerprint::default() }]).unwrap()
}

#[test]
fn one_rank_has_the_same_verdict_for_any_in_place_time() {
    let without = Criteria { floors: vec![], ..criteria() };
    // Times this short have too few digits to check that size equals time times bandwidth.
    for in_place_us in [0.0, 0.01, 0.24, 0.38, 0.44, 1.0, 7.1] {
        let reading = one_rank(in_place_us);
        let passed = alone(&reading, &without, None);
        assert_eq!(passed.verdict, Verdict::Pass, "{in_place_us}: {passed:?}");
        let codes: Vec<_> = passed.reasons.iter().map(|reason| reason.code.as_str()).collect();
        assert_eq!(codes, ["SANE", "ONE_RANK"], "{in_place_us}");
        assert!(passed.reasons[1].text.contains("measures no link"), "{passed:?}");

        let floored = alone(&reading, &criteria(), None);
        let codes: Vec<_> = floored.reasons.iter().map(|reason| reason.code.as_str()).collect();
        assert_eq!(
            (floored.verdict, codes),
            (Verdict::Inconclusive, vec!["ONE_RANK", "SANE"]),
            "{in_place_us}"
        );
        let text = &floored.reasons[0].text;
        assert!(text.contains("the floors of test") && text.contains("two GPUs or more"), "{text}");

        // Without link requirements the run passes, with or without floors, and the reason names the measurement.
        let alone_passes = Criteria { one_rank: OneRank::Data, ..criteria() };
        let passed = alone(&reading, &alone_passes, None);
        assert_eq!(passed.verdict, Verdict::Pass, "{in_place_us}: {passed:?}");
        let text = &passed.reasons[1].text;
        assert!(text.contains("copied 16 MiB within its memory at 2 GB/s"), "{text}");
        let baseline_too = alone(&reading, &alone_passes, Some(&learned()));
        assert_eq!(baseline_too.verdict, Verdict::Inconclusive, "a baseline cannot be applied");

        let mut unknown = reading.clone();
        unknown.tables[0].ranks = None;
        let alone = judge(
            &RunEvidence::of(&unknown, &NOTHING),
            &Standard { criteria: Some(&criteria()), ..Standard::default() },
        );
        assert_eq!(
            alone.reasons[0].code, "ONE_RANK",
            "the bus bandwidth identifies a single rank: {alone:?}"
        );
    }
}

#[test]
fn one_rank_is_not_compared_with_references_or_baselines() {
    let reading = one_rank(0.4);
    let point = CurvePoint { size_bytes: 1 << 24, busbw: 1.0 };
    let reference = Reference {
        source: "a publication".into(),
        collective: Collective::AllReduce,
        ranks: None,
        points: vec![point],
    };
    let by_reference = Criteria { floors: vec![], references: vec![reference], ..criteria() };
    assert_eq!(alone(&reading, &by_reference, None).verdict, Verdict::Inconclusive);
    let (two, _) = good();
    let fingerprint = Fingerprint::default();
    let baseline =
        baseline::learn(&[baseline::Healthy { reading: &two, fingerprint: fingerprint.clone() }]).unwrap();
    let without = Criteria { floors: vec![], ..criteria() };
    let judgement = alone(&reading, &without, Some(&baseline));
    let codes: Vec<_> = judgement.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!((judgement.verdict, codes), (Verdict::Inconclusive, vec!["ONE_RANK", "SANE"]));
    let learned = baseline::learn(&[baseline::Healthy { reading: &reading, fingerprint }]);
    assert!(matches!(learned, Err(baseline::Unlearnable::Unfit { log: 0, .. })), "{learned:?}");
}

#[test]
fn the_data_of_one_rank_is_judged() {
    let without = Criteria { floors: vec![], ..criteria() };
    let mut wrong = one_rank(0.4);
    wrong.tables[0].rows[1].out_of_place.as_mut().unwrap().wrong = Some(3);
    let judgement = alone(&wrong, &without, None);
    assert_eq!((judgement.verdict, judgement.reasons[0].code.as_str()), (Verdict::Fail, "WRONG_DATA"));
    let mut unchecked = one_rank(0.4);
    unchecked.tables[0].rows.iter_mut().for_each(|row| row.out_of_place.as_mut().unwrap().wrong = None);
    let lenient = Criteria { require_check: false, ..without };
    let judgement = alone(&unchecked, &lenient, None);
    assert_eq!((judgement.verdict, judgement.reasons[0].code.as_str()), (Verdict::Inconclusive, "ONE_RANK"));
}

/// If the header is cut and names only one of two nodes, the wrong data may come from the other node.
#[test]
fn wrong_data_makes_a_node_a_suspect_only_if_no_other_node_took_part() {
    let (mut wrong, job) = good();
    wrong.tables[0].rows[1].out_of_place.as_mut().unwrap().wrong = Some(3);
    let host = "node-0".to_owned();
    wrong.tables[0].devices = vec![Device { rank: 0, host, device: Some(0), bus_id: None, name: None }];
    let workload = workload();
    let accused = |cluster: Option<&Cluster>| {
        let evidence = RunEvidence { cluster, ..evidence(&wrong, &job, &workload) };
        let judgement = by(&evidence, &criteria());
        assert_eq!(judgement.verdict, Verdict::Fail);
        let reason = judgement.reasons.iter().find(|reason| reason.code == "WRONG_DATA").unwrap();
        let hosts: Vec<_> = judgement.suspects.into_iter().filter_map(|suspect| suspect.host).collect();
        (hosts, reason.text.clone())
    };
    let (hosts, text) = accused(Some(&CLUSTER));
    // The table names no rank of `node-1`, so that node is the suspect.
    assert!(hosts == ["node-1"] && text.contains("on one or more of node-0, node-1"), "{hosts:?} {text}");
    let chosen = [1, 2].map(|number| Node::new(Node::placeholder(number), 2)).to_vec();
    let (hosts, text) = accused(Some(&Cluster { nodes: chosen, ..CLUSTER.clone() }));
    assert!(!hosts.contains(&"node-0".to_owned()), "{hosts:?} {text}");
    assert!(text.contains("names only node-0 of 2 nodes"), "{text}");
    let one = Cluster { nodes: vec![Node::new("node-0", 4)], ..CLUSTER.clone() };
    for cluster in [Some(&one), None] {
        let (hosts, text) = accused(cluster);
        assert_eq!(hosts, ["node-0"], "{text}");
    }
}

#[test]
fn missing_evidence_does_not_pass() {
    let (_, job) = good();
    let nothing = Reading::default();
    let no_floors = Criteria { floors: vec![], require_check: false, ..criteria() };
    let workload = workload();
    assert_eq!(by(&evidence(&nothing, &job, &workload), &no_floors).verdict, Verdict::Inconclusive);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A healthy run with one part of its log removed does not pass.
    #[test]
    fn a_run_without_a_part_of_its_evidence_does_not_pass(row in 0..3usize, which in 0..4u8) {
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

#[test]
fn the_requested_environment_is_compared_with_the_one_in_effect() {
    let (reading, _) = good();
    let judged = |log: &str, environment: Unequal| {
        let mut clue_reader = ClueReader::new(log.as_bytes());
        io::copy(&mut clue_reader, &mut io::sink()).unwrap();
        let clues = clue_reader.finish();
        let criteria = Criteria { environment, ..criteria() };
        judge(
            &RunEvidence::of(&reading, &clues),
            &Standard { criteria: Some(&criteria), ..Standard::default() },
        )
    };
    let requested =
        "0: burnin environment: requested NCCL_NET=gIB\n0: burnin environment: requested NCCL_IB_TC=52\n";
    let node = |name: &str, tc: &str| {
        format!(
            "0: burnin environment: {name} has NCCL_IB_TC={tc}\n0: burnin environment: {name} has NCCL_NET=gIB\n"
        )
    };
    let same = format!("{requested}{}{}", node("a", "52"), node("b", "52"));
    let judgement = judged(&same, Unequal::default());
    let codes: Vec<_> = judgement.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(judgement.verdict, Verdict::Pass, "{codes:?}");
    assert!(codes.contains(&"ENVIRONMENT_AS_REQUESTED"), "{codes:?}");

    // NCCL prints numbers in decimal, some words as numbers, and levels by name.
    let converted = "0: burnin environment: requested NCCL_IB_TC=0x34\n\
                     0: burnin environment: requested NCCL_NET_GDR_LEVEL=2\n\
                     0: burnin environment: requested NCCL_COLLNET_ENABLE=yes\n\
                     0: burnin environment: a has NCCL_IB_TC=0x34\n\
                     0: burnin environment: a has NCCL_NET_GDR_LEVEL=2\n\
                     0: burnin environment: a has NCCL_COLLNET_ENABLE=yes\n\
                     a:1:2 [0] NCCL INFO NCCL_IB_TC set by environment to 52.\n\
                     a:1:2 [0] NCCL INFO NCCL_NET_GDR_LEVEL set by environment to PXB\n\
                     a:1:2 [0] NCCL INFO NCCL_COLLNET_ENABLE set by environment to 0.\n";
    assert_eq!(judged(converted, Unequal::default()).verdict, Verdict::Pass);

    // The script prints values as bash quotes them: `printf %q` of `^docker0,lo` and of an empty value.
    let quoted = "0: burnin environment: requested NCCL_SOCKET_IFNAME=\\^docker0\\,lo\n\
                  0: burnin environment: requested NCCL_ALGO=''\n\
                  0: burnin environment: a has NCCL_SOCKET_IFNAME=\\^docker0\\,lo\n\
                  0: burnin environment: a has NCCL_ALGO=''\n\
                  a:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ^docker0,lo\n";
    assert_eq!(judged(quoted, Unequal::default()).verdict, Verdict::Pass);

    let cases = [
        (
            quoted.replace("to ^docker0,lo", "to ^docker0"),
            "NCCL_SOCKET_IFNAME is ^docker0 on a, ^docker0,lo was requested",
        ),
        (
            format!("{requested}{}{}", node("a", "52"), node("b", "0")),
            "NCCL_IB_TC is 0 on b, 52 was requested",
        ),
        (
            format!("{requested}0: burnin environment: a has NCCL_NET=gIB\n"),
            "NCCL_IB_TC is not set, 52 was requested",
        ),
        // The script prints text, so the number is not the expected word.
        (
            format!("{requested}{}0: burnin environment: b has NCCL_NET=0\n", node("a", "52")),
            "NCCL_NET is 0 on b, gIB was requested",
        ),
        (
            format!("{same}a:1:2 [0] NCCL INFO NCCL_IB_TC set by environment to 53.\n"),
            "NCCL_IB_TC is 53 on a, 52 was requested",
        ),
        (
            format!("{same}b:1:2 [0] NCCL INFO NCCL_NET set by environment to Socket\n"),
            "NCCL_NET is Socket on b, gIB was requested",
        ),
    ];
    let severities = [
        (Unequal::Inconclusive, Verdict::Inconclusive),
        (Unequal::Fail, Verdict::Fail),
        (Unequal::Pass, Verdict::Pass),
    ];
    for (log, text) in &cases {
        for (severity, verdict) in severities {
            let judgement = judged(log, severity);
            let reason =
                judgement.reasons.iter().find(|reason| reason.code == "ENVIRONMENT_DIFFERS").unwrap();
            assert_eq!((judgement.verdict, reason.text.as_str()), (verdict, *text));
        }
    }
    // If no variable was requested, the verdict has no reason about the environment.
    let alone = judged("a:1:2 [0] NCCL INFO NCCL_NET set by environment to Socket\n", Unequal::Fail);
    assert!(alone.reasons.iter().all(|reason| !reason.code.starts_with("ENVIRONMENT")));
}
