//! The hand-over document of a cluster: the request, the measurements with their devices, and the missing measurements.

mod devices;
mod measurements;

use std::collections::BTreeMap;

use model::{CheckIndex, Every, Program, Verdict, measurement::Reading};

use crate::{
    ReportInput, checks, fact_texts,
    findings::Tone,
    markdown::{
        escape::{cell, code},
        escaped,
    },
    text,
};

use devices::HandoverDevices;

/// The document as Markdown. `inputs`: one for each check, in order, or one for a single benchmark, all of the same run.
#[must_use]
pub fn handover(inputs: &[ReportInput<'_>]) -> String {
    let Some(run) = inputs.first().and_then(|input| input.run) else { return String::new() };
    let state = run.state;
    let cluster = state.cluster().map_or("no cluster", |cluster| cluster.name.as_str());
    let verdict =
        state.verdict().map_or_else(|| "no verdict".to_owned(), |reached| reached.verdict.to_string());
    let mut out = format!("# Hand-over of {}: {verdict}\n\n", escaped(&text::single_line(cluster)));
    let conclusion = state.settled.as_ref().map_or("still open", |(conclusion, _)| conclusion.as_str());
    out += &format!(
        "Run {} of the workflow {}, requested at {}, {conclusion}. Written by Burnin {}.\n",
        code(state.run.as_str()),
        code(&text::single_line(&state.workflow.name)),
        text::utc(state.requested_at),
        env!("CARGO_PKG_VERSION"),
    );
    requested(&mut out, inputs);
    results(&mut out, inputs);
    measurements::write(&mut out, inputs);
    let devices = HandoverDevices::of(inputs);
    devices.write(&mut out);
    not_measured(&mut out, inputs, &devices);
    out
}

fn check_of(input: &ReportInput<'_>) -> Option<CheckIndex> {
    input.run.map(|run| run.shown_check())
}

fn name_of(input: &ReportInput<'_>) -> String {
    let run = input.run;
    run.map_or_else(String::new, |run| text::single_line(&run.state.workflow.check_name(run.shown_check())))
}

fn readings<'a>(input: &ReportInput<'a>) -> impl Iterator<Item = &'a Reading> + use<'a> {
    input.logs.iter().map(|log| log.reading).collect::<Vec<_>>().into_iter()
}

fn requested(out: &mut String, inputs: &[ReportInput<'_>]) {
    *out += "\n## Requested\n\n| check | program | started | criteria | at most |\n|---|---|---|---|---|\n";
    for input in inputs {
        let Some((run, check)) = input.run.zip(check_of(input)) else { continue };
        let Some(benchmark) = run.state.workflow.benchmark_of(check) else { continue };
        let started = match &benchmark.program {
            Program::NcclTests(_) => "for each rank",
            Program::Command(command) => match command.every {
                Every::Node => "on each node",
                Every::Rank => "for each rank",
                Every::Pair => "on pairs of nodes",
            },
        };
        let variables: String =
            benchmark.environment.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        *out += &format!(
            "| {} | {} | {started} | {} | {} |\n",
            cell(&name_of(input)),
            cell(&text::single_line(&format!("{variables}{}", fact_texts::program(&benchmark.program)))),
            cell(&text::single_line(&benchmark.criteria.name)),
            run.state.workflow.job_limit(check),
        );
    }
}

fn results(out: &mut String, inputs: &[ReportInput<'_>]) {
    *out += "\n## Results\n\n| | check | verdict | reasons | criteria | log |\n|---|---|---|---|---|---|\n";
    for input in inputs {
        let Some((run, check)) = input.run.zip(check_of(input)) else { continue };
        let Some(reached) = run.state.verdict_of(check) else { continue };
        let reasons = reached.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.text));
        let reasons = reasons.take(4).collect::<Vec<_>>().join("; ");
        let digest = reached.criteria.rsplit('@').next().unwrap_or_default();
        let log = reached
            .log_sha256
            .as_deref()
            .map_or_else(String::new, |digest| code(&digest[..digest.len().min(16)]));
        *out += &format!(
            "| {} | {} | {} | {} | {} | {log} |\n",
            Tone::from(reached.verdict).mark(),
            cell(&name_of(input)),
            reached.verdict,
            escaped(&text::shortened(&text::single_line(&reasons), 600)),
            code(&text::single_line(digest)),
        );
    }
    *out += "\nCriteria and logs are identified by the beginning of their SHA-256.\n";
}

fn not_measured(out: &mut String, inputs: &[ReportInput<'_>], devices: &HandoverDevices) {
    let mut lines = Vec::new();
    let Some(run) = inputs.first().and_then(|input| input.run) else { return };
    for (name, reason) in &run.state.workflow.excluded {
        lines.push(format!(
            "{}: excluded by the workflow: {}",
            code(&text::single_line(name)),
            escaped(&text::single_line(reason))
        ));
    }
    let unjudged = checks::checks(&run).into_iter().filter(|line| {
        !matches!(line.word.as_str(), "pass" | "fail" | "inconclusive") && line.tone != Tone::Excluded
    });
    lines.extend(unjudged.map(|line| format!("{}: {}: {}", code(&line.name), line.word, escaped(&line.why))));
    for input in inputs {
        let name = code(&name_of(input));
        let reached = input.run.zip(check_of(input)).and_then(|(run, check)| run.state.verdict_of(check));
        let reasons = reached.map_or(&[][..], |reached| &reached.reasons);
        for reason in reasons.iter().filter(|reason| reason.weighs == Verdict::Inconclusive) {
            lines.push(format!("{name}: {}: {}", reason.code, escaped(&text::single_line(&reason.text))));
        }
        let mut unmeasurable: BTreeMap<(String, String), usize> = BTreeMap::new();
        for metric in readings(input).flat_map(|reading| &reading.metrics) {
            if let Some(why) = &metric.unmeasurable {
                *unmeasurable.entry((metric.name.to_string(), why.to_string())).or_default() += 1;
            }
        }
        for ((metric, why), count) in unmeasurable {
            let values = text::count(count as u64, "value");
            lines.push(format!(
                "{name}: {}: {values}: {}",
                escaped(&text::single_line(&metric)),
                escaped(&text::single_line(&why))
            ));
        }
    }
    lines.extend(devices.unmeasured().map(|line| escaped(&line)));
    *out += "\n## Not measured\n\n";
    if lines.is_empty() {
        *out += "Every requested check was measured completely.\n";
    }
    for line in lines {
        *out += &format!("- {line}\n");
    }
}
