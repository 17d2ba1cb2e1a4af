//! Standard output and standard error. Both may be closed or full at any time; neither may end a run, because a run occupies a cluster.

use std::{
    fmt,
    fs::Permissions,
    io::{self, BufWriter, ErrorKind, IsTerminal, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use indicatif::ProgressBar;
use model::Timestamp;
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

use crate::{
    args::ColourChoice,
    diagnostics::{self, ProblemSeverity},
    exit::{CliError, Exit},
};

/// First failed write to standard output, except a broken pipe.
static LOST: Mutex<Option<io::Error>> = Mutex::new(None);

/// Whether standard output is a pipe whose reader has ended.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output is a broken pipe, which ends a command that prints continuously.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Writes text that this program styled itself, or that contains no external text, to standard output.
pub fn print(text: &str) {
    write_with(|out| out.write_all(text.as_bytes()));
}

/// Writes plain text to standard output, without control characters and escape sequences.
pub fn print_plain(text: &str) {
    print(&report::neutral(text));
}

/// Writes one line of JSON to standard output, piece by piece: a document may be many times as large as its source.
/// Control characters are escaped.
pub fn print_json(value: &impl Serialize) {
    write_with(|out| {
        let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Escaping);
        value.serialize(&mut serializer)?;
        writeln!(out)
    });
}

/// Writes to standard output and stores the first failure for [`finish`].
pub fn write_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut out = BufWriter::new(io::stdout().lock());
    let Err(error) = write(&mut out).and_then(|()| out.flush()) else { return };
    drop(out.into_parts()); // discards the unwritten rest
    // A broken pipe is not an error: the reader has ended.
    if error.kind() == ErrorKind::BrokenPipe {
        CLOSED.store(true, Ordering::Relaxed);
    } else {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// The progress line on standard error; other lines are written above it.
static SPINNER: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Sets the progress line. Without a progress line, lines are written one after another.
pub fn note_above(spinner: Option<ProgressBar>) {
    *SPINNER.lock().unwrap_or_else(PoisonError::into_inner) = spinner;
}

/// Writes one line to standard error. A line that cannot be written is dropped.
pub fn note(line: impl fmt::Display) {
    note_styled(&report::neutral(&line.to_string()));
}

/// Writes one line of text that this program styled itself to standard error.
pub fn note_styled(line: &str) {
    match &*SPINNER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(spinner) => spinner.println(line),
        None => drop(io::stderr().lock().write_all(format!("{line}\n").as_bytes())),
    }
}

/// Exit code of a command after its output. Lost output turns success into an infrastructure failure, unless the command drives
/// a run (`drives`): the result of a run does not depend on its terminal.
pub fn finish(exit: Exit, drives: bool) -> Exit {
    let Some(error) = LOST.lock().unwrap_or_else(PoisonError::into_inner).take() else { return exit };
    note(format_args!("error: cannot write standard output: {error}"));
    if exit == Exit::Pass && !drives { Exit::Infrastructure } else { exit }
}

/// Refuses to replace a device, a pipe or a folder with a file: renaming would replace `/dev/null` for the whole host.
pub fn replaceable(path: &Path) -> Result<(), CliError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() && !found.is_symlink() => Err(CliError::usage(format!(
            "{}: not a regular file, not replaced; name a regular file",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes a file atomically. The draft has a unique name: neighboring files are not touched, no link is followed.
///
/// # Errors
/// Returns an error if the file cannot be written: a usage error, because the caller chose the file.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), CliError> {
    replaceable(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = tempfile::Builder::new().prefix(".burnin-").tempfile_in(folder).and_then(|mut draft| {
        draft.write_all(content)?;
        draft.as_file().set_permissions(Permissions::from_mode(0o644))?;
        draft.persist(path).map_err(|error| error.error)
    });
    written
        .map(drop)
        .map_err(|error| CliError::usage(format!("{}: cannot be written: {error}", path.display())))
}

/// Options of the command line: colours, and whether progress is shown.
static CHOICE: OnceLock<(ColourChoice, bool)> = OnceLock::new();

/// Sets the options; once, before any output.
pub fn choose(colours: ColourChoice, quiet: bool) {
    let _ = CHOICE.set((colours, quiet)); // a second call has the same values
}

/// Whether `--quiet` is given: no progress is shown.
pub fn is_quiet() -> bool {
    CHOICE.get().is_some_and(|(_, quiet)| *quiet)
}

/// Writes a line of progress to standard error, unless `--quiet` is given.
pub fn status(line: impl fmt::Display) {
    if !is_quiet() {
        note(line);
    }
}

pub fn colours(stream: &impl IsTerminal) -> bool {
    match CHOICE.get().map_or(ColourChoice::Auto, |(colours, _)| *colours) {
        ColourChoice::Always => true,
        ColourChoice::Never => false,
        ColourChoice::Auto => {
            stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

/// Format of a report on standard output: colours and the reader's time zone only on a terminal.
pub fn screen() -> report::Screen {
    let out = io::stdout();
    let style = if colours(&out) { report::Style::Colour } else { report::Style::Plain };
    let local = out.is_terminal().then_some(local as fn(Timestamp) -> String);
    let usual = report::Screen::from(style);
    report::Screen { width: width().unwrap_or(usual.width), local, ..usual }
}

/// Default width of a terminal that does not report its width, columns.
const UNSTATED: usize = 80;

/// Columns of standard output, from the variable COLUMNS or the terminal; `None` for a file or a pipe, which has no limit.
pub fn width() -> Option<usize> {
    let positive = |columns: &usize| *columns > 0;
    let stated = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(positive);
    let terminal = |out: io::Stdout| {
        let size = rustix::termios::tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
        size.filter(positive).unwrap_or(UNSTATED)
    };
    stated.or_else(|| Some(io::stdout()).filter(IsTerminal::is_terminal).map(terminal))
}

/// Columns of standard error, if it is a terminal.
pub fn stderr_width() -> Option<usize> {
    let out = io::stderr();
    out.is_terminal().then(|| width().unwrap_or(UNSTATED))
}

/// Text wrapped to the width of standard output; one line in a file or a pipe.
pub fn wrapped(head: &str, text: &str) -> String {
    match width() {
        Some(width) => report::paragraph(head, text, width),
        None => format!("{head}{text}\n"),
    }
}

/// Timestamp in the reader's time zone and in UTC: `2026-11-20 03:00:00 +01:00 (02:00:00 UTC)`.
pub fn local(at: Timestamp) -> String {
    with_utc(at, "%Y-%m-%d %H:%M:%S %:z", "%H:%M:%S")
}

/// Timestamp in the reader's time zone and in UTC, with minute precision. `date`: format of the date.
pub fn local_and_utc(at: Timestamp, date: &str) -> String {
    with_utc(at, &format!("{date} %H:%M"), "%H:%M")
}

/// Timestamp for display: local time and UTC on a terminal, otherwise the exact time in UTC.
pub fn display_time(at: Timestamp) -> String {
    if io::stdout().is_terminal() { local(at) } else { at.to_string() }
}

fn with_utc(at: Timestamp, format: &str, time: &str) -> String {
    let Some(here) = zoned(at) else { return at.to_string() };
    let utc = here.to_utc();
    // A file or a pipe may be read in another time zone.
    if here.offset().local_minus_utc() == 0 || !io::stdout().is_terminal() {
        return format!("{} UTC", utc.format(format.trim_end_matches(" %:z")));
    }
    let day = if utc.date_naive() == here.date_naive() { "" } else { "%m-%d " };
    format!("{} ({} UTC)", here.format(format), utc.format(&format!("{day}{time}")))
}

fn zoned(at: Timestamp) -> Option<chrono::DateTime<chrono::Local>> {
    let utc = chrono::DateTime::from_timestamp_millis(at.as_millis())?;
    Some(utc.with_timezone(&chrono::Local))
}

pub fn report_error(error: &CliError) {
    if error.problems.is_empty() {
        return note(format_args!("error: {}", error.message));
    }
    note_styled(&diagnostics::rendered(&error.problems, ProblemSeverity::Error, colours(&io::stderr())));
    if error.problems.len() > 1 {
        note(format_args!("\nerror: {} problems", error.problems.len()));
    }
}

/// JSON formatter that also escapes C1 controls and bidirectional marks; serde_json escapes only C0.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, found)) = rest.char_indices().find(|(_, c)| report::is_control(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in found.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + found.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    #[test]
    fn json_escapes_characters_that_a_terminal_interprets_and_round_trips() {
        let text = "a\u{1b}[31m\u{9b}2J\u{202e}b\u{e0041}\u{7f}ü\n\"";
        let mut out = Vec::new();
        text.serialize(&mut serde_json::Serializer::with_formatter(&mut out, super::Escaping)).unwrap();
        let json = String::from_utf8(out).unwrap();
        assert!(!json.chars().any(report::is_control), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
