//! The judge: computes a verdict from committed logs, criteria, and the cluster's pinned or learned baseline.
//!
//! | command | fact |
//! |---|---|
//! | `run.judge` | `verdict.reached`, or `verdict.failed` if the logs are damaged |
//!
//! Idempotent: the verdict is stored under its command with all its inputs, and a repeated command returns the stored verdict.
//! The same inputs always result in the same verdict.

mod pairs;
mod past;
mod reader;
mod standard;

use std::{borrow::Cow, sync::Arc};

use ledger::{ArtefactError, Artefacts, ObjectReader};
use measurements::{Measurements, ParsedLog};
use model::{
    Attempt, Body, Class, Cluster, ClusterSpec, Command, CommandId, Criteria, Every, Fact, Failure, Image,
    JobEnd, Logs, ManifestObject, Program, SoakRound, SoakRounds, Timestamp, VerdictReached, VerdictSuspect,
    measurement::{NodesOfHosts, Reading},
};
use pins::{ActivePin, Pins};
use serde::Serialize;
use service::{CommandError, PortError, Publisher, Worker};
use sha2::{Digest, Sha256};
use verdict::{Baseline, Clues, Fingerprint, Judgement, RunEvidence, SoakSeries, Standard, directed};

use standard::ChosenBaseline;
use tracing::warn;
use warehouse::Warehouse;

pub use reader::{CombinedLogs, LogReader, read_with_clues};
pub use verdict::Stored;

/// Handles `run.judge`: parses logs, computes and stores verdicts.
pub struct Judge {
    artefacts: Artefacts,
    history: Arc<dyn Warehouse>,
    pins: Pins,
}

/// Name of the stored verdict.
pub const OBJECT: &str = "verdict.json";

