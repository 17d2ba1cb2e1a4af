//! Writes the page of every kind of run, for inspection:
//! `PAGES=DIR cargo test -p report pages:: -- --ignored`.

use std::{env, fs, path::PathBuf};

use crate::support::{Run, cancelled, good, logs, long, slow, unbuilt, workflow};

#[test]
#[ignore = "writes files for a person into the folder PAGES"]
fn pages_of_all_kinds_of_runs_are_written() {
    let folder = PathBuf::from(env::var_os("PAGES").expect("PAGES names a folder"));
    fs::create_dir_all(&folder).unwrap();
    let mut running = Run::open(workflow());
    running.built().up();
    for (name, run) in [
        ("good", good()),
        ("slow", slow()),
        ("long", long()),
        ("unbuilt", unbuilt()),
        ("cancelled", cancelled()),
        ("running", running),
    ] {
        fs::write(folder.join(format!("{name}.html")), report::html(&run.story())).unwrap();
        println!("{}", report::terminal(&run.story(), report::Style::Colour));
    }
    for (name, logs) in [("bad", logs::bad()), ("healthy", logs::healthy()), ("several", logs::several())] {
        let story = logs.story();
        fs::write(folder.join(format!("{name}.html")), report::html(&story)).unwrap();
        fs::write(folder.join(format!("{name}.md")), report::markdown(&story)).unwrap();
        fs::write(folder.join(format!("{name}.xml")), report::junit(&story)).unwrap();
        fs::write(folder.join(format!("{name}.csv")), report::csv(&story)).unwrap();
        println!("{}", report::terminal(&story, report::Style::Colour));
    }
}
