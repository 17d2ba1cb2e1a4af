//! The value of a group test, from the log of any program.

use std::{collections::BTreeSet, path::Path};

use model::{
    measurement::{LogEnd, Reading},
    metric::{Better, Metric, Scope, Severity},
};

use crate::commands::{
    locate,
    parse::{self, ReadFormat},
};

use super::GroupReference;

pub(super) struct GroupLog {
    /// The measured value with its direction; `None` if the program failed, or found wrong data or a hardware fault.
    pub(super) value: Option<(f64, Better)>,
}

impl GroupLog {
    /// # Errors
    /// Returns an error, with the log and the expectation, if the log does not show whether the group was degraded.
    pub(super) fn read(log: &Path, reference: Option<&GroupReference>) -> Result<Self, String> {
        let reading = reading(log)?;
        let shown = log.display();
        match reading.ended {
            LogEnd::Failed => return Ok(Self { value: None }),
            LogEnd::Empty => return Err(format!("log: {shown}: has no measurement; repeat the test")),
            LogEnd::Truncated => return Err(format!("log: {shown}: is incomplete; repeat the test")),
            LogEnd::Complete => {}
        }
        let is_bad = |severity: Severity| matches!(severity, Severity::Hardware | Severity::WrongData);
        let wrong = reading.tables.iter().any(|table| table.out_of_bounds.is_some_and(|bounds| !bounds.ok));
        if wrong || reading.findings.iter().any(|finding| is_bad(finding.severity)) {
            return Ok(Self { value: None });
        }
        let value = value(&reading, reference).map_err(|what| format!("log: {shown}: {what}"))?;
        Ok(Self { value: Some(value) })
    }
}

/// Nodes of the ranks that a log of nccl-tests names.
///
/// # Errors
/// Returns an error if the log names none.
pub(super) fn hosts(log: &Path) -> Result<Vec<String>, String> {
    let reading = reading(log)?;
    let devices = reading.tables.iter().flat_map(|table| &table.devices);
    let hosts: BTreeSet<_> = devices.map(|device| device.host.clone()).collect();
    if hosts.is_empty() {
        return Err(format!(
            "members: missing, and the log {} names no nodes; list the members of the group",
            log.display()
        ));
    }
    Ok(hosts.into_iter().collect())
}

fn reading(log: &Path) -> Result<Reading, String> {
    let (reading, _) = parse::read_with_clues(log, &ReadFormat::Detected)
        .map_err(|error| format!("log: {}", error.message))?;
    Ok(reading)
}

fn value(reading: &Reading, reference: Option<&GroupReference>) -> Result<(f64, Better), String> {
    let stated = reference.and_then(|reference| reference.metric.as_deref());
    if let (None, Some(slowest)) = (stated, reading.tables.iter().map(locate::plateau).reduce(f64::min)) {
        return match slowest > 0.0 {
            true => Ok((slowest, Better::Higher)),
            false => Err("the table has no bus bandwidth; repeat the test on two ranks or more".to_owned()),
        };
    }
    let world: Vec<&Metric> = reading.metrics.iter().filter(|metric| metric.scope == Scope::World).collect();
    let judged = world.iter().filter(|metric| metric.better != Better::None);
    let names: BTreeSet<_> = judged.map(|metric| &*metric.name).collect();
    let name = match (stated, names.iter().collect::<Vec<_>>().as_slice()) {
        (Some(stated), _) => stated,
        (None, [only]) => only,
        (None, []) => return Err(
            "has no metric of the whole job (scope `world`); state `degraded` or `value` instead of `log`"
                .to_owned(),
        ),
        (None, _) => {
            let names: Vec<_> = names.into_iter().collect();
            return Err(format!("has several metrics; name one as `reference.metric`: {}", names.join(", ")));
        }
    };
    let of_name: Vec<&Metric> = world.into_iter().filter(|metric| *metric.name == *name).collect();
    let Some(first) = of_name.first() else {
        return Err(format!(
            "has no metric `{name}` of the whole job (scope `world`); correct `reference.metric`"
        ));
    };
    let unstated =
        || format!("{name} is in `{}`; state the unit of the reference as `reference.unit`", first.unit);
    let unit = reference.map(|reference| reference.unit.as_deref().ok_or_else(unstated)).transpose()?;
    if let Some(other) = of_name.iter().find(|metric| unit.is_some_and(|unit| *unit != *metric.unit)) {
        let unit = unit.unwrap_or_default();
        return Err(format!(
            "{name} is in `{}`, and `reference.unit` is `{unit}`; correct one of them",
            other.unit
        ));
    }
    let mut values = Vec::new();
    for metric in &of_name {
        let value = metric.value.filter(|value| value.is_finite() && *value >= 0.0);
        values.push(
            value.ok_or_else(|| format!("{name} has no value (line {}); repeat the test", metric.line))?,
        );
    }
    values.sort_by(f64::total_cmp);
    let better = if first.better == Better::Lower { Better::Lower } else { Better::Higher };
    Ok((values[values.len() / 2], better))
}
