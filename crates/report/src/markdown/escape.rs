//! The one place where foreign text reaches Markdown.

use crate::text;

/// Text that stays text: no markup, no HTML, no link, nobody mentioned, no end of a table's cell.
///
/// A mention, a number of an issue and a bare address are found in what is shown, behind every backslash; so a character
/// without width stands inside each of them.
pub fn escaped(raw: &str) -> String {
    const BREAK: char = '\u{200b}';
    let clean = text::line(raw);
    let mut safe = String::with_capacity(clean.len() + 16);
    let mut chars = clean.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // An entity: some readers of HTML look behind backslashes.
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => safe.extend(['\\', c]),
            // At the beginning of a line these make lists and headings, and `GH-1` is an issue.
            '-' | '+' | '=' if safe.is_empty() => safe.extend(['\\', c]),
            '-' if safe.ends_with("GH") => safe.extend([c, BREAK]),
            '@' => safe.extend(['@', BREAK]),
            '#' => safe.extend(['\\', '#', BREAK]),
            // `https://` ends here, and so does `:emoji:`.
            ':' if chars.peek().is_some_and(|next| *next != ' ') => safe.extend([':', BREAK]),
            // `www.` too.
            '.' if safe.to_ascii_lowercase().ends_with("www") => safe.extend([BREAK, '.']),
            c => safe.push(c),
        }
    }
    // A list may begin with a number and a full stop.
    let digits = safe.chars().take_while(char::is_ascii_digit).count();
    if digits > 0 && safe[digits..].starts_with('.') {
        safe.insert(digits, '\\');
    }
    safe
}

/// A code span: nothing in it is markup.
pub fn code(raw: &str) -> String {
    let clean = text::line(raw);
    let ticks = "`".repeat(longest_run(&clean) + 1);
    // What begins or ends with a backtick needs a space to be told from the fence.
    let room = if clean.starts_with('`') || clean.ends_with('`') || clean.is_empty() { " " } else { "" };
    format!("{ticks}{room}{clean}{room}{ticks}")
}

/// A code span in a table, where a bar ends the cell even inside code.
pub fn cell(raw: &str) -> String {
    code(raw).replace('|', "\\|")
}

/// A block of code that ends where its text ends.
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
    fn foreign_text_stays_text() {
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
    fn code_ends_where_its_text_ends() {
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(fenced("x\n````\ny"), "`````text\nx\n````\ny\n`````");
    }
}
