//! Selects the values that one criterion judges, and checks that they are complete and plausible.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use model::{
    MetricCriterion, Settled, Verdict,
    measurement::Reading,
    metric::{Better, Metric, Scope, Subject},
};

use crate::{evidence::RunEvidence, stated_gpus::StatedGpus, statistics::median};

use super::{FoundReasons, listed, position::SubjectPosition};

/// Metrics by name: a fleet has hundreds of thousands of metrics, and each criterion selects the metrics of one name.
pub(super) struct ByName<'a>(BTreeMap<&'a str, Vec<&'a Metric>>);

impl<'a> ByName<'a> {
    pub(super) fn of(reading: &'a Reading) -> Self {
        let mut names: BTreeMap<&str, Vec<&Metric>> = BTreeMap::new();
        for metric in &reading.metrics {
            names.entry(&metric.name).or_default().push(metric);
        }
        Self(names)
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = (&str, &[&'a Metric])> {
        self.0.iter().map(|(name, metrics)| (*name, metrics.as_slice()))
    }

    pub(super) fn named(&self, name: &str) -> &[&'a Metric] {
        self.0.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Metrics selected for one criterion, before the values are checked.
pub(super) struct Measured<'a> {
    pub(super) criterion: &'a MetricCriterion,
    /// Name and labels of the criterion, as in the verdict's reasons.
    pub(super) name: String,
    metrics: Vec<&'a Metric>,
}

/// A judged value and its metric; for a settled value, the last metric of the window.
#[derive(Clone, Copy)]
pub(super) struct MeasuredValue<'a> {
    pub(super) metric: &'a Metric,
    pub(super) value: f64,
}

impl fmt::Display for MeasuredValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} (line {})", self.metric.subject, self.value, self.metric.unit, self.metric.line)
    }
}

impl<'a> Measured<'a> {
    pub(super) fn of(metrics: &ByName<'a>, criterion: &'a MetricCriterion) -> Self {
        let selected = |metric: &&&Metric| criterion.selects(&metric.name, &metric.labels);
        let metrics = metrics.named(&criterion.metric).iter().filter(selected).copied().collect();
        Self { criterion, name: described(criterion), metrics }
    }

