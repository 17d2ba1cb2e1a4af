//! Several logs, one line each.

use model::Verdict;

use super::{
    NOTE,
    text_report::{Paint, TextReport},
};
use crate::{
    ReportInput,
    findings::Tone,
    summary::{self, LogSummary},
    text,
};

/// Minimum width of the text after a name.
const FEWEST: usize = 30;

/// Writes the logs by verdict and reason, worst first; the logs of a series in time order. Every log is listed, because readers would have
/// to search for an omitted failed log by hand.
pub fn write(text_report: &mut TextReport, input: &ReportInput<'_>) {
    let names = LogNames::of(input, text_report.width());
    if !names.folder.is_empty() {
        text_report.painted(Paint::Dim, &format!("in {}", names.folder));
    }
    if input.series {
        text_report.gap();
        for log in &input.logs {
            line(text_report, &names, &LogSummary::of(input, log));
        }
        return;
    }
    for group in summary::groups(input) {
        text_report.gap();
        let count = text::count(group.logs.len() as u64, "log");
        let head = match group.verdict {
            Verdict::Pass => format!("pass: {count}"),
            _ => format!("{}: {count}", group.code),
        };
        text_report.painted(Tone::from(group.verdict).into(), &head);
        let action = summary::action(input, group.code).filter(|_| group.verdict != Verdict::Pass);
        if let Some(action) = action {
            text_report.paragraph((Paint::Dim, "  next: "), &action, NOTE);
        }
        for log in &group.logs {
            line(text_report, &names, log);
        }
    }
}

fn line(text_report: &mut TextReport, names: &LogNames, log: &LogSummary<'_>) {
    let tone = Tone::from(log.verdict);
    let name = text::ending(&names.short(log.log.name), names.width);
    let width = names.width;
    let room = text_report.width().saturating_sub(width + 6);
    text_report.line(&[
        (tone.into(), &format!("  {} ", tone.mark())),
        (Paint::None, &format!("{name:<width$}  ")),
        (Paint::Dim, &text::shortened(&log.text, room)),
    ]);
}

/// Names of the logs, without their common folder.
struct LogNames {
    folder: String,
    width: usize,
}

impl LogNames {
    fn of(input: &ReportInput<'_>, columns: usize) -> Self {
        let names = Self { folder: summary::common_folder(input).to_owned(), width: 0 };
        let longest =
            input.logs.iter().map(|log| text::single_line(&names.short(log.name)).chars().count()).max();
        let width = longest.unwrap_or(0).min(columns.saturating_sub(FEWEST + 6).min(columns * 2 / 3));
        Self { width, ..names }
    }

    fn short(&self, name: &str) -> String {
        name.strip_prefix(&self.folder).unwrap_or(name).to_owned()
    }
}
