//! Readings of real logs equal the expected ones next to them.

#![expect(clippy::disallowed_methods, reason = "a test may read files")]

use model::measurement::{Half, LogEnd, Reading};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The differences between a reading and the expected one.
fn differences(reading: &Reading, truth: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |what: &str, got: Value, want: &Value| {
        // 17357 and 17357.0 are the same number and different JSON.
        let same = got == *want || (got.is_f64() && got.as_f64() == want.as_f64());
        if !same {
            found.push(format!("{what}: expected {want}, found {got}"));
        }
    };
    check("ended", serde_json::to_value(reading.ended).unwrap(), &truth["ended"]);
    check("first_error", reading.first_error.clone().into(), &truth["first_error"]);
    check("tables", reading.tables.len().into(), &truth["n_tables"]);

    let empty = Vec::new();
    let tables = truth["tables"].as_array().unwrap_or(&empty);
    for (at, table) in reading.tables.iter().enumerate() {
        let want = tables.get(at).unwrap_or(truth);
        check("average", table.average_busbw.into(), &want["avg_busbw"]);
        let bounds =
            table.out_of_bounds.map(|bounds| serde_json::json!({"count": bounds.count, "ok": bounds.ok}));
        check("out of bounds", bounds.into(), &want["out_of_bounds"]);
        check("ranks", table.ranks.into(), &want["nranks"]);
        check("ended", serde_json::to_value(table.ended).unwrap(), &want["ended"]);
        check("nccl", table.nccl_version.clone().into(), &truth["nccl_version"]);
        if truth["format"] != "json" {
            check("nccl-tests", table.nccl_tests_version.clone().into(), &truth["nccl_tests_version"]);
        }
        let named = truth["collective_in_log"] == true;
        let collective = if named { want["collective"].clone() } else { Value::Null };
        check("collective", table.collective.clone().into(), &collective);
        if let Some(ranks) = truth["ranks"].as_array().filter(|_| tables.is_empty()) {
            check("devices", table.devices.len().into(), &ranks.len().into());
            for (device, want) in table.devices.iter().zip(ranks) {
                check("rank", device.rank.into(), &want["rank"]);
                check("host", device.host.clone().into(), &want["host"]);
                check("device", device.device.into(), &want["device"]);
                check("bus", device.bus_id.clone().into(), &want["bus"]);
                check("name", device.name.clone().into(), &want["name"]);
            }
        }
    }

    let rows: Vec<_> = reading.tables.iter().flat_map(|table| &table.rows).collect();
    let want = truth["rows"].as_array().unwrap();
    check("rows", rows.len().into(), &want.len().into());
    for (row, want) in rows.iter().zip(want) {
        check("size", row.size_bytes.into(), &want["size_bytes"]);
        check("count", row.count.into(), &want["count"]);
        check("type", row.dtype.clone().into(), &want["dtype"]);
        check("redop", row.redop.clone().into(), &want["redop"]);
        check("root", row.root.into(), &want["root"]);
        for (half, want) in [(row.out_of_place, &want["oop"]), (row.in_place, &want["ip"])] {
            check_half(&mut check, half, want);
        }
    }
    found
}

fn check_half(check: &mut impl FnMut(&str, Value, &Value), half: Option<Half>, want: &Value) {
    let Some(half) = half else { return check("half", Value::Null, want) };
    check("time", half.time_us.into(), &want["time_us"]);
    check("algbw", half.algbw.into(), &want["algbw"]);
    check("busbw", half.busbw.into(), &want["busbw"]);
    check("wrong", half.wrong.into(), &want["wrong"]);
    check("error", half.error.into(), &want["error"]);
    check("i_min", half.iterations.map(|spread| spread.min_us).into(), &want["i_min_us"]);
    check("i_max", half.iterations.map(|spread| spread.max_us).into(), &want["i_max_us"]);
    check("i_p99", half.iterations.map(|spread| spread.p99_us).into(), &want["i_p99_us"]);
    check("i_cv", half.iterations.map(|spread| spread.cv_pct).into(), &want["i_cv_pct"]);
}

fn conforms(folder: &Path) -> usize {
    let mut failures = Vec::new();
    let mut logs = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let truth = path.with_extension("json");
        if path.extension().is_none_or(|extension| extension != "log") || !truth.exists() {
            continue;
        }
        logs += 1;
        let truth: Value = serde_json::from_slice(&fs::read(truth).unwrap()).unwrap();
        let reading = nccl::read_bytes(&fs::read(&path).unwrap());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        failures
            .extend(differences(&reading, &truth).into_iter().take(8).map(|line| format!("{name}: {line}")));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    logs
}

#[test]
fn our_logs_match_their_expected_readings() {
    assert_eq!(conforms(&root().join("tests/data/nccl/ours")), 13);
}

#[test]
fn public_logs_match_their_expected_readings() {
    let folder = root().join("../shared/nccl-samples/public");
    if !folder.is_dir() {
        eprintln!("SKIPPED: the public logs are not next to this checkout ({})", folder.display());
        return;
    }
    assert!(conforms(&folder) > 0);
}

#[test]
fn runs_on_h200_are_complete() {
    let folder = root().join("tests/data/nccl/h200");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let reading = nccl::read_bytes(&fs::read(&path).unwrap());
        assert_eq!((reading.ended, reading.tables.len()), (LogEnd::Complete, 1), "{}", path.display());
        let table = &reading.tables[0];
        let pair = path.file_name().unwrap().to_str().unwrap().starts_with("pair-");
        let ranks = Some(if pair { 2 } else { 4 });
        assert_eq!((table.ranks, reading.first_error.as_deref()), (ranks, None), "{}", path.display());
        let halves: Vec<Half> =
            table.rows.iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten().collect();
        assert_eq!(halves.len(), table.rows.len() * 2);
        let mean = halves.iter().map(|half| half.busbw).sum::<f64>() / halves.len() as f64;
        assert!((mean - table.average_busbw.unwrap()).abs() < 0.006, "{}", path.display());
    }
}

#[test]
fn json_output_has_the_times_of_each_process() {
    let log = fs::read(root().join("tests/data/nccl/h200/matrix-rank2-slow-z3.json")).unwrap();
    let reading = nccl::read_bytes(&log);
    for row in &reading.tables[0].rows {
        let processes = row.processes.as_ref().expect("-I with MPI reports processes");
        for times in [&processes.out_of_place_us, &processes.in_place_us] {
            assert_eq!(times.len(), 4);
            assert!(times.iter().all(|process| process.len() == 20));
        }
    }
}
