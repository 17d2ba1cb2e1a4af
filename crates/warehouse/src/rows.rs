//! Rows of the tables, one type for each table.

use std::{borrow::Cow, sync::Arc};

use model::{
    Attempt, Conclusion, NodeResult, RunId, RunUsed, Span, Timestamp, Verdict, VerdictReached,
    measurement::{Half, Reading},
    metric::{Better, Metric, Scope, Severity, Subject},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::projection;

/// Text shared by all rows of a run.
pub type SharedText = Arc<str>;

/// Rows that are loaded atomically: the measurements, metrics and findings of a run, its end, or the results of its nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// End of the run. At most one row.
    pub runs: Vec<RunRow>,
    /// Verdict of the run. At most one row.
    pub verdicts: Vec<VerdictRow>,
    /// Rows of the table `measurements`.
    pub rows: Vec<MeasurementRow>,
    /// Rows of the table `metrics`.
    pub metrics: Vec<MetricRow>,
    /// Rows of the table `findings`.
    pub findings: Vec<FindingRow>,
    /// Results of the run that concern single nodes.
    pub node_results: Vec<NodeResultRow>,
}

/// A result of a run that concerns one node of an existing or provisioned cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeResultRow {
    /// Id of the run.
    pub run: String,
    /// Workflow name.
    pub workflow: String,
    /// Name of the existing cluster; null for a provisioned one, whose nodes do not exist beyond the run.
    pub cluster: Option<String>,
    /// Name of the node in the scheduler.
    pub node: String,
    /// `suspected`, `drained`, `retest_passed`, `returned`, `retest_failed` or `passed`.
    pub result: String,
    /// Evidence, confidence, reason or command, for display.
    pub detail: String,
    /// Time of the request for the run.
    pub requested_at: Option<Timestamp>,
    /// Verdict on the run.
    pub verdict: Option<Verdict>,
}

/// A closed run with all resources released.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    /// Id of the run.
    pub run: String,
    /// Workflow name.
    pub workflow: String,
    /// Time of the request for the run.
    pub requested_at: Option<Timestamp>,
    /// Time at which the run was closed.
    pub closed_at: Option<Timestamp>,
    /// `completed`, `failed`, `timed_out`, `cancelled` or `yielded`.
    pub conclusion: String,
    /// Code of the failure; null without a failure.
    pub failure: Option<String>,
    /// Verdict on its measurements; null without one.
    pub verdict: Option<Verdict>,
    /// Number of requested nodes; 0 without a provisioned cluster.
    pub nodes: u32,
    /// Node hours of the clusters, each from its request to its confirmed deletion.
    pub node_hours: f64,
    /// Node hours of the benchmark's jobs.
    pub busy_node_hours: f64,
    /// Cost; null without a known price.
    pub cost: Option<f64>,
    /// Currency of the cost.
    pub currency: Option<String>,
}

/// A run and its verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictRow {
    /// Id of the run.
    pub run: SharedText,
    /// Workflow name.
    pub workflow: SharedText,
    /// Attempt of the job.
    pub attempt: u32,
    /// Name of the check; null for a workflow with a single benchmark.
    #[serde(default)]
    pub check_name: Option<SharedText>,
    /// Time of the request for the run.
    pub requested_at: Option<Timestamp>,
    /// `pass`, `fail` or `inconclusive`; null if the verdict stage failed.
    pub verdict: Option<Verdict>,
    /// Codes of its reasons, most severe first, separated by commas.
    pub reasons: String,
    /// Name and digest of the criteria.
    pub criteria: Option<SharedText>,
    /// Digest of the baseline, if any.
    pub baseline: Option<SharedText>,
    /// Identity of the measurement as one text: equal for runs with comparable curves.
    pub identity: Option<SharedText>,
    /// Environment of the measurement, as a JSON object of strings.
    pub fingerprint: SharedText,
    /// Number of rows of the run in `measurements`.
    pub measurements: u64,
}

