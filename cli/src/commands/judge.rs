//! `burnin judge`, `baseline` and `compare`: verdicts on logs, without a run around them.

use std::{fs, path::Path};

use terms::{
    Criteria, Verdict,
    measurement::{Reading, Table},
};
use verdict::{
    Baseline, Clues, Evidence, Fingerprint, Judgement, Standard,
    baseline::{Healthy, Unlearnable, learn},
    compare::{Comparison, compare as differences},
    locate::Suspect,
};
use workflow::Document;

use crate::{
    args::Output,
    commands::{parse, print, print_json},
    exit::{Error, Exit},
};

/// Fewer lines of evidence are shown than are kept.
const LINES: usize = 2;

/// Judges every log; the gravest verdict counts. With a baseline, several logs are a series in the order given.
pub fn judge(
    logs: &[impl AsRef<Path>],
    criteria: Option<&Path>,
    baseline: Option<&Path>,
    output: Output,
) -> Result<Exit, Error> {
    let criteria: Option<Criteria> = criteria.map(document).transpose()?;
    let baseline: Option<Baseline> = baseline.map(document).transpose()?;
    let mut whole: Option<Judgement> = None;
    let mut earlier = Vec::new();
    for log in logs {
        let (reading, clues) = heard(log.as_ref(), logs.len() > 1)?;
        let standard =
            Standard { criteria: criteria.as_ref(), baseline: baseline.as_ref(), earlier: &earlier };
        let mut judgement = verdict::judge(&Evidence::of(&reading, &clues), &standard);
        if let (Some(baseline), [table]) = (&baseline, reading.tables.as_slice()) {
            earlier.extend(baseline.level(table));
        }
        if logs.len() > 1 {
            for reason in &mut judgement.reasons {
                reason.text = format!("{}: {}", log.as_ref().display(), reason.text);
            }
        }
        whole = Some(match whole {
            None => judgement,
            Some(before) => before.and(judgement),
        });
    }
    let Some(whole) = whole else { return Err(Error::usage("no log was named")) };
    match output {
        Output::Json => print_json(&whole),
        Output::Human => print(&told(&whole)),
    }
    Ok(match whole.verdict {
        Verdict::Pass => Exit::Pass,
        Verdict::Fail => Exit::Fail,
        Verdict::Inconclusive => Exit::Inconclusive,
    })
}

fn document<T: serde::de::DeserializeOwned + schemars::JsonSchema>(path: &Path) -> Result<T, Error> {
    Document::read(path).and_then(|document| document.read_as()).map_err(Error::usage)
}

/// What a log measured and what else it says; with the log's name at every line where there are several.
fn heard(log: &Path, named: bool) -> Result<(Reading, Clues), Error> {
    let (reading, clues) = parse::listen(log)?;
    if !named {
        return Ok((reading, clues));
    }
    let mut with_name = Clues::default();
    with_name.add(&log.display().to_string(), clues);
    Ok((reading, with_name))
}

fn told(judgement: &Judgement) -> String {
    let mut text = format!("{}\n", judgement.verdict.to_string().to_uppercase());
    for reason in &judgement.reasons {
        text += &format!("  {:<17} {}\n", reason.code, parse::shown(&reason.text));
    }
    for diagnosis in &judgement.diagnoses {
        text += &format!("\n  {}: {}\n", diagnosis.cause, parse::shown(&diagnosis.text));
        for line in diagnosis.evidence.iter().take(LINES) {
            let log = line.log.as_ref().map_or_else(String::new, |log| format!("{log}, "));
            text += &format!("    {}line {}: {}\n", parse::shown(&log), line.line, parse::shown(&line.text));
        }
        let more = diagnosis.times.saturating_sub(diagnosis.evidence.len().min(LINES) as u64);
        if more > 0 {
            text += &format!("    and {more} more such lines\n");
        }
    }
    if !judgement.suspects.is_empty() {
        text += "\n  suspects:\n";
    }
    for suspect in &judgement.suspects {
        text += &format!("    {}, confidence {:.2}\n", parse::shown(&name(suspect)), suspect.confidence);
    }
    text
}

