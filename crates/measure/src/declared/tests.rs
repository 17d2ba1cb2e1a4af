use super::*;

fn declaration() -> Declaration {
    Declaration {
        begin: Some("^stream version".to_owned()),
        end: Some("^all done$".to_owned()),
        context: vec![r"^device (?<gpu>\d+):".to_owned()],
        row: Some(r"^triad (?<kind>\w+) (?<value>\S+) (?<unit>\S+)".to_owned()),
        table: None,
        json: None,
        name: "stream.triad".to_owned(),
        unit: None,
        better: Better::Higher,
        scope: Scope::Gpu,
        fail: vec!["^MISMATCH".to_owned()],
        must_see: vec!["validated".to_owned()],
        unmeasurable: vec!["^triad skipped".to_owned()],
        exit: vec![0],
    }
}

const LOG: &str = "noise 12\nstream version 3\ndevice 0:\ntriad fp64 7261.4 GB/s\ndevice 1:\ntriad fp64 9.5e-05 GB/s\nvalidated\nall done\n";

fn read(declaration: &Declaration, log: &str) -> Reading {
    declaration.check(true).unwrap().read(log.as_bytes()).unwrap()
}

#[test]
fn groups_become_subjects_and_labels() {
    let reading = read(&declaration(), LOG);
    assert_eq!((reading.ended, reading.format.as_deref()), (LogEnd::Complete, Some("declared")));
    let metric = &reading.metrics[1];
    assert_eq!((metric.subject.gpu, metric.value, metric.resolution), (Some(1), Some(9.5e-5), Some(1e-6)));
    assert_eq!((&*metric.unit, &*metric.labels["kind"], metric.line), ("GB/s", "fp64", 6));
    let (_, matches) = declaration().check(true).unwrap().explain(LOG.as_bytes()).unwrap();
    let fields: Vec<_> = matches.iter().map(|found| (found.line, found.field.as_str())).collect();
    assert_eq!(
        fields,
        [
            (2, "begin"),
            (3, "context[0]"),
            (4, "row"),
            (5, "context[0]"),
            (6, "row"),
            (7, "must_see[0]"),
            (8, "end")
        ]
    );
}

#[test]
fn a_cut_log_is_never_complete() {
    for length in 0..LOG.len() {
        let reading = read(&declaration(), &LOG[..length]);
        // At this length only the final line feed is missing, so the log is complete.
        assert!(
            length == LOG.len() - 1 || reading.ended != LogEnd::Complete,
            "the log cut at byte {length} is complete"
        );
        for metric in &reading.metrics {
            assert!(
                read(&declaration(), LOG).metrics.contains(metric),
                "the log cut at byte {length} has a metric that the whole log lacks"
            );
        }
    }
    for lost in ["validated\n", "all done\n", "stream version 3\n"] {
        assert_ne!(read(&declaration(), &LOG.replace(lost, "")).ended, LogEnd::Complete, "{lost}");
    }
}

#[test]
fn failures_and_missing_values_are_reported() {
    let reading =
        read(&declaration(), &LOG.replace("validated", "MISMATCH at 7\nvalidated\ntriad skipped: no peer"));
    assert_eq!((reading.ended, &*reading.findings[0].code), (LogEnd::Complete, "CHECK_FAILED"));
    assert_eq!(reading.findings[0].subject.gpu, Some(1));
    assert_eq!(reading.metrics[2].unmeasurable.as_deref(), Some("triad skipped: no peer"));
    let reading = read(&declaration(), &LOG.replace("7261.4", "much"));
    assert_eq!(reading.ended, LogEnd::Truncated);
    assert!(reading.first_error.unwrap().contains("is not a number"));
}

#[test]
fn a_part_of_a_number_is_not_a_value() {
    let counts = Declaration {
        row: Some(r"errors (?<value>\d+)".to_owned()),
        unit: Some("count".to_owned()),
        scope: Scope::World,
        ..declaration()
    };
    for (printed, complete) in
        [("7", true), ("9.5e-05", false), ("1,234", false), ("7.", true), ("12e3", false)]
    {
        let log = format!("stream version 3\nerrors {printed} found\nvalidated\nall done\n");
        let reading = read(&counts, &log);
        assert_eq!(reading.ended == LogEnd::Complete, complete, "{printed}");
        assert_eq!(reading.metrics[0].value.is_some(), complete, "{printed}");
    }
}

#[test]
fn tables_and_json_are_read() {
    let table = TableRule {
        header: "^Function +Best".to_owned(),
        columns: ["kind", "value", "-", "gpu"].map(str::to_owned).to_vec(),
    };
    let rule = Declaration {
        row: None,
        begin: None,
        table: Some(table),
        unit: Some("MB/s".to_owned()),
        must_see: vec![],
        context: vec![],
        ..declaration()
    };
    let log = "Function    Best Rate\nCopy: 103.5 1 0\nScale: 104.5 2 1\nall done\n";
    let reading = read(&rule, log);
    assert_eq!((reading.ended, reading.metrics.len()), (LogEnd::Complete, 2));
    assert_eq!(reading.metrics[1].subject.gpu, Some(1));
    let reading = read(&rule, &log.replace("Scale: 104.5 2 1", "Scale: 104.5"));
    assert_eq!(reading.ended, LogEnd::Truncated);
    let json = JsonRule {
        values: "$.gemm[*].tflops".to_owned(),
        with: [("gpu", "gpu"), ("dtype", "dtype")]
            .map(|(name, key)| (name.to_owned(), key.to_owned()))
            .into(),
    };
    let rule = Declaration { table: None, json: Some(json), end: None, ..rule };
    let log = "{\"gemm\": [\n{\"gpu\": 3, \"dtype\": \"bf16\", \"tflops\": 703.96}\n]}\n";
    let reading = read(&rule, log);
    assert_eq!((reading.ended, reading.metrics[0].subject.gpu), (LogEnd::Complete, Some(3)));
    assert_eq!((reading.metrics[0].value, reading.metrics[0].line), (Some(703.96), 2));
    assert_eq!(read(&rule, &log[..40]).ended, LogEnd::Truncated);
    assert_eq!(read(&rule, &log.replace("dtype", "type")).ended, LogEnd::Truncated);
    assert_eq!(read(&rule, "{\"other\": 1}").ended, LogEnd::Empty);
}

