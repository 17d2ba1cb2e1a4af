//! Reads logs of every version of the format: printed by its rules, and as launchers and log collectors change them.

mod printer;

use model::measurement::{LogEnd, PartialHalf, Placement, Reading, Row};
use printer::{FORMATS, PREFIXES, interleaved, prefixed, row, run, sizes};
use std::fmt::Write as _;
use std::io::Write as _;

fn read_lines(lines: &[String]) -> Reading {
    nccl::read_bytes((lines.join("\n") + "\n").as_bytes())
}

fn assert_whole(reading: &Reading, rows: &[Row], what: &str) {
    assert_eq!(reading.tables.len(), 1, "{what}");
    let table = &reading.tables[0];
    for (at, (got, want)) in table.rows.iter().zip(rows).enumerate() {
        assert_eq!(got, want, "{what}, row {at}");
    }
    assert_eq!(table.rows.len(), rows.len(), "{what}");
    assert_eq!((reading.ended, reading.first_error.as_deref()), (LogEnd::Complete, None), "{what}");
    assert_eq!((table.ranks, table.average_busbw), (Some(8), Some(187.866)), "{what}");
    assert_eq!(table.collective.as_deref(), Some("all_reduce"), "{what}");
}

#[test]
fn every_version_is_read() {
    for format in &FORMATS {
        let (lines, rows) = run(format, sizes());
        assert_whole(&read_lines(&lines), &rows, format.name);
    }
}

#[test]
fn sizes_in_steps_and_repeated_sizes_are_read() {
    let stepped = (0..40).map(|step| 4 * (1_000_000 + step * 37_777)).chain((0..40).map(|step| step * 1008));
    let (lines, rows) = run(&FORMATS[13], stepped);
    assert_whole(&read_lines(&lines), &rows, "steps");
}

#[test]
fn a_prefix_of_every_line_is_removed() {
    for format in &FORMATS {
        let (lines, rows) = run(format, sizes());
        for prefix in PREFIXES {
            let what = format!("{} behind {prefix:?}", format.name);
            assert_whole(&read_lines(&prefixed(&lines, prefix)), &rows, &what);
        }
    }
}

#[test]
fn nested_prefixes_are_removed() {
    let (lines, rows) = run(&FORMATS[13], sizes());
    for outer in PREFIXES {
        for inner in ["0: ", "[1,0]<stdout>:", "node-1: "] {
            let both = prefixed(&prefixed(&lines, inner), outer);
            assert_whole(&read_lines(&both), &rows, &format!("{outer:?} {inner:?}"));
        }
    }
}

