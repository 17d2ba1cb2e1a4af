//! `burnin parse`, as scripts use it.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

fn log(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/nccl/ours").join(name).display().to_string()
}

fn parse(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.arg("parse").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn one_document_a_log() {
    let logs = [log("205-own-reduce.log"), log("223-own-killed.log")];
    let output = parse(&["--output", "json", &logs[0], &logs[1]], b"");
    assert_eq!(output.status.code(), Some(0), "a table was read from each, whatever it says");
    let documents: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(documents.len(), 2);
    assert_eq!(
        (&documents[0]["schema"], &documents[0]["source"]),
        (&"burnin/parse/v1".into(), &logs[0].as_str().into())
    );
    assert_eq!(
        (&documents[0]["ended"], &documents[0]["tables"][0]["collective"]),
        (&"complete".into(), &"reduce".into())
    );
    assert_eq!(documents[1]["ended"], "truncated", "killed: no summary, no error");
    let row = &documents[0]["tables"][0]["rows"][0];
    for field in ["size_bytes", "count", "dtype", "redop", "root", "out_of_place", "in_place"] {
        assert!(row.get(field).is_some(), "{field}");
    }
}

#[test]
fn no_table_and_no_file_are_told_apart() {
    let empty = parse(&["--output", "json", "-"], b"nothing of the kind\n");
    assert_eq!(empty.status.code(), Some(2));
    let document: Value = serde_json::from_slice(&empty.stdout).unwrap();
    assert_eq!((&document["source"], &document["ended"]), (&"-".into(), &"empty".into()));
    let missing = parse(&["no-such.log"], b"");
    assert_eq!(missing.status.code(), Some(64));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("no-such.log"));
}

#[test]
fn csv_has_a_line_for_each_placement() {
    let output = parse(&["--output", "csv", &log("226-own-one-gpu.log")], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "source,table,collective,ranks,size_bytes,count,dtype,redop,root,placement,time_us,algbw,busbw,wrong"
        )
    );
    assert!(
        lines
            .next()
            .unwrap()
            .ends_with("0,all_reduce,1,1048576,262144,float,sum,-1,out_of_place,7.11,147.48,0.0,0")
    );
}
