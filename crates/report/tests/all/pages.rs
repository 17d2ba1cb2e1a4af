//! Writes the page of every kind of run, for inspection:
//! `PAGES=DIR cargo test -p report pages:: -- --ignored`.

use std::{env, fs, path::PathBuf};

use crate::support::{RecordedRun, cancelled, good, logs, long, slow, unbuilt, workflow};

#[test]
#[ignore = "writes files for a person into the folder PAGES"]
fn pages_of_all_kinds_of_runs_are_written() {
    let folder = PathBuf::from(env::var_os("PAGES").expect("PAGES names a folder"));
    fs::create_dir_all(&folder).unwrap();
    let mut running = RecordedRun::open(workflow());
    running.built().up();
    for (name, run) in [
        ("good", good()),
        ("slow", slow()),
        ("long", long()),
        ("unbuilt", unbuilt()),
        ("cancelled", cancelled()),
        ("running", running),
    ] {
        fs::write(folder.join(format!("{name}.html")), report::html(&run.input())).unwrap();
        println!("{}", report::terminal(&run.input(), report::Style::Colour));
    }
    for (name, logs) in [("bad", logs::bad()), ("healthy", logs::healthy()), ("several", logs::several())] {
        let input = logs.input();
        fs::write(folder.join(format!("{name}.html")), report::html(&input)).unwrap();
        fs::write(folder.join(format!("{name}.md")), report::markdown(&input)).unwrap();
        fs::write(folder.join(format!("{name}.xml")), report::junit(&input)).unwrap();
        fs::write(folder.join(format!("{name}.csv")), report::csv(&input)).unwrap();
        println!("{}", report::terminal(&input, report::Style::Colour));
    }
}