/// A suspect by all its names.
pub fn name(suspect: &Suspect) -> String {
    let parts = [
        suspect.rank.map(|rank| format!("rank {rank}")),
        suspect.bus_id.as_ref().map(|bus_id| format!("GPU {bus_id}")),
        suspect.host.as_ref().map(|host| format!("node {host}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Learns a baseline and writes it, whole or not at all.
pub fn baseline(logs: &[impl AsRef<Path>], save: &Path) -> Result<Exit, Error> {
    let logs_heard = logs.iter().map(|log| heard(log.as_ref(), false)).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<_> = logs_heard
        .iter()
        .map(|(reading, clues)| Healthy {
            reading,
            fingerprint: Fingerprint::of(&Evidence::of(reading, clues)),
        })
        .collect();
    let name = |log: usize| logs[log].as_ref().display();
    let baseline = learn(&runs).map_err(|error| match error {
        Unlearnable::Nothing => Error::usage("no log was named"),
        Unlearnable::Unfit { log, why } => {
            Error::usage(format!("{}: nothing can be learned from it: {why}", name(log)))
        }
        Unlearnable::Mixed { log, field } => Error::usage(format!(
            "{}: its {field} is not that of {}; learn each on its own",
            name(log),
            name(0)
        )),
    })?;
    let draft = save.with_extension("draft");
    let text = serde_json::to_string_pretty(&baseline).unwrap_or_default() + "\n";
    fs::write(&draft, text)
        .and_then(|()| fs::rename(&draft, save))
        .map_err(|error| Error::usage(format!("{}: cannot be written: {error}", save.display())))?;
    let few = if baseline.runs < 5 { "; five or more make a better one" } else { "" };
    print(&format!(
        "{}: {} points of {} runs, the plateau repeats itself within {:.1} %{few}\n",
        save.display(),
        baseline.points.len(),
        baseline.runs,
        100.0 * baseline.plateau_spread
    ));
    Ok(Exit::Pass)
}

/// Says what differs between two logs. Exit code 1 when the second is slower where it counts, 2 when they measure
/// different things.
pub fn compare(a: &Path, b: &Path, output: Output) -> Result<Exit, Error> {
    let (first, second) = (heard(a, false)?, heard(b, false)?);
    let ((before, of_before), (after, of_after)) = (table(a, &first)?, table(b, &second)?);
    let found = differences((before, &of_before), (after, &of_after));
    match output {
        Output::Json => print_json(&found),
        Output::Human => print(&differing(&found)),
    }
    Ok(match (found.comparable(), found.slower_where_it_counts()) {
        (false, _) => Exit::Inconclusive,
        (true, true) => Exit::Fail,
        (true, false) => Exit::Pass,
    })
}

fn table<'a>(log: &Path, (reading, clues): &'a (Reading, Clues)) -> Result<(&'a Table, Fingerprint), Error> {
    let [table] = reading.tables.as_slice() else {
        let tables = reading.tables.len();
        return Err(Error::usage(format!("{}: it holds {tables} tables, not one", log.display())));
    };
    Ok((table, Fingerprint::of(&Evidence::of(reading, clues))))
}

fn differing(found: &Comparison) -> String {
    let mut text = String::new();
    for changed in &found.fingerprint {
        let (a, b) = (parse::shown(&changed.a), parse::shown(&changed.b));
        let what = if changed.identity { " (they measure different things)" } else { "" };
        text += &format!("  {:<12} {a} -> {b}{what}\n", changed.field);
    }
    for region in &found.regions {
        let [low, high] = region.quartiles.map(|slower| 100.0 * slower);
        text += &format!(
            "  {:<22} {:+.1} % time, half of {} points between {low:+.1} and {high:+.1} %\n",
            region.region.words(),
            100.0 * region.slower,
            region.points,
        );
    }
    let mut points: Vec<_> = found.points.iter().collect();
    points.sort_by(|a, b| b.slower.abs().total_cmp(&a.slower.abs()));
    for point in points.iter().take(5) {
        let placement = if point.key.in_place { "in place" } else { "out of place" };
        text += &format!(
            "    {:>9} {placement:<12} busbw {} -> {} GB/s, {:+.1} % time\n",
            terms::measurement::size(point.key.size_bytes),
            point.a_busbw,
            point.b_busbw,
            100.0 * point.slower,
        );
    }
    if found.points.is_empty() {
        text += "  no size was measured by both\n";
    } else if found.unmatched > 0 {
        text += &format!("  {} points were measured by one of them only\n", found.unmatched);
    }
    text
}
