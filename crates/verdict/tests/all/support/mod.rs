//! The table of docs/VERDICT.md with the results of simulated histories.

pub mod metrics;
pub mod noise;

use std::{
    env,
    fs::OpenOptions,
    io::{Read, Seek, Write},
    path::Path,
};

/// Compares the result for a subject with its row in docs/VERDICT.md; `UPDATE_FIXTURES=1 cargo test -p verdict` rewrites the rows.
#[track_caller]
pub fn found(subject: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/VERDICT.md");
    let update = env::var_os("UPDATE_FIXTURES").is_some();
    let mut file = OpenOptions::new().read(true).write(update).open(path).expect("the page exists");
    if update {
        // Several test programs may write rows at the same time.
        file.lock().expect("a lock");
    }
    let mut page = String::new();
    file.read_to_string(&mut page).expect("the page is text");
    let beginning = format!("| {subject} |");
    let Some(row) = page.lines().find(|line| line.starts_with(&beginning)) else {
        panic!("docs/VERDICT.md has no row `{beginning}`");
    };
    let expected = format!("{beginning} {found} |");
    if update {
        let page = page.replace(row, &expected);
        file.rewind().expect("a file");
        file.set_len(0).expect("a file");
        file.write_all(page.as_bytes()).expect("the page is writable");
    } else {
        assert_eq!(row, expected, "docs/VERDICT.md differs; UPDATE_FIXTURES=1 writes it");
    }
}