/// One placement of one measured size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasurementRow {
    /// Id of the run.
    pub run: SharedText,
    /// Workflow name.
    pub workflow: SharedText,
    /// Attempt of the job.
    pub attempt: u32,
    /// Name of the check; null for a workflow with a single benchmark.
    #[serde(default)]
    pub check_name: Option<SharedText>,
    /// Log file of the row, relative to the manifest.
    pub log: String,
    /// Index of the table in that log, starting at 0.
    pub table_number: u32,
    /// Index of the row in that table, starting at 0.
    pub row_number: u32,
    /// `out_of_place` or `in_place`.
    pub placement: String,
    /// Collective, if stated in the log.
    pub collective: Option<String>,
    /// Number of ranks, if stated in the log.
    pub ranks: Option<u32>,
    /// Message size, bytes.
    pub size_bytes: u64,
    /// Elements.
    pub count: u64,
    /// Element type.
    pub dtype: String,
    /// Reduction.
    pub redop: Option<String>,
    /// Time of one operation, microseconds.
    pub time_us: f64,
    /// Size over time, GB/s.
    pub algbw: f64,
    /// Bus bandwidth, GB/s.
    pub busbw: f64,
    /// Wrong elements; null if unchecked.
    pub wrong: Option<u64>,
    /// Time of the request for the run.
    pub requested_at: Option<Timestamp>,
    /// Verdict on the run.
    pub verdict: Option<Verdict>,
    /// Name and digest of the criteria.
    pub criteria: Option<SharedText>,
    /// Digest of the baseline, if any.
    pub baseline: Option<SharedText>,
    /// Identity of the measurement as one text: equal for runs with comparable curves.
    pub identity: Option<SharedText>,
    /// Environment of the measurement, as a JSON object of strings.
    pub fingerprint: Option<SharedText>,
}

/// One value of one metric, or the reason why it could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricRow {
    /// Id of the run.
    pub run: SharedText,
    /// Workflow name.
    pub workflow: SharedText,
    /// Attempt of the job.
    pub attempt: u32,
    /// Name of the check; null for a workflow with a single benchmark.
    #[serde(default)]
    pub check_name: Option<SharedText>,
    /// Log file of the row, relative to the manifest.
    pub log: SharedText,
    /// Index of the metric in that log, starting at 0.
    pub metric_number: u64,
    /// Line of that log, starting at 1; 0 for a value from a table of nccl-tests.
    pub line: u64,
    /// Name of the metric.
    pub metric: SharedText,
    /// Unit of the value, as printed or normalized.
    pub unit: SharedText,
    /// Direction of improvement: `higher`, `lower`, `exact` or `none`.
    pub better: SharedText,
    /// Kind of subject: `world`, `node`, `gpu`, `link`, `pair` or `rank`.
    pub scope: SharedText,
    /// Host name of the subject.
    pub node: Option<SharedText>,
    /// Index of the GPU on its node.
    pub gpu: Option<u32>,
    /// Port or NVLink.
    pub link: Option<SharedText>,
    /// The other end of a pair.
    pub peer: Option<SharedText>,
    /// Rank of the process.
    pub rank: Option<u32>,
    /// Serial number or UUID of the device.
    pub serial: Option<SharedText>,
    /// PCI bus id.
    pub bus_id: Option<SharedText>,
    /// Properties that distinguish values of the same name, as a JSON object of strings with sorted names.
    pub labels: SharedText,
    /// The value; null if it could not be measured.
    pub value: Option<f64>,
    /// Distance of two adjacent printed values, in the unit.
    pub resolution: Option<f64>,
    /// The program's reason why it could not measure the value.
    pub unmeasurable: Option<SharedText>,
    /// Time of the request for the run.
    pub requested_at: Option<Timestamp>,
    /// Verdict on the run.
    pub verdict: Option<Verdict>,
    /// Name and digest of the criteria.
    pub criteria: Option<SharedText>,
    /// Digest of the baseline, if any.
    pub baseline: Option<SharedText>,
    /// Identity of the measurement as one text: equal for runs with comparable curves.
    pub identity: Option<SharedText>,
    /// Environment of the measurement, as a JSON object of strings.
    pub fingerprint: Option<SharedText>,
}

/// An event or state that a program reported about a subject, such as an Xid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FindingRow {
    /// Id of the run.
    pub run: SharedText,
    /// Workflow name.
    pub workflow: SharedText,
    /// Attempt of the job.
    pub attempt: u32,
    /// Name of the check; null for a workflow with a single benchmark.
    #[serde(default)]
    pub check_name: Option<SharedText>,
    /// Log file of the row, relative to the manifest.
    pub log: SharedText,
    /// Index of the finding in that log, starting at 0.
    pub finding_number: u64,
    /// Line of that log, starting at 1.
    pub line: u64,
    /// Stable code: `XID_79`, `GPU_FAULTY`, `DCGM_FAIL`.
    pub code: SharedText,
    /// Kind of cause: `hardware`, `wrong_data`, `software`, `configuration` or `unknown`.
    pub severity: SharedText,
    /// Host name of the subject.
    pub node: Option<SharedText>,
    /// Index of the GPU on its node.
    pub gpu: Option<u32>,
    /// Port or NVLink.
    pub link: Option<SharedText>,
    /// The other end of a pair.
    pub peer: Option<SharedText>,
    /// Rank of the process.
    pub rank: Option<u32>,
    /// Serial number or UUID of the device.
    pub serial: Option<SharedText>,
    /// PCI bus id.
    pub bus_id: Option<SharedText>,
    /// The program's own text.
    pub text: String,
    /// Time of the request for the run.
    pub requested_at: Option<Timestamp>,
    /// Verdict on the run.
    pub verdict: Option<Verdict>,
}

