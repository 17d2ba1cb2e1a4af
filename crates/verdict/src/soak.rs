//! Decline of the measurements over the rounds of a soak.
//!
//! The slope of each value is that of Theil and Sen, the median slope of all pairs of rounds (P. K. Sen, *Estimates of the
//! Regression Coefficient Based on Kendall's Tau*, Journal of the American Statistical Association 63 (1968)): up to 29 % of the
//! rounds may be outliers. A sudden change is found by the medians of the first and the last third of the rounds.

use std::collections::BTreeMap;

use model::{
    Reason, Verdict, count,
    measurement::Reading,
    metric::{Better, Metric, Subject},
};

use crate::{
    Fingerprint, Judgement,
    locate::Suspect,
    statistics::{deviation, median},
};

/// Minimum number of rounds with a value.
const MIN_ROUNDS: usize = 5;
/// Minimum decline, in standard errors of a line through points with the residuals' deviation. A soak of a large cluster compares about
/// 10,000 values in each of about 100 rounds.
const STANDARD_ERRORS: f64 = 6.0;
/// Minimum number of rounds in each third of the compared rounds.
const MIN_THIRD: usize = 3;
/// Standard error of the median of normal noise, in standard errors of its mean.
const MEDIAN_ERROR: f64 = 1.2533;
/// Maximum number of values that a reason names.
const NAMED: usize = 4;

/// A value that is measured again in each round.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesKey {
    name: String,
    subject: Subject,
    labels: BTreeMap<String, String>,
}

/// The rounds of one check.
#[derive(Debug, Default)]
pub struct SoakSeries {
    values: BTreeMap<SeriesKey, SoakValues>,
    rounds: usize,
    unread: usize,
}

#[derive(Debug)]
struct SoakValues {
    better: Better,
    resolution: f64,
    /// Round and value, oldest first.
    points: Vec<(f64, f64)>,
}

struct Decline<'a> {
    key: &'a SeriesKey,
    /// Decline from the first to the last round, relative to the first third of the rounds.
    relative: f64,
    significant: bool,
}

impl SoakSeries {
    /// Adds the measurements of a round. Rounds are added in their order.
    pub fn add(&mut self, round: u16, reading: &Reading) {
        self.rounds += 1;
        let mut seen: BTreeMap<SeriesKey, (Better, f64, Vec<f64>)> = BTreeMap::new();
        for metric in &reading.metrics {
            if let (Better::Higher | Better::Lower, Some(value)) = (metric.better, metric.value) {
                let resolution = metric.resolution.unwrap_or(0.0);
                seen.entry(SeriesKey::of(metric))
                    .or_insert((metric.better, resolution, Vec::new()))
                    .2
                    .push(value);
            }
        }
        for table in &reading.tables {
            let largest = table.rows.iter().max_by_key(|row| row.size_bytes);
            let halves =
                largest.map(|row| [("out of place", &row.out_of_place), ("in place", &row.in_place)]);
            for (placement, half) in halves.into_iter().flatten() {
                let Some(half) = half else { continue };
                let name = format!("{} busbw", table.collective.as_deref().unwrap_or("collective"));
                let labels = BTreeMap::from([("placement".to_owned(), placement.to_owned())]);
                let key = SeriesKey { name, subject: Subject::default(), labels };
                seen.entry(key).or_insert((Better::Higher, 0.01, Vec::new())).2.push(half.busbw);
            }
        }
        for (key, (better, resolution, values)) in seen {
            let series =
                self.values.entry(key).or_insert(SoakValues { better, resolution, points: Vec::new() });
            series.points.push((f64::from(round), median(values)));
        }
    }

    /// Counts a round whose measurements cannot be read.
    pub const fn add_unread(&mut self) {
        self.rounds += 1;
        self.unread += 1;
    }

