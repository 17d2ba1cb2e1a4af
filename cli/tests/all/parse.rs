//! `burnin parse` on the command line.

use std::{
    fs,
    io::{self, Read, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Output, Stdio},
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
fn each_log_is_printed_as_one_json_document() {
    let logs = [log("205-own-reduce.log"), log("223-own-killed.log")];
    let output = parse(&["--output", "json", &logs[0], &logs[1]], b"");
    assert_eq!(output.status.code(), Some(0), "a table was read from each log");
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
    assert_eq!(documents[1]["ended"], "truncated", "a killed benchmark writes no summary and no error");
    let row = &documents[0]["tables"][0]["rows"][0];
    for field in ["size_bytes", "count", "dtype", "redop", "root", "out_of_place", "in_place"] {
        assert!(row.get(field).is_some(), "{field}");
    }
}

#[test]
fn a_missing_table_and_a_missing_file_have_different_errors() {
    let empty = parse(&["--output", "json", "-"], b"no table here\n");
    assert_eq!(empty.status.code(), Some(2));
    let document: Value = serde_json::from_slice(&empty.stdout).unwrap();
    assert_eq!((&document["source"], &document["ended"]), (&"-".into(), &"empty".into()));
    let missing = parse(&["no-such.log"], b"");
    assert_eq!(missing.status.code(), Some(64));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("no-such.log"));
}

#[test]
fn csv_has_one_line_per_placement() {
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

fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/measure/tests/samples")
        .join(name)
        .display()
        .to_string()
}

#[test]
fn metrics_and_findings_are_printed() {
    let faulty = sample("gpu-burn/faulty.txt");
    let output = parse(&["--output", "json", &faulty, &log("205-own-reduce.log")], b"");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&documents[0]["format"], &documents[1]["format"]),
        (&"gpu-burn".into(), &"nccl-tests".into())
    );
    assert_eq!(documents[0]["findings"][1]["code"], "GPU_FAULTY");
    let text = String::from_utf8(parse(&[&faulty], b"").stdout).unwrap();
    assert!(text.contains("gpu-burn, complete") && text.contains("gpu_burn.throughput"), "{text}");
    assert!(text.contains("GPU_FAULTY") && text.contains("wrong data"), "{text}");
    let text = String::from_utf8(parse(&["--output", "csv", &faulty], b"").stdout).unwrap();
    let mut lines = text.lines();
    let header = "source,metric,unit,scope,node,gpu,link,peer,rank,labels,value,unmeasurable,line,better,resolution,serial,bus_id";
    assert_eq!(lines.next(), Some(header));
    assert!(lines.next().unwrap().contains(",gpu_burn.throughput,GFLOP/s,gpu,,0,,,,,51320.0,,10,higher,"));
    assert!(text.contains("\nsource,code,severity,node,gpu,link,rank,serial,bus_id,text,line\n"), "{text}");
    assert!(text.contains(",GPU_FAULTY,wrong_data,,1,,,GPU-3d4e,,GPU 1: FAULTY,16\n"), "{text}");
}

/// Some formats cannot be detected, so a user names them.
#[test]
fn a_format_is_selected_by_its_name() {
    let log = b"rtt_us=90.5\nPROBE_PASS\n";
    let detected = parse(&["-"], log);
    assert_eq!(detected.status.code(), Some(2), "{}", String::from_utf8_lossy(&detected.stdout));
    let named = parse(&["--read", "key-value", "-"], log);
    let text = String::from_utf8(named.stdout).unwrap();
    assert_eq!(named.status.code(), Some(0), "{text}");
    assert!(text.contains("kv.rtt_us") && text.contains("90.5"), "{text}");
    let unknown = parse(&["--read", "key-values", "-"], log);
    let text = String::from_utf8(unknown.stderr).unwrap();
    assert_eq!(unknown.status.code(), Some(64));
    assert!(text.contains("--read: `key-values` is neither a file nor a format; the formats are "), "{text}");
}