impl MetricRow {
    /// Restores the metric of the row.
    #[must_use]
    pub fn metric(&self) -> Metric {
        Metric {
            name: self.metric.clone(),
            unit: self.unit.clone(),
            better: Better::ALL
                .into_iter()
                .find(|known| *self.better == *better(*known))
                .unwrap_or(Better::None),
            scope: Scope::ALL.into_iter().find(|known| *self.scope == *scope(*known)).unwrap_or(Scope::World),
            subject: Subject {
                node: self.node.clone(),
                gpu: self.gpu,
                link: self.link.clone(),
                peer: self.peer.clone(),
                rank: self.rank,
                serial: self.serial.clone(),
                bus_id: self.bus_id.clone(),
            },
            labels: serde_json::from_str(&self.labels).unwrap_or_default(),
            value: self.value,
            resolution: self.resolution,
            unmeasurable: self.unmeasurable.clone(),
            line: self.line,
        }
    }
}

impl Load {
    /// Number of measurements and metrics. Metrics that repeat a measurement are not counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        let own = self.metrics.iter().filter(|row| !projection::is_projected(&row.metric));
        (self.rows.len() + own.count()) as u64
    }

    /// The row of a run without a verdict yet.
    ///
    /// `workflow` and `check` are names; `check` is `None` for a workflow with a single benchmark.
    pub fn of(
        run: &RunId,
        (workflow, check): (&str, Option<&str>),
        attempt: Attempt,
        requested_at: Option<Timestamp>,
    ) -> Self {
        let verdict = VerdictRow {
            run: run.as_str().into(),
            workflow: workflow.into(),
            attempt: attempt.number,
            check_name: check.map(Into::into),
            requested_at,
            fingerprint: "{}".into(),
            ..VerdictRow::default()
        };
        Self { verdicts: vec![verdict], ..Self::default() }
    }

    /// The row of a closed run.
    pub fn used(run: &RunId, used: &RunUsed) -> Self {
        let (conclusion, failure) = match &used.conclusion {
            Conclusion::Completed => ("completed", None),
            Conclusion::Failed { failure, .. } => ("failed", Some(failure.code.clone())),
            Conclusion::TimedOut { .. } => ("timed_out", None),
            Conclusion::Cancelled { .. } => ("cancelled", None),
            Conclusion::Yielded { failure, .. } => ("yielded", Some(failure.code.clone())),
        };
        let hours = |span: Span| f64::from(used.nodes) * span.0.as_secs_f64() / 3600.0;
        let row = RunRow {
            run: run.to_string(),
            workflow: used.workflow.clone(),
            requested_at: Some(used.requested_at),
            closed_at: Some(used.closed_at),
            conclusion: conclusion.to_owned(),
            failure,
            verdict: used.verdict,
            nodes: used.nodes,
            node_hours: hours(used.held),
            busy_node_hours: hours(used.busy),
            cost: used.spent.map(|spent| spent.as_micros() as f64 / 1e6),
            currency: used.currency.clone(),
        };
        Self { runs: vec![row], ..Self::default() }
    }

    /// The results of a closed run that concern single nodes.
    pub fn node_results(run: &RunId, used: &RunUsed) -> Self {
        let row = |result: &NodeResult| NodeResultRow {
            run: run.to_string(),
            workflow: used.workflow.clone(),
            cluster: used.cluster.clone(),
            node: result.node.clone(),
            result: result.result.as_str().to_owned(),
            detail: result.detail.clone(),
            requested_at: Some(used.requested_at),
            verdict: used.verdict,
        };
        Self { node_results: used.node_results.iter().map(row).collect(), ..Self::default() }
    }

    /// Adds the measurements, metrics and findings of a log. A table of nccl-tests has rows in `measurements` and in `metrics`.
    pub fn log(&mut self, log: &str, reading: &Reading) {
        let Some(run) = self.verdicts.first().cloned() else { return };
        for (table_number, table) in (0..).zip(&reading.tables) {
            for (row_number, row) in (0..).zip(&table.rows) {
                let placed = |placement: &str, half: &Half| MeasurementRow {
                    run: run.run.clone(),
                    workflow: run.workflow.clone(),
                    attempt: run.attempt,
                    check_name: run.check_name.clone(),
                    log: log.to_owned(),
                    table_number,
                    row_number,
                    placement: placement.to_owned(),
                    collective: table.collective.clone(),
                    ranks: table.ranks,
                    size_bytes: row.size_bytes,
                    count: row.count,
                    dtype: row.dtype.clone(),
                    redop: row.redop.clone(),
                    time_us: half.time_us,
                    algbw: half.algbw,
                    busbw: half.busbw,
                    wrong: half.wrong,
                    requested_at: run.requested_at,
                    ..MeasurementRow::default()
                };
                self.rows.extend(row.out_of_place.iter().map(|half| placed("out_of_place", half)));
                self.rows.extend(row.in_place.iter().map(|half| placed("in_place", half)));
            }
        }
        let log = SharedText::from(log);
        let projected = reading.tables.iter().flat_map(projection::metrics).map(Cow::Owned);
        let all = reading.metrics.iter().map(Cow::Borrowed).chain(projected);
        self.metrics.extend((0..).zip(all).map(|(metric_number, metric)| {
            let subject = &metric.subject;
            MetricRow {
                run: run.run.clone(),
                workflow: run.workflow.clone(),
                attempt: run.attempt,
                check_name: run.check_name.clone(),
                log: log.clone(),
                metric_number,
                line: metric.line,
                metric: metric.name.clone(),
                unit: metric.unit.clone(),
                better: better(metric.better).into(),
                scope: scope(metric.scope).into(),
                node: subject.node.clone(),
                gpu: subject.gpu,
                link: subject.link.clone(),
                peer: subject.peer.clone(),
                rank: subject.rank,
                serial: subject.serial.clone(),
                bus_id: subject.bus_id.clone(),
                labels: serde_json::to_string(&metric.labels).unwrap_or_default().into(),
                value: metric.value,
                resolution: metric.resolution,
                unmeasurable: metric.unmeasurable.clone(),
                requested_at: run.requested_at,
                ..MetricRow::default()
            }
        }));
        self.findings.extend((0..).zip(reading.all_findings()).map(|(finding_number, finding)| {
            let subject = &finding.subject;
            FindingRow {
                run: run.run.clone(),
                workflow: run.workflow.clone(),
                attempt: run.attempt,
                check_name: run.check_name.clone(),
                log: log.clone(),
                finding_number,
                line: finding.line,
                code: finding.code.as_str().into(),
                severity: severity(finding.severity).into(),
                node: subject.node.clone(),
                gpu: subject.gpu,
                link: subject.link.clone(),
                peer: subject.peer.clone(),
                rank: subject.rank,
                serial: subject.serial.clone(),
                bus_id: subject.bus_id.clone(),
                text: finding.text.clone(),
                requested_at: run.requested_at,
                verdict: None,
            }
        }));
    }

    /// Adds the verdict on the run to every row. `identity` is equal for runs with comparable curves.
    #[must_use]
    pub fn judged(mut self, reached: Option<&VerdictReached>, identity: &str) -> Self {
        let measurements = self.rows.len() as u64;
        for verdict in &mut self.verdicts {
            verdict.measurements = measurements;
        }
        let Some(reached) = reached else { return self };
        let criteria: SharedText = reached.criteria.as_str().into();
        let baseline: Option<SharedText> = reached.baseline.as_deref().map(Into::into);
        let identity: SharedText = identity.into();
        let fingerprint: SharedText = serde_json::to_string(&reached.fingerprint).unwrap_or_default().into();
        for verdict in &mut self.verdicts {
            let codes: Vec<_> = reached.reasons.iter().map(|reason| reason.code.as_str()).collect();
            verdict.verdict = Some(reached.verdict);
            verdict.reasons = codes.join(",");
            verdict.criteria = Some(Arc::clone(&criteria));
            verdict.baseline.clone_from(&baseline);
            verdict.identity = Some(Arc::clone(&identity));
            verdict.fingerprint = Arc::clone(&fingerprint);
        }
        for row in &mut self.rows {
            row.verdict = Some(reached.verdict);
            row.criteria = Some(Arc::clone(&criteria));
            row.baseline.clone_from(&baseline);
            row.identity = Some(Arc::clone(&identity));
            row.fingerprint = Some(Arc::clone(&fingerprint));
        }
        for row in &mut self.findings {
            row.verdict = Some(reached.verdict);
        }
        for row in &mut self.metrics {
            row.verdict = Some(reached.verdict);
            row.criteria = Some(Arc::clone(&criteria));
            row.baseline.clone_from(&baseline);
            row.identity = Some(Arc::clone(&identity));
            row.fingerprint = Some(Arc::clone(&fingerprint));
        }
        self
    }
}

/// Spelling in JSON.
const fn better(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Exact => "exact",
        Better::None => "none",
    }
}

/// Spelling in JSON.
const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Unknown => "unknown",
        Severity::Software => "software",
        Severity::Configuration => "configuration",
        Severity::WrongData => "wrong_data",
        Severity::Hardware => "hardware",
    }
}

/// Spelling in JSON.
const fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::World => "world",
        Scope::Node => "node",
        Scope::Gpu => "gpu",
        Scope::Link => "link",
        Scope::Pair => "pair",
        Scope::Rank => "rank",
    }
}
