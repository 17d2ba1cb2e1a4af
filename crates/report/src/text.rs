//! Sanitizes external text, and formats values for display.

pub use model::measurement::size;

use std::iter::Peekable;
use std::str::Chars;

pub use model::count;
use model::{Span, Timestamp};

/// Maximum length of quoted text, characters. The ledger has the rest.
const LONGEST: usize = 2000;

/// One line without characters that a terminal or a browser would interpret.
pub fn single_line(text: &str) -> String {
    block(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text without characters that a terminal or a browser would interpret, with its line breaks.
pub fn block(text: &str) -> String {
    let clean = neutral(text);
    match clean.char_indices().nth(LONGEST) {
        Some((end, _)) => clean[..end].to_owned() + "…",
        None => clean,
    }
}

/// Text of any length without escape sequences, controls (C0 and C1) and marks that reorder or hide adjacent
/// text. Line breaks are kept, tabs become spaces.
#[must_use]
pub fn neutral(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            '\t' => clean.push(' '),
            '\n' => clean.push('\n'),
            c if is_control(c) => {}
            c => clean.push(c),
        }
    }
    clean
}

/// At most `width` characters of one line.
pub fn shortened(text: &str, width: usize) -> String {
    let text = single_line(text);
    if text.chars().count() <= width {
        return text;
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short + "…"
}

/// The first `width` characters of a line; spaces are kept, because they align columns.
#[must_use]
pub fn shortened_line(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        Some(_) => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => line.to_owned(),
    }
}

/// The end of one line, at most `width` characters, because similar paths usually differ at the end.
#[must_use]
pub fn ending(text: &str, width: usize) -> String {
    let text = single_line(text);
    let count = text.chars().count();
    if count <= width {
        return text;
    }
    let end: String = text.chars().skip(count - width.saturating_sub(1)).collect();
    format!("…{}", end.trim_start())
}

/// Whether a character has an effect: controls, and marks that reorder or hide adjacent text.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Skips an escape sequence after its ESC: its other characters are printable, so `ESC [31m` would leave `[31m` in the
/// text.
fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control_sequence(chars);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars),
        Some('@'..='~') => {
            chars.next();
        }
        _ => {}
    }
}

/// After `ESC [`: parameter bytes, intermediate bytes, and one final byte.
fn skip_control_sequence(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// A string command ends at BEL or `ESC \`. An unterminated one must not remove the following text.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    let mut ahead = chars.clone();
    while let Some(c) = ahead.next() {
        let ends = match c {
            '\u{7}' | '\u{9c}' => true,
            '\u{1b}' => ahead.next_if_eq(&'\\').is_some(),
            _ => false,
        };
        if ends {
            *chars = ahead;
            return;
        }
    }
}

/// A value with two decimals, as nccl-tests prints bandwidth.
pub fn figure(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "n/a".to_owned() }
}

/// A duration in at most two units, which suffice for a comparison: `420ms`, `12.3s`, `3m 05s`, `1h 02m`.
pub fn duration(span: Span) -> String {
    let millis = span.0.as_millis();
    let seconds = (millis + 500) / 1000;
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..59_950 => format!("{:.1}s", millis as f64 / 1e3),
        59_950..3_599_500 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A time as `2026-11-20 02:00:00 UTC`.
pub fn utc(at: Timestamp) -> String {
    let exact = at.to_string();
    match exact.get(..19) {
        Some(start) if exact.ends_with('Z') => format!("{} UTC", start.replace('T', " ")),
        _ => exact,
    }
}

/// The first 12 digits of a digest, with its algorithm.
pub fn short_digest(digest: &str) -> String {
    let (algorithm, hex) = digest.split_once(':').unwrap_or(("", digest));
    let hex: String = hex.chars().take(12).collect();
    if algorithm.is_empty() { hex } else { format!("{algorithm}:{hex}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_readable_units() {
        let texts =
            [0, 8, 1000, 1024, 1536, 65_536, 1 << 20, (1 << 20) + 4, 16 << 20, 8 << 30, u64::MAX].map(size);
        let expected = [
            "0 B", "8 B", "1000 B", "1 KiB", "1.5 KiB", "64 KiB", "1 MiB", "1.0 MiB", "16 MiB", "8 GiB",
            "16.0 EiB",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn spans_show_two_units() {
        let texts = [0, 999, 1000, 12_340, 59_949, 59_950, 185_000, 3_599_499, 3_599_500, 360_000_000]
            .map(|millis| duration(Span::from_millis(millis)));
        assert_eq!(
            texts,
            ["0ms", "999ms", "1.0s", "12.3s", "59.9s", "1m 00s", "3m 05s", "59m 59s", "1h 00m", "100h 00m"]
        );
    }

    #[test]
    fn control_characters_are_removed() {
        for (hostile, harmless) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;x\u{1b}\\link", "link"),
            ("\u{1b}]never ends", "]never ends"),
            ("\u{9b}2Jclear", "clear"),
            ("a\0b\r\nc\td", "ab c d"),
            ("\u{202e}gnp.exe\u{2066}\u{feff}", "gnp.exe"),
            ("µs · 温度", "µs · 温度"),
        ] {
            assert_eq!(single_line(hostile), harmless, "{hostile:?}");
        }
        assert_eq!(block("one\n two"), "one\n two");
    }

    #[test]
    fn long_text_is_truncated() {
        assert_eq!(block(&"x".repeat(1 << 20)).chars().count(), LONGEST + 1);
        assert_eq!(shortened("a long word", 6), "a lon…");
        assert_eq!(shortened("short", 6), "short");
    }
}
