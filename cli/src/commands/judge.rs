//! `burnin judge` and `baseline`: verdicts on logs, without a run around them.

use std::{fs, path::Path};

use terms::{Criteria, Verdict};
use verdict::{
    Baseline, Evidence, Judgement,
    baseline::{Unlearnable, learn},
};
use workflow::Document;

use crate::{
    args::Output,
    commands::{parse, print, print_json},
    exit::{Error, Exit},
};

/// Judges every log; the gravest verdict counts.
pub fn judge(
    logs: &[impl AsRef<Path>],
    criteria: Option<&Path>,
    baseline: Option<&Path>,
    output: Output,
) -> Result<Exit, Error> {
    let criteria: Option<Criteria> = match criteria {
        Some(path) => {
            Some(Document::read(path).and_then(|document| document.read_as()).map_err(Error::usage)?)
        }
        None => None,
    };
    let baseline: Option<Baseline> = match baseline {
        Some(path) => {
            Some(Document::read(path).and_then(|document| document.read_as()).map_err(Error::usage)?)
        }
        None => None,
    };
    let mut whole: Option<Judgement> = None;
    for log in logs {
        let reading = parse::read(log.as_ref())?;
        let evidence = Evidence { reading: &reading, job: None, workload: None, ranks: None };
        let mut judgement = verdict::judge(&evidence, criteria.as_ref(), baseline.as_ref());
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

fn told(judgement: &Judgement) -> String {
    let mut text = format!("{}\n", judgement.verdict.to_string().to_uppercase());
    for reason in &judgement.reasons {
        text += &format!("  {:<17} {}\n", reason.code, parse::shown(&reason.text));
    }
    text
}

/// Learns a baseline and writes it, whole or not at all.
pub fn baseline(logs: &[impl AsRef<Path>], save: &Path) -> Result<Exit, Error> {
    let readings = logs.iter().map(|log| parse::read(log.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let name = |log: usize| logs[log].as_ref().display();
    let baseline = learn(&readings).map_err(|error| match error {
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
