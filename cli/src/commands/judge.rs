//! `burnin judge`, `baseline` and `compare`: verdicts on logs, without a run around them.

use std::{fs, path::Path};

use report::{
    Log, Story,
    comparison::{self, Pair},
};
use terms::{
    Criteria, Verdict,
    measurement::{Reading, Table},
};
use verdict::{
    Baseline, Clues, Evidence, Fingerprint, Judgement, Standard,
    baseline::{Healthy, Unlearnable, learn},
    compare::compare as differences,
    locate::Suspect,
};
use workflow::Document;

use crate::{
    args::{ComparisonForm, ReportForm},
    commands::{parse, print, print_json, style},
    exit::{Error, Exit},
};

/// Judges every log; the gravest verdict counts. With a baseline, several logs are a series in the order given.
pub fn judge(
    logs: &[impl AsRef<Path>],
    criteria: Option<&Path>,
    baseline: Option<&Path>,
    output: ReportForm,
) -> Result<Exit, Error> {
    let criteria: Option<Criteria> = criteria.map(document).transpose()?;
    let baseline: Option<Baseline> = baseline.map(document).transpose()?;
    let mut room = Room::default();
    let mut judged = Vec::new();
    let mut earlier = Vec::new();
    for log in logs {
        let (reading, clues) = heard(log.as_ref(), logs.len() > 1)?;
        room.take(log.as_ref(), &reading)?;
        let standard = Standard {
            criteria: criteria.as_ref(),
            baseline: baseline.as_ref(),
            earlier: &earlier,
            pin: None,
        };
        let judgement = verdict::judge(&Evidence::of(&reading, &clues), &standard);
        if let (Some(baseline), [table]) = (&baseline, reading.tables.as_slice()) {
            earlier.extend(baseline.level(table));
        }
        judged.push((log.as_ref().display().to_string(), reading, judgement));
    }
    let Some(whole) = together(&judged) else { return Err(Error::usage("no log was named")) };
    let story = Story {
        run: None,
        logs: judged.iter().map(source).collect(),
        judgement: Some(&whole),
        standard: Standard {
            criteria: criteria.as_ref(),
            baseline: baseline.as_ref(),
            ..Standard::default()
        },
    };
    match output {
        ReportForm::Json => print_json(&whole),
        ReportForm::Human => print(&report::terminal(&story, style())),
        ReportForm::Csv => print(&report::csv(&story)),
        ReportForm::Markdown => print(&report::markdown(&story)),
        ReportForm::Junit => print(&report::junit(&story)),
        ReportForm::Html => print(&report::html(&story)),
    }
    Ok(match whole.verdict {
        Verdict::Pass => Exit::Pass,
        Verdict::Fail => Exit::Fail,
        Verdict::Inconclusive => Exit::Inconclusive,
    })
}

/// A log as it is reported.
fn source((name, reading, judgement): &(String, Reading, Judgement)) -> Log<'_> {
    Log { name, reading, judgement: Some(judgement) }
}

/// The judgement on all logs; with the log's name at every reason where there are several.
fn together(judged: &[(String, Reading, Judgement)]) -> Option<Judgement> {
    let named = judged.iter().map(|(name, _, judgement)| {
        let mut judgement = judgement.clone();
        if judged.len() > 1 {
            for reason in &mut judgement.reasons {
                reason.text = format!("{name}: {}", reason.text);
            }
        }
        judgement
    });
    named.reduce(Judgement::and)
}

fn document<T: serde::de::DeserializeOwned + schemars::JsonSchema>(path: &Path) -> Result<T, Error> {
    Document::read(path).and_then(|document| document.read_as()).map_err(Error::usage)
}

/// What a log measured and what else it says; with the log's name at every line where there are several.
/// Room for the rows of several logs, which are all held until the last is read. Hundreds of real logs find room in it;
/// a few that somebody made to fill the memory do not.
struct Room {
    rows: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { rows: 50_000 }
    }
}

impl Room {
    fn take(&mut self, log: &Path, reading: &Reading) -> Result<(), Error> {
        let rows = reading.tables.iter().map(|table| table.rows.len()).sum();
        let left = self.rows.checked_sub(rows).ok_or_else(|| {
            Error::usage(format!(
                "{}: with its {rows} rows the logs have more than {} in all; take fewer logs at a time",
                log.display(),
                Self::default().rows
            ))
        });
        left.map(|left| self.rows = left)
    }
}

fn heard(log: &Path, named: bool) -> Result<(Reading, Clues), Error> {
    let (reading, clues) = parse::listen(log)?;
    if !named {
        return Ok((reading, clues));
    }
    let mut with_name = Clues::default();
    with_name.add(&log.display().to_string(), clues);
    Ok((reading, with_name))
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
    let mut room = Room::default();
    let hear = |log: &Path| {
        let (reading, clues) = heard(log, false)?;
        room.take(log, &reading).map(|()| (reading, clues))
    };
    let logs_heard = logs.iter().map(|log| log.as_ref()).map(hear).collect::<Result<Vec<_>, _>>()?;
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
pub fn compare(a: &Path, b: &Path, output: ComparisonForm) -> Result<Exit, Error> {
    let (first, second) = (heard(a, false)?, heard(b, false)?);
    let ((before, of_before), (after, of_after)) = (table(a, &first)?, table(b, &second)?);
    let found = differences((before, &of_before), (after, &of_after));
    let (a, b) = (a.display().to_string(), b.display().to_string());
    let pair = Pair { a: &a, b: &b, found: &found };
    match output {
        ComparisonForm::Json => print_json(&found),
        ComparisonForm::Human => print(&comparison::terminal(pair, style())),
        ComparisonForm::Markdown => print(&comparison::markdown(pair)),
        ComparisonForm::Html => print(&comparison::html(pair)),
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
