//! Logs without a run, with criteria, baseline and history.

use model::{measurement::*, *};
use report::{ReportInput, ReportedLog};
use verdict::{
    Baseline, ClueReader, Clues, Fingerprint, Judgement, RunEvidence, Standard,
    baseline::{Healthy, learn},
    judge,
};

/// Logs and their standard.
pub struct JudgedCheck {
    pub logs: Vec<(String, Reading, Judgement)>,
    pub whole: Judgement,
    pub criteria: Option<Criteria>,
    pub baseline: Option<Baseline>,
    pub earlier: Vec<f64>,
}

impl JudgedCheck {
    /// Judges the logs like the command `judge`: in order, each with the earlier logs as its history.
    pub fn judged(
        logs: Vec<(String, Reading, Clues)>,
        criteria: Option<Criteria>,
        baseline: Option<Baseline>,
        earlier: Vec<f64>,
    ) -> Self {
        let mut before = earlier.clone();
        let mut judged = Vec::new();
        for (name, reading, clues) in logs {
            let standard = Standard {
                criteria: criteria.as_ref(),
                baseline: baseline.as_ref(),
                earlier: &before,
                ..Standard::default()
            };
            let judgement = judge(&RunEvidence::of(&reading, &clues), &standard);
            if let (Some(baseline), [table]) = (&baseline, reading.tables.as_slice()) {
                before.extend(baseline.level(table));
            }
            judged.push((name, reading, judgement));
        }
        let named = judged.iter().map(|(name, _, judgement)| {
            let mut judgement = judgement.clone();
            for reason in judgement.reasons.iter_mut().filter(|_| judged.len() > 1) {
                reason.text = format!("{name}: {}", reason.text);
            }
            judgement
        });
        let whole = named.reduce(Judgement::and).expect("a log");
        Self { logs: judged, whole, criteria, baseline, earlier }
    }

    pub fn input(&self) -> ReportInput<'_> {
        ReportInput {
            run: None,
            parts: Vec::new(),
            logs: self.logs.iter().map(source).collect(),
            judgement: Some(&self.whole),
            standard: Standard {
                criteria: self.criteria.as_ref(),
                baseline: self.baseline.as_ref(),
                earlier: &self.earlier,
                ..Standard::default()
            },
            series: true,
        }
    }
}

fn source((name, reading, judgement): &(String, Reading, Judgement)) -> ReportedLog<'_> {
    ReportedLog { name, reading, judgement: Some(judgement) }
}

/// Two nodes of eight, 64 B to 4 GiB: 27 sizes; `slower` is the excess time of each size.
pub fn reading(slower: impl Fn(u64) -> f64) -> Reading {
    let half = |size: u64, latency: f64| {
        let time_us = (latency + size as f64 / 410e3) * (1.0 + slower(size));
        let printed = |value: f64| (value * 100.0).round() / 100.0;
        let algbw = printed(size as f64 / time_us / 1e3);
        let busbw = printed(size as f64 / time_us / 1e3 * 15.0 / 16.0);
        Some(Half { time_us: printed(time_us), algbw, busbw, wrong: Some(0), ..Half::default() })
    };
    let row = |power: u32| Row {
        size_bytes: 64 << power,
        count: 16 << power,
        dtype: "float".into(),
        out_of_place: half(64 << power, 41.3),
        in_place: half(64 << power, 39.9),
        ..Row::default()
    };
    let device = |rank: u32| Device {
        rank,
        host: format!("a3-{}", rank / 8),
        device: Some(rank % 8),
        bus_id: Some(format!("0000:{:02x}:00", rank % 8)),
        name: Some("NVIDIA H100 80GB HBM3".into()),
    };
    Reading {
        ended: LogEnd::Complete,
        first_error: None,
        tables: vec![Table {
            collective: Some("all_gather".into()),
            ranks: Some(16),
            devices: (0..16).map(device).collect(),
            nccl_tests_version: Some("2.17.1".into()),
            nccl_version: Some("2.27.7".into()),
            started_at: None,
            unmeasured: 0,
            rows: (0..27).map(row).collect(),
            out_of_bounds: Some(OutOfBounds { count: 0, ok: true }),
            average_busbw: Some(121.4),
            ended: LogEnd::Complete,
        }],
        ..Reading::default()
    }
}

