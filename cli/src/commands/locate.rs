//! `burnin locate`: finds the bad rank, GPU, node or link.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use model::measurement::{LogEnd, Reading, Table};
use verdict::{
    PAIR_FAILED, from_pair_metrics,
    locate::{Located, Members, PairOptions, PairResult, from_pairs, from_processes},
    pair_metrics, units_of_pairs,
};

use crate::{
    args::Output,
    commands::{
        judge,
        parse::{self, ReadFormat},
        print, print_json,
    },
    exit::{CliError, Exit},
};

/// Sizes of at least largest / PLATEAU form the plateau of a pair test.
const PLATEAU: u64 = 16;

pub struct LocateInput {
    pub files: Vec<PathBuf>,
    pub reference: Vec<PathBuf>,
    /// `--read`.
    pub read: Option<PathBuf>,
    /// `--metric`.
    pub metrics: Vec<String>,
}

/// Locates bad members from the measurements.
pub fn locate(input: &LocateInput, output: Output) -> Result<Exit, CliError> {
    let format = ReadFormat::of(input.read.as_deref())?;
    let read = |files: &[PathBuf]| -> Result<Vec<Reading>, CliError> {
        files.iter().map(|file| parse::read_pairs(file, &format)).collect()
    };
    let (readings, healthy) = (read(&input.files)?, read(&input.reference)?);
    let located = match readings.as_slice() {
        [one] if has_processes(one) => from_processes(one, &healthy),
        _ if readings.iter().all(|reading| reading.metrics.is_empty() && reading.findings.is_empty()) => {
            pairs(&input.files, &readings, &healthy)?
        }
        _ => pairs_of_metrics(input, readings, healthy)?,
    };
    match output {
        Output::Json => print_json(&located),
        Output::Human => print(&located_text(&located)),
    }
    Ok(ends(&located))
}

/// Locates bad members from the metrics of pairs.
fn pairs_of_metrics(
    input: &LocateInput,
    mut readings: Vec<Reading>,
    mut healthy: Vec<Reading>,
) -> Result<Located, CliError> {
    let files = input.files.iter().zip(&mut readings).chain(input.reference.iter().zip(&mut healthy));
    for (file, reading) in files {
        let failed = reading.findings.iter().any(|finding| finding.code == PAIR_FAILED);
        if reading.ended != LogEnd::Complete && !failed {
            return Err(CliError::usage(format!("{}: is incomplete; repeat the test", file.display())));
        }
        if let Some((node, peer)) =
            named_by(file).filter(|_| pair_metrics(std::slice::from_ref(reading)).is_empty())
        {
            reading.name_pair(node, peer);
        }
        if pair_metrics(std::slice::from_ref(reading)).is_empty() && !failed {
            return Err(not_a_pair(file));
        }
    }
    let known = pair_metrics(&readings);
    let listed = || match known.is_empty() {
        true => "none".to_owned(),
        false => known.iter().copied().collect::<Vec<_>>().join(", "),
    };
    if let Some(other) = input.metrics.iter().find(|metric| !known.contains(metric.as_str())) {
        let listed = listed();
        return Err(CliError::usage(format!(
            "--metric: `{other}` is not a metric of pairs in the logs; use one of: {listed}"
        )));
    }
    let chosen: BTreeSet<&str> = match input.metrics.is_empty() {
        true if known.len() > 1 => {
            return Err(CliError::usage(format!(
                "the logs have several metrics of pairs; choose with --metric: {}",
                listed()
            )));
        }
        true => known.clone(),
        false => input.metrics.iter().map(String::as_str).collect(),
    };
    for (file, reading) in input.files.iter().zip(&readings).chain(input.reference.iter().zip(&healthy)) {
        let failed = reading.findings.iter().any(|finding| finding.code == PAIR_FAILED);
        if !failed && pair_metrics(std::slice::from_ref(reading)).is_disjoint(&chosen) {
            let wanted = chosen.iter().copied().collect::<Vec<_>>().join(", ");
            return Err(CliError::usage(format!("{}: has no {wanted}; repeat the test", file.display())));
        }
    }
    for metric in &chosen {
        let mut units = units_of_pairs(&readings, metric);
        units.extend(units_of_pairs(&healthy, metric));
        if units.len() > 1 {
            let units = units.into_iter().collect::<Vec<_>>().join(" and ");
            return Err(CliError::usage(format!(
                "{metric} is in {units}; name only logs with the same unit"
            )));
        }
    }
    Ok(from_pair_metrics(&readings, &healthy, &chosen, &PairOptions::default()))
}

