//! Each size over earlier runs.

use model::measurement::{Half, LogEnd, Row, Table};
use report::sizes::{Earlier, Series, part};

/// A curve of 20 µs and 400 GB/s, slower by a factor from 1 MiB on.
fn table(slower: f64) -> Table {
    let half = |size: u64| {
        let by = if size >= 1 << 20 { slower } else { 1.0 };
        let time_us = (20.0 + size as f64 / 400e3) * by;
        Some(Half { time_us, busbw: size as f64 / time_us / 1e3, ..Half::default() })
    };
    let row = |power: u32| {
        let size_bytes = 1 << power;
        Row { size_bytes, out_of_place: half(size_bytes), in_place: half(size_bytes), ..Row::default() }
    };
    Table {
        collective: Some("all_reduce".to_owned()),
        ranks: Some(16),
        rows: (3..33).map(row).collect(),
        ..Table::empty(LogEnd::Complete)
    }
}

fn series(factors: &[f64], name: &str) -> String {
    let tables: Vec<_> = factors.iter().map(|factor| table(*factor)).collect();
    let names: Vec<_> = (0..tables.len()).map(|number| format!("{name}{number}")).collect();
    let days: Vec<_> = (0..tables.len()).map(|day| format!("2026-11-{:02}", day + 1)).collect();
    let runs: Vec<_> = tables
        .iter()
        .zip(names.iter().zip(&days))
        .map(|(table, (run, at))| Earlier { run, at, table })
        .collect();
    part(Series { runs: &runs, baseline: None })
}

/// Runs that repeat within 0.1 %.
fn factors(slower_from: usize) -> Vec<f64> {
    (0..24)
        .map(|run| 1.0 + 0.001 * f64::from(run as u8 % 3) + if run >= slower_from { 0.03 } else { 0.0 })
        .collect()
}

#[test]
fn a_slower_size_reports_the_start_of_its_slowdown() {
    let page = series(&factors(18), "run-");
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("<tr><th scope=\"row\"")).collect();
    let of = |size: &str| {
        *rows
            .iter()
            .find(|row| row.contains(&format!(">{size}</th>")))
            .unwrap_or_else(|| panic!("{size}: {page}"))
    };
    assert!(of("512 MiB").contains("+3.0 % since 2026-11-19, run-18</td>"), "{}", of("512 MiB"));
    assert!(of("512 MiB").contains("class=\"change\""), "the change is marked");
    assert!(!of("1 KiB").contains("since 2026"), "{}", of("1 KiB"));
    assert!(!page.contains("style="), "no inline style");
}

#[test]
fn runs_on_one_level_have_no_change_and_one_run_has_no_series() {
    let page = series(&factors(99), "run-");
    assert!(page.contains("24 runs on one level") && !page.contains("class=\"change\""), "{page}");
    assert_eq!(series(&[1.0], "run-"), "");
    assert_eq!(series(&[], "run-"), "");
}

#[test]
fn external_names_are_escaped() {
    let page = series(&factors(18), "<script>alert(1)</script>\"'");
    assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"), "{page}");
}