    /// Compares the rounds. `drift` is the maximum decline, relative to the first third of the rounds. With fewer than five rounds the
    /// judgement passes and states that no decline was judged.
    #[must_use]
    pub fn judge(&self, drift: f64, fingerprint: &Fingerprint) -> Judgement {
        let reason = |weighs, code: &str, text: String| vec![Reason::new(weighs, code, text)];
        let judged: Vec<_> =
            self.values.iter().filter_map(|(key, series)| series.decline(key, drift)).collect();
        let mut declined: Vec<_> = judged.iter().filter(|it| it.significant).collect();
        declined.sort_by(|a, b| b.relative.total_cmp(&a.relative));
        let rounds = count(self.rounds as u64, "compared round");
        let reasons = if self.rounds < MIN_ROUNDS {
            let text = format!("a decline was not judged: {rounds}, at least {MIN_ROUNDS} are required");
            reason(Verdict::Pass, "SOAK_NOT_COMPARED", text)
        } else if let Some(first) = declined.first() {
            let named: Vec<_> = declined.iter().take(NAMED).map(ToString::to_string).collect();
            let rest = declined.len() - named.len();
            let rest = if rest == 0 { String::new() } else { format!(" and {rest} others") };
            let text = format!(
                "{}{rest} declined over {rounds}; the limit is {:.1} %; compare clock and temperature of the rounds",
                named.join(", "),
                100.0 * drift.min(first.relative)
            );
            reason(Verdict::Fail, "SOAK_DECLINE", text)
        } else if judged.is_empty() || 2 * self.unread > self.rounds {
            let text = format!(
                "{} of {rounds} have no stored measurements or no common value, so a decline cannot be judged",
                self.unread
            );
            reason(Verdict::Inconclusive, "SOAK_NOT_COMPARED", text)
        } else {
            let values = count(judged.len() as u64, "value");
            let worst = judged.iter().map(|it| it.relative).fold(0.0, f64::max);
            let text = format!("{values} over {rounds}: the largest decline is {:.2} %", 100.0 * worst);
            reason(Verdict::Pass, "SOAK_STEADY", text)
        };
        let verdict = reasons.first().map_or(Verdict::Inconclusive, |reason| reason.weighs);
        Judgement {
            schema: "burnin/verdict/v1".to_owned(),
            verdict,
            reasons,
            diagnoses: Vec::new(),
            suspects: suspects(&declined, judged.len()),
            fingerprint: fingerprint.clone(),
        }
    }
}

/// The declined subjects, if they are fewer than half: a decline of most subjects has a common cause, such as the cooling.
fn suspects(declined: &[&Decline<'_>], judged: usize) -> Vec<Suspect> {
    if 2 * declined.len() >= judged {
        return Vec::new();
    }
    let mut suspects: BTreeMap<&Subject, Suspect> = BTreeMap::new();
    for decline in declined.iter().filter(|it| !it.key.subject.is_unknown()) {
        let subject = &decline.key.subject;
        let suspect = suspects.entry(subject).or_insert_with(|| Suspect {
            rank: subject.rank,
            bus_id: subject.bus_id.as_ref().map(ToString::to_string),
            host: subject.node.as_ref().map(ToString::to_string),
            gpu: subject.gpu,
            link: subject.link.as_ref().map(ToString::to_string),
            serial: subject.serial.as_ref().map(ToString::to_string),
            evidence: Vec::new(),
            confidence: 0.8,
        });
        suspect.evidence.push(decline.key.name.clone());
    }
    suspects.into_values().collect()
}

impl SeriesKey {
    fn of(metric: &Metric) -> Self {
        Self {
            name: metric.name.to_string(),
            subject: metric.subject.clone(),
            labels: (*metric.labels).clone(),
        }
    }
}

impl std::fmt::Display for Decline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SeriesKey { name, subject, labels } = self.key;
        f.write_str(name)?;
        if !labels.is_empty() {
            let labels: Vec<_> = labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
            write!(f, " ({})", labels.join(", "))?;
        }
        if !subject.is_unknown() {
            write!(f, " of {subject}")?;
        }
        write!(f, " ({:.1} %)", 100.0 * self.relative)
    }
}

impl SoakValues {
    fn decline<'a>(&self, key: &'a SeriesKey, drift: f64) -> Option<Decline<'a>> {
        let [(first, _), .., (last, _)] = self.points.as_slice() else { return None };
        if self.points.len() < MIN_ROUNDS {
            return None;
        }
        let values = || self.points.iter().map(|(_, value)| *value);
        let initial = median(values().take(self.points.len().div_ceil(3)).collect());
        if initial <= 0.0 {
            return None;
        }
        let sign = if self.better == Better::Higher { -1.0 } else { 1.0 };
        let slope = slope(&self.points);
        // The line through a sudden change exceeds the values, so the change is limited to their range.
        let range = values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min);
        let change = (sign * slope * (last - first)).min(range);
        let residuals = || self.points.iter().map(|(round, value)| value - slope * round);
        let noise = deviation(residuals(), median(residuals().collect()));
        // Standard error of the change over the whole range, for evenly spaced rounds.
        let error = noise * (12.0 / self.points.len() as f64).sqrt();
        let is_beyond = |change: f64, error: f64| {
            change > drift * initial && change > STANDARD_ERRORS * error && change > self.resolution
        };
        let step = self.step().map(|(step, error)| (sign * step, error));
        let step = step.filter(|(step, error)| is_beyond(*step, *error)).map(|(step, _)| step);
        let significant = is_beyond(change, error) || step.is_some();
        let change = if is_beyond(change, error) { change } else { step.unwrap_or(change) };
        Some(Decline { key, relative: change / initial, significant })
    }
}

impl SoakValues {
    /// Change from the first to the last third of the rounds, and its standard error; `None` with fewer than nine rounds. The fit of a
    /// line does not detect a sudden change, because the residuals of such a fit are large.
    fn step(&self) -> Option<(f64, f64)> {
        let third = self.points.len() / 3;
        if third < MIN_THIRD {
            return None;
        }
        let values = |points: &[(f64, f64)]| -> Vec<f64> { points.iter().map(|(_, value)| *value).collect() };
        let (early, late) =
            (values(&self.points[..third]), values(&self.points[self.points.len() - third..]));
        let (before, after) = (median(early.clone()), median(late.clone()));
        let residuals =
            early.iter().map(|value| value - before).chain(late.iter().map(|value| value - after));
        let noise = deviation(residuals, 0.0);
        Some((after - before, MEDIAN_ERROR * noise * (2.0 / third as f64).sqrt()))
    }
}

