//! Plateau levels of all runs and their changes.

use verdict::{
    baseline::{LEAST_SPREAD, Region},
    history::{Segment, segments},
};

use crate::{ReportInput, text};

/// Maximum number of levels.
const LEVELS: usize = 500;
/// Upper limit of a valid slowdown, relative.
const ABSURD: f64 = 1e6;
/// Maximum number of segments in the text.
const SEGMENTS: usize = 6;

/// Origin of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointKind {
    /// A run that the baseline was learned from.
    Healthy,
    /// A run between those of the baseline and the reported run.
    Earlier,
    Reported,
}

#[derive(Clone, Debug)]
pub struct HistoryLevel {
    pub kind: PointKind,
    /// Excess plateau time over the baseline, relative.
    pub slower: f64,
    pub name: Option<String>,
}

/// Levels, oldest first, and their segments.
pub struct LevelHistory {
    pub levels: Vec<HistoryLevel>,
    pub segments: Vec<Segment>,
    /// Permitted slowdown of a single run.
    pub tolerated: f64,
}

impl LevelHistory {
    /// `None` without a baseline, without a level of the reported runs, or for several logs that are not a
    /// series.
    pub fn of(input: &ReportInput<'_>) -> Option<Self> {
        if input.logs.len() > 1 && !input.series {
            return None;
        }
        let baseline = input.standard.baseline?;
        let known = baseline.levels.iter().map(|level| (PointKind::Healthy, *level));
        let since = input.standard.earlier.iter().map(|level| (PointKind::Earlier, *level));
        let mut levels: Vec<_> =
            known.chain(since).map(|(kind, slower)| HistoryLevel { kind, slower, name: None }).collect();
        let before = levels.len();
        levels.extend(input.logs.iter().filter_map(|log| {
            let [table] = log.reading.tables.as_slice() else { return None };
            let slower = input.baseline(log)?.level(table)?;
            Some(HistoryLevel { kind: PointKind::Reported, slower, name: Some(text::single_line(log.name)) })
        }));
        if levels.len() == before {
            return None;
        }
        levels.retain(|level| level.slower.abs() < ABSURD);
        levels.drain(..levels.len().saturating_sub(LEVELS));
        let series: Vec<_> = levels.iter().map(|level| level.slower).collect();
        let segments = segments(&series, LEAST_SPREAD);
        (levels.len() > 1).then(|| Self { levels, segments, tolerated: baseline.tolerated(Region::Plateau) })
    }

    /// Range of the chart in both directions, relative. An outlier is drawn at the edge, because a range that
    /// includes the outlier would make lasting changes too small to read.
    pub fn scale(&self) -> f64 {
        let levels = self.segments.iter().map(|segment| segment.level.abs());
        1.5 * levels.fold(self.tolerated, f64::max)
    }

    /// Whether a run is outside the range of the chart.
    pub fn off_scale(&self) -> bool {
        self.levels.iter().any(|level| level.slower.abs() > self.scale())
    }

    /// Indices of the runs at which a new level begins.
    pub fn changes(&self) -> impl Iterator<Item = usize> {
        self.segments.iter().skip(1).map(|segment| segment.first)
    }

    /// The history as text. Runs are counted from 1.
    pub fn text(&self) -> String {
        let skipped = self.segments.len().saturating_sub(SEGMENTS);
        let mut text = match skipped {
            0 => String::new(),
            _ => format!("{} before. ", text::count(skipped as u64, "level")),
        };
        let shown = &self.segments[skipped..];
        let segments = shown.iter().map(|segment| match segment.end - segment.first {
            1 => format!("run {}: {}", segment.end, percent(segment.level)),
            _ => format!("runs {} to {}: {}", segment.first + 1, segment.end, percent(segment.level)),
        });
        text += &segments.collect::<Vec<_>>().join("; ");
        if let Some(last) = self.levels.last() {
            let name = last.name.as_deref().map(|name| format!(", {},", text::shortened(name, 80)));
            text += &format!(
                ". The last run{} has a level of {}.",
                name.unwrap_or_default(),
                percent(last.slower)
            );
        }
        text
    }
}

/// A fraction as a percentage with a sign, such as `+1.2 %`; never `-0.0 %`.
pub fn percent(part: f64) -> String {
    let tenths = (part * 1000.0).round() + 0.0;
    format!("{:+.1} %", tenths / 10.0)
}
