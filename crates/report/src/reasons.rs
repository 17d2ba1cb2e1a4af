//! The entries of docs/VERDICT.md: the meaning of each reason code, and the next step.

/// The document, which is the only source of these texts.
const DOCUMENT: &str = include_str!("../../../docs/VERDICT.md");

/// Meaning of a reason code. A code that nccl-tests and other benchmarks share has one entry for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonEntry {
    /// Verdict that the reason supports.
    pub weighs: String,
    pub meaning: String,
    /// Next step; empty for reasons that need none.
    pub action: String,
    /// Whether the entry is about benchmarks other than nccl-tests.
    pub metrics: bool,
}

/// All entries of a code; empty for an unknown one.
#[must_use]
pub fn entries(code: &str) -> Vec<ReasonEntry> {
    rows().filter(|(codes, _)| codes.contains(&code)).map(|(_, entry)| entry).collect()
}

/// All documented codes, in the order of the document.
#[must_use]
pub fn codes() -> Vec<&'static str> {
    let mut all: Vec<_> = rows().flat_map(|(codes, _)| codes).collect();
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|code| seen.insert(*code));
    all
}

fn rows() -> impl Iterator<Item = (Vec<&'static str>, ReasonEntry)> {
    let mut metrics = false;
    DOCUMENT.lines().filter_map(move |line| {
        if line.starts_with("## ") {
            metrics = line.starts_with("## Metrics");
        }
        let cells: Vec<_> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [codes, weighs, meaning, action] = cells[..] else { return None };
        let codes: Vec<_> = codes.split(',').map(|code| code.trim().trim_matches('`')).collect();
        let is_code =
            |code: &&str| !code.is_empty() && code.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        let entry = ReasonEntry {
            weighs: weighs.to_owned(),
            meaning: plain(meaning),
            action: plain(action),
            metrics,
        };
        codes.iter().all(is_code).then_some((codes, entry))
    })
}

/// Replaces Markdown links by their text, for output without links.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, (link, after))) =
        rest.split_once('[').and_then(|(before, link)| Some((before, link.split_once("](")?)))
    {
        plain += before;
        plain += link;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_document_is_an_entry() {
        let written =
            DOCUMENT.lines().filter(|line| line.starts_with("| `") && line.matches('|').count() == 5).count();
        let is_code =
            |line: &&str| line.starts_with("| `") && line[3..].starts_with(|c: char| c.is_ascii_uppercase());
        assert_eq!(
            rows().count(),
            DOCUMENT.lines().filter(is_code).filter(|line| line.matches('|').count() == 5).count()
        );
        assert!(rows().count() > 50 && written >= rows().count());
    }

    #[test]
    fn a_code_has_its_meaning_and_next_step() {
        let [entry] = &entries("UNCHECKED")[..] else { panic!("expected one entry") };
        assert_eq!((entry.weighs.as_str(), entry.action.as_str()), ("inconclusive", "set `check: true`"));
        assert_eq!(
            entries("BELOW_FLOOR").iter().map(|entry| entry.metrics).collect::<Vec<_>>(),
            [false, true]
        );
        assert!(entries("NOT_STARTED")[0].meaning.ends_with("no node is suspected"), "a link is its text");
        assert_eq!(entries("below_floor"), []);
    }
}
