//! Damaged and hostile input. Bounds of memory and time are in `bounds.rs`.

#![expect(clippy::disallowed_methods, reason = "a test may read files")]

mod printer;

use model::measurement::{Column, Half, LogEnd, PartialHalf, Placement, Reading, Row};
use printer::{FORMATS, PREFIXES, interleaved, prefixed, row, run, sizes};
use proptest::prelude::*;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

fn rows(reading: &Reading) -> Vec<&Row> {
    reading.tables.iter().flat_map(|table| &table.rows).collect()
}

/// Whether a truncated row matches the original: its out-of-place and in-place halves are each equal, or absent and marked.
fn is_left_of(cut: &Row, whole: &Row) -> bool {
    let half = |cut: Option<Half>, whole: Option<Half>| cut.is_none() || cut == whole;
    let left = Row { partial: whole.partial.clone(), processes: whole.processes.clone(), ..cut.clone() };
    let same = Row { out_of_place: cut.out_of_place, in_place: cut.in_place, ..whole.clone() };
    let missing = cut.out_of_place != whole.out_of_place || cut.in_place != whole.in_place;
    let marked = cut.partial.as_ref().is_some_and(|half| !half.unread.is_empty());
    half(cut.out_of_place, whole.out_of_place)
        && half(cut.in_place, whole.in_place)
        && (!missing || marked)
        && Row { timestamp: None, ..left } == Row { timestamp: None, ..same }
}

/// Checks every prefix of a log: its rows are the first rows of the whole log; the last of them may lack a half. A
/// prefix is complete only with the summary.
fn assert_prefixes_match(name: &str, log: &[u8]) {
    let whole = nccl::read_bytes(log);
    let whole_rows = rows(&whole);
    let text = String::from_utf8_lossy(log);
    let summary = ["Avg bus bandwidth", "average_bus_bandwidth"].iter().find_map(|mark| text.find(mark));
    let mut kept = false;
    for length in 0..log.len() {
        let cut = nccl::read_bytes(&log[..length]);
        let cut_rows = rows(&cut);
        assert!(cut_rows.len() <= whole_rows.len(), "{name}: a cut at byte {length} adds rows");
        if let Some((last, before)) = cut_rows.split_last() {
            assert_eq!(
                before[..],
                whole_rows[..before.len()],
                "{name}: a cut at byte {length} changes a row"
            );
            let whole = whole_rows[before.len()];
            assert!(
                is_left_of(last, whole),
                "{name}: a cut at byte {length} changes the last row from {whole:?} to {last:?}"
            );
            kept |= last.partial.is_some();
        }
        let early = summary.is_none_or(|summary| length <= summary);
        assert!(!early || cut.ended != LogEnd::Complete, "{name}: the log cut at byte {length} is complete");
        for (table, whole) in cut.tables.iter().zip(&whole.tables) {
            let average = table.average_busbw;
            assert!(
                average.is_none() || average == whole.average_busbw,
                "{name}: truncation at byte {length} changes the average to {average:?}"
            );
            assert!(table.devices.len() <= whole.devices.len());
            assert_eq!(
                table.devices[..],
                whole.devices[..table.devices.len()],
                "{name}: a cut at byte {length} changes a Rank line"
            );
        }
    }
    let both = whole_rows.iter().any(|row| row.out_of_place.is_some() && row.in_place.is_some());
    assert!(kept || !both, "{name}: no truncated row keeps its first half");
}

#[test]
fn truncated_logs_add_no_row_and_no_number() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl/ours");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            assert_prefixes_match(&path.display().to_string(), &fs::read(&path).unwrap());
        }
    }
}

#[test]
fn truncated_versions_add_no_row_and_no_number() {
    for format in &FORMATS {
        let (lines, _) = run(format, sizes().step_by(9));
        assert_prefixes_match(format.name, (lines.join("\n") + "\n").as_bytes());
        let positioned = prefixed(&lines, "run(), common.cu:967, ");
        assert_prefixes_match(format.name, (positioned.join("\n") + "\n").as_bytes());
        assert_prefixes_match(format.name, ("0: ".to_owned() + &lines.join("\r\n0: ") + "\r\n").as_bytes());
    }
}

#[test]
fn truncated_positions_add_no_row_and_no_number() {
    for format in FORMATS.iter().step_by(3) {
        let (mut lines, _) = run(format, sizes().step_by(9));
        let first = lines.iter().position(|line| line.starts_with("           8")).unwrap();
        for (at, size) in sizes().step_by(9).enumerate() {
            let [left, out_of_place, in_place] = row(format, size, at as u64).0;
            let bench = "BenchTime(), common.cu:533, ";
            lines[first + at] =
                format!("TimeTest(), common.cu:626, {left}{bench}{out_of_place}{bench}{in_place}{bench}");
        }
        assert_prefixes_match(format.name, (lines.join("\n") + "\n").as_bytes());
    }
}

