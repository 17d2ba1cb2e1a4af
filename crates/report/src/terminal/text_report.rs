//! Output to the terminal: all text is cleaned here.

use model::Timestamp;

use crate::{findings::Tone, text};

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text without colours.
    Plain,
    /// Text with ANSI colours.
    Colour,
}

/// Properties of the output that shows a report.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    /// Text with or without colours.
    pub style: Style,
    /// Maximum width of a line, columns. Only text for copying, such as a path, may be wider.
    pub width: usize,
    /// Formats a time in the reader's time zone together with UTC; `None` for UTC only, as in a file.
    pub local: Option<fn(Timestamp) -> String>,
    /// Whether the stages of a run are shown; `false` if the screen already shows the progress of the run.
    pub stages: bool,
}

/// Width without a terminal, and the narrowest supported one, columns.
const USUAL: usize = 104;
const NARROWEST: usize = 40;

impl Screen {
    /// Width for wrapping and tables.
    pub(crate) fn columns(self) -> usize {
        self.width.max(NARROWEST)
    }

    /// A time in the reader's time zone together with UTC, or in UTC only.
    pub(crate) fn time(self, at: Timestamp) -> String {
        self.local.map_or_else(|| text::utc(at), |local| local(at))
    }
}

/// A file or a pipe: 104 columns, UTC.
impl From<Style> for Screen {
    fn from(style: Style) -> Self {
        Self { style, width: USUAL, local: None, stages: true }
    }
}

/// Style of a piece of a line.
#[derive(Clone, Copy)]
pub enum Paint {
    None,
    Bold,
    Dim,
    Tone(Tone),
}

impl From<Tone> for Paint {
    fn from(tone: Tone) -> Self {
        Self::Tone(tone)
    }
}

impl Paint {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Bold => Some("1"),
            Self::Dim | Self::Tone(Tone::Excluded) => Some("2"),
            Self::Tone(Tone::Good) => Some("32"),
            Self::Tone(Tone::Bad) => Some("1;31"),
            Self::Tone(Tone::Unsure) => Some("33"),
            Self::Tone(Tone::Busy) => Some("36"),
        }
    }
}

impl Tone {
    /// A sign for the tone, readable without colour.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Unsure => "!",
            Self::Busy => "…",
            Self::Excluded => "-",
        }
    }
}

pub struct TextReport {
    style: Style,
    /// Maximum width of a line, columns.
    width: usize,
    text: String,
}

impl TextReport {
    pub fn new(screen: Screen) -> Self {
        Self { style: screen.style, width: screen.columns(), text: String::new() }
    }

    pub const fn width(&self) -> usize {
        self.width
    }

    /// Adds an empty line, never two in a row.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Adds one line. Spaces at the ends of a piece are layout and are kept.
    pub fn line(&mut self, pieces: &[(Paint, &str)]) {
        for (paint, piece) in pieces {
            let piece = text::block(piece).replace('\n', " ");
            match paint.code().filter(|_| self.style == Style::Colour && !piece.trim().is_empty()) {
                Some(code) => self.text.push_str(&format!("\u{1b}[{code}m{piece}\u{1b}[0m")),
                None => self.text.push_str(&piece),
            }
        }
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    /// Number of written lines.
    pub fn lines(&self) -> usize {
        self.text.matches('\n').count()
    }

    /// Appends the lines of another report.
    pub fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
    }

    /// Text wrapped at words, indented by the width of its head, truncated after `most` lines.
    pub fn paragraph(&mut self, (paint, head): (Paint, &str), text: &str, most: usize) {
        let indent = head.chars().count();
        let mut rows = vec![String::new()];
        let line = text::single_line(text);
        for word in words(&line) {
            let row = rows.last_mut().expect("the list has at least one row");
            if row.is_empty() {
                row.push_str(&word);
            } else if indent + row.chars().count() + 1 + word.chars().count() <= self.width {
                row.push(' ');
                row.push_str(&word);
            } else {
                rows.push(word);
            }
        }
        if rows.len() > most {
            rows.truncate(most);
            rows.last_mut().expect("the list has at least one row").push_str(" …");
        }
        for (number, row) in rows.iter().enumerate() {
            let blank = " ".repeat(indent);
            self.line(&[(paint, if number == 0 { head } else { &blank }), (Paint::None, row)]);
        }
    }

    /// Wrapped text in one style, indented by two.
    pub fn painted(&mut self, paint: Paint, text: &str) {
        self.painted_after("  ", paint, text);
    }

    /// Wrapped text in one style, without an indent.
    pub fn lines_in(&mut self, paint: Paint, text: &str) {
        self.painted_after("", paint, text);
    }

    fn painted_after(&mut self, indent: &str, paint: Paint, text: &str) {
        let mut plain = Self { style: Style::Plain, width: self.width, text: String::new() };
        plain.paragraph((Paint::None, indent), text, usize::MAX);
        for line in plain.text.lines() {
            self.line(&[(paint, line)]);
        }
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// Text wrapped at words to a width, indented by the width of its head.
#[must_use]
pub fn paragraph(head: &str, text: &str, width: usize) -> String {
    let mut text_report =
        TextReport { style: Style::Plain, width: width.max(NARROWEST), text: String::new() };
    text_report.paragraph((Paint::None, head), text, usize::MAX);
    text_report.finish()
}

/// The words of a line; a number and its unit are one word.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split(' ') {
        let unit = word.trim_end_matches([',', ';', '.', ')', ':']);
        let is_unit = matches!(unit, "%" | "GB/s" | "B" | "KiB" | "MiB" | "GiB" | "µs" | "ms" | "s");
        let joins = |last: &&mut String| {
            let of_number = is_unit && last.ends_with(|c: char| c.is_ascii_digit());
            // `11m 40s`
            of_number || is_span(last, "dhm") && is_span(unit, "hms")
        };
        match words.last_mut().filter(joins) {
            Some(last) => *last += &format!(" {word}"),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// Whether a word is a number followed by one of these units.
fn is_span(word: &str, units: &str) -> bool {
    let number = word.trim_end_matches(|c| units.contains(c));
    number.len() + 1 == word.len() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_number_is_not_separated_from_its_unit() {
        assert_eq!(words("below 356.2 GB/s, 57 % lower"), ["below", "356.2 GB/s,", "57 %", "lower"]);
        assert_eq!(words("at most 11m 40s. If"), ["at", "most", "11m 40s.", "If"]);
    }
}
