//! Runs that can be pinned as a reference.

use model::{RunId, Verdict, measurement::Reading};
use verdict::{
    Baseline, Fingerprint,
    baseline::{Healthy, Unlearnable, learn},
    pin::PinSource,
    repeat,
};

use crate::{ExternalAddresses, RunIndex, RunIndexError, RunReport, RunStatus};

/// A run that can be pinned.
#[derive(Clone, Debug)]
pub struct ReferenceRun {
    /// Name of the workflow whose runs are compared.
    pub workflow: String,
    pub baseline: Baseline,
}

/// Reason why a run cannot be pinned.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error("run {0} does not exist; `burnin runs` lists the runs")]
    Unknown(RunId),
    #[error("{run} cannot be pinned: {why}")]
    Unfit {
        run: RunId,
        /// Reason and next step.
        why: String,
    },
    /// The query failed; retry.
    #[error(transparent)]
    Index(#[from] RunIndexError),
}

impl RunIndex {
    /// The baseline for a workflow's runs if this run were pinned. The run must be closed and passed, and its measurements must be those of
    /// the current workflow. Without `workflow`, uses the run's own workflow.
    ///
    /// # Errors
    /// Returns an error if the run is unsuitable or the query fails.
    pub async fn reference(
        &self,
        workflow: Option<&str>,
        run: &RunId,
        source: PinSource,
    ) -> Result<ReferenceRun, ReferenceError> {
        let report = self.report(run, ExternalAddresses::default()).await?;
        let report = report.ok_or_else(|| ReferenceError::Unknown(run.clone()))?;
        let unfit = |why: String| ReferenceError::Unfit { run: run.clone(), why };
        let (baseline, fingerprint) = measured(&report, workflow, source).map_err(unfit)?;
        let workflow = report.state.workflow.name;
        let newest = self.all().await?.into_iter().find(|summary| {
            let judged = matches!(summary.verdict, Some(Verdict::Pass | Verdict::Fail));
            summary.workflow == workflow
                && summary.run != *run
                && summary.state == RunStatus::Closed
                && judged
        });
        if let Some(newest) = newest
            && let Some(folded) = self.folded(&newest.run).await?
            && let Some(reached) = folded.state.verdict()
        {
            let now = Fingerprint(reached.fingerprint.clone());
            let other = now.differences(&fingerprint).find(verdict::fingerprint::Difference::is_identity);
            if let Some(other) = other {
                let (name, before, after) = (other.name, other.before, other.after);
                return Err(unfit(format!(
                    "its {name} is {after}, but {}, the newest run of {workflow}, has {before}; pin a run with the same {name}",
                    newest.run
                )));
            }
        }
        Ok(ReferenceRun { workflow, baseline })
    }
}

/// The measurements of the run and their fingerprint.
fn measured(
    report: &RunReport,
    workflow: Option<&str>,
    source: PinSource,
) -> Result<(Baseline, Fingerprint), String> {
    let state = &report.state;
    let own = &state.workflow.name;
    if let Some(wanted) = workflow.filter(|wanted| wanted != own) {
        return Err(format!("it is a run of {own}; expected a run of {wanted}"));
    }
    if state.closed.is_none() {
        return Err("the run is not closed yet; pin it after its end".to_owned());
    }
    if !state.workflow.checks.is_empty() {
        return Err(format!(
            "{own} has several checks, and a pin is for a workflow with a single benchmark; name a baseline in the check's \
             `baseline`"
        ));
    }
    let reached = state.verdict().ok_or("the run has no verdict; pin a run that passed")?;
    if reached.verdict != Verdict::Pass {
        return Err(format!("its verdict is {}; only a run that passed can be a reference", reached.verdict));
    }
    if state.workflow.benchmark.as_ref().is_some_and(|benchmark| benchmark.baseline.is_some()) {
        return Err(format!(
            "{own} states a baseline in `benchmark.baseline`, which has priority; remove it to pin a run"
        ));
    }
    let fingerprint = Fingerprint(reached.fingerprint.clone());
    let baseline = match (source, report.judged_by()) {
        (PinSource::Learned, Some(baseline)) => repeated(baseline)?,
        (PinSource::Learned, None) => {
            return Err("it was judged without a learned baseline; pin its own measurements".to_owned());
        }
        (PinSource::Run, _) => own_measurements(report.reading.as_ref(), fingerprint.clone())?,
    };
    Ok((baseline, fingerprint))
}

/// A baseline from an older version may include runs with unrepeatable results.
fn repeated(baseline: &Baseline) -> Result<Baseline, String> {
    let apart = baseline.repeatability();
    if apart > repeat::MAX_DISTANCE {
        return Err(format!(
            "the runs of its baseline do not repeat: they are up to {:.1} % from their median; pin the run's own measurements",
            100.0 * apart
        ));
    }
    Ok(baseline.clone())
}

fn own_measurements(reading: Option<&Reading>, fingerprint: Fingerprint) -> Result<Baseline, String> {
    let reading = reading.ok_or("it has no measurements; pin another run")?;
    learn(&[Healthy { reading, fingerprint }]).map_err(|error| match error {
        Unlearnable::Unfit { why, .. } => why,
        Unlearnable::Nothing | Unlearnable::Mixed { .. } | Unlearnable::Unrepeated { .. } => {
            "it has no measurements; pin another run".to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learned_baseline_of_runs_that_do_not_repeat_is_not_pinned() {
        let of = |levels: &[f64]| Baseline {
            schema: "burnin/baseline/v1".to_owned(),
            fingerprint: Fingerprint::default(),
            runs: u32::try_from(levels.len()).unwrap(),
            plateau_spread: 0.002,
            levels: levels.to_vec(),
            repeats_within: None,
            metrics: Vec::new(),
            fleets: Vec::new(),
            points: Vec::new(),
        };
        assert_eq!(repeated(&of(&[0.0, 0.001, -0.002])), Ok(of(&[0.0, 0.001, -0.002])));
        let refused = repeated(&of(&[-0.29, -0.29, 0.68, 0.0, 1.0])).unwrap_err();
        assert!(
            refused.contains("up to 68.0 %") && refused.contains("pin the run's own measurements"),
            "{refused}"
        );
    }
}