#[test]
fn truncated_debug_logs_add_no_row_and_no_number() {
    for (format, host) in [(0, "vm"), (4, "38dcf168f605"), (8, "38dcf168f605"), (13, "node-1"), (15, "0vm")] {
        let (log, _) = interleaved(&FORMATS[format], host, "NCCL CALL ncclAllReduce(7f, 8, 7, 0, 1)", true);
        assert_prefixes_match(FORMATS[format].name, log.as_bytes());
    }
}

#[test]
fn every_incomplete_row_is_read_or_counted_also_with_more_processes_than_kept_rows() {
    const HEADER: &str = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n";
    let log: String = (0..300)
        .map(|process| format!("{process}: {HEADER}{process}: 8 2 float sum -1 1.0 1.0 1.0 0\n"))
        .collect();
    let reading = nccl::read_bytes(log.as_bytes());
    let rows: usize = reading.tables.iter().map(|table| table.rows.len()).sum();
    let unmeasured: u64 = reading.tables.iter().map(|table| table.unmeasured).sum();
    assert_eq!(rows as u64 + unmeasured, 300, "{rows} rows and {unmeasured} without a value");
}

/// Invariants of a reading.
fn assert_invariants(reading: &Reading) {
    for table in &reading.tables {
        assert!(table.average_busbw.is_none_or(f64::is_finite));
        for row in &table.rows {
            assert!(row.out_of_place.is_some() || row.in_place.is_some());
            for half in [row.out_of_place, row.in_place].into_iter().flatten() {
                assert!(
                    [half.time_us, half.algbw, half.busbw]
                        .iter()
                        .all(|value| value.is_finite() && *value >= 0.0)
                );
            }
        }
    }
    assert_eq!(reading.ended == LogEnd::Empty, reading.tables.is_empty() && reading.ended != LogEnd::Failed);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn any_bytes_are_accepted(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
        let reading = nccl::read_bytes(&bytes);
        assert_invariants(&reading);
        prop_assert!(reading.tables.is_empty());
    }

    #[test]
    fn noise_between_lines_does_not_change_the_reading(
        format in 0..FORMATS.len(),
        prefix in prop::sample::select(PREFIXES.to_vec()),
        noise in proptest::collection::vec((0..60usize, prop::sample::select(vec![
            "node-1:1505:1506 [0] NCCL INFO Channel 00/02 :    0   1   2   3",
            "38dcf168f605:7:8 [3] NCCL INFO comm 0x7 rank 3 nranks 8 cudaDev 3 busId 90 - Init COMPLETE       0",
            "node-1:1505:1506 [0] transport/net.cc:12 NCCL WARN Call to connect returned Connection refused",
            "   46.48   22.56   33.84       0    44.46   23.58   35.38       0",
            "hni_rx_paused_0                             32          155          6.0          541         20.1         1449         53.7",
            "#   rank=0 send_bytes=8 alg_bw=1.0 bus_bw=2.0", "NCCL version 2.28.9+cuda13.0", "12 8 packets dropped 7", "",
            "\u{1b}[1m+ sleep 1\u{1b}[0m", "UCX  WARN  unused environment variable 0   1   2   3", "{\"version\": 3}",
        ])), 0..12),
    ) {
        let (mut lines, rows) = run(&FORMATS[format], sizes());
        for (at, text) in noise {
            lines.insert(at.min(lines.len()), text.to_owned());
        }
        let reading = nccl::read_bytes((prefixed(&lines, prefix).join("\n") + "\n").as_bytes());
        prop_assert_eq!(reading.tables.len(), 1);
        prop_assert_eq!(&reading.tables[0].rows, &rows);
        prop_assert_eq!((reading.ended, reading.first_error), (LogEnd::Complete, None));
    }

    /// A constant prefix of every line, such as the name of a pod, does not change the reading.
    #[test]
    fn a_constant_prefix_of_every_line_does_not_change_the_reading(
        format in 0..FORMATS.len(),
        text in "[A-Za-z(<\\[{>|=@$%*+~-][A-Za-z0-9(),.:;/_<>|=@$%*+~ -]{0,30}[A-Za-z(),.:;/_<>|=@$%*+~-]",
        number in prop::option::of(0..10_000u32),
    ) {
        let (lines, rows) = run(&FORMATS[format], sizes());
        let number = number.map_or_else(String::new, |number| number.to_string());
        let prefix = format!("{text}{number} ");
        let reading = nccl::read_bytes((prefixed(&lines, &prefix).join("\n") + "\n").as_bytes());
        prop_assert_eq!(reading.tables.len(), 1, "{:?}", prefix);
        prop_assert_eq!(&reading.tables[0].rows, &rows, "{:?}", prefix);
        prop_assert_eq!(reading.tables[0].ranks, Some(8), "{:?}", prefix);
        prop_assert_eq!((reading.ended, reading.first_error), (LogEnd::Complete, None), "{:?}", prefix);
    }

    #[test]
    fn any_words_are_accepted(words in proptest::collection::vec(prop::sample::select(vec![
        "#", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "\n", "\n", "8", "2", "float",
        "sum", "-1", "46.48", "22.56", "0", "N/A", "Rank", "on", "device", "[0]", "NCCL INFO", "NCCL WARN x",
        "Avg bus bandwidth", ":", "Out of bounds values", "OK", "{\"version\"", "[1,0]<stdout>:", "\u{1b}[", "\0",
    ]), 0..200)) {
        assert_invariants(&nccl::read_bytes(words.join(" ").as_bytes()));
    }
}

