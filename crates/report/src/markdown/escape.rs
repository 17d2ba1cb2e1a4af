//! Escaping of all external text in Markdown.

use crate::text;

/// Escapes text: no markup, HTML, links or mentions, and no end of a table cell.
///
/// GitHub detects mentions, issue numbers and bare addresses in the rendered text, despite backslashes;
/// therefore a zero-width character is inserted into each of them.
pub fn escaped(raw: &str) -> String {
    const BREAK: char = '\u{200b}';
    let clean = text::single_line(raw);
    let mut safe = String::with_capacity(clean.len() + 16);
    let mut chars = clean.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // An entity: some HTML parsers ignore backslashes.
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => safe.extend(['\\', c]),
            // At the beginning of a line these start lists and headings, and `GH-1` is an issue.
            '-' | '+' | '=' if safe.is_empty() => safe.extend(['\\', c]),
            '-' if safe.ends_with("GH") => safe.extend([c, BREAK]),
            '@' => safe.extend(['@', BREAK]),
            '#' => safe.extend(['\\', '#', BREAK]),
            // Prevents links (`https://`) and emoji (`:name:`).
            ':' if chars.peek().is_some_and(|next| *next != ' ') => safe.extend([':', BREAK]),
            // Prevents links that start with `www.`.
            '.' if safe.to_ascii_lowercase().ends_with("www") => safe.extend([BREAK, '.']),
            c => safe.push(c),
        }
    }
    // A number with a full stop can start a list.
    let digits = safe.chars().take_while(char::is_ascii_digit).count();
    if digits > 0 && safe[digits..].starts_with('.') {
        safe.insert(digits, '\\');
    }
    safe
}

/// A code span without any markup.
pub fn code(raw: &str) -> String {
    let clean = text::single_line(raw);
    let ticks = "`".repeat(longest_run(&clean) + 1);
    // A backtick at either end needs a space to be distinguished from the fence.
    let room = if clean.starts_with('`') || clean.ends_with('`') || clean.is_empty() { " " } else { "" };
    format!("{ticks}{room}{clean}{room}{ticks}")
}

/// A code span in a table, where a bar ends the cell even inside code.
pub fn cell(raw: &str) -> String {
    code(raw).replace('|', "\\|")
}

/// A code block whose fence is longer than any in its text.
pub fn fenced(raw: &str) -> String {
    let clean = text::block(raw);
    let ticks = "`".repeat((longest_run(&clean) + 1).max(3));
    format!("{ticks}text\n{clean}\n{ticks}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{cell, code, escaped, fenced};

    #[test]
    fn external_text_is_escaped() {
        for (hostile, harmless) in [
            ("<img src=x>", "&lt;img src=x&gt;"),
            ("[a](b)", "\\[a\\](b)"),
            ("a|b`c", "a\\|b\\`c"),
            ("@all", "@\u{200b}all"),
            ("#12", "\\#\u{200b}12"),
            ("https://e.org", "https:\u{200b}//e.org"),
            ("WWW.e.org", "WWW\u{200b}.e.org"),
            ("1. one", "1\\. one"),
            ("two\nlines\u{202e}", "two lines"),
            ("- x", "\\- x"),
        ] {
            assert_eq!(escaped(hostile), harmless);
        }
    }

    #[test]
    fn text_cannot_close_its_code_block() {
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(fenced("x\n````\ny"), "`````text\nx\n````\ny\n`````");
    }
}
