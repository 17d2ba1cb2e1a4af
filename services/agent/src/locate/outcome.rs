//! Outcome of one pair of a search, from its logs. Pure.

use std::io;

use measure::Declaration;
use model::{
    CommandLine, JobEnd, NodeSearch, OutputFormat, Program, Workload,
    measurement::{LogEnd, Reading},
    metric::{Better, Severity},
};
use verdict::locate::SweepOutcome;

/// Messages of a benchmark or of NCCL: a log with one of them shows that the pair started, even without the benchmark's banner.
const FAILURES: [&str; 5] = ["CUDA failure", "Cuda failure", "HIP failure", "NCCL failure", "NCCL WARN"];
/// Scheduler codes for a job lost because of one of its nodes. Other codes are no evidence about the nodes.
pub(super) const NODES_OWN: [&str; 4] = ["NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "NODE_LOST"];

/// Parses a log of the search's benchmark in the format of its program.
///
/// # Errors
/// Returns an error if reading fails.
pub(super) fn read(program: &Program, log: impl io::Read) -> io::Result<Reading> {
    let Some(CommandLine { read, .. }) = program.command() else { return nccl::read(log) };
    match read {
        OutputFormat::Format(name) => match measure::format(name) {
            Some(format) => measure::read_as(format, log),
            None => Ok(Reading::default()), // a format of a later version: no measurement
        },
        OutputFormat::Declared(rules) => {
            let declaration = serde_json::from_value::<Declaration>(rules.clone()).ok();
            match declaration.and_then(|declaration| declaration.check(false).ok()) {
                Some(declared) => declared.read(log),
                None => Ok(Reading::default()),
            }
        }
    }
}

/// Outcome of a pair that ended. Without evidence the outcome is void: a missing log does not make a node bad.
pub(super) fn outcome(end: &JobEnd, search: &NodeSearch, readings: &[Reading]) -> SweepOutcome {
    let wrong = readings.iter().flat_map(|reading| &reading.findings);
    if is_wrong(readings) || wrong.into_iter().any(|finding| finding.severity == Severity::WrongData) {
        return SweepOutcome::Broken { why: "the results of the pair are wrong".to_owned() };
    }
    let tables = || readings.iter().flat_map(|reading| &reading.tables);
    match end.state.as_str() {
        "COMPLETED" => {}
        "CANCELLED" => return SweepOutcome::Void { why: "the pair was cancelled".to_owned() },
        state => {
            let error = readings.iter().find_map(|reading| reading.first_error.as_deref());
            let why = error.map_or_else(|| state.to_owned(), |error| format!("{state}: {error}"));
            // A failure because of a setting, such as a missing persistence mode, is not evidence against the nodes either.
            let mut findings = readings.iter().flat_map(|reading| &reading.findings).peekable();
            let is_found = findings.peek().is_some();
            let are_settings = is_found && findings.all(|it| it.severity == Severity::Configuration);
            if are_settings && !NODES_OWN.contains(&state) {
                return SweepOutcome::Void {
                    why: format!("the benchmark reported only configuration findings: {why}"),
                };
            }
            // A program or container that does not start is no evidence about the pair.
            let printed = error.is_some_and(|error| FAILURES.iter().any(|phrase| error.contains(phrase)));
            let measured = readings.iter().any(|reading| !reading.metrics.is_empty());
            let began = printed || measured || tables().next().is_some() || NODES_OWN.contains(&state);
            return match began {
                true => SweepOutcome::Broken { why },
                false => SweepOutcome::Void { why: format!("the benchmark did not start: {why}") },
            };
        }
    }
    let speed = match &search.program {
        Program::NcclTests(workload) => bandwidth(workload, readings),
        Program::Command(_) => search
            .metrics
            .iter()
            .find_map(|metric| speed(metric, search.better.get(metric).copied(), readings)),
    };
    match speed {
        Some(busbw) => SweepOutcome::Measured { busbw },
        None => SweepOutcome::Void { why: "the log of the pair has no measurement".to_owned() },
    }
}

/// Whether nccl-tests found wrong data.
fn is_wrong(readings: &[Reading]) -> bool {
    readings.iter().flat_map(|reading| &reading.tables).any(|table| {
        let halves = table.rows.iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten();
        table.out_of_bounds.is_some_and(|found| found.count > 0)
            || halves.into_iter().any(|half| half.wrong.is_some_and(|wrong| wrong > 0))
    })
}

/// Mean bus bandwidth, GB/s, computed from the times: the printed bandwidth has only two decimals.
fn bandwidth(workload: &Workload, readings: &[Reading]) -> Option<f64> {
    let measured = readings.iter().flat_map(|reading| &reading.tables).flat_map(|table| {
        let factor = workload.collective.bus_factor(table.ranks.unwrap_or(2).max(2));
        let halves = table.rows.iter().flat_map(|row| [(row, row.out_of_place), (row, row.in_place)]);
        halves.filter_map(move |(row, half)| {
            let time_us = half?.time_us;
            (time_us > 0.0).then(|| row.size_bytes as f64 / time_us / 1e3 * factor)
        })
    });
    let (count, sum) = measured.fold((0_u32, 0.0), |(count, sum), busbw| (count + 1, sum + busbw));
    (count > 0).then(|| sum / f64::from(count))
}

/// Geometric mean of all values of a metric, inverted if less is better: `better` of the criteria, otherwise that of the format. `None` if the
/// logs are incomplete, a value is not positive, or no direction is known.
fn speed(metric: &str, better: Option<Better>, readings: &[Reading]) -> Option<f64> {
    let complete = readings.iter().any(|reading| reading.ended == LogEnd::Complete)
        && readings.iter().all(|reading| matches!(reading.ended, LogEnd::Complete | LogEnd::Empty));
    let mut values = Vec::new();
    for measured in readings.iter().flat_map(|reading| &reading.metrics).filter(|it| *it.name == *metric) {
        let value = measured.value.filter(|value| complete && *value > 0.0)?;
        values.push(match better.unwrap_or(measured.better) {
            Better::Higher => value.ln(),
            Better::Lower => -value.ln(),
            Better::Exact | Better::None => return None,
        });
    }
    (!values.is_empty()).then(|| (values.iter().sum::<f64>() / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use model::{Attempt, Cluster, ClusterAccess, Every, Locate, Timestamp};

    use super::*;

    fn search(program: Program, metrics: &[&str]) -> NodeSearch {
        NodeSearch {
            cluster: Cluster { name: "c".into(), nodes: vec![], access: ClusterAccess::new("hosts", ()) },
            image: None,
            program,
            metrics: metrics.iter().map(|metric| (*metric).to_owned()).collect(),
            better: Default::default(),
            environment: Default::default(),
            job_attempt: Attempt::FIRST,
            locate: Locate::default(),
            ends_at: Timestamp::from_millis(0),
            retest: None,
            drains_left: None,
            drained: Vec::new(),
            suspected: Vec::new(),
        }
    }

    #[test]
    fn the_judged_metric_of_any_program_measures_a_pair() {
        let rules = |better: &str| {
            serde_json::json!({"row": r"^rate (?P<value>\S+)$", "end": "^done$", "name": "rate", "unit": "GB/s",
                "better": better, "scope": "world"})
        };
        let measured_as = |better: &str, stated: Option<Better>, log: &str| {
            let read = OutputFormat::Declared(rules(better));
            let command =
                CommandLine { argv: vec!["m".into()], every: Every::Rank, rounds: None, image: None, read };
            let program = Program::Command(command);
            let reading = super::read(&program, log.as_bytes()).unwrap();
            let mut search = search(program, &["other", "rate"]);
            search.better = stated.map(|better| ("rate".to_owned(), better)).into_iter().collect();
            outcome(&JobEnd::new("COMPLETED", None), &search, &[reading])
        };
        let measured = |better: &str, log: &str| measured_as(better, None, log);
        let speed = |outcome| match outcome {
            SweepOutcome::Measured { busbw } => busbw,
            other => panic!("{other:?}"),
        };
        assert!((speed(measured("higher", "rate 40\nrate 10\ndone\n")) - 20.0).abs() < 1e-9);
        assert!((speed(measured("lower", "rate 40\nrate 10\ndone\n")) - 0.05).abs() < 1e-9);
        let log = "rate 40\nrate 10\ndone\n";
        assert!(
            (speed(measured_as("none", Some(Better::Lower), log)) - 0.05).abs() < 1e-9,
            "the direction of the criteria applies"
        );
        assert!(
            matches!(measured("none", log), SweepOutcome::Void { .. }),
            "without a direction the pair is void"
        );
        for log in ["", "rate 40\n", "done\n", "rate 0\ndone\n", "rate nan\ndone\n"] {
            assert!(matches!(measured("higher", log), SweepOutcome::Void { .. }), "{log}");
        }
    }

    #[test]
    fn a_pair_whose_benchmark_did_not_start_is_void() {
        let workload = Workload {
            collective: model::Collective::AllReduce,
            min_bytes: 8,
            max_bytes: 8,
            step_factor: 2,
            iterations: 1,
            warmup_iterations: 1,
            check: true,
            datatype: None,
            extra_args: Default::default(),
        };
        let ended = |state: &str, log: &str| {
            let search = search(Program::NcclTests(workload.clone()), &[]);
            outcome(&JobEnd::new(state, None), &search, &[nccl::read_bytes(log.as_bytes())])
        };
        let missing = "bash: all_reduce_perf: command not found\n";
        for log in ["", missing, "docker: Error response from daemon: manifest unknown.\n"] {
            assert!(matches!(ended("FAILED", log), SweepOutcome::Void { .. }), "{log}");
        }
        for log in [
            &format!("# Using devices\n{missing}"),
            "node-2: Test CUDA failure common.cu:892 'uncorrectable ECC error encountered'\n",
            "node-2:1:2 [0] misc/socket.cc:1 NCCL WARN connection lost\n",
        ] {
            assert!(matches!(ended("FAILED", log), SweepOutcome::Broken { .. }), "{log}");
        }
        assert!(matches!(ended("NODE_FAIL", ""), SweepOutcome::Broken { .. }), "the node failed");
    }
}
