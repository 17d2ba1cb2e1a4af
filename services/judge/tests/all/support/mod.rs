//! Logs of the cases, and the fact that the judge publishes for given logs.
use std::{fs, path::Path, sync::Arc};

use judge::Judge;
use ledger::{Artefacts, MemoryStore};
use model::{
    Attempt, Body, Cluster, ClusterAccess, Command, CommandId, CommandLine, Criteria, Every, JobEnd, Node,
    OutputFormat, Program, Timestamp,
};
use serde_json::Value;
use test_support::{answer, committed, contract as fixtures};
use warehouse::memory::Memory;

/// A healthy run of four ranks.
pub fn four_gpus() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl/h200/healthy-1.log");
    fs::read(path).unwrap()
}

/// The log of a test case. Cases of performance need more than one rank.
pub fn log_of(case: &str) -> Vec<u8> {
    match case {
        "fail" | "own-past" => four_gpus(),
        _ => fixtures::log(),
    }
}

/// A program whose output has a declared format.
pub fn declared(every: Every, read: Value) -> Program {
    let read = OutputFormat::Declared(read);
    Program::Command(CommandLine { argv: vec!["./copy".to_owned()], every, rounds: None, image: None, read })
}

/// The logs of a completed job, and the judge's other inputs.
pub struct JudgedLogs {
    /// Object names and contents.
    pub logs: Vec<(String, Vec<u8>)>,
    pub nodes: Vec<Node>,
    pub program: Program,
    pub criteria: Criteria,
}

impl JudgedLogs {
    /// Payload of the fact that the judge publishes; the artefacts are in `store`.
    pub async fn answer(self, store: Arc<MemoryStore>) -> Value {
        let artefacts = Artefacts::new(store.clone());
        let id: CommandId = "gpus-1.logs.1.start".parse().unwrap();
        let body = Body::RunJudge {
            workflow: "gpus".to_owned(),
            check: Some("memory".to_owned()),
            requested_at: Some(Timestamp::from_millis(0)),
            logs: committed(&artefacts, &id, self.logs).await,
            job_attempt: Attempt::FIRST,
            job: JobEnd::new("COMPLETED", Some(0)),
            program: self.program,
            spec: None,
            cluster: Cluster {
                name: "hall".to_owned(),
                nodes: self.nodes,
                access: ClusterAccess::processes("/tmp"),
            },
            image: None,
            criteria: Box::new(self.criteria),
            baseline: None,
            soak: None,
        };
        let command = Command { id: "gpus-1.verdict.1.start".parse().unwrap(), body };
        let judge = Judge::new(artefacts, Arc::<Memory>::default());
        answer(&judge, &command).await["data"].clone()
    }
}
