//! Output to the terminal: all text is cleaned here.

use crate::{findings::Tone, text};

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text without colours.
    Plain,
    /// Text with ANSI colours.
    Colour,
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
            Self::Dim => Some("2"),
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
        }
    }
}

/// A report in progress.
pub struct Paper {
    style: Style,
    text: String,
}

/// Line width for wrapping, characters.
const WIDTH: usize = 100;

impl Paper {
    pub const fn new(style: Style) -> Self {
        Self { style, text: String::new() }
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

    /// Number of lines so far.
    pub fn lines(&self) -> usize {
        self.text.matches('\n').count()
    }

    /// Appends the lines of another paper.
    pub fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
    }

    /// Text wrapped at words, indented by the width of its head, truncated after `most` lines.
    pub fn paragraph(&mut self, (paint, head): (Paint, &str), text: &str, most: usize) {
        let indent = head.chars().count();
        let mut rows = vec![String::new()];
        for word in text::line(text).split(' ') {
            let row = rows.last_mut().expect("the list has at least one row");
            if row.is_empty() {
                row.push_str(word);
            } else if indent + row.chars().count() + 1 + word.chars().count() <= WIDTH {
                row.push(' ');
                row.push_str(word);
            } else {
                rows.push(word.to_owned());
            }
        }
        if rows.len() > most {
            rows.truncate(most);
            rows.last_mut().expect("there is always a row").push_str(" …");
        }
        for (number, row) in rows.iter().enumerate() {
            let blank = " ".repeat(indent);
            self.line(&[(paint, if number == 0 { head } else { &blank }), (Paint::None, row)]);
        }
    }

    pub fn finish(self) -> String {
        self.text
    }
}
