//! `burnin locate`: finds the bad rank, GPU, node or link.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use model::measurement::{LogEnd, Reading, Table};
use verdict::locate::{Located, Members, PairOptions, PairResult, from_pairs, from_processes};

use crate::{
    args::Output,
    commands::{judge, parse, print, print_json},
    exit::{CliError, Exit},
};

/// Sizes of at least largest / PLATEAU form the plateau of a pair test.
const PLATEAU: u64 = 16;

/// Locates bad members from the measurements.
pub fn locate(files: &[PathBuf], reference: &[PathBuf], output: Output) -> Result<Exit, CliError> {
    let readings = files.iter().map(|file| parse::read(file)).collect::<Result<Vec<_>, _>>()?;
    let healthy = reference.iter().map(|file| parse::read(file)).collect::<Result<Vec<_>, _>>()?;
    let located = match readings.as_slice() {
        [one] if has_processes(one) => from_processes(one, &healthy),
        _ => pairs(files, &readings, &healthy)?,
    };
    match output {
        Output::Json => print_json(&located),
        Output::Human => print(&located_text(&located)),
    }
    Ok(ends(&located))
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
            "some files are pairs of nodes and some are pairs of GPUs; locate each kind on its own",
        ));
    }
    let members = if kinds.contains(&true) { Members::Hosts } else { Members::BusIds };
    let expected = healthy.iter().flat_map(|reading| &reading.tables).map(plateau).fold(0.0, f64::max);
    let expected_busbw = (expected > 0.0).then_some(expected);
    Ok(from_pairs(&results, &PairOptions { members, expected_busbw, ..PairOptions::default() }))
}

fn not_a_pair(file: &Path) -> CliError {
    CliError::usage(format!(
        "{}: neither a run with per-process times (nccl-tests with -I 1 -J) nor a run of two nodes or two GPUs",
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
