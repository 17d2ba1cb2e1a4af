//! A job with a log for each node: only one of the logs has the measurements.

use judge::{CombinedLogs, LogReader};

#[test]
fn evidence_in_a_log_without_measurements_is_read() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/evidence/h100-all-reduce.log");
    let first = std::fs::read_to_string(path).unwrap();
    let evidence = first.lines().filter_map(|line| line.strip_prefix("burnin evidence: ")?.split_once(' '));
    let second: String = evidence.map(|(_, text)| format!("burnin evidence: second {text}\n")).collect();
    let reader = LogReader::detecting();
    let mut combined = CombinedLogs::of(&reader);
    for (name, log) in [("benchmark.log", &first), ("node-1.log", &second)] {
        let (reading, clues) = reader.read_with_clues(log.as_bytes()).unwrap();
        combined.add(&reader, (name, String::new()), reading, clues);
    }
    assert_eq!(combined.reading.tables.len(), 1);
    let nodes: Vec<_> = combined.reading.evidence.iter().map(|node| node.node.as_str()).collect();
    assert_eq!((nodes.len(), nodes.last()), (2, Some(&"second")), "{nodes:?}");
}
