//! The one place where text reaches the terminal, so that nothing reaches it uncleaned.

use crate::{findings::Tone, text};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text alone.
    Plain,
    /// Text with ANSI colours.
    Colour,
}

/// How a piece of a line looks.
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
    /// The tone without colour.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Unsure => "!",
            Self::Busy => "…",
        }
    }
}

/// A report being written.
pub struct Paper {
    style: Style,
    text: String,
}

/// Where words are wrapped, characters.
const WIDTH: usize = 100;

impl Paper {
    pub const fn new(style: Style) -> Self {
        Self { style, text: String::new() }
    }

    /// An empty line, never two.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// One line. Spaces at the ends of a piece are layout and stay.
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

    /// Lines written so far.
    pub fn lines(&self) -> usize {
        self.text.matches('\n').count()
    }

    /// What another paper says, behind this one's.
    pub fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
    }

    /// Text wrapped between words, indented as far as its head is wide, cut after so many lines.
    pub fn paragraph(&mut self, (paint, head): (Paint, &str), text: &str, most: usize) {
        let indent = head.chars().count();
        let mut rows = vec![String::new()];
        for word in text::line(text).split(' ') {
            let row = rows.last_mut().expect("there is always a row");
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
