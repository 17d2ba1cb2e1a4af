//! Names in the bucket for names from a cluster, which may be anything.

use std::collections::BTreeSet;

use ledger::Digest;

/// Longer parts, and longer names, are cut: some stores take 255 and 1024 bytes, and something is put before and behind.
const PART: usize = 200;
const NAME: usize = 700;

/// Names given so far.
#[derive(Default)]
pub struct Names(BTreeSet<String>);

impl Names {
    /// The name for a file; its own when that is harmless. One that had to be changed carries a digest of what it was, so
    /// that two files never meet under one name.
    pub fn give(&mut self, file: &str) -> String {
        let mut name = harmless(file);
        for length in [8, 16, 64] {
            if name == file && !self.0.contains(&name) {
                break;
            }
            name = format!("{}~{}", harmless(file), &Digest::of(file.as_bytes()).sha256[..length]);
            if !self.0.contains(&name) {
                break;
            }
        }
        self.0.insert(name.clone());
        name
    }
}

fn harmless(file: &str) -> String {
    let mut name = String::new();
    for part in file.split('/').filter(|part| !matches!(*part, "" | "." | "..")) {
        let part: String = part.chars().map(|c| if deceives(c) { '_' } else { c }).collect();
        let part = cut(&part, PART);
        if name.len() + part.len() > NAME {
            break;
        }
        if !name.is_empty() {
            name.push('/');
        }
        name.push_str(part);
    }
    if name.is_empty() { "_".to_owned() } else { name }
}

/// What a store or a terminal might take for something else: controls, backslashes, what turns or hides text.
fn deceives(c: char) -> bool {
    c.is_control()
        || c == '\\'
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_names_stay_and_others_are_told_apart() {
        let mut names = Names::default();
        for name in ["node-0.log", "a/b c/d.log", "all_reduce.log.1", "é.log", ".hidden"] {
            assert_eq!(names.give(name), name);
        }
        let long = "x".repeat(255);
        let deep = "d/".repeat(600) + "f";
        let hostile = [
            "a\nb",
            "a\rb",
            "a_b\u{7f}",
            "../etc/passwd",
            "/etc/passwd",
            "etc//passwd",
            "..",
            ".",
            "",
            "/",
            "a\\b",
            "a\\xff",
            "\u{202e}gol.exe",
            &long,
            &format!("{long}y"),
            &deep,
            &format!("{deep}g"),
            "node-0.log",
            "~",
            "a\u{0}b",
        ];
        for file in hostile {
            let name = names.give(file);
            assert!(
                ledger::check_name(&format!("artefacts/some-run/logs/1/1/{name}~9")).is_ok(),
                "{file:?}: {name:?}"
            );
        }
        assert_eq!(names.0.len(), 5 + hostile.len(), "no two are alike");
    }
}
