//! Finds phrases that docs/STYLE.md bans, in comments, messages, docs and names.

use std::{fs, path::Path, process::Command};

use aho_corasick::{AhoCorasick, MatchKind};

/// A banned phrase, and its replacement.
const BANNED: &[(&str, &str)] = &[
    ("anybody", "the component or person that acts, such as `another process`"),
    ("are told", "`are reported`, `are recorded` or `receive`"),
    ("be told", "`be reported`, `be recorded` or `receive`"),
    ("brought up", "`started` or `provisioned`"),
    ("came of", "`the result of`"),
    ("comes to the same", "`has the same result`"),
    ("ever after", "`final`"),
    ("everybody", "`every user`, `every process`"),
    ("for ever", "`permanently`"),
    ("gives back", "`releases` or `returns`"),
    ("goes on", "`continues`"),
    ("heard of", "`received` or `was notified of`"),
    ("hears of", "`receives` or `is notified of`"),
    ("how-manieth", "`attempt number, starting at 1`"),
    ("in vain", "`without success`"),
    ("is told", "`is reported`, `is recorded` or `receives`"),
    ("no single", "`no` or `not one`"),
    ("nothing of it", "`no part of it`"),
    ("once more", "`again`"),
    ("prove anything", "`be evidence`"),
    ("proves nothing", "`is no evidence`"),
    ("somebody", "the component or person that acts, such as `a user`"),
    ("that is there", "`existing` or `present`"),
    ("told of", "`reported` or `notified of`"),
    ("was told", "`was reported`, `was recorded` or `received`"),
    ("went away", "`failed` or `was deleted`"),
    ("what became of", "`the outcome of`"),
    ("what is there", "`existing files`, `the current value`"),
    ("what it comes to", "`the result`"),
    ("whoever", "the component that acts, such as `the caller`"),
];
/// Files whose text is prose. Data, snapshots and samples are compared byte by byte and are not checked.
const PROSE: &[&str] = &["j2", "md", "py", "rs", "sh", "tf", "toml", "tpl", "yaml", "yml"];
/// Files that quote the banned phrases.
const QUOTING: &[&str] = &["docs/STYLE.md", "xtask/src/style.rs"];
/// Webhook payload of the signature example in GitHub's documentation.
const QUOTED: &str = "It's a Secret to Everybody";
/// Past decisions and data keep their wording.
const UNTOUCHED: &[&str] = &["docs/rfd/", "tests/data/"];

/// Checks every tracked file.
///
/// # Errors
/// Returns an error if a line has a banned phrase, with every such line, or if git or a file cannot be read.
pub fn check(root: &Path) -> Result<(), String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let banned = Banned::new()?;
    let mut found = Vec::new();
    for file in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|file| is_prose(file)) {
        // A file that is deleted in the working tree is listed until it is committed.
        let Ok(text) = fs::read_to_string(root.join(file)) else { continue };
        found.extend(banned.lines(&text).map(|(line, text)| format!("{file}:{line}: {text}")));
    }
    if found.is_empty() { Ok(()) } else { Err(format!("{}\nsee docs/STYLE.md", found.join("\n"))) }
}

fn is_prose(file: &str) -> bool {
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    PROSE.contains(&extension)
        && !QUOTING.contains(&file)
        && !UNTOUCHED.iter().any(|folder| file.starts_with(folder))
}

struct Banned(AhoCorasick);

impl Banned {
    fn new() -> Result<Self, String> {
        AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(BANNED.iter().map(|(phrase, _)| phrase))
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// The lines with a banned phrase, from 1. An underscore is treated as a space, because names of tests are sentences too.
    fn lines<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, String)> + 'a {
        text.lines().enumerate().flat_map(move |(index, line)| {
            let line = line.replace(QUOTED, "").replace('_', " ");
            let found = self.0.find_iter(&line).filter(|found| {
                let around = [line.as_bytes()[..found.start()].last(), line.as_bytes().get(found.end())]
                    .map(|byte| byte.copied());
                // A single quoted word, or the last part of a path, is a value.
                let value = around.iter().all(|byte| byte.is_some_and(|byte| b"\"`/".contains(&byte)));
                !value && !around.into_iter().flatten().any(|byte| byte.is_ascii_alphabetic())
            });
            let found = found.map(|found| BANNED[found.pattern().as_usize()]);
            let found: Vec<_> =
                found.map(|(phrase, instead)| (index + 1, format!("`{phrase}`: write {instead}"))).collect();
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_phrases_are_found_in_sentences_and_in_names() {
        let banned = Banned::new().unwrap();
        let lines = |text: &str| banned.lines(text).map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(lines("fine\n/// Somebody waits.\n"), [2]);
        assert_eq!(lines("fn whoever_asks_is_told() {}"), [1, 1]);
        assert_eq!(lines("unbe told; by: \"somebody\""), Vec::<usize>::new());
    }
}