impl Judge {
    /// Event types that the judge handles.
    pub const HANDLED_EVENTS: [&'static str; 1] = ["dev.burnin.run.judge.v1"];

    /// `history`: earlier runs of the cluster.
    pub fn new(artefacts: Artefacts, history: Arc<dyn Warehouse>) -> Self {
        let pins = Pins::new(artefacts.store());
        Self { artefacts, history, pins }
    }

    async fn judge(&self, id: &CommandId, case: &JudgedCase<'_>) -> Result<Fact, PortError> {
        let object = Artefacts::folder(id) + OBJECT;
        let stored = match self.artefacts.get(&object).await.map_err(PortError::of_logs)? {
            Some(stored) => stored,
            None => self.judge_logs(id, case).await?,
        };
        let suspects = suspects(&stored.judgement);
        Ok(Fact::VerdictReached(VerdictReached {
            verdict: stored.judgement.verdict,
            reasons: stored.judgement.reasons,
            criteria: stored.criteria,
            baseline: stored.baseline,
            fingerprint: stored.judgement.fingerprint.0,
            log_sha256: stored.log_sha256,
            suspects,
            object,
            measurements: stored.measurements.map(Box::new),
        }))
    }

    async fn judge_logs(&self, id: &CommandId, case: &JudgedCase<'_>) -> Result<Stored, PortError> {
        let reader = LogReader::of(case.program)?;
        let (mut logs, clues) = self.parse_logs(case, &reader).await.map_err(PortError::of_logs)?;
        // Reports and the warehouse read the stored measurements, and need the same direction as the verdict.
        for log in &mut logs {
            if let Cow::Owned(reading) = directed(&log.reading, case.criteria) {
                log.reading = reading;
            }
        }
        let parsed = Measurements::of(&id.run, case.logs, case.job_attempt, logs);
        let measurements =
            measurements::write(&self.artefacts, id, &parsed).await.map_err(PortError::of_logs)?;
        if measurements.is_none() {
            warn!(
                "the measurements are not stored: they exceed 512 MiB, or another version of the program already stored different \
                 measurements; readers use the logs"
            );
        }
        let mut combined = CombinedLogs::of(&reader);
        for (ParsedLog { log, sha256, reading }, clues) in parsed.logs.into_iter().zip(clues) {
            combined.add(&reader, (&log, sha256), reading, clues);
        }
        let missing_nodes = reader.missing(case.cluster, &combined.nodes);
        let gpus = reader.stated_gpus(case.cluster);
        let setup = case.setup();
        let evidence = RunEvidence {
            reading: &combined.reading,
            clues: &combined.clues,
            job: Some(&reader.job(case.job)),
            workload: case.program.workload(),
            cluster: Some(case.cluster),
            setup: Some(&setup),
            missing_nodes: &missing_nodes,
            gpus: gpus.as_ref(),
        };
        let fingerprint = Fingerprint::of(&evidence);
        let of = (case.workflow, &fingerprint, case.requested_at);
        let chosen = self.chosen_baseline(case).await?;
        let learned =
            standard::cluster_standard(&*self.history, case.criteria, chosen, of, &combined.reading).await;
        let own = learned.map_err(PortError::transient)?;
        let criteria = measure::with_units(case.criteria, combined.reading.format.as_deref());
        let standard = Standard {
            criteria: Some(&criteria),
            baseline: own.baseline.as_ref(),
            earlier: &own.earlier,
            earlier_metrics: &own.earlier_metrics,
            defining_runs: own.defining_runs,
            pin: own.pin.as_ref(),
            learned: &own.reasons,
        };
        let mut judgement = verdict::judge(&evidence, &standard);
        if let Some(soak) = case.soak {
            let decline = self.decline(soak, &combined.reading, &judgement.fingerprint).await?;
            judgement = judgement.and(decline);
        }
        let stored = Stored {
            judgement,
            criteria: version(case.criteria),
            baseline: own.baseline.as_ref().map(digest),
            judged_by: own.baseline,
            pin: own.pin,
            earlier: own.earlier,
            earlier_metrics: own.earlier_metrics,
            log_sha256: combined.log_sha256,
            measurements,
        };
        let body = serde_json::to_vec_pretty(&stored).map_err(PortError::transient)?;
        let body: ObjectReader = Box::new(std::io::Cursor::new(body));
        if self.artefacts.try_put(id, OBJECT, body).await.map_err(PortError::of_logs)?.is_some() {
            return Ok(stored);
        }
        // Another judge may have stored a verdict at the same time, from another history: the stored one applies.
        let first =
            self.artefacts.get(&(Artefacts::folder(id) + OBJECT)).await.map_err(PortError::of_logs)?;
        first.ok_or_else(|| PortError::Transient(format!("the stored {OBJECT} cannot be read back; retry")))
    }

    /// Compares this round of a soak with the earlier ones.
    async fn decline(
        &self,
        soak: &SoakRounds,
        reading: &Reading,
        fingerprint: &Fingerprint,
    ) -> Result<Judgement, PortError> {
        let mut series = SoakSeries::default();
        for SoakRound { round, measurements } in &soak.earlier {
            let Some(file) = measurements else {
                series.add_unread();
                continue;
            };
            let earlier =
                measurements::read_stored(&self.artefacts, file).await.map_err(PortError::of_logs)?;
            let mut all = Reading::default();
            for ParsedLog { reading, .. } in earlier.logs {
                all.metrics.extend(reading.metrics);
                all.tables.extend(reading.tables);
            }
            series.add(*round, &all);
        }
        series.add(soak.round, reading);
        Ok(series.judge(soak.drift, fingerprint))
    }

    /// The baseline named in the workflow file, or else the pinned one.
    async fn chosen_baseline(&self, case: &JudgedCase<'_>) -> Result<Option<ChosenBaseline>, PortError> {
        if let Some(baseline) = case.pinned()? {
            return Ok(Some(ChosenBaseline { baseline, pin: None }));
        }
        if case.check.is_some() {
            return Ok(None); // a pin is the curve of a workflow's single benchmark
        }
        match self.pins.active_pin(case.workflow).await {
            Ok(pinned) => {
                Ok(pinned.map(|ActivePin { pin, baseline }| ChosenBaseline { baseline, pin: Some(pin) }))
            }
            Err(error @ pins::PinError::Damaged { .. }) => {
                let why = format!("{error}; release the pin, or pin another run");
                Err(PortError::Permanent(Failure::new(Class::Input, "BASELINE_UNREADABLE", why)))
            }
            Err(error) => Err(PortError::transient(error)),
        }
    }

    /// Parses all logs of the attempt. Logs with measurements are judged; the other logs may contain error messages.
    async fn parse_logs(
        &self,
        case: &JudgedCase<'_>,
        reader: &LogReader,
    ) -> Result<(Vec<ParsedLog>, Vec<Clues>), ArtefactError> {
        let reader = reader.clone();
        let parse = move |body: &mut dyn std::io::Read| {
            let (mut reading, clues) = reader.read_with_clues(body)?;
            reader.complete(&mut reading, &clues);
            Ok((reading, clues))
        };
        let mut parsed = self.artefacts.logs(case.logs, case.job_attempt, parse).await?;
        // nccl-tests in a pod print the pod's name. The log of one pod may have the measurements of all pods, and each log names its own
        // node. Programs that run on each node or on pairs have no such lines.
        if case.program.command().is_none_or(|command| command.every == Every::Rank) {
            let nodes = NodesOfHosts::of_logs(parsed.iter().map(|(_, (_, clues))| &clues.nodes_of_hosts));
            let nodes = nodes.within(case.cluster);
            for (_, (reading, clues)) in &mut parsed {
                reading.name_nodes(&nodes);
                clues.name_nodes(&nodes);
            }
        }
        let of = |(object, (reading, clues)): (ManifestObject, _)| {
            (ParsedLog { log: object.name, sha256: object.sha256, reading }, clues)
        };
        Ok(parsed.into_iter().map(of).unzip())
    }
}

/// Maximum number of suspected nodes in a fact; `verdict.json` has all of them.
const SUSPECTS: usize = 100;

/// The suspected nodes with their evidence, highest confidence first.
fn suspects(judgement: &Judgement) -> Vec<VerdictSuspect> {
    let mut nodes: Vec<VerdictSuspect> = Vec::new();
    for suspect in &judgement.suspects {
        let Some(host) = &suspect.host else { continue };
        let gpu = suspect.gpu.map_or_else(String::new, |gpu| format!("gpu {gpu}: "));
        let evidence = format!("{gpu}{}", suspect.evidence.join(", "));
        let evidence = evidence.trim_end_matches(": ").to_owned();
        match nodes.iter().position(|known| known.node == *host) {
            Some(known) => nodes[known].evidence.push(evidence),
            None if nodes.len() < SUSPECTS => {
                nodes.push(VerdictSuspect { node: host.clone(), evidence: vec![evidence] });
            }
            None => {}
        }
    }
    nodes
}

struct JudgedCase<'a> {
    workflow: &'a str,
    check: Option<&'a str>,
    requested_at: Option<Timestamp>,
    logs: &'a Logs,
    job_attempt: Attempt,
    job: &'a JobEnd,
    program: &'a Program,
    spec: Option<&'a ClusterSpec>,
    cluster: &'a Cluster,
    image: Option<&'a Image>,
    criteria: &'a Criteria,
    baseline: Option<&'a serde_json::Value>,
    soak: Option<&'a SoakRounds>,
}

