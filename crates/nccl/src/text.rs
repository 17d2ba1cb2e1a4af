//! Parses a log line by line.

use crate::banner;
use crate::classify::{debug, ends_like_row, without_collector};
use crate::clean;
use crate::headerless;
use crate::interleaved;
use crate::layout::{Halves, Layout, placement};
use crate::open_run::{OpenRun, RunPhase};
use crate::phrase::{Phrase, collective, phrases};
use crate::position;
use crate::prefix::{Stripped, strip};
use crate::row::{Beginning, Filled, Gap, Partial, RowContext};
use crate::scan::{is_blank, text};
use crate::tables::Tables;
use model::measurement::{Device, Reading};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Maximum length of a displayed failure line, bytes.
const SHOWN: usize = 1024;
/// Number of bytes after a phrase that are evaluated. Without a limit, a line of many phrases would be read
/// once per phrase.
const BEGINNING: usize = 1024;
/// Maximum length of a constant prefix, bytes.
const PREFIX: usize = 160;
/// Maximum number of incomplete rows, one per process.
const MAX_STARTED: usize = 256;

/// Reads a log line by line.
#[derive(Default)]
pub(crate) struct TextReader {
    tables: Tables,
    /// Incomplete rows.
    started: Vec<StartedRow>,
    /// Placement named by the last line above a header, and its line number.
    placement: Option<(u64, Halves)>,
    /// Unknown text before the `#` of a run's first lines; the same text precedes the rows of the run.
    constant: Vec<u8>,
    number: u64,
    scratch: Vec<u8>,
}

/// A row whose remaining pieces follow later.
struct StartedRow {
    stream: u64,
    run: usize,
    partial: Partial,
}

/// A line with its prefixes removed, and whether it is terminated.
#[derive(Clone, Copy)]
struct LineParts<'a> {
    output: &'a [u8],
    rest: &'a [u8],
    stream: u64,
    ended: bool,
}

