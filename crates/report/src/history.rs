//! Plateau levels of all runs and their changes.

use verdict::{
    baseline::{LEAST_SPREAD, Region},
    history::{Segment, segments},
};

use crate::{Story, text};

/// Maximum number of levels.
const LEVELS: usize = 500;
/// Upper limit of a valid slowdown, relative.
const ABSURD: f64 = 1e6;
/// Maximum number of segments in the text.
const STRETCHES: usize = 6;

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
    pub stretches: Vec<Segment>,
    /// Permitted slowdown of a single run.
    pub tolerated: f64,
}

impl LevelHistory {
    /// `None` without a baseline, without a level of the reported runs, or for several logs that are not a
    /// series.
    pub fn of(story: &Story<'_>) -> Option<Self> {
        if story.logs.len() > 1 && !story.series {
            return None;
        }
        let baseline = story.standard.baseline?;
        let known = baseline.levels.iter().map(|level| (PointKind::Healthy, *level));
        let since = story.standard.earlier.iter().map(|level| (PointKind::Earlier, *level));
        let mut levels: Vec<_> =
            known.chain(since).map(|(kind, slower)| HistoryLevel { kind, slower, name: None }).collect();
        let before = levels.len();
        levels.extend(story.logs.iter().filter_map(|log| {
            let [table] = log.reading.tables.as_slice() else { return None };
            let slower = story.baseline(log)?.level(table)?;
            Some(HistoryLevel { kind: PointKind::Reported, slower, name: Some(text::line(log.name)) })
        }));
        if levels.len() == before {
            return None;
        }
        levels.retain(|level| level.slower.abs() < ABSURD);
        levels.drain(..levels.len().saturating_sub(LEVELS));
        let series: Vec<_> = levels.iter().map(|level| level.slower).collect();
        let stretches = segments(&series, LEAST_SPREAD);
        (levels.len() > 1).then(|| Self { levels, stretches, tolerated: baseline.tolerated(Region::Plateau) })
    }

    /// Range of the chart in both directions, relative. An outlier is drawn at the edge, because a range that
    /// includes the outlier would make lasting changes too small to read.
    pub fn scale(&self) -> f64 {
        let levels = self.stretches.iter().map(|stretch| stretch.level.abs());
        1.5 * levels.fold(self.tolerated, f64::max)
    }

    /// Whether a run is outside the range of the chart.
    pub fn off_scale(&self) -> bool {
        self.levels.iter().any(|level| level.slower.abs() > self.scale())
    }

    /// Indices of the runs at which a new level begins.
    pub fn changes(&self) -> impl Iterator<Item = usize> {
        self.stretches.iter().skip(1).map(|stretch| stretch.first)
    }

    /// The history as text. Runs are counted from 1.
    pub fn text(&self) -> String {
        let skipped = self.stretches.len().saturating_sub(STRETCHES);
        let mut text = match skipped {
            0 => String::new(),
            _ => format!("{} before. ", text::count(skipped as u64, "level")),
        };
        let shown = &self.stretches[skipped..];
        let stretches = shown.iter().map(|stretch| match stretch.end - stretch.first {
            1 => format!("run {}: {}", stretch.end, percent(stretch.level)),
            _ => format!("runs {} to {}: {}", stretch.first + 1, stretch.end, percent(stretch.level)),
        });
        text += &stretches.collect::<Vec<_>>().join("; ");
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
