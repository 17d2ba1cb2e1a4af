//! Writes the page of every kind of run into a folder, to be looked at: `cargo run -p report --example pages -- DIR`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{env, fs, io, path::PathBuf};

use support::{Run, cancelled, good, logs, long, slow, unbuilt, workflow};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    fs::create_dir_all(&folder)?;
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
        fs::write(folder.join(format!("{name}.html")), report::html(&run.story()))?;
        println!("{}", report::terminal(&run.story(), report::Style::Colour));
    }
    for (name, logs) in [("bad", logs::bad()), ("healthy", logs::healthy()), ("several", logs::several())] {
        let story = logs.story();
        fs::write(folder.join(format!("{name}.html")), report::html(&story))?;
        fs::write(folder.join(format!("{name}.md")), report::markdown(&story))?;
        fs::write(folder.join(format!("{name}.xml")), report::junit(&story))?;
        fs::write(folder.join(format!("{name}.csv")), report::csv(&story))?;
        println!("{}", report::terminal(&story, report::Style::Colour));
    }
    Ok(())
}