/// Median slope of all pairs of points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(at, a)| points[at + 1..].iter().map(move |b| (a, b)));
    median(pairs.map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect())
}

#[cfg(test)]
mod tests {
    use model::{SplitMix64, metric::Scope};

    use super::*;

    const DRIFT: f64 = 0.02;

    /// Eight GPUs with 0.3 % noise; `level` returns the true value of a GPU in a round, relative to a healthy GPU.
    fn series(rounds: u16, seed: u64, level: impl Fn(u32, u16) -> f64) -> SoakSeries {
        let mut random = SplitMix64(seed);
        let mut series = SoakSeries::default();
        for round in 1..=rounds {
            let mut reading = Reading::default();
            for gpu in 0..8 {
                let noise = (0..12).map(|_| random.part()).sum::<f64>() - 6.0;
                reading.metrics.push(Metric {
                    name: "gemm".into(),
                    unit: "TFLOP/s".into(),
                    better: Better::Higher,
                    scope: Scope::Gpu,
                    subject: Subject::gpu(gpu),
                    labels: Default::default(),
                    value: Some(700.0 * level(gpu, round) * (1.0 + 0.003 * noise)),
                    resolution: Some(0.1),
                    unmeasurable: None,
                    line: u64::from(gpu) + 1,
                });
            }
            series.add(round, &reading);
        }
        series
    }

    fn judge(series: &SoakSeries) -> Judgement {
        series.judge(DRIFT, &Fingerprint::default())
    }

    #[test]
    fn a_gpu_that_declines_is_named_and_the_others_are_not() {
        let declining = |gpu, round| if gpu == 5 { 1.0 - 0.002 * f64::from(round) } else { 1.0 };
        let judgement = judge(&series(20, 1, declining));
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert_eq!(judgement.reasons[0].code, "SOAK_DECLINE");
        assert!(judgement.reasons[0].text.contains("gemm of gpu 5"), "{}", judgement.reasons[0].text);
        let suspects: Vec<_> = judgement.suspects.iter().map(|suspect| suspect.gpu).collect();
        assert_eq!(suspects, [Some(5)]);
    }

    /// A program on the same GPU halves its rate from the eighth round on.
    #[test]
    fn a_sudden_change_is_stated_with_its_size() {
        let judgement = judge(&series(12, 5, |gpu, round| if gpu == 1 && round >= 8 { 0.48 } else { 1.0 }));
        assert_eq!(judgement.verdict, Verdict::Fail);
        let text = &judgement.reasons[0].text;
        assert!(text.contains("gpu 1 (52") || text.contains("gpu 1 (53"), "{text}");
    }

    #[test]
    fn a_decline_of_all_gpus_fails_and_names_no_suspect() {
        let judgement = judge(&series(20, 2, |_, round| 1.0 - 0.003 * f64::from(round)));
        assert_eq!(judgement.verdict, Verdict::Fail);
        assert!(judgement.suspects.is_empty());
    }

    #[test]
    fn noise_and_a_single_slow_round_are_not_a_decline() {
        let mut false_results = 0;
        for seed in 0..1000 {
            let outlier = |_, round| if u64::from(round) == 1 + seed % 12 { 0.9 } else { 1.0 };
            false_results += usize::from(judge(&series(12, seed, outlier)).verdict != Verdict::Pass);
        }
        assert_eq!(false_results, 0, "of 1,000 soaks");
    }

    #[test]
    fn an_increase_is_not_a_decline_and_four_rounds_are_not_judged() {
        let faster = |_, round| 1.0 + 0.005 * f64::from(round);
        assert_eq!(judge(&series(20, 3, faster)).verdict, Verdict::Pass);
        let few = judge(&series(4, 3, |_, round| 1.0 - 0.1 * f64::from(round)));
        assert_eq!((few.verdict, few.reasons[0].code.as_str()), (Verdict::Pass, "SOAK_NOT_COMPARED"));
        let text = "a decline was not judged: 4 compared rounds, at least 5 are required";
        assert_eq!((few.reasons[0].text.as_str(), few.suspects.len()), (text, 0));
    }

    #[test]
    fn rounds_without_stored_measurements_never_pass() {
        let mut few = series(2, 4, |_, _| 1.0);
        (0..4).for_each(|_| few.add_unread());
        assert_eq!(judge(&few).verdict, Verdict::Inconclusive);
        let mut most = series(6, 4, |_, _| 1.0);
        (0..7).for_each(|_| most.add_unread());
        assert_eq!(judge(&most).reasons[0].code, "SOAK_NOT_COMPARED");
    }
}
