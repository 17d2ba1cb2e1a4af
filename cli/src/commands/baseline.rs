//! `burnin baseline`: learns a baseline from healthy logs.

use std::path::{Path, PathBuf};

use verdict::{
    Fingerprint, RunEvidence,
    baseline::{Healthy, Unlearnable, halves, learn, learn_without_outliers},
    repeat::{RepeatGroup, RepeatLevel},
};

use crate::{
    commands::{
        logs::{RowLimit, files, read_log},
        note,
        parse::{ReadFormat, shown},
        print,
    },
    exit::{CliError, Exit},
    output::write_file,
};

/// Learns a baseline and writes it atomically.
pub fn baseline(
    logs: &[PathBuf],
    format: &ReadFormat,
    save: &Path,
    drop_outliers: bool,
) -> Result<Exit, CliError> {
    let logs = files(logs)?;
    let mut room = RowLimit::default();
    let read = |log: &PathBuf| {
        let (reading, clues) = read_log(log, format, false)?;
        room.take(log, &reading).map(|()| (reading, clues))
    };
    let logs_read = logs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<_> = logs_read
        .iter()
        .map(|(reading, clues)| Healthy {
            reading,
            fingerprint: Fingerprint::of(&RunEvidence::of(reading, clues)),
        })
        .collect();
    let names: Vec<_> = logs.iter().map(|log| shown(&log.display().to_string())).collect();
    let learned = match drop_outliers {
        true => learn_without_outliers(&runs),
        false => learn(&runs).map(|baseline| (baseline, Vec::new())),
    };
    let (baseline, left_out) = learned.map_err(|error| refused(error, &runs, &names))?;
    for RepeatLevel { run, busbw, slower } in left_out {
        let name = &names[run];
        if slower < 0.0 {
            // If a single log is faster, the other logs may all be equally slow.
            let less = -100.0 * slower;
            note(format_args!(
                "left out: {name}: plateau bandwidth {busbw:.1} GB/s, {less:.1} % less time than the median; if the cluster \
                 can reach this bandwidth, the logs kept are not healthy: measure again before you trust this baseline"
            ));
            continue;
        }
        note(format_args!(
            "left out: {name}: plateau bandwidth {busbw:.1} GB/s, {:.1} % more time than the median",
            100.0 * slower
        ));
    }
    let text = serde_json::to_string_pretty(&baseline).unwrap_or_default() + "\n";
    write_file(save, text.as_bytes())?;
    let few = if baseline.runs < 5 { "; learn from five or more runs for a better baseline" } else { "" };
    let runs = report::count(baseline.runs, "run");
    if !baseline.metrics.is_empty() {
        let metrics = report::count(baseline.metrics.len() as u64, "metric");
        print(&format!("{}: {metrics} of {runs}{few}\n", save.display()));
        return Ok(Exit::Pass);
    }
    print(&format!(
        "{}: {} of {runs}, the plateau repeats within {:.1} %{few}\n",
        save.display(),
        report::count(baseline.points.len() as u64, "point"),
        100.0 * baseline.repeatability()
    ));
    Ok(Exit::Pass)
}

fn refused(error: Unlearnable, runs: &[Healthy<'_>], names: &[String]) -> CliError {
    match error {
        Unlearnable::Nothing => CliError::usage("no log given; name log files or folders"),
        Unlearnable::Unfit { log, why } => CliError::usage(format!(
            "{}: no baseline can be learned from this log: {why}; leave it out, or repeat the run",
            names[log]
        )),
        Unlearnable::Mixed { log, field } => CliError::usage(format!(
            "{}: not comparable in {field} with {}; learn one baseline for each group:\n{}",
            names[log],
            names[0],
            shapes(&field, runs, names)
        )),
        Unlearnable::Unrepeated { groups, levels } => CliError::usage(format!(
            "the logs do not repeat: their plateaus are {}; learn from the logs of one level, or measure again. With \
             --drop-outliers at most a fifth of the logs is left out:\n{}",
            match groups.len() {
                1 => "more than 5 % from their median".to_owned(),
                many => format!("on {many} levels"),
            },
            levels_text(&groups, &levels, names)
        )),
    }
}

/// One line per level, each followed by its logs.
fn levels_text(groups: &[RepeatGroup], levels: &[RepeatLevel], names: &[String]) -> String {
    let mut lines = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let logs = report::count(group.runs.len() as u64, "log");
        lines.push(format!("  group {}: {:.1} GB/s, {logs}", number + 1, group.busbw));
        let here = levels.iter().filter(|level| group.runs.contains(&level.run));
        lines.extend(here.map(|level| format!("    {:.1} GB/s  {}", level.busbw, names[level.run])));
    }
    lines.join("\n")
}

/// Groups of logs with the same value of `field`, the field in which the logs differ; one log per line.
fn shapes(field: &str, runs: &[Healthy<'_>], names: &[String]) -> String {
    let value = |run: &Healthy<'_>| match run.fingerprint.get(field) {
        Some(value) => format!("{field} {value}"),
        None => {
            let points = run.reading.tables.iter().flat_map(halves).map(|(key, _)| key.size_bytes);
            let sizes: std::collections::BTreeSet<_> = points.collect();
            let ends = sizes.first().zip(sizes.last());
            let ends = ends.map_or_else(String::new, |(first, last)| {
                format!(", {} to {}", report::size(*first), report::size(*last))
            });
            format!("{}{ends}", report::count(sizes.len() as u64, "size"))
        }
    };
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (run, name) in runs.iter().zip(names) {
        let value = value(run);
        match groups.iter_mut().find(|group| group.0 == value) {
            Some(group) => group.1.push(name),
            None => groups.push((value, vec![name])),
        }
    }
    let mut lines = Vec::new();
    for (number, (value, logs)) in groups.into_iter().enumerate() {
        lines.push(format!("  group {}: {}", number + 1, shown(&value)));
        lines.extend(logs.into_iter().map(|log| format!("    {log}")));
    }
    lines.join("\n")
}