#[test]
fn a_declared_format_reads_any_log_and_its_matches_are_printed() {
    let folder = std::env::temp_dir().join(format!("burnin-parse-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let rules = folder.join("triad.yaml");
    let text = "end: ^done$\ncontext: ['^device (?<gpu>[0-9]+)']\nrow: 'triad (?<value>\\S+)'\nname: stream.triad\nunit: GB/s\nbetter: higher\nscope: gpu\n";
    fs::write(&rules, text).unwrap();
    let rules = rules.display().to_string();
    let output = parse(&["--read", &rules, "-"], b"device 3\ntriad 7261.4\ndone\n");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("declared, complete") && stdout.contains("7261.4"), "{stdout}");
    assert!(stdout.contains("context[0]  device 3"), "{stdout}");
    fs::write(folder.join("triad.yaml"), text.replace("end: ^done$\n", "").replace("\\S+", "[0-9.]+"))
        .unwrap();
    let refused = parse(&["--read", &rules, "-"], b"");
    assert_eq!(refused.status.code(), Some(64));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(stderr.contains("triad.yaml:2:") && stderr.contains("row: the group `value`"), "{stderr}");
    assert!(stderr.contains("end: is missing"), "{stderr}");
    fs::remove_dir_all(folder).unwrap();
}

const HEADER: &str = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
const ROW: &str = "8 2 float sum -1 46.48 22.56 33.84 0 44.46 23.58 35.38 0\n";

fn begin(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burnin"));
    command.arg("parse").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Peak memory of the process in KiB; `None` after its end.
fn peak(child: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{child}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB").unwrap().parse().unwrap())
}

/// Feeds `log` to standard input with output in this format. Measures memory after all input is read, before the end of
/// the log, and again after the first output.
fn fed(form: &str, log: impl FnOnce(&mut ChildStdin) -> io::Result<()>) -> (Option<i32>, Vec<u8>) {
    let mut child = begin(&["--output", form, "-"]);
    let mut input = child.stdin.take().unwrap();
    let id = child.id();
    log(&mut input).unwrap();
    let most = peak(id).unwrap();
    drop(input);
    let mut output = child.stdout.take().unwrap();
    let mut printed = vec![0; 1 << 20];
    let started = output.read(&mut printed).unwrap();
    printed.truncate(started);
    let printing = peak(id).unwrap_or(0);
    assert!(most.max(printing) <= 64 * 1024, "{most} KiB reading, {printing} KiB printing {form}");
    output.read_to_end(&mut printed).unwrap();
    (child.wait().unwrap().code(), printed)
}

#[test]
fn memory_is_bounded_for_any_log() {
    let row = format!(
        r#"{{"size":8,"count":2,"type":"float","out_of_place":{0},"in_place":{0}}},"#,
        r#"{"time":46.48,"alg_bw":22.56,"bus_bw":33.84,"nwrong":0}"#
    );
    let debug = "node-1:4001:4107 [1] NCCL INFO Channel 07/0 : 1[1] -> 2[2] via P2P/CUMEM/read\n";
    let logs: [(&str, String, i32); 5] = [
        (HEADER, ROW.repeat(1000), 0),
        ("{\"version\":4,\"results\":[", row.repeat(1000), 0),
        (HEADER, debug.repeat(1000), 0),
        ("", "one line".repeat(10_000), 2),
        ("", "\0\u{1}\u{7f}\n\0\0".repeat(10_000), 2),
    ];
    for (head, unit, code) in &logs {
        for form in ["json", "csv", "table"] {
            let times = (6 << 20) / unit.len();
            let (exit, printed) = fed(form, |input| {
                input.write_all(head.as_bytes())?;
                (0..times).try_for_each(|_| input.write_all(unit.as_bytes()))?;
                // A row after other text is still a row.
                if *code == 0 && head.starts_with('#') { input.write_all(ROW.as_bytes()) } else { Ok(()) }
            });
            assert_eq!(exit, Some(*code), "{head}");
            if form == "json" {
                let document: Value = serde_json::from_slice(&printed).unwrap();
                let rows = &document["tables"][0]["rows"];
                if unit.contains("2 float") || unit.contains("46.48") {
                    assert!(rows.as_array().unwrap().len() > 20_000);
                    assert!(document["first_error"].as_str().unwrap().contains("exceeds the memory limit"));
                }
            }
        }
    }
}

#[test]
fn a_broken_pipe_is_not_an_error() {
    for form in ["json", "csv", "table"] {
        let mut child = begin(&["--output", form, "-"]);
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        input.write_all((HEADER.to_owned() + &ROW.repeat(2000)).as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{form}");
    }
}

#[test]
fn unreadable_files_are_reported_by_name() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // A read of this file fails at the first byte, even for root.
    let unreadable = "/proc/self/mem";
    for path in [folder.path().to_str().unwrap(), unreadable, "no-such.log"] {
        let output = parse(&["--output", "json", path], b"");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(64), 0), "{path}");
        assert!(stderr.contains(path) && stderr.lines().count() == 1, "{stderr}");
    }
    let empty = folder.path().join("empty.log");
    fs::write(&empty, "").unwrap();
    let output = parse(&["--output", "json", empty.to_str().unwrap()], b"");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["ended"], "empty");
}