impl JudgedCase<'_> {
    /// Fingerprint fields that no log contains.
    fn setup(&self) -> Fingerprint {
        let system = self.spec.map(|spec| match spec {
            ClusterSpec::Provisioned(system) => system.kind().to_owned(),
            // Two clusters of one kind have separate histories.
            ClusterSpec::Existing { system, name } => format!("{} {name}", system.kind()),
        });
        let fields = [
            ("check", self.check.map(str::to_owned)),
            ("system", system),
            ("blueprint", self.spec.map(digest)),
            ("image", self.image.map(|image| image.digest.clone())),
        ];
        Fingerprint(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }

    fn pinned(&self) -> Result<Option<Baseline>, PortError> {
        let pinned = self.baseline.map(|baseline| serde_json::from_value(baseline.clone())).transpose();
        pinned.map_err(|error| {
            let why =
                format!("the workflow's baseline is invalid: {error}; learn one with `burnin baseline`");
            PortError::Permanent(Failure::new(Class::Input, "BASELINE_UNREADABLE", why))
        })
    }
}

/// Version of criteria: a digest of their content.
pub fn version(criteria: &Criteria) -> String {
    format!("{}@{}", criteria.name, digest(criteria))
}

/// The first 12 hex digits of the content's SHA-256, which distinguish versions.
fn digest(content: &impl Serialize) -> String {
    let content = serde_json::to_vec(content).unwrap_or_default();
    hex::encode(&Sha256::digest(&content)[..6])
}

#[async_trait::async_trait]
impl Worker for Judge {
    fn name(&self) -> &'static str {
        "judge"
    }

    async fn perform(&self, command: &Command, publisher: &Publisher) -> Result<(), CommandError> {
        let id = &command.id;
        let Body::RunJudge {
            workflow,
            check,
            requested_at,
            logs,
            job_attempt,
            job,
            program,
            spec,
            cluster,
            image,
            criteria,
            baseline,
            soak,
        } = &command.body
        else {
            return Err(CommandError::Permanent("the judge handles only run.judge".to_owned()));
        };
        let case = JudgedCase {
            workflow,
            check: check.as_deref(),
            requested_at: *requested_at,
            logs,
            job_attempt: *job_attempt,
            job,
            program,
            spec: spec.as_deref(),
            cluster,
            image: image.as_deref(),
            criteria,
            baseline: baseline.as_ref(),
            soak: soak.as_deref(),
        };
        publisher.publish_result(id, self.judge(id, &case).await.map(Some)).await
    }
}