#[test]
fn malformed_and_out_of_range_numbers_are_rejected() {
    let header = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    let huge = "9".repeat(10_000);
    for hostile in ["1e400", "nan", "-nan", "inf", "-5", huge.as_str(), "0x10", "1,5", "1e-", "--1"] {
        for column in 0..13 {
            let mut row = [
                "8", "2", "float", "sum", "-1", "46.48", "22.56", "33.84", "0", "44.46", "23.58", "35.38",
                "0",
            ];
            row[column] = hostile;
            let reading = nccl::read_bytes(format!("{header}{}\n", row.join(" ")).as_bytes());
            assert_invariants(&reading);
            for row in rows(&reading) {
                assert!(
                    row.out_of_place.is_none_or(|half| half.time_us == 46.48 && half.algbw == 22.56),
                    "{hostile}"
                );
                assert!(
                    row.in_place.is_none_or(|half| half.busbw == 35.38 && half.wrong == Some(0)),
                    "{hostile}"
                );
                assert_eq!((row.size_bytes, row.count), (8, 2), "{hostile}");
            }
        }
    }
}

#[test]
fn the_other_numbers_of_a_half_with_an_unreadable_number_are_kept() {
    let header = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
    for (column, unread) in [(5, Column::TimeUs), (6, Column::Algbw), (7, Column::Busbw), (8, Column::Wrong)]
    {
        let mut row = [
            "1048576", "262144", "float", "sum", "-1", "46.48", "22.56", "33.84", "0", "44.46", "23.58",
            "35.38", "0",
        ];
        row[column] = "nan";
        let reading = nccl::read_bytes(format!("{header}{}\n", row.join(" ")).as_bytes());
        let kept = &reading.tables[0].rows[0];
        let partial = kept.partial.as_ref().unwrap();
        assert_eq!((kept.out_of_place, kept.in_place.unwrap().busbw), (None, 35.38), "{unread:?}");
        assert_eq!((partial.placement, &partial.unread[..]), (Placement::OutOfPlace, &[unread][..]));
        let whole = PartialHalf {
            placement: Placement::OutOfPlace,
            time_us: Some(46.48),
            algbw: Some(22.56),
            busbw: Some(33.84),
            wrong: Some(0),
            unread: vec![unread],
        };
        let want = match unread {
            Column::TimeUs => PartialHalf { time_us: None, ..whole },
            Column::Algbw => PartialHalf { algbw: None, ..whole },
            Column::Busbw => PartialHalf { busbw: None, ..whole },
            _ => PartialHalf { wrong: None, ..whole },
        };
        assert_eq!(**partial, want);
    }
}

#[test]
fn bare_words_in_json_are_not_measured() {
    let json = |time: &str, average: &str| {
        let half = |time: &str| format!(r#"{{"time":{time},"alg_bw":1.5,"bus_bw":2.5,"nwrong":null}}"#);
        format!(
            r#"{{"version":4,"args":["all_reduce_perf"],"results":[{{"size":8,"count":2,"type":"float","redop":"sum",
            "root":"     0","out_of_place":{},"in_place":{},"new":{{"x":[1,[2]]}}}}],
            "average_bus_bandwidith":{{"bandwidith":{average},"okay":"unchecked"}}}}"#,
            half(time),
            half("3.5")
        )
    };
    for word in ["inf", "-inf", "nan", "\"nan\"", "null", "true", "1e400", "-1.0", "[3]"] {
        let reading = nccl::read_bytes(json(word, "\"nan\"").as_bytes());
        let row = &reading.tables[0].rows[0];
        assert_eq!(
            (row.out_of_place, row.in_place.unwrap().time_us, row.root),
            (None, 3.5, Some(0)),
            "{word}"
        );
        assert_eq!((reading.ended, reading.tables[0].average_busbw), (LogEnd::Complete, None), "{word}");
        assert_eq!(reading.tables[0].unmeasured, 0, "{word}: a half was measured");
        let left = PartialHalf {
            algbw: Some(1.5),
            busbw: Some(2.5),
            unread: vec![Column::TimeUs],
            ..PartialHalf::unread(Placement::OutOfPlace)
        };
        assert_eq!(row.partial.as_deref(), Some(&left), "{word}: the other numbers of the half are kept");
        let reading = nccl::read_bytes(json(word, "1").replace("\"time\":3.5", "\"time\":nan").as_bytes());
        assert_eq!((reading.tables[0].rows.len(), reading.tables[0].unmeasured), (0, 1), "{word}");
    }
    let reading = nccl::read_bytes(json("1.0", "-").as_bytes());
    assert_eq!(reading.tables[0].rows.len(), 1);
}

