//! Object names for file names of a cluster, which may contain any text.

use std::collections::BTreeSet;

use ledger::Digest;

/// Maximum length of a part and of a name: some stores allow 255 and 1024 bytes, and a prefix and suffix are added.
const PART: usize = 200;
const NAME: usize = 700;

/// Assigned names.
#[derive(Default)]
pub struct FileNames(BTreeSet<String>);

impl FileNames {
    /// Returns the object name of a file: its own name if that is safe. A changed name contains a digest of the original, so
    /// that two files never get the same name.
    pub fn assign(&mut self, file: &str) -> String {
        let mut name = sanitized(file);
        for length in [8, 16, 64] {
            if name == file && !self.0.contains(&name) {
                break;
            }
            name = format!("{}~{}", sanitized(file), &Digest::of(file.as_bytes()).sha256[..length]);
            if !self.0.contains(&name) {
                break;
            }
        }
        self.0.insert(name.clone());
        name
    }
}

fn sanitized(file: &str) -> String {
    let mut name = String::new();
    for part in file.split('/').filter(|part| !matches!(*part, "" | "." | "..")) {
        let part: String = part.chars().map(|c| if is_misleading(c) { '_' } else { c }).collect();
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

/// Characters that a store or terminal could misread: controls, backslashes, bidirectional and invisible characters.
fn is_misleading(c: char) -> bool {
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
    fn safe_file_names_are_kept_and_unsafe_ones_become_distinct_safe_names() {
        let mut names = FileNames::default();
        for name in ["node-0.log", "a/b c/d.log", "all_reduce.log.1", "é.log", ".hidden"] {
            assert_eq!(names.assign(name), name);
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
            let name = names.assign(file);
            assert!(
                ledger::check_name(&format!("artefacts/some-run/logs/1/1/{name}~9")).is_ok(),
                "{file:?}: {name:?}"
            );
        }
        assert_eq!(names.0.len(), 5 + hostile.len(), "all names are distinct");
    }
}