impl TextReader {
    /// Processes one line without its newline. `ended` is false for an unterminated last line.
    pub(crate) fn line(&mut self, raw: &[u8], ended: bool) {
        self.number += 1;
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        // Most lines of a long log are NCCL debug messages: detect them first.
        if let Some(output) = debug(raw)
            && !ends_like_row(raw, 4)
        {
            return self.debug(output, 0);
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let line = clean::clean(raw, &mut scratch);
        let plain = position::without_positions(line);
        let line = plain.as_deref().unwrap_or(line);
        match clean::threads(line) {
            None => self.stripped(strip(line), ended),
            Some(threads) => {
                for thread in threads {
                    self.stripped(strip(&thread), ended);
                }
            }
        }
        self.scratch = scratch;
    }

    /// Ends the log. `damage` describes a problem of the file itself.
    pub(crate) fn finish(mut self, damage: Option<String>) -> Reading {
        for started in std::mem::take(&mut self.started) {
            self.abandon_row(started);
        }
        self.tables.finish(damage)
    }

    fn stripped(&mut self, stripped: Stripped<'_>, ended: bool) {
        let Stripped { mut output, mut rest, stream } = stripped;
        if let Some(after) = rest.strip_prefix(&self.constant[..]) {
            output = if output.len() == rest.len() { after } else { output };
            rest = after;
        }
        let line = LineParts { output, rest, stream, ended };
        if let Some(output) = debug(rest)
            && !ends_like_row(rest, 4)
        {
            return self.debug(output, stream);
        }
        let Some(start) = rest.iter().position(|&byte| !is_blank(byte) && byte != b'#') else { return };
        let taken = if rest[start].is_ascii_digit() { self.numbers(line, start) } else { None };
        let taken = taken.or_else(|| {
            // The line may contain a row after an unknown prefix.
            let at = ends_like_row(rest, 2).then(|| headerless::anchor(rest))??;
            self.row(line, at, Beginning::Unknown)
        });
        match taken {
            None => self.phrases(line),
            Some(at) if at < rest.len() => {
                // Output joined to a row is processed as a separate line, without the row.
                let glued = &rest[at..];
                match debug(glued) {
                    Some(output) => self.debug(output, stream),
                    None => self.phrases(LineParts { output: glued, rest: glued, ..line }),
                }
            }
            Some(_) => {}
        }
    }

    /// Processes an NCCL debug message: only a version is used.
    fn debug(&mut self, output: &[u8], stream: u64) {
        if let Some(rest) =
            output.strip_prefix(b"NCCL version ").or_else(|| output.strip_prefix(b"RCCL version "))
            && let Some(version) = banner::printed_version(rest)
        {
            self.tables.library(stream, version);
        }
    }

    /// Processes a line of numbers: a row, or halves of an earlier row. Returns the position after the parsed part.
    fn numbers(&mut self, line: LineParts<'_>, start: usize) -> Option<usize> {
        self.row(line, start, Beginning::Known).or_else(|| self.halves(line, start))
    }

    fn row(&mut self, line: LineParts<'_>, start: usize, beginning: Beginning) -> Option<usize> {
        let Some(run) = self.tables.newest_open(line.stream, |run| run.layout.is_some()) else {
            return self.headerless_row(line, start);
        };
        let table = &self.tables.runs[run];
        let layout = Rc::clone(table.layout.as_ref()?);
        let context = RowContext { layout: &layout, hosts: &table.hosts, ended: line.ended, strict: false };
        let mut partial = Partial::default();
        let at = context.left(&mut partial.row, line.rest, start, beginning)?;
        let joined = line.rest.get(at).is_some_and(|&byte| !is_blank(byte));
        let gap = if joined { Gap::Output } else { Gap::Blanks };
        let filled = context.fill(&mut partial, line.rest, at, gap);
        if partial.filled == 0 && !interleaved::TYPES.contains(&partial.row.dtype.as_str()) {
            // Without a known data type the line is not a row: many other lines also begin with two numbers and a word.
            return None;
        }
        let kept = line.ended || (partial.filled > 0 && context.adds_up(line.rest, at, &partial, gap));
        // An earlier row of the same process is final.
        self.replace(line.stream);
        match filled {
            Filled::Whole(at) => {
                self.tables.push(run, partial.row);
                Some(at)
            }
            Filled::Short(end) => {
                let row = StartedRow { stream: line.stream, run, partial };
                match kept {
                    true if self.started.len() < MAX_STARTED => self.started.push(row),
                    true => self.abandon_row(row),
                    false => {}
                }
                Some(end)
            }
            Filled::TooMuch => Some(line.rest.len()),
        }
    }

    /// A row without a header; accepted only if complete and unambiguous.
    fn headerless_row(&mut self, line: LineParts<'_>, start: usize) -> Option<usize> {
        let layout = headerless::infer(line.rest, start)?;
        let context =
            RowContext { layout: &layout, hosts: &BTreeSet::new(), ended: line.ended, strict: true };
        let mut partial = Partial::default();
        let at = context.left(&mut partial.row, line.rest, start, Beginning::Unknown)?;
        let Filled::Whole(at) = context.fill(&mut partial, line.rest, at, Gap::Blanks) else { return None };
        let run = self.tables.headerless(line.stream);
        self.tables.push(run, partial.row);
        Some(at)
    }

    fn halves(&mut self, line: LineParts<'_>, start: usize) -> Option<usize> {
        let of = |started: &StartedRow| started.stream == line.stream;
        let at = self.started.iter().rposition(of).or((self.started.len() == 1).then_some(0))?;
        let started = &mut self.started[at];
        let run = &self.tables.runs[started.run];
        let layout = Rc::clone(run.layout.as_ref()?);
        let context = RowContext { layout: &layout, hosts: &run.hosts, ended: line.ended, strict: true };
        let before = started.partial.filled;
        let filled = context.resume(&mut started.partial, line.rest, start);
        match filled {
            Filled::Whole(end) => {
                let started = self.started.swap_remove(at);
                self.tables.push(started.run, started.partial.row);
                Some(end)
            }
            Filled::Short(end) if started.partial.filled > before => Some(end),
            _ => None,
        }
    }

    /// The process continued: the rest of its last row will not follow.
    fn replace(&mut self, stream: u64) {
        if let Some(at) = self.started.iter().position(|started| started.stream == stream) {
            let started = self.started.swap_remove(at);
            self.abandon_row(started);
        }
    }

    /// Keeps the measured part of an abandoned row, or counts the row.
    fn abandon_row(&mut self, StartedRow { run, partial, .. }: StartedRow) {
        let Some(layout) = self.tables.runs[run].layout.clone() else { return };
        match partial.into_partial_row(&layout) {
            Some(row) => self.tables.push(run, row),
            None => self.tables.runs[run].table.unmeasured += 1,
        }
    }

    fn abandon_rows_of(&mut self, run: usize) {
        while let Some(at) = self.started.iter().position(|started| started.run == run) {
            let started = self.started.swap_remove(at);
            self.abandon_row(started);
        }
    }

    fn phrases(&mut self, line: LineParts<'_>) {
        let mut named = None;
        let dots = line.output.trim_ascii_end().ends_with(b"...");
        for (phrase, start, end) in phrases(line.output) {
            let from = beginning(&line.output[start..]);
            let rest = from.get(end - start..).unwrap_or_default();
            match phrase {
                Phrase::Failure | Phrase::LastError | Phrase::Warning | Phrase::Hint => {
                    self.add_note(phrase, line, rest);
                    // The rest of the message is irrelevant.
                    return;
                }
                Phrase::Cut => {
                    self.tables.cut();
                    return;
                }
                Phrase::OutOfBounds => self.out_of_bounds(line, rest),
                Phrase::Average => self.average(line, rest),
                Phrase::Program => {
                    let Some(name) = collective(line.output, start) else { continue };
                    match named {
                        Some(run) => {
                            let run: &mut OpenRun = &mut self.tables.runs[run];
                            run.table.collective.get_or_insert_with(|| name.to_owned());
                        }
                        None => self.tables.program(name),
                    }
                }
                // The other phrases require complete lines: a truncated version number is another version number.
                _ if !line.ended => {}
                Phrase::Version => {
                    let run = self.tables.run_for(RunPhase::Version, line.stream);
                    let table = &mut self.tables.runs[run].table;
                    let (tests, library) = banner::versions(from);
                    table.nccl_tests_version = tests;
                    table.nccl_version = library.or(table.nccl_version.take());
                }
                Phrase::Starting => {
                    self.learn_prefix(line);
                    let run = self.tables.run_for(RunPhase::Starting, line.stream);
                    self.tables.runs[run].table.collective = None;
                    named = Some(run);
                }
                Phrase::Concluded => named = self.tables.newest(line.stream),
                Phrase::Banner if memchr::memmem::find(rest, b"minBytes").is_some() => {
                    self.learn_prefix(line);
                    self.tables.run_for(RunPhase::Banner, line.stream);
                }
                Phrase::Devices => {
                    self.learn_prefix(line);
                    self.tables.run_for(RunPhase::Devices, line.stream);
                }
                // Rank lines of a process are truncated at 2048 bytes: they then end in dots, and the last
                // ones are missing.
                Phrase::Rank if dots => {
                    if let Some(run) = self.tables.newest_open(line.stream, |_| true) {
                        self.tables.runs[run].ranks_missing = true;
                    }
                }
                Phrase::Rank => self.rank(line.stream, banner::rank(from)),
                Phrase::OldRank => self.rank(line.stream, banner::old_rank(from.trim_ascii_start())),
                Phrase::Placement if line.rest.len() > BEGINNING => {}
                Phrase::Placement => {
                    self.placement =
                        placement(line.rest).map(|halves| (self.number, halves)).or(self.placement);
                }
                Phrase::Header => {
                    self.header(line);
                    return;
                }
                Phrase::Library => {
                    if let Some(version) = banner::printed_version(rest) {
                        self.tables.library(line.stream, version);
                    }
                }
                Phrase::Banner => {}
            }
        }
    }

    /// Records the text before the `#` of a run's first line.
    fn learn_prefix(&mut self, line: LineParts<'_>) {
        let Some(hash) = memchr::memchr(b'#', &line.rest[..line.rest.len().min(PREFIX)]) else { return };
        if line.rest[..hash].iter().any(|&byte| !is_blank(byte)) {
            self.constant.clear();
            self.constant.extend_from_slice(&line.rest[..hash]);
        }
    }

    fn add_note(&mut self, phrase: Phrase, line: LineParts<'_>, rest: &[u8]) {
        let number = self.number;
        let show = || text(without_collector(line.output), SHOWN);
        if phrase == Phrase::LastError && rest.iter().all(|&byte| is_blank(byte)) {
            return;
        }
        let (notes, budget) = self.tables.notes(line.stream);
        match phrase {
            Phrase::Warning => notes.warn(number, show, budget),
            Phrase::Hint => notes.hint(number, show, budget),
            _ => {
                notes.fail(number, show, budget);
                if let Some(run) = self.tables.newest_open(line.stream, |_| true) {
                    self.abandon_rows_of(run);
                }
            }
        }
    }

    fn header(&mut self, line: LineParts<'_>) {
        let placement =
            self.placement.filter(|(number, _)| number + 3 > self.number).map(|(_, halves)| halves);
        let Some(layout) = Layout::from_header(line.rest, placement) else { return };
        self.learn_prefix(line);
        let run = self.tables.run_for(RunPhase::Header, line.stream);
        self.tables.runs[run].layout = Some(Rc::new(layout));
    }

    fn rank(&mut self, stream: u64, device: Option<Device>) {
        let Some(device) = device else { return };
        let run = self.tables.run_for(RunPhase::Rank, stream);
        let kept = self.tables.device(run, device);
        self.tables.runs[run].ranks_missing |= !kept;
    }

    fn out_of_bounds(&mut self, line: LineParts<'_>, rest: &[u8]) {
        let Some(found) = banner::out_of_bounds(rest) else { return };
        let Some(run) = self.summarised(line.stream, |run| run.table.out_of_bounds.is_none()) else { return };
        self.abandon_rows_of(run);
        let run = &mut self.tables.runs[run];
        run.table.out_of_bounds = Some(found);
        run.notes.summary_failed |= !found.ok;
    }

    fn average(&mut self, line: LineParts<'_>, rest: &[u8]) {
        let Some(found) = banner::average(rest, line.ended) else { return };
        // Concurrent programs print both lines of a summary before they end.
        let bounded = self.tables.newest_open(line.stream, |run| run.table.out_of_bounds.is_some());
        let Some(run) = bounded.or_else(|| self.summarised(line.stream, |_| true)) else { return };
        self.abandon_rows_of(run);
        self.tables.complete(run, found.value);
        self.tables.runs[run].notes.summary_failed |= found.failed;
    }

    /// The run of a summary line. A repeated summary is a copy of the first one and is ignored. In a log without a run, the summary is the
    /// only line that remains of a run.
    fn summarised(&mut self, stream: u64, fits: impl Fn(&OpenRun) -> bool) -> Option<usize> {
        match self.tables.newest_open(stream, fits) {
            Some(run) => Some(run),
            None => self.tables.runs.is_empty().then(|| self.tables.headerless(stream)),
        }
    }
}

/// The beginning of a text, without a truncated word.
fn beginning(text: &[u8]) -> &[u8] {
    let Some(near) = text.get(..BEGINNING) else { return text };
    let end = near.iter().rposition(|&byte| is_blank(byte)).map_or(0, |at| at + 1);
    &text[..end]
}
