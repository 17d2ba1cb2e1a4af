use crate::Secret;

/// Minimum length, in bytes, of a separately masked line of a multi-line secret. Shorter lines, such as `}`,
/// are too common.
const SHORTEST_LINE: usize = 4;

/// Replacement of a masked value.
const MASK: &[u8] = b"***";

/// Masks known values in a stream of bytes, also across its chunks.
pub(super) struct Masker {
    /// Longest first, so that the longest match is found first.
    patterns: Vec<Vec<u8>>,
    starts: [bool; 256],
    /// End of the stream that may be the beginning of a value.
    held: Vec<u8>,
    /// Number of bytes at the start of `held` that belong to an already masked value.
    covered: usize,
}

impl Masker {
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut patterns: Vec<Vec<u8>> = secrets
            .into_iter()
            .flat_map(|secret| {
                let whole = secret.expose().trim_end_matches(['\r', '\n']);
                let lines = whole.lines().map(str::trim).filter(|line| line.len() >= SHORTEST_LINE);
                std::iter::once(whole).chain(lines).map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>()
            })
            .filter(|pattern| !pattern.is_empty())
            .collect();
        patterns.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        patterns.dedup();
        let mut starts = [false; 256];
        for pattern in &patterns {
            starts[usize::from(pattern[0])] = true;
        }
        Self { patterns, starts, held: Vec::new(), covered: 0 }
    }

    /// Processes the next bytes and appends all bytes except the held ones to `out`.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        self.advance(false, out);
    }

    /// Appends the held bytes at the end of the stream.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        self.advance(true, out);
    }

    fn advance(&mut self, end: bool, out: &mut Vec<u8>) {
        let mut at = 0;
        while at < self.held.len() {
            let rest = &self.held[at..];
            if self.starts[usize::from(rest[0])] {
                let undecided = |pattern: &&Vec<u8>| pattern.len() > rest.len() && pattern.starts_with(rest);
                if !end && self.patterns.iter().any(|pattern| undecided(&pattern)) {
                    break;
                }
                if let Some(pattern) = self.patterns.iter().find(|pattern| rest.starts_with(pattern)) {
                    // Values may overlap: write one mask for both, and skip the rest of the second value.
                    if at >= self.covered {
                        out.extend_from_slice(MASK);
                    }
                    self.covered = self.covered.max(at + pattern.len());
                }
            }
            if at >= self.covered {
                out.push(rest[0]);
            }
            at += 1;
        }
        self.held.drain(..at);
        self.covered = self.covered.saturating_sub(at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redact(secrets: &[&str], chunks: &[&[u8]]) -> String {
        let secrets: Vec<Secret> = secrets.iter().map(|&text| Secret::new(text)).collect();
        let mut redactor = Masker::new(&secrets);
        let mut out = Vec::new();
        for chunk in chunks {
            redactor.push(chunk, &mut out);
        }
        redactor.finish(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn values_are_masked_at_any_position() {
        let table: [(&[&str], &str, &str); 10] = [
            (&["hunter2"], "a hunter2 b", "a *** b"),
            (&["hunter2"], "hunter2hunter2", "******"),
            (&["hunter2"], "hunter hunter", "hunter hunter"),
            (&["abc", "abcdef"], "abcdef abc", "*** ***"),
            (&["abcd", "cdef"], "abcdef.", "***."),
            (&["aab"], "aaab", "a***"),
            (&["line one\nline two\n"], "x line two y", "x *** y"),
            (&["line one\nline two\n"], "line one\nline two\n", "***\n"),
            (&["", "\n"], "text\n", "text\n"),
            (&[], "text", "text"),
        ];
        for (secrets, text, expected) in table {
            assert_eq!(redact(secrets, &[text.as_bytes()]), expected, "{secrets:?} in {text:?}");
        }
    }

    #[test]
    fn only_possible_prefixes_of_a_secret_are_buffered() {
        let secrets = [Secret::new("hunter2")];
        let mut redactor = Masker::new(&secrets);
        let mut out = Vec::new();
        redactor.push(b"progress hun", &mut out);
        assert_eq!(out, b"progress ");
        redactor.push(b"k", &mut out);
        assert_eq!(out, b"progress hunk");
    }

    proptest! {
        #[test]
        fn the_chunks_of_the_stream_do_not_affect_the_masked_output(
            text in "[abc]{0,40}",
            secrets in prop::collection::vec("[abc]{1,5}", 1..4),
            size in 1usize..7,
        ) {
            let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
            let whole = redact(&secrets, &[text.as_bytes()]);
            let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(&redact(&secrets, &chunks), &whole);
            for secret in secrets {
                prop_assert!(!whole.contains(secret));
            }
        }
    }
}