    /// The values to compare with the bounds. A value in another unit is not comparable: it is reported by [`Self::plausible`], and
    /// would otherwise fail by a floor in a smaller unit.
    pub(super) fn values(&self) -> Vec<MeasuredValue<'a>> {
        let comparable = self.metrics.iter().filter(|metric| self.has_unit(metric));
        let all = comparable.filter_map(|metric| Some(MeasuredValue { metric, value: metric.value? }));
        match &self.criterion.settled {
            None => all.collect(),
            Some(window) => settled(all, window).into_values().map(|values| window_median(&values)).collect(),
        }
    }

    /// Whether the value has the unit of the criterion; any known unit is accepted if the criterion's unit is absent.
    fn has_unit(&self, metric: &Metric) -> bool {
        self.criterion.unit.as_deref().map_or_else(|| metric.has_known_unit(), |unit| unit == &*metric.unit)
    }

    pub(super) fn is_of_gpus(&self) -> bool {
        !self.metrics.is_empty() && self.metrics.iter().all(|metric| metric.scope == Scope::Gpu)
    }

    /// Labels in which comparable values agree.
    pub(super) fn labels(&self, metric: &'a Metric) -> Cow<'a, BTreeMap<String, String>> {
        match &self.criterion.settled {
            None => Cow::Borrowed(&metric.labels),
            Some(Settled { by, .. }) => {
                let mut labels = (*metric.labels).clone();
                labels.remove(by);
                Cow::Owned(labels)
            }
        }
    }

    /// Compares the expected subjects with the measured ones, and reports values that the program could not measure.
    pub(super) fn coverage(&self, evidence: &RunEvidence<'_>, found: &mut FoundReasons<'_>) {
        let Self { criterion, name, metrics } = self;
        let reading = evidence.reading;
        if metrics.is_empty() {
            found.add(Verdict::Inconclusive, "NOT_MEASURED", format!("{name} is not in the log"));
            return;
        }
        let seen: BTreeSet<_> = metrics.iter().map(|metric| SubjectPosition::of_metric(metric)).collect();
        if let Some(expected) = criterion.subjects.filter(|expected| *expected as usize != seen.len()) {
            let mut text = format!("{name} is measured for {} instead of {expected} subjects", seen.len());
            if seen.len() < expected as usize {
                let absent = match metrics.first().map(|metric| metric.scope) {
                    Some(Scope::Rank) => absent_ranks(metrics, expected),
                    Some(Scope::Node) => absent_nodes(metrics, reading),
                    _ => absent_devices(metrics, |_, _| true),
                };
                let mut absent: Vec<_> = absent.iter().map(ToString::to_string).collect();
                if self.is_of_gpus() {
                    absent.extend(
                        evidence.gpus.iter().flat_map(|stated| fewer_than_stated(&seen, reading, stated)),
                    );
                }
                if !absent.is_empty() {
                    text += &format!(": {}", listed(absent));
                }
            }
            found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
        }
        if self.is_of_gpus() {
            let named = reading.gpus.iter().filter(|gpu| !seen.contains(&SubjectPosition::of(&gpu.subject)));
            let mut missing: BTreeSet<_> = named.map(|gpu| super::position::owned(&gpu.subject)).collect();
            // Criteria with a number of subjects permit nodes with different numbers of GPUs.
            if criterion.subjects.is_none() {
                let lacks =
                    |node: &str, count| evidence.gpus.is_none_or(|stated| !stated.has_only(node, count));
                missing.extend(absent_devices(metrics, lacks));
            }
            if !missing.is_empty() {
                let missing = listed(missing.iter().map(ToString::to_string).collect());
                found.add(
                    Verdict::Inconclusive,
                    "NOT_MEASURED",
                    format!("{name} is not measured for {missing}"),
                );
            }
            if let Some(stated) = evidence.gpus.filter(|_| criterion.subjects.is_none()) {
                let lacking = fewer_than_stated(&seen, reading, stated);
                if !lacking.is_empty() {
                    let text = format!(
                        "{name} is not measured on all GPUs that the cluster's settings state: {}; write `subjects` in its criterion \
                         if fewer are intended",
                        listed(lacking)
                    );
                    found.add(Verdict::Inconclusive, "NOT_MEASURED", text);
                }
            }
        }
        let unmeasurable: Vec<_> = metrics.iter().filter(|metric| metric.value.is_none()).collect();
        if let Some(first) = unmeasurable.first().filter(|_| !criterion.may_be_unmeasurable) {
            let why = first.unmeasurable.as_deref().unwrap_or("no value");
            let subjects = listed(unmeasurable.iter().map(|metric| metric.subject.to_string()).collect());
            let text = format!("{name} has no value for {subjects}: {why} (line {})", first.line);
            found.add(Verdict::Inconclusive, "UNMEASURABLE", text);
        }
        if let Some(window) = &criterion.settled {
            self.unsettled(window, &seen, found);
        }
    }

    /// Reports a metric without a direction of improvement if a rule of the criterion needs the direction.
    pub(super) fn has_direction(&self, found: &mut FoundReasons<'_>) {
        let Some(rule) = self.criterion.directed() else { return };
        if let Some(metric) = self.metrics.iter().find(|metric| metric.better == Better::None) {
            let text = format!(
                "{} has no direction of improvement (line {}), so `{rule}` cannot be judged; write `better: higher` or `better: lower` in its criterion",
                self.name, metric.line
            );
            found.add(Verdict::Inconclusive, "NO_DIRECTION", text);
        }
    }

    /// Reports subjects with fewer values in the settled window than the criterion requires.
    fn unsettled(
        &self,
        window: &Settled,
        seen: &BTreeSet<SubjectPosition<'_>>,
        found: &mut FoundReasons<'_>,
    ) {
        let all =
            self.metrics.iter().filter_map(|metric| Some(MeasuredValue { metric, value: metric.value? }));
        let mut counts: BTreeMap<_, usize> = seen.iter().map(|position| (*position, 0)).collect();
        for ((place, _), values) in settled(all, window) {
            let count = counts.entry(place).or_default();
            *count = (*count).max(values.len());
        }
        let few = self.metrics.iter().filter(|metric| {
            counts
                .remove(&SubjectPosition::of_metric(metric))
                .is_some_and(|count| count < window.at_least as usize)
        });
        let few: Vec<_> = few.map(|metric| super::position::owned(&metric.subject).to_string()).collect();
        if !few.is_empty() {
            let Settled { by, from, at_least, .. } = window;
            let text = format!(
                "{} has fewer than {at_least} values from {by} {from} on for {}",
                self.name,
                listed(few)
            );
            found.add(Verdict::Inconclusive, "NOT_SETTLED", text);
        }
    }

    /// Reports values with an unknown unit or outside the plausible range. Metrics that are not judged may have any
    /// unit.
    pub(super) fn plausible(&self, found: &mut FoundReasons<'_>) {
        let name = &self.name;
        for metric in &self.metrics {
            // A line that states why a value is absent has no unit.
            let Some(value) = metric.value else { continue };
            if !self.has_unit(metric) {
                let Metric { unit, line, .. } = metric;
                let text = match &self.criterion.unit {
                    Some(required) => format!(
                        "{name} is in `{unit}` (line {line}), expected `{required}`; correct `unit` of the criteria, or the unit in the log"
                    ),
                    None => format!(
                        "{name} is in the unknown unit `{unit}` (line {line}); name it in `unit` of the criteria if the bounds are in it"
                    ),
                };
                found.add(Verdict::Inconclusive, "UNKNOWN_UNIT", text);
                return;
            }
            let is_rate = metric.better == Better::Higher || metric.better == Better::Lower;
            let is_implausible = !value.is_finite()
                || (is_rate && value < 0.0)
                || (metric.better == Better::Higher && value == 0.0);
            if is_implausible {
                let text = format!(
                    "{name} is {value} {} for {} (line {})",
                    metric.unit, metric.subject, metric.line
                );
                found.add(Verdict::Inconclusive, "IMPLAUSIBLE", text);
            }
        }
    }
}

