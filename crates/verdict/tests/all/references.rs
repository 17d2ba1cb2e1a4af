//! The table in `docs/REFERENCES.md` equals the list of the library.

#![expect(clippy::disallowed_methods, reason = "tests read files and settings")]

use std::{env, fmt::Write as _, fs, path::Path};

use verdict::REFERENCES;

const INTRODUCTION: &str = "\
# References of devices

This page lists the values that a healthy device of each kind reaches. `device_reference` in the criteria of a metric uses them
([CHECKS.md](CHECKS.md#benchmarks-other-than-nccl-tests)). The label `device` or the log names the device. Variants of a chip with
another board, memory or power limit reach other values and are not compared; a value without a comparable reference is
inconclusive. A test compares this page with the library (`UPDATE_FIXTURES=1 cargo test -p verdict references::` rewrites it).

Rates of matrix products are the best of all shapes: criteria for them name a large shape in `labels`.

| device | metric | labels | value | source |
|---|---|---|---|---|
";

#[test]
fn the_page_lists_the_library() {
    let mut page = INTRODUCTION.to_owned();
    for it in REFERENCES {
        let labels: Vec<_> = it.labels.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let (labels, value) = (labels.join(", "), it.value);
        _ = writeln!(
            page,
            "| {} | `{}` | {labels} | {value} {} | {} |",
            it.device, it.metric, it.unit, it.source
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/REFERENCES.md");
    if env::var_os("UPDATE_FIXTURES").is_some() {
        fs::write(&path, &page).expect("the page is writable");
    }
    let written = fs::read_to_string(&path).expect("docs/REFERENCES.md");
    assert!(written == page, "docs/REFERENCES.md differs from the library; UPDATE_FIXTURES=1 writes it");
}