#[test]
fn marks_around_a_json_document_bound_the_measurement() {
    let json = JsonRule {
        values: "$.gemm[*].tflops".to_owned(),
        with: [("gpu", "gpu"), ("dtype", "dtype")]
            .map(|(name, key)| (name.to_owned(), key.to_owned()))
            .into(),
    };
    let document = |value: f64| {
        format!("{{\"gemm\": [\n{{\"gpu\": 3, \"dtype\": \"bf16\", \"tflops\": {value}}}\n]}}\n")
    };
    let rule = Declaration {
        row: None,
        begin: Some("^start$".to_owned()),
        end: Some("^done$".to_owned()),
        json: Some(json),
        unit: Some("TFLOP/s".to_owned()),
        must_see: vec![],
        context: vec![],
        ..declaration()
    };
    let log = format!("{}start\n{}done\n", document(1.5), document(700.5));
    let reading = read(&rule, &log);
    let values: Vec<_> = reading.metrics.iter().map(|metric| metric.value).collect();
    assert_eq!(
        (reading.ended, values),
        (LogEnd::Complete, vec![Some(700.5)]),
        "a document before the start is ignored"
    );
    for length in 0..log.len() - 1 {
        assert_ne!(
            read(&rule, &log[..length]).ended,
            LogEnd::Complete,
            "the log cut at byte {length} is complete"
        );
    }
    let again = format!("{log}{}", document(699.5));
    assert_eq!(
        read(&rule, &again).ended,
        LogEnd::Truncated,
        "a document after the end makes the log truncated"
    );
    let first = Declaration { begin: Some(r#"^\{"gemm""#.to_owned()), ..rule };
    assert_eq!(read(&first, &log).ended, LogEnd::Complete);
}

#[test]
fn unsound_declarations_are_refused() {
    let refused = |change: fn(&mut Declaration), field: &str| {
        let mut changed = declaration();
        change(&mut changed);
        let problems = changed.lint(true);
        assert!(problems.iter().any(|problem| problem.field == field), "{field}: {problems:?}");
    };
    refused(|rule| rule.row = Some(r"triad (?<value>[0-9.]+) (?<unit>\S+)".to_owned()), "row");
    refused(|rule| rule.row = Some(r"triad (?<value>\d+) (?<unit>\S+)".to_owned()), "row");
    refused(|rule| rule.row = Some("triad".to_owned()), "row");
    refused(|rule| rule.row = None, "row");
    refused(|rule| rule.row = Some("(".to_owned()), "row");
    refused(|rule| rule.row = Some(r"triad (?<value>\S+)".to_owned()), "unit");
    refused(|rule| rule.unit = Some("GB/s".to_owned()), "unit");
    refused(|rule| rule.end = None, "end");
    refused(|rule| rule.end = Some("x*".to_owned()), "end");
    refused(|rule| rule.better = Better::None, "better");
    refused(|rule| rule.context = vec!["device".to_owned()], "context[0]");
    refused(|rule| rule.context = vec![], "scope");
    refused(|rule| rule.name = "Stream Triad".to_owned(), "name");
    refused(|rule| rule.exit = vec![], "exit");
    refused(|rule| rule.exit = vec![3], "exit");
    refused(|rule| rule.fail = vec!["ok".to_owned(), "[".to_owned()], "fail[1]");
    refused(
        |rule| rule.json = Some(JsonRule { values: "gemm".to_owned(), with: BTreeMap::new() }),
        "json.values",
    );
    assert_eq!(declaration().lint(true), []);
    let evidence = Declaration { better: Better::None, ..declaration() };
    assert_eq!(evidence.lint(false), []);
}

#[test]
fn patterns_see_the_lines_of_a_json_document() {
    let json = JsonRule { values: "$.results[*].gbps".to_owned(), with: [].into() };
    let rule = Declaration {
        row: None,
        begin: None,
        end: None,
        json: Some(json),
        unit: Some("GB/s".to_owned()),
        scope: Scope::Node,
        fail: vec!["FAILED".to_owned()],
        must_see: vec!["\"version\"".to_owned()],
        unmeasurable: vec![],
        context: vec![],
        ..declaration()
    };
    let log = "{\"version\": 2, \"results\": [\n{\"gbps\": 380.1, \"status\": \"OK\"},\n{\"gbps\": 12.5, \"status\": \"FAILED\"}\n]}\n";
    for log in [log.to_owned(), log.replace('\n', " ") + "\n"] {
        let reading = read(&rule, &log);
        let findings: Vec<_> = reading.findings.iter().map(|finding| finding.code.as_str()).collect();
        assert_eq!((reading.metrics.len(), findings), (2, vec!["CHECK_FAILED"]), "{log}");
        let healthy = read(&rule, &log.replace("FAILED", "OK"));
        assert_eq!((healthy.ended, healthy.findings.len()), (LogEnd::Complete, 0), "{log}");
    }
}
