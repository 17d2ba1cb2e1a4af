//! The measured values of each check.

use model::{measurement::size, metric::Better};

use crate::{
    ReportInput,
    markdown::escape::cell,
    measured::{MeasuredSize, MeasuredTable, measured},
    metrics::{MetricSummary, name_with_labels, number, subject_or_log, summaries_of},
    text,
};

use super::name_of;

/// Maximum number of metrics of a check.
const METRICS: usize = 200;

/// The bandwidths of all tables, and the metrics of all other programs.
pub(super) fn write(out: &mut String, inputs: &[ReportInput<'_>]) {
    *out += "\n## Measured\n";
    let tables: Vec<_> =
        inputs.iter().flat_map(|input| measured(input).map(move |table| (input, table))).collect();
    let metrics: Vec<_> = inputs.iter().map(|input| (input, summaries_of(input))).collect();
    let is_empty = |metrics: &[MetricSummary]| metrics.is_empty();
    if tables.is_empty() && metrics.iter().all(|(_, metrics)| is_empty(metrics)) {
        *out += "\nNo measurement was recorded.\n";
        return;
    }
    if !tables.is_empty() {
        *out += "\n| check | collective | ranks | sizes | bus bandwidth at the largest size, GB/s | highest, GB/s | wrong elements |\n\
                 |---|---|---|---|---|---|---|\n";
        for (input, table) in &tables {
            *out += &bandwidth(&name_of(input), table);
        }
    }
    if metrics.iter().all(|(_, metrics)| is_empty(metrics)) {
        return;
    }
    let (mut rows, mut omitted) = (String::new(), Vec::new());
    for (input, metrics) in &metrics {
        let check = name_of(input);
        let measured = metrics.iter().filter(|it| it.values > 0);
        let is_judged = |it: &&MetricSummary| it.better != Better::None || is_bounded(input, it);
        let (judged, evidence): (Vec<_>, Vec<_>) = measured.partition(is_judged);
        for metric in judged.iter().take(METRICS) {
            rows += &row(&check, metric);
        }
        let more = judged.len().saturating_sub(METRICS);
        if more > 0 {
            omitted.push(format!("{}: {}", cell(&check), text::count(more as u64, "further metric")));
        }
        if !evidence.is_empty() {
            let evidence = text::count(evidence.len() as u64, "metric");
            omitted.push(format!("{}: {evidence} without a direction of improvement", cell(&check)));
        }
    }
    if !rows.is_empty() {
        *out += "\n| check | metric | unit | subjects | median | worst | worst subject |\n|---|---|---|---|---|---|---|\n";
        *out += &rows;
    }
    if !omitted.is_empty() {
        *out += &format!(
            "\nMeasured and not listed: {}. `burnin show RUN --check NAME --output csv` lists them.\n",
            omitted.join("; ")
        );
    }
}

/// Whether the criteria of the check bound the metric: a floor or ceiling needs no direction of improvement.
fn is_bounded(input: &ReportInput<'_>, metric: &MetricSummary) -> bool {
    let benchmark = input.run.and_then(|run| run.state.workflow.benchmark_of(run.shown_check()));
    benchmark.is_some_and(|benchmark| {
        let criteria = benchmark.criteria.metrics.iter();
        criteria.filter(|it| it.bounds()).any(|it| it.selects(&metric.name, &metric.labels))
    })
}

fn bandwidth(check: &str, table: &MeasuredTable<'_>) -> String {
    let rows = &table.rows;
    let of = |row: &MeasuredSize<'_>| row.placed().map(|placed| placed.half.busbw).collect::<Vec<_>>();
    let largest = rows.iter().max_by_key(|row| row.size_bytes);
    let slowest = largest.map(of).and_then(|values| values.into_iter().reduce(f64::min));
    let highest = rows.iter().flat_map(of).reduce(f64::max);
    let smallest = rows.iter().map(|row| row.size_bytes).min();
    let sizes = smallest.zip(largest).map(|(from, to)| format!("{} to {}", size(from), size(to.size_bytes)));
    let wrong: Option<u64> = rows.iter().map(|row| row.wrong).sum();
    let shown = |value: Option<f64>| value.map_or_else(|| "not measured".to_owned(), number);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        cell(check),
        cell(&text::single_line(table.table.collective.as_deref().unwrap_or("unknown"))),
        table.table.ranks.map_or_else(|| "unknown".to_owned(), |ranks| ranks.to_string()),
        sizes.unwrap_or_else(|| "none".to_owned()),
        shown(slowest),
        shown(highest),
        wrong.map_or_else(|| "not checked".to_owned(), |wrong| wrong.to_string()),
    )
}

fn row(check: &str, metric: &MetricSummary) -> String {
    let subjects = match metric.measured == metric.subjects {
        true => metric.subjects.to_string(),
        false => format!("{} of {}", metric.measured, metric.subjects),
    };
    let worst = metric.worst.as_ref();
    format!(
        "| {} | {} | {} | {subjects} | {} | {} | {} |\n",
        cell(check),
        cell(&text::single_line(&name_with_labels(&metric.name, &metric.labels))),
        cell(&text::single_line(&metric.unit)),
        metric.median.map_or_else(String::new, number),
        worst.map_or_else(String::new, |worst| number(worst.value)),
        worst.map_or_else(String::new, |worst| cell(&subject_or_log(&worst.subject, &worst.log))),
    )
}
