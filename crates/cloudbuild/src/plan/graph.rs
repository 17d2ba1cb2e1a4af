use std::collections::BTreeMap;

use crate::BuildProblem;
use crate::config::BuildStep;

/// For each step, the indices of the steps it waits for.
///
/// A step may only name earlier steps, which is Cloud Build's rule and excludes cycles.
pub(super) fn order(steps: &[BuildStep], problems: &mut Vec<BuildProblem>) -> Vec<Vec<usize>> {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let mut order = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        // Cloud Build treats an empty list like an absent one.
        order.push(if step.wait_for.is_empty() {
            (0..index).collect()
        } else {
            named(index, step, &known, steps, problems)
        });
        if let Some(id) = step.id.as_deref() {
            let path = format!("steps[{index}].id");
            if id.is_empty() || id == "-" || id.contains(char::is_control) {
                problems.push(BuildProblem::new(
                    path,
                    format!(
                        "expected a name on one line, found {id:?}; `-` is reserved: in `waitFor` it means no step"
                    ),
                ));
            } else if let Some(first) = known.get(id) {
                problems.push(BuildProblem::new(
                    path,
                    format!("{id:?} is already the id of step {first}; use a unique id for each step"),
                ));
            } else {
                known.insert(id, index);
            }
        }
    }
    order
}

fn named(
    index: usize,
    step: &BuildStep,
    known: &BTreeMap<&str, usize>,
    steps: &[BuildStep],
    problems: &mut Vec<BuildProblem>,
) -> Vec<usize> {
    let mut waits = Vec::new();
    for (position, name) in step.wait_for.iter().enumerate().filter(|(_, name)| *name != "-") {
        match known.get(name.as_str()) {
            Some(&earlier) => waits.push(earlier),
            None => {
                let exists = steps.iter().any(|other| other.id.as_ref() == Some(name));
                let why = if exists {
                    "is not the id of an earlier step; move it up"
                } else {
                    "is not the id of a step"
                };
                problems.push(BuildProblem::new(
                    format!("steps[{index}].waitFor[{position}]"),
                    format!("{name:?} {why}; `-` starts a step at once"),
                ));
            }
        }
    }
    waits
}
