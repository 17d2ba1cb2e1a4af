//! Curves of several logs as small multiples with common axes, worst first.

use std::fmt::Write;

use serde::Serialize;

use crate::{
    ReportInput,
    findings::Tone,
    measured::{self, MeasuredTable},
    summary, text,
};

/// Maximum number of drawn curves.
const CURVES: usize = 400;
/// View box of one curve.
const WIDE: f64 = 200.0;
const HIGH: f64 = 90.0;
/// Upper limit of a valid bandwidth, GB/s.
const ABSURD: f64 = 1e9;

/// Context of the template, with one chart for each curve. All text is unescaped.
#[derive(Serialize)]
pub struct Multiples {
    /// Common axes, as text.
    axes: String,
    view: String,
    curves: Vec<Multiple>,
    more: usize,
    baseline: bool,
    reference: bool,
}

/// The curve of one log.
#[derive(Serialize)]
struct Multiple {
    name: String,
    tone: Tone,
    mark: &'static str,
    text: String,
    out_of_place: String,
    in_place: String,
    /// Corners of the baseline's band.
    band: String,
    reference: String,
}

impl Multiples {
    /// `None` unless at least two logs have curves.
    pub fn of(input: &ReportInput<'_>) -> Option<Self> {
        if input.run.is_some() || input.logs.len() < 2 {
            return None;
        }
        let (groups, folder) = (summary::groups(input), summary::common_folder(input));
        let logs: Vec<_> = groups.iter().flat_map(|group| &group.logs).collect();
        let mut curves: Vec<_> = logs
            .iter()
            .filter_map(|log| Some((*log, measured::tables(input, &log.log).next()?)))
            .filter(|(_, table)| points(table).next().is_some())
            .collect();
        let more = curves.len().saturating_sub(CURVES);
        curves.truncate(CURVES);
        let all = || curves.iter().flat_map(|(_, table)| points(table));
        let smallest = all().map(|(size, _)| size).min()?;
        let largest = all().map(|(size, _)| size).max()?;
        let bands = curves.iter().flat_map(|(_, table)| table.references.band()).map(|band| band.busbw[1]);
        let highest = all().map(|(_, busbw)| busbw).chain(bands).filter(|busbw| *busbw < ABSURD);
        let axes = CommonAxes { smallest, largest, highest: highest.fold(1e-3, f64::max) };
        let one = |(log, table): &(&summary::LogSummary<'_>, MeasuredTable<'_>)| {
            let tone = Tone::from(log.verdict);
            Multiple {
                name: text::single_line(log.name(folder)),
                tone,
                mark: tone.mark(),
                text: text::single_line(&log.text),
                out_of_place: axes.line(
                    table
                        .rows
                        .iter()
                        .filter_map(|row| Some((row.size_bytes, row.out_of_place.as_ref()?.half.busbw))),
                ),
                in_place: axes.line(
                    table
                        .rows
                        .iter()
                        .filter_map(|row| Some((row.size_bytes, row.in_place.as_ref()?.half.busbw))),
                ),
                band: axes.band(table),
                reference: axes
                    .line(table.rows.iter().filter_map(|row| Some((row.size_bytes, row.reference?)))),
            }
        };
        let drawn: Vec<_> = curves.iter().map(one).collect();
        Some(Self {
            axes: format!(
                "{} to {}, 0 to {:.0} GB/s in each chart",
                text::size(smallest),
                text::size(largest),
                axes.highest
            ),
            view: format!("0 0 {WIDE} {HIGH}"),
            more,
            baseline: drawn.iter().any(|curve| !curve.band.is_empty()),
            reference: drawn.iter().any(|curve| !curve.reference.is_empty()),
            curves: drawn,
        })
    }
}

fn points<'t>(table: &'t MeasuredTable<'_>) -> impl Iterator<Item = (u64, f64)> + 't {
    let all =
        table.rows.iter().flat_map(|row| row.placed().map(|placed| (row.size_bytes, placed.half.busbw)));
    all.filter(|(size, busbw)| *size > 0 && busbw.abs() < ABSURD)
}

/// Sizes on a logarithmic axis, bandwidths from 0.
struct CommonAxes {
    smallest: u64,
    largest: u64,
    highest: f64,
}

impl CommonAxes {
    fn at(&self, size: u64, busbw: f64) -> (f64, f64) {
        let log = |size: u64| (size.max(1) as f64).log2();
        let (low, high) = (log(self.smallest), log(self.largest));
        let along = if high > low { (log(size) - low) / (high - low) } else { 0.5 };
        (along.clamp(0.0, 1.0) * WIDE, HIGH * (1.0 - (busbw / self.highest).clamp(0.0, 1.0)))
    }

    fn line(&self, points: impl Iterator<Item = (u64, f64)>) -> String {
        let mut line = String::new();
        for (size, busbw) in points.filter(|(size, busbw)| *size > 0 && busbw.abs() < ABSURD) {
            let (x, y) = self.at(size, busbw);
            _ = write!(line, "{x:.1} {y:.1} ");
        }
        line.truncate(line.trim_end().len());
        line
    }

    fn band(&self, table: &MeasuredTable<'_>) -> String {
        let band = table.references.band();
        let inside = |size: u64| (self.smallest..=self.largest).contains(&size);
        let upper = band.iter().map(|at| (at.size_bytes, at.busbw[1]));
        let lower = band.iter().rev().map(|at| (at.size_bytes, at.busbw[0]));
        self.line(upper.chain(lower).filter(|(size, _)| inside(*size)))
    }
}