/// Index of a GPU and name of a link, each if the subject has one.
type DeviceId<'a> = (Option<u32>, Option<&'a str>);

/// GPUs and links that are missing on one node and present on another. Programs do not report a lost device, so only a comparison of nodes
/// shows it. `lacks`: whether a node with this number of devices may lack one.
fn absent_devices(metrics: &[&Metric], lacks: impl Fn(&str, usize) -> bool) -> Vec<Subject> {
    let mut nodes: BTreeMap<&str, BTreeSet<DeviceId<'_>>> = BTreeMap::new();
    for metric in metrics.iter().filter(|metric| metric.subject.peer.is_none()) {
        let Subject { node, gpu, link, .. } = &metric.subject;
        if let Some(node) = node.as_deref().filter(|_| gpu.is_some() || link.is_some()) {
            nodes.entry(node).or_default().insert((*gpu, link.as_deref()));
        }
    }
    let all: BTreeSet<_> = nodes.values().flatten().copied().collect();
    let absent = |(node, devices): (&&str, &BTreeSet<_>)| {
        let subject = |(gpu, link): &DeviceId<'_>| Subject {
            node: Some((*node).into()),
            gpu: *gpu,
            link: link.map(Into::into),
            ..Subject::default()
        };
        all.difference(devices).map(subject).collect::<Vec<_>>()
    };
    nodes.iter().filter(|(node, devices)| lacks(node, devices.len())).flat_map(absent).collect()
}

/// Nodes without a value of these metrics that have values of other metrics in the log.
fn absent_nodes(metrics: &[&Metric], reading: &Reading) -> Vec<Subject> {
    let seen: BTreeSet<_> = metrics.iter().filter_map(|metric| metric.subject.node.as_deref()).collect();
    let all: BTreeSet<_> =
        reading.metrics.iter().filter_map(|metric| metric.subject.node.as_deref()).collect();
    let absent = all.difference(&seen).filter(|_| !seen.is_empty());
    absent.map(|node| Subject { node: Some((*node).into()), ..Subject::default() }).collect()
}