/// Deterministic noise from -1 to 1.
pub fn noise(of: u64) -> f64 {
    let mixed = (of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / f64::from(1 << 23) - 1.0
}

pub fn clues(log: &str) -> Clues {
    let mut clue_reader = ClueReader::new(log.as_bytes());
    std::io::copy(&mut clue_reader, &mut std::io::sink()).expect("memory can be read");
    clue_reader.finish()
}

pub fn baseline() -> Baseline {
    let readings: Vec<_> =
        (0..5).map(|run| reading(|size| 0.002 * noise(run * 1000 + u64::from(size.ilog2())))).collect();
    let clues = clues("a3-0:1:2 [0] NCCL INFO cudaDriverVersion 12080\n");
    let of = |reading| Healthy { reading, fingerprint: Fingerprint::of(&RunEvidence::of(reading, &clues)) };
    learn(&readings.iter().map(of).collect::<Vec<_>>()).expect("healthy runs")
}

pub fn criteria() -> Criteria {
    let points = (20..=26).map(|power| CurvePoint {
        size_bytes: 64 << power,
        busbw: 384.0 - 3000.0 / f64::from(1 << (power - 16)),
    });
    Criteria {
        network: Some("FasTrak".into()),
        floors: vec![Floor::everywhere(4 << 30, 150.0)],
        references: vec![Reference {
            collective: Collective::AllGather,
            ranks: Some(16),
            source: "two nodes, the guide's own table".into(),
            points: points.collect(),
        }],
        source: Some("a guide".into()),
        ..Criteria::named("a3-mega")
    }
}

/// The levels of 200 runs with a step of 1.1 % after the first 150.
pub fn history() -> Vec<f64> {
    (0..200).map(|run| 0.002 * noise(run) + if run < 150 { 0.0 } else { 0.011 }).collect()
}

/// A log in which half of the data goes over sockets.
const SOCKETS: &str = "a3-0:10:20 [0] NCCL INFO cudaDriverVersion 12080
a3-0:10:20 [0] NCCL INFO Using network FasTrak
a3-1:11:21 [0] NCCL INFO NET/FasTrak disabled by the environment
a3-1:11:21 [0] NCCL INFO Using network Socket
a3-1:12:22 [1] NCCL INFO Using network Socket
a3-1:13:23 [2] NCCL INFO Using network Socket
a3-1:11:21 [0] NCCL INFO NCCL_PROTO set by environment to LL
";

/// A slow log over the wrong network, after a history with a change of level.
pub fn bad() -> JudgedCheck {
    let log = reading(|size| if size > 1 << 20 { 0.31 } else { 0.02 });
    let log = ("logs/degraded.log".to_owned(), log, clues(SOCKETS));
    JudgedCheck::judged(vec![log], Some(criteria()), Some(baseline()), history())
}

/// A log at the level of the baseline.
pub fn healthy() -> JudgedCheck {
    let log = reading(|size| 0.001 * noise(size));
    let clues = clues(
        "a3-0:1:2 [0] NCCL INFO Using network FasTrak\na3-0:1:2 [0] NCCL INFO cudaDriverVersion 12080\n",
    );
    let before = history()[..150].to_vec();
    JudgedCheck::judged(
        vec![("logs/healthy.log".to_owned(), log, clues)],
        Some(criteria()),
        Some(baseline()),
        before,
    )
}

/// Several logs: a healthy one, a slow one, one without a table.
pub fn several() -> JudgedCheck {
    let none = Reading::default();
    let network = || clues("a3-0:1:2 [0] NCCL INFO Using network FasTrak\n");
    let logs = vec![
        ("logs/1.log".to_owned(), reading(|size| 0.001 * noise(size)), network()),
        ("logs/2.log".to_owned(), reading(|size| if size > 1 << 26 { 0.05 } else { 0.0 }), network()),
        ("logs/3.log".to_owned(), none, Clues::default()),
    ];
    JudgedCheck::judged(logs, Some(criteria()), Some(baseline()), Vec::new())
}