#[test]
fn an_unreadable_error_count_is_not_reported_as_unchecked_data() {
    let json = |wrong: &str| {
        format!(
            r#"{{"version":4,"results":[{{"size":8,"count":2,"type":"float","in_place":{{"time":3.5,"alg_bw":1.5,
            "bus_bw":2.5,"nwrong":{wrong}}},"out_of_place":{{"time":3.5,"alg_bw":1.5,"bus_bw":2.5,"nwrong":0}}}}]}}"#
        )
    };
    for word in ["\"nan\"", "nan", "-1", "0.5", "true", "[0]"] {
        let reading = nccl::read_bytes(json(word).as_bytes());
        let row = &reading.tables[0].rows[0];
        let partial = row.partial.as_ref().unwrap_or_else(|| panic!("{word}"));
        assert_eq!((row.in_place, row.out_of_place.unwrap().wrong), (None, Some(0)), "{word}");
        assert_eq!((partial.placement, partial.time_us), (Placement::InPlace, Some(3.5)), "{word}");
        assert_eq!(partial.unread, [Column::Wrong], "{word}");
    }
    let unchecked = nccl::read_bytes(json("null").as_bytes());
    assert_eq!(unchecked.tables[0].rows[0].in_place.unwrap().wrong, None);
}

#[test]
fn a_count_wider_than_its_column_is_not_cut() {
    for count in [99_999u64, 123_456, 1_234_567, 123_456_789] {
        let header = "# size count type redop root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n";
        let half = format!("    46.48   22.56   33.84  {count:>6}");
        let log = format!("{header}     1048576        262144     float     sum      -1{half}{half}\n");
        for length in 0..log.len() {
            let reading = nccl::read_bytes(&log.as_bytes()[..length]);
            for half in rows(&reading).iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten() {
                assert_eq!(half.wrong, Some(count), "a cut at byte {length} changes the count");
            }
        }
    }
}

#[test]
fn json_cut_at_any_byte_adds_no_number() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/nccl");
    let real = fs::read_to_string(folder.join("h200/matrix-healthy-z3.json")).unwrap();
    // Leaves out the environment and most rows, because they contain no other kinds of values.
    let start = real.find("\"results\"").unwrap();
    let third = real.match_indices("\"size\"").nth(2).unwrap().0;
    let end = real[third..].find("average_bus_bandwi").map_or(real.len(), |end| third + end);
    let short = format!("{{\"version\":4,{}", &real[start..third.min(end)]);
    let whole = nccl::read_bytes(real.as_bytes());
    let mut kept = 0;
    for length in 0..short.len() {
        let cut = nccl::read_bytes(&short.as_bytes()[..length]);
        assert_invariants(&cut);
        assert_ne!(cut.ended, LogEnd::Complete, "the log cut at byte {length} is complete");
        for (cut, whole) in rows(&cut).into_iter().zip(rows(&whole)) {
            let spread = |half: Option<Half>| half.map(|half| Half { iterations: None, ..half });
            let plain = |row: &Row| Row {
                out_of_place: spread(row.out_of_place),
                in_place: spread(row.in_place),
                ..row.clone()
            };
            assert!(is_left_of(&plain(cut), &plain(whole)), "{length}: {cut:?} of {whole:?}");
            kept += usize::from(cut.partial.is_some());
        }
    }
    assert!(kept > 0, "no truncated row keeps its first half");
}

#[test]
fn a_failing_reader_returns_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk was removed"))
        }
    }
    assert!(nccl::read(Broken).is_err());
    assert!(nccl::read((&b"# Using devices\n"[..]).chain(Broken)).is_err());
    assert!(nccl::read((&b"\x1f\x8b\x08\0\0\0\0\0\0\0"[..]).chain(Broken)).is_err());
}

#[test]
fn rows_before_damaged_gzip_data_are_kept() {
    use std::io::Write as _;
    let (lines, _) = run(&FORMATS[13], sizes());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let reading = nccl::read_bytes(&gzip[..gzip.len() * 2 / 3]);
    assert!(!rows(&reading).is_empty());
    assert_eq!(reading.ended, LogEnd::Truncated);
    assert!(reading.first_error.unwrap().contains("gzip"));
}