/// Ranks below `expected` that have no value; empty if a value has no rank, or a rank of at least `expected`.
fn absent_ranks(metrics: &[&Metric], expected: u32) -> Vec<Subject> {
    let ranks: Option<BTreeSet<u32>> = metrics.iter().map(|metric| metric.subject.rank).collect();
    let Some(ranks) = ranks.filter(|ranks| ranks.last().is_some_and(|last| *last < expected)) else {
        return Vec::new();
    };
    let absent = (0..expected).filter(|rank| !ranks.contains(rank));
    absent.map(|rank| Subject { rank: Some(rank), ..Subject::default() }).collect()
}

/// Nodes with fewer GPUs than stated, such as `7 of 8 GPUs of node n1`. `seen`: measured or listed subjects.
pub(super) fn fewer_than_stated(
    seen: &BTreeSet<SubjectPosition<'_>>,
    reading: &Reading,
    stated: &StatedGpus,
) -> Vec<String> {
    // A program that names no GPU measures one device, as intended by its command.
    if !seen.iter().any(SubjectPosition::names_a_gpu) {
        return Vec::new();
    }
    if seen.iter().any(|position| position.node().is_none()) {
        let count = seen.len();
        let fewer = (count as u64) < u64::from(stated.total);
        return if fewer { vec![format!("{count} of {} GPUs", stated.total)] } else { Vec::new() };
    }
    // A node that lost all its GPUs lacks these metrics and has others.
    let others = reading.metrics.iter().filter_map(|metric| metric.subject.node.as_deref());
    let mut nodes: BTreeMap<&str, usize> = others.map(|node| (node, 0)).collect();
    for node in seen.iter().filter_map(|place| place.node()) {
        *nodes.entry(node).or_default() += 1;
    }
    let unseen = stated.nodes().saturating_sub(nodes.len());
    let lacking = |(node, count): (&str, usize)| {
        let stated = stated.on(node).filter(|stated| count < *stated as usize)?;
        Some(format!("{count} of {stated} GPUs of node {node}"))
    };
    let mut lacking: Vec<_> = nodes.into_iter().filter_map(lacking).collect();
    // The log and the scheduler may name the nodes differently, so only their number is certain.
    if unseen > 0 {
        lacking.push(format!("no GPU of {unseen} of {} nodes", stated.nodes()));
    }
    lacking
}

/// Values by subject and labels.
type SettledValues<'a> = BTreeMap<(SubjectPosition<'a>, Vec<(&'a str, &'a str)>), Vec<MeasuredValue<'a>>>;

/// The values within the window, for each subject and the labels other than the window's.
fn settled<'a>(values: impl Iterator<Item = MeasuredValue<'a>>, window: &'a Settled) -> SettledValues<'a> {
    let mut series = SettledValues::new();
    for value in values {
        if window.contains(&value.metric.labels) {
            let labels = value.metric.labels.iter().filter(|(name, _)| **name != window.by);
            let labels = labels.map(|(name, value)| (name.as_str(), value.as_str())).collect();
            series.entry((SubjectPosition::of_metric(value.metric), labels)).or_default().push(value);
        }
    }
    series
}

/// The median of the values, with the metric of the last value in the window.
fn window_median<'a>(values: &[MeasuredValue<'a>]) -> MeasuredValue<'a> {
    // `settled` returns no empty series.
    let last = values[values.len() - 1];
    MeasuredValue { value: median(values.iter().map(|value| value.value).collect()), ..last }
}

fn described(criterion: &MetricCriterion) -> String {
    let labels: Vec<_> = criterion.labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
    match labels.is_empty() {
        true => criterion.metric.clone(),
        false => format!("{} ({})", criterion.metric, labels.join(", ")),
    }
}

/// Distance from `expected` in the worse direction, in the metric's unit; the absolute distance for `exact`, 0 without a direction.
pub(super) fn worse_by(better: Better, expected: f64, value: f64) -> f64 {
    match better {
        Better::Higher => expected - value,
        Better::Lower => value - expected,
        Better::Exact => (value - expected).abs(),
        Better::None => 0.0,
    }
}