#[test]
fn a_named_pipe_is_read_as_a_log() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = begin(&["--output", "json", pipe.to_str().unwrap()]);
    fs::write(&pipe, HEADER.to_owned() + ROW).unwrap();
    let output = child.wait_with_output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["ended"]), (Some(0), &"truncated".into()));
}

#[test]
fn a_truncated_row_is_shown_up_to_the_cut() {
    let cut = format!("{HEADER}{ROW}16777216 4194304 float sum -1 700.0 23.97 33.84 0 44.4");
    let printed =
        |form: &str| String::from_utf8(parse(&["--output", form, "-"], cut.as_bytes()).stdout).unwrap();
    let document: Value = serde_json::from_str(&printed("json")).unwrap();
    let row = &document["tables"][0]["rows"][1];
    assert_eq!((&document["ended"], &row["out_of_place"]["busbw"]), (&"truncated".into(), &33.84.into()));
    assert_eq!((&row["in_place"], &row["partial"]["placement"]), (&Value::Null, &"in_place".into()));
    assert_eq!(row["partial"]["unread"], serde_json::json!(["time_us", "algbw", "busbw", "wrong"]));
    assert!(printed("csv").lines().any(|line| line.ends_with("in_place,,,,")), "{}", printed("csv"));
    assert!(
        printed("table").lines().any(|line| line.contains("33.84") && line.contains("?")),
        "{}",
        printed("table")
    );
}

#[test]
fn numbers_are_printed_as_in_the_log_or_omitted() {
    for hostile in ["1e400", "nan", "-nan", "inf", "-inf", "-0", "1e-400", "99999999999999999999999"] {
        // The type and the reduction are free text.
        for column in (0..13).filter(|column| ![2, 3].contains(column)) {
            let mut row: Vec<&str> = ROW.split_whitespace().collect();
            row[column] = hostile;
            for form in ["json", "csv", "table"] {
                let output =
                    parse(&["--output", form, "-"], format!("{HEADER}{}\n", row.join(" ")).as_bytes());
                assert!(matches!(output.status.code(), Some(0 | 2)), "{hostile} in {column}");
                assert_eq!(output.stderr, b"", "{hostile} in {column}");
                let stdout = String::from_utf8(output.stdout).unwrap().to_lowercase();
                assert!(!["nan", "inf", "e400"].iter().any(|word| stdout.contains(word)), "{stdout}");
            }
        }
    }
}
