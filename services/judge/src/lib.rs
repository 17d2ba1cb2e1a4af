//! The judge: committed logs and criteria in, a verdict out.
//!
//! | command | fact |
//! |---|---|
//! | `run.judge` | `verdict.reached`, or `verdict.failed` when the logs cannot be what was committed |
//!
//! Idempotent because it is pure over a manifest: same in, same out. The whole verdict is stored beside its fact.

use kit::{Outbox, PortError, Trouble, Worker};
use ledger::{ArtefactError, Artefacts, Reader};
use sha2::{Digest, Sha256};
use terms::{
    Attempt, Body, Class, Cluster, Command, CommandId, Criteria, Fact, Failure, JobEnd, Logs, VerdictReached,
    Workload,
    measurement::{Ended, Reading},
};
use verdict::{Evidence, Judgement};

/// The judge's handler.
pub struct Judge {
    artefacts: Artefacts,
}

/// What the judge stores.
pub const OBJECT: &str = "verdict.json";

impl Judge {
    /// Event types it takes.
    pub const TAKES: [&'static str; 1] = ["dev.burnin.run.judge.v1"];

    /// Over this bucket.
    pub fn new(artefacts: Artefacts) -> Self {
        Self { artefacts }
    }

    async fn judge(&self, id: &CommandId, case: &Case<'_>) -> Result<Fact, PortError> {
        let (reading, log_sha256) = self.reading(case).await.map_err(damaged)?;
        let evidence = Evidence {
            reading: &reading,
            job: Some(case.job),
            workload: Some(case.workload),
            ranks: Some(case.cluster.slots()),
        };
        let judgement = verdict::judge(&evidence, Some(case.criteria), None);
        let body = serde_json::to_vec_pretty(&judgement).map_err(PortError::passing)?;
        let body: Reader = Box::new(std::io::Cursor::new(body));
        let object = self.artefacts.put(id, OBJECT, body).await.map_err(damaged)?;
        self.artefacts.commit(id, vec![object]).await.map_err(damaged)?;
        let Judgement { verdict, reasons, .. } = judgement;
        Ok(Fact::VerdictReached(VerdictReached {
            verdict,
            reasons,
            criteria: version(case.criteria),
            log_sha256,
            object: Artefacts::folder(id) + OBJECT,
        }))
    }

    /// What the logs of the attempt say, together. One of them has the table; the others may have failure lines.
    async fn reading(&self, case: &Case<'_>) -> Result<(Reading, Option<String>), ArtefactError> {
        let mut whole = Reading { ended: Ended::Empty, first_error: None, tables: Vec::new() };
        let mut log_sha256 = None;
        for (object, reading) in
            self.artefacts.logs(case.logs, case.job_attempt, |body| nccl::read(body)).await?
        {
            if !reading.tables.is_empty() {
                log_sha256 = Some(object.sha256);
                whole.ended = reading.ended;
            }
            whole.first_error = whole.first_error.or(reading.first_error);
            whole.tables.extend(reading.tables);
        }
        Ok((whole, log_sha256))
    }
}

struct Case<'a> {
    logs: &'a Logs,
    job_attempt: Attempt,
    job: &'a JobEnd,
    workload: &'a Workload,
    cluster: &'a Cluster,
    criteria: &'a Criteria,
}

/// The version of criteria is their content.
pub fn version(criteria: &Criteria) -> String {
    let content = serde_json::to_vec(criteria).unwrap_or_default();
    let digest: String = Sha256::digest(&content).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{}@{digest}", criteria.name)
}

fn damaged(error: ArtefactError) -> PortError {
    match error {
        ArtefactError::Store(error) => PortError::passing(error),
        ArtefactError::Damaged { .. } => {
            PortError::Final(Failure::new(Class::Workload, "LOGS_DAMAGED", error.to_string()))
        }
    }
}

#[async_trait::async_trait]
impl Worker for Judge {
    fn name(&self) -> &'static str {
        "judge"
    }

    async fn perform(&self, command: &Command, outbox: &Outbox) -> Result<(), Trouble> {
        let id = &command.id;
        let Body::RunJudge { logs, job_attempt, job, workload, cluster, criteria } = &command.body else {
            return Err(Trouble::Park("the judge only judges".to_owned()));
        };
        let case = Case { logs, job_attempt: *job_attempt, job, workload, cluster, criteria };
        outbox.answer(id, self.judge(id, &case).await.map(Some)).await
    }
}
