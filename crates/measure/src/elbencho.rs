//! elbencho: the files of `--csvfile` and `--jsonfile`.
//!
//! The files have no end mark. The command of a check appends one.

use model::{
    measurement::LogEnd,
    metric::{Better, Scope},
};

use crate::{
    format::{Format, Known, Reader},
    json::{Documents, Value},
    lines::{Line, Lines},
    out::{Out, Put, short},
};

const BANDWIDTH: Known = Known::new(
    "elbencho.<operation>.bandwidth",
    "MiB/s",
    Better::Higher,
    Scope::World,
    "Bandwidth until the last thread ended; labels `label`, `block` and `file` (sizes in bytes) where printed",
);
const OPERATIONS: Known = Known::new(
    "elbencho.<operation>.iops",
    "1/s",
    Better::Higher,
    Scope::World,
    "Operations per second until the last thread ended",
);
const ENTRIES: Known = Known::new(
    "elbencho.<operation>.entries",
    "1/s",
    Better::Higher,
    Scope::World,
    "Files or folders per second until the last thread ended",
);
const LATENCY: Known = Known::new(
    "elbencho.<operation>.latency",
    "us",
    Better::Lower,
    Scope::World,
    "Average latency of an operation",
);

pub(crate) const FORMAT: Format = Format {
    name: "elbencho",
    programs: "elbencho 2 and 3, `--csvfile` and `--jsonfile`",
    end: "a line `-- end of elbencho --`, which the command of the check appends to the file",
    unread: "times, processor use, totals, and the columns of the first thread",
    metrics: &[BANDWIDTH, OPERATIONS, ENTRIES, LATENCY],
    findings: &[],
    marks: &[&["ISO date", "operation", "MiB/s [last]"]],
    reader: Reader::Lines(|| Box::<Elbencho>::default()),
};

/// Maximum number of columns; the program writes about 70.
const COLUMNS: usize = 128;
const METRICS: [(&str, &Known); 4] = [
    ("MiB/s [last]", &BANDWIDTH),
    ("IOPS [last]", &OPERATIONS),
    ("entries/s [last]", &ENTRIES),
    ("IO lat us [avg]", &LATENCY),
];
const LABELS: [(&str, &str); 3] = [("label", "label"), ("block size", "block"), ("file size", "file")];

#[derive(Default)]
struct Elbencho {
    json: Documents,
    header: Vec<String>,
    rows: u64,
    ended: bool,
    broken: bool,
}

impl Lines for Elbencho {
    fn line(&mut self, line: Line<'_>, out: &mut Out) {
        let mut json = std::mem::take(&mut self.json);
        let taken = json.line(line, b"{", out, |root, out| self.document(root, out));
        self.json = json;
        if taken {
            return;
        }
        let text = line.text.trim();
        if text == "-- end of elbencho --" {
            self.ended = self.rows > 0;
        } else if text.starts_with("ISO date,") {
            self.header = cells(text).into_iter().take(COLUMNS).map(|cell| short(&cell).to_owned()).collect();
            self.broken |= !line.whole;
        } else if !self.header.is_empty() {
            let cells = cells(text);
            if cells.len() != self.header.len() || !line.whole {
                self.broken = true;
                return;
            }
            self.ended = false;
            let header = std::mem::take(&mut self.header);
            let cell = |name: &str| Some(cells[header.iter().position(|column| column == name)?].clone());
            self.row(&cell, |_| line.number, out);
            self.header = header;
        }
    }

    fn finish(&mut self, _: &mut Out) -> LogEnd {
        let ended = if self.ended && !self.broken {
            LogEnd::Complete
        } else if self.rows > 0 || !self.header.is_empty() {
            LogEnd::Truncated
        } else {
            LogEnd::Empty
        };
        self.json.finish(ended)
    }
}

impl Elbencho {
    fn document(&mut self, root: Value<'_>, out: &mut Out) -> LogEnd {
        if root.get("operation").is_none() {
            return LogEnd::Empty;
        }
        self.ended = false;
        let cell = |name: &str| root.get_text(name).map(std::borrow::Cow::into_owned);
        self.row(&cell, |name| root.get(name).map_or(0, Value::line), out);
        LogEnd::Empty
    }

    fn row(&mut self, cell: &dyn Fn(&str) -> Option<String>, line: impl Fn(&str) -> u64, out: &mut Out) {
        let operation = cell("operation").unwrap_or_default().to_ascii_lowercase();
        let operation: String =
            operation.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if operation.is_empty() {
            self.broken = true;
            return;
        }
        if let Some(version) = cell("version") {
            out.version(&version);
        }
        for (column, known) in METRICS {
            let Some(value) = cell(column).filter(|value| !value.is_empty()) else { continue };
            self.rows += 1;
            let mut put: Put<'_> = out.put(known).name(&known.name.replace("<operation>", short(&operation)));
            for (column, label) in LABELS {
                if let Some(value) = cell(column).filter(|value| !value.is_empty()) {
                    put = put.label(label, &value);
                }
            }
            put.read(&value, line(column));
        }
    }
}

/// The cells of a line of CSV.
fn cells(text: &str) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}