/// The two nodes in a file name such as `n1,n2.log`. The output of most programs names neither node.
fn named_by(file: &Path) -> Option<(&str, &str)> {
    let (node, peer) = file.file_stem()?.to_str()?.split_once(',')?;
    (!node.is_empty() && !peer.is_empty() && !peer.contains(',')).then_some((node, peer))
}

/// Exit code: healthy, located, or not located.
pub fn ends(located: &Located) -> Exit {
    if located.healthy {
        Exit::Pass
    } else if located.suspects.is_empty() && located.links.is_empty() {
        Exit::Inconclusive
    } else {
        Exit::Fail
    }
}

fn has_processes(reading: &Reading) -> bool {
    reading.tables.iter().flat_map(|table| &table.rows).any(|row| row.processes.is_some())
}

fn pairs(files: &[PathBuf], readings: &[Reading], healthy: &[Reading]) -> Result<Located, CliError> {
    let mut kinds = BTreeSet::new();
    let mut results = Vec::new();
    for (file, reading) in files.iter().zip(readings) {
        for table in &reading.tables {
            let (a, b, across_hosts) = members(table).ok_or_else(|| not_a_pair(file))?;
            kinds.insert(across_hosts);
            let right = table.out_of_bounds.is_none_or(|bounds| bounds.ok);
            results.push(PairResult {
                a,
                b,
                busbw: plateau(table),
                ok: right && table.ended == LogEnd::Complete,
            });
        }
        if reading.tables.is_empty() {
            return Err(not_a_pair(file));
        }
    }
    if kinds.len() > 1 {
        return Err(CliError::usage(
            "some logs measure pairs of nodes, others pairs of GPUs; run `burnin locate` on each kind separately",
        ));
    }
    let members = if kinds.contains(&true) { Members::Hosts } else { Members::BusIds };
    let expected = healthy.iter().flat_map(|reading| &reading.tables).map(plateau).fold(0.0, f64::max);
    let expected_busbw = (expected > 0.0).then_some(expected);
    Ok(from_pairs(&results, &PairOptions { members, expected_busbw, ..PairOptions::default() }))
}

fn not_a_pair(file: &Path) -> CliError {
    CliError::usage(format!(
        "{}: neither a run with per-process times (nccl-tests with -I 1 -J) nor a run of two nodes or two GPUs; if the log names no \
         nodes, name the file after its two nodes: `n1,n2.log`",
        file.display()
    ))
}

/// The two members of a pair test, and whether they are hosts.
fn members(table: &Table) -> Option<(String, String, bool)> {
    let hosts: BTreeSet<_> = table.devices.iter().map(|device| device.host.clone()).collect();
    let mut hosts = hosts.into_iter();
    match (hosts.next(), hosts.next(), hosts.next()) {
        (Some(a), Some(b), None) => Some((a, b, true)),
        (Some(_), None, None) => match table.devices.as_slice() {
            [a, b] => Some((a.bus_id.clone()?, b.bus_id.clone()?, false)),
            _ => None,
        },
        _ => None,
    }
}

/// Median bus bandwidth over the large sizes, GB/s; 0 without measurements.
pub fn plateau(table: &Table) -> f64 {
    let largest = table.rows.iter().map(|row| row.size_bytes).max().unwrap_or(0);
    let large = table.rows.iter().filter(|row| row.size_bytes >= largest / PLATEAU);
    let mut values: Vec<f64> =
        large.flat_map(|row| [&row.out_of_place, &row.in_place]).flatten().map(|half| half.busbw).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Text for a terminal.
pub fn located_text(located: &Located) -> String {
    let mut text =
        String::from(match (located.healthy, located.suspects.is_empty() && located.links.is_empty()) {
            (true, _) => "healthy\n",
            (false, true) => "not located\n",
            (false, false) => "located\n",
        });
    for suspect in &located.suspects {
        let name = judge::name(suspect);
        text += &format!("  {}, confidence {:.2}\n", parse::shown(&name), suspect.confidence);
    }
    for suspect in &located.suspected {
        let name = judge::name(suspect);
        text += &format!("  {} is suspected, confidence {:.2}\n", parse::shown(&name), suspect.confidence);
    }
    for link in &located.links {
        let name = parse::shown(&format!("link {} - {}", link.a, link.b));
        text += &format!("  {name}, confidence {:.2}\n", link.confidence);
    }
    if let Some(why) = &located.undecided {
        text += &format!("  {}\n", parse::shown(why));
    }
    text
}