#[test]
fn envelopes_do_not_change_the_reading() {
    let (lines, rows) = run(&FORMATS[13], sizes());
    let text = lines.join("\n") + "\n";
    let windows = lines.join("\r\n") + "\r\n";
    assert_whole(&nccl::read_bytes(windows.as_bytes()), &rows, "CRLF");

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    assert_whole(&nccl::read_bytes(&gzip.finish().unwrap()), &rows, "gzip");

    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    assert_whole(&nccl::read_bytes(&wide), &rows, "UTF-16");

    let docker = lines.iter().fold(String::new(), |mut out, line| {
        let log = serde_json::to_string(&format!("{line}\n")).unwrap();
        writeln!(out, r#"{{"log":{log},"stream":"stdout","time":"2026-01-05T12:00:07Z"}}"#).unwrap();
        out
    });
    assert_whole(&nccl::read_bytes(docker.as_bytes()), &rows, "Docker");

    let quoted: Vec<String> = lines.iter().map(|line| format!("        \"{line}\",")).collect();
    assert_whole(&read_lines(&quoted), &rows, "Ansible");
    let hashless: Vec<String> = lines.iter().map(|line| line.replace('#', "")).collect();
    assert_whole(&read_lines(&hashless), &rows, "lost #");
    let coloured: Vec<String> =
        lines.iter().map(|line| line.replace("  ", "\u{1b}[0m  \u{1b}[1;32m")).collect();
    assert_whole(&read_lines(&coloured), &rows, "colours");
    let hashed: Vec<String> = lines.iter().map(|line| format!("#{line}")).collect();
    assert_whole(&read_lines(&hashed), &rows, "more #");
    let invalid: Vec<u8> =
        lines.iter().flat_map(|line| [line.as_bytes(), b"\n\xff\xfe\x80 caf\xe9\n"].concat()).collect();
    assert_whole(&nccl::read_bytes(&invalid), &rows, "invalid UTF-8");
}

#[test]
fn later_halves_are_added_to_their_row() {
    for format in FORMATS.iter().filter(|format| format.halves == 2 && !format.timestamp) {
        for host in ["vm", "38dcf168f605", "node-1", "0vm"] {
            for call in ["[0] NCCL INFO Launch mode Parallel", "NCCL CALL ncclAllReduce(7f, 8, 7, 0, 1)"] {
                for known in [false, true] {
                    let (log, rows) = interleaved(format, host, call, known);
                    let reading = nccl::read_bytes(log.as_bytes());
                    let what = format!("{} on {host}", format.name);
                    // In an error column the number of digits does not show where an unknown host begins.
                    assert_eq!(reading.tables[0].rows, rows, "{what}");
                    assert_eq!(reading.ended, LogEnd::Complete, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_single_half_is_not_a_row() {
    let (lines, _) = run(&FORMATS[13], sizes());
    let mut log = lines[..15].join("\n") + "\n";
    log += "   46.48   22.56   33.84       0\n   44.46   23.58   35.38       0\n";
    log += "   46.48   22.56   33.84       0    44.46   23.58   35.38       0\n";
    let reading = nccl::read_bytes(log.as_bytes());
    assert_eq!((reading.tables.len(), reading.tables[0].rows.len()), (1, 0));
    assert_eq!(reading.ended, LogEnd::Truncated);
}

#[test]
fn interleaved_rows_of_several_processes_are_read() {
    let (first, first_rows) = run(&FORMATS[13], sizes());
    let (second, second_rows) = run(&FORMATS[15], sizes().map(|size| size + 4));
    let mut log = String::new();
    for (a, b) in first.iter().zip(&second) {
        writeln!(log, "[1,0]<stdout>:{a}\n[2,0]<stdout>:{b}").unwrap();
    }
    log.extend(second[first.len()..].iter().map(|line| format!("[2,0]<stdout>:{line}\n")));
    let reading = nccl::read_bytes(log.as_bytes());
    assert_eq!(reading.tables.len(), 2);
    assert_eq!(reading.tables[0].rows, first_rows);
    assert_eq!(reading.tables[1].rows, second_rows);
}

#[test]
fn tags_inside_rows_are_ignored() {
    let format = &FORMATS[13];
    let (lines, rows) = run(format, sizes());
    let tagged: Vec<String> = lines
        .iter()
        .map(|line| match line.char_indices().nth(60) {
            Some((at, _)) => {
                format!("[1,0]<stdout>:{}[1,0]<stdout>:{}[1,3]<stderr>:noise 1 2", &line[..at], &line[at..])
            }
            None => format!("[1,0]<stdout>:{line}"),
        })
        .collect();
    assert_whole(&read_lines(&tagged), &rows, "tags");
}

#[test]
fn unambiguous_rows_without_a_header_are_read() {
    for format in FORMATS.iter().filter(|format| format.halves == 2 && !format.cpu_time) {
        let (pieces, row) = row(format, 1 << 24, 1);
        let reading = nccl::read_bytes((pieces.concat() + "\n").as_bytes());
        assert_eq!(reading.tables.len(), 1, "{}", format.name);
        assert_eq!(reading.tables[0].rows, [row], "{}", format.name);
        assert_eq!(reading.ended, LogEnd::Truncated);
    }
    for text in [
        "1048576 262144 float 46.48 22.56 33.84 0",
        "1048576 262144 float sum -1 46.48 99.56 33.84 0 44.46 23.58 35.38 0",
        "1048576 262144 float sum -1 1 2 3 4 5 6 7 8",
        "1048576 262144 cats 46.48 22.56 33.84 0 44.46 23.58 35.38 0",
    ] {
        assert_eq!(nccl::read_bytes(format!("{text}\n").as_bytes()).tables, [], "{text}");
    }
}

#[test]
fn a_row_truncated_in_its_second_half_keeps_the_first() {
    let format = &FORMATS[13];
    let (mut lines, mut rows) = run(format, sizes());
    let (pieces, mut cut) = row(format, 1 << 20, 3);
    lines.insert(15, format!("{}{}    44.46 ...", pieces[0], pieces[1]));
    without_in_place(&mut cut);
    rows.insert(0, cut);
    assert_whole(&read_lines(&lines), &rows, "cut");
}

/// The row with its second half missing.
fn without_in_place(row: &mut Row) {
    row.in_place = None;
    row.partial = Some(Box::new(PartialHalf::unread(Placement::InPlace)));
}

#[test]
fn rows_that_all_end_in_one_column_keep_their_first_half() {
    for format in FORMATS.iter().filter(|format| format.halves == 2) {
        let (lines, mut rows) = run(format, sizes());
        rows.iter_mut().for_each(without_in_place);
        if format.timestamp {
            rows.iter_mut().for_each(|row| row.timestamp = None);
        }
        // Cut the rows as `cut -c` does: after the first half, and inside every column of the second.
        let starts = lines.iter().position(|line| line.starts_with("           8")).unwrap();
        let second = row(format, 8, 0).0[2].len();
        for left in 0..second - if format.timestamp { 21 } else { 0 } {
            let mut cut = lines.clone();
            for (at, size) in sizes().enumerate() {
                let [left_part, first, _] = row(format, size, at as u64).0;
                cut[starts + at].truncate(left_part.len() + first.len() + left);
            }
            assert_whole(&read_lines(&cut), &rows, &format!("{} at {left}", format.name));
        }
    }
}

#[test]
fn a_source_position_before_every_piece_does_not_change_the_reading() {
    for format in &FORMATS {
        let (lines, rows) = run(format, sizes());
        let before = |line: &String| format!("run(), common.cu:967, {line}");
        let every: Vec<_> = lines.iter().map(before).collect();
        assert_whole(&read_lines(&every), &rows, &format!("{} behind a position", format.name));
        let starts = lines.iter().position(|line| line.starts_with("           8")).unwrap();
        let mut pieces = every;
        for (at, size) in sizes().enumerate() {
            let [left, first, second] = row(format, size, at as u64).0;
            pieces[starts + at] = format!(
                "TimeTest(), common.cu:626, {left}BenchTime(), common.cu:533, {first}BenchTime(), common.cu:533, {second}TimeTest(), common.cu:631, "
            );
        }
        assert_whole(&read_lines(&pieces), &rows, &format!("{} with positions inside", format.name));
        for prefix in PREFIXES {
            let what = format!("{} with positions after {prefix:?}", format.name);
            assert_whole(&read_lines(&prefixed(&pieces, prefix)), &rows, &what);
        }
    }
}

#[test]
fn the_header_names_a_single_placement() {
    let log = "#                           in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    46.48   22.56   33.84      0
";
    let reading = nccl::read_bytes(log.as_bytes());
    let row = &reading.tables[0].rows[0];
    assert_eq!((row.out_of_place, row.in_place.unwrap().time_us), (None, 46.48));
}

#[test]
fn a_failure_line_is_reported_without_its_prefixes() {
    let message = "node-2: Test NCCL failure common.cu:1005 'unhandled cuda error / '";
    let (lines, _) = run(&FORMATS[13], sizes().take(3));
    for prefix in
        PREFIXES.iter().filter(|prefix| !prefix.starts_with("[STAT]") && !prefix.starts_with("[2026"))
    {
        let mut log = lines[..18].to_vec();
        log.push(message.to_owned());
        log.push(" .. node-2 pid 2006: Test failure common.cu:1454".to_owned());
        let reading = read_lines(&prefixed(&log, prefix));
        assert_eq!(reading.first_error.as_deref(), Some(message), "{prefix:?}");
        assert_eq!((reading.ended, reading.tables.len()), (LogEnd::Failed, 1), "{prefix:?}");
        assert_eq!(reading.tables[0].rows.len(), 3);
    }
}

/// Texts of src/common.cu and src/util.cu of nccl-tests v2.19.6 with sample values.
#[test]
fn a_message_before_an_exit_is_a_failure_and_a_warning_is_not() {
    for message in [
        "Invalid number of GPUs: 16 requested but only 8 were found.",
        "invalid size specified for 'minbytes'",
        "invalid sizes for 'minbytes' and 'maxbytes': 16 > 8",
        "invalid option '?'",
        "Option -D (device implementation) requires NCCL >= 2.28.0",
        "Option -V (device CTA count) requires NCCL >= 2.28.0",
        "device implementation (-D > 0) requires enabling symmetric memory registration (-R 2)",
        "Device implementation 3 is not supported by this test",
        "Incompatible NCCL versions. nccl-tests was compiled with NCCL 22902, but is running with NCCL 22809. \
         The 22902 Device API is not compatible with versions before 2.29.",
    ] {
        let reading = nccl::read_bytes(format!("{message}\n").as_bytes());
        assert_eq!((reading.ended, reading.first_error.as_deref()), (LogEnd::Failed, Some(message)));
        assert!(reading.tables.is_empty(), "{message}");
    }
    for message in [
        "Option -m not supported before NCCL 2.2. Ignoring",
        "device_cta_count (-V) must be positive and less than 128, got 200. Using default value 16.",
        "per-iteration timing (-I) is incompatible with CUDA graph mode (-G). Disabling.",
    ] {
        let reading = nccl::read_bytes(format!("{message}\n").as_bytes());
        assert_eq!((reading.ended, reading.first_error), (LogEnd::Empty, None), "{message}");
    }
}

#[test]
fn a_half_measured_before_the_failure_is_kept() {
    let format = &FORMATS[13];
    let (lines, mut rows) = run(format, sizes().take(3));
    let (pieces, mut last) = row(format, 1 << 20, 3);
    let log = format!(
        "{}\n{}{}node-1: Test timeout (60s) common.cu:395\n",
        lines[..18].join("\n"),
        pieces[0],
        pieces[1]
    );
    let reading = nccl::read_bytes(log.as_bytes());
    without_in_place(&mut last);
    rows.push(last);
    assert_eq!(reading.tables[0].rows, rows);
    assert_eq!(reading.first_error.as_deref(), Some("node-1: Test timeout (60s) common.cu:395"));
    assert_eq!(reading.ended, LogEnd::Failed);
}

#[test]
fn warnings_are_errors_only_of_runs_that_failed() {
    let (lines, _) = run(&FORMATS[13], sizes().take(3));
    let warning = "node-1:77:78 [0] transport/net.cc:12 NCCL WARN slow".to_owned();
    let with = |at: usize, upto: usize| {
        let mut log = lines[..upto].to_vec();
        log.insert(at, warning.clone());
        let reading = read_lines(&log);
        (reading.ended, reading.first_error)
    };
    assert_eq!(with(13, lines.len()), (LogEnd::Complete, None));
    assert_eq!(with(13, 17), (LogEnd::Truncated, None));
    assert_eq!(with(17, 17), (LogEnd::Failed, Some(warning.clone())));
}

#[test]
fn a_second_run_is_a_second_table() {
    let (lines, rows) = run(&FORMATS[13], sizes());
    let killed = lines[..20].to_vec();
    let echo = "Avg bus bandwidth    : 187.866".to_owned();
    let log =
        [killed, lines.clone(), vec![echo.clone(), "Out of bounds values : 0 OK".to_owned(), echo]].concat();
    let reading = read_lines(&log);
    assert_eq!(reading.ended, LogEnd::Truncated);
    assert_eq!(
        reading.tables.iter().map(|table| table.ended).collect::<Vec<_>>(),
        [LogEnd::Truncated, LogEnd::Complete]
    );
    assert_eq!((reading.tables[0].rows.len(), &reading.tables[1].rows), (5, &rows));
}

#[test]
fn ranks_are_unknown_when_their_lines_were_cut() {
    let (mut lines, _) = run(&FORMATS[13], sizes());
    lines[10] = "#  Rank  6 Group  0 Pid   40...".to_owned();
    lines.remove(11);
    assert_eq!(read_lines(&lines).tables[0].ranks, None);
}

#[test]
fn logs_without_a_table_are_empty_or_failed() {
    let empty = nccl::read_bytes(b"");
    assert_eq!((empty.ended, empty.first_error, empty.tables.len()), (LogEnd::Empty, None, 0));
    assert_eq!(nccl::read_bytes(b"Hello\nthe algbw and busbw columns\n").ended, LogEnd::Empty);
    let failed = nccl::read_bytes(b"srun: error: node-2: task 8: Exited with exit code 1\n");
    assert_eq!((failed.ended, failed.tables.len()), (LogEnd::Failed, 0));
    let missing = nccl::read_bytes(b"bash: ./all_reduce_perf: No such file or directory\n");
    assert_eq!(missing.first_error.as_deref(), Some("bash: ./all_reduce_perf: No such file or directory"));
}

#[test]
fn a_command_line_names_the_collective_when_it_is_the_only_one() {
    let (lines, _) = run(&FORMATS[8], sizes());
    let after = |commands: &str| {
        let log = format!("{commands}\n{}\n", lines[1..].join("\n"));
        nccl::read_bytes(log.as_bytes()).tables[0].collective.clone()
    };
    assert_eq!(after("+ srun ./build/all_gather_perf -b 8").as_deref(), Some("all_gather"));
    assert_eq!(after("alltoallv_perf").as_deref(), Some("alltoallv"));
    assert_eq!(after("./all_gather_perf; ./sendrecv_perf"), None);
    assert_eq!(after("my_reduce_perf"), None);
}

#[test]
fn concurrent_programs_are_all_complete() {
    let (lines, rows) = run(&FORMATS[13], sizes());
    let log: Vec<String> = lines.iter().flat_map(|line| [line.clone(), line.clone(), line.clone()]).collect();
    let reading = read_lines(&log);
    assert_eq!((reading.ended, reading.tables.len()), (LogEnd::Complete, 3));
    assert_eq!(reading.tables.iter().map(|table| table.rows.len()).sum::<usize>(), 3 * rows.len());
}

#[test]
fn missing_parts_of_a_cut_log_are_reported() {
    let mark = "[burnin: cut here, 4711 bytes left out]".to_owned();
    let (lines, rows) = run(&FORMATS[13], sizes());
    let first_row = lines.iter().position(|line| line.trim_start().starts_with("8 ")).unwrap();
    for from in first_row..lines.len() - 1 {
        for left in [0, 1, 2, 5] {
            let to = (from + left).min(lines.len() - 1);
            let cut: Vec<_> = lines[..from].iter().chain([&mark]).chain(&lines[to..]).cloned().collect();
            let reading = read_lines(&cut);
            // A part cut out after the summary cannot contain results.
            let over = lines[..from].iter().any(|line| line.contains("Avg bus bandwidth"));
            assert_eq!(reading.ended == LogEnd::Complete, over, "{from} {left}: {:?}", reading.first_error);
            assert_eq!(reading.tables[0].ended == LogEnd::Complete, over, "{from} {left}");
        }
    }
    // A log with a gap before the first line of a run contains the complete run.
    let before: Vec<_> = ["noise".to_owned(), mark].into_iter().chain(lines).collect();
    assert_whole(&read_lines(&before), &rows, "cut before");
}
