//! The log of a program that runs on pairs of nodes: a section for each pair (`cluster_api::pairs`).

use std::{
    collections::BTreeSet,
    io::{self, BufRead, BufReader, Read},
};

use model::{
    count,
    measurement::{LogEnd, Reading},
    metric::{Finding, Severity, Subject},
    pair_rounds,
};
use verdict::PAIR_FAILED;

/// Maximum size of a section, bytes. The rest of a larger section is not read, and the section is incomplete.
const SECTION: usize = 16 << 20;
/// Maximum length of a line with a mark, bytes: 4,096 names of 128 bytes.
const MARK: usize = 1 << 20;

/// Expected properties of the sections of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairRules<'a> {
    /// Maximum number of rounds of pairs.
    pub(crate) rounds: Option<u32>,
    /// Exit statuses of a valid measurement, in addition to 0.
    pub(crate) exit: &'a [i32],
}

/// Adds the sections of a log to `whole`. A log without a list of nodes is another log of the job and is ignored. A
/// log without the section of a pair is incomplete.
///
/// # Errors
/// Returns an error if reading fails, or if `read`, which reads one section, fails.
pub(crate) fn read(
    log: &mut dyn Read,
    rules: PairRules<'_>,
    mut whole: Reading,
    mut read: impl FnMut(&mut &[u8]) -> io::Result<Reading>,
) -> io::Result<Reading> {
    let mut lines = PairLines { log: BufReader::new(log), line: Vec::new(), number: 0 };
    let mut nodes: Option<Vec<String>> = None;
    let mut seen = BTreeSet::new();
    while lines.next()? {
        if let Some(names) = lines.mark("burnin pairs: ") {
            nodes = Some(names.split(' ').map(str::to_owned).collect());
        }
        let Some((client, server)) = lines.mark("burnin pair: ").and_then(|mark| mark.split_once(" to "))
        else {
            continue;
        };
        let (client, server) = (client.to_owned(), server.to_owned());
        let (started, mut text, mut whole_section, mut status) = (lines.number, Vec::new(), true, None);
        while status.is_none() && lines.next()? {
            status = lines.mark("burnin pair ended: ").map(|status| status.trim().to_owned());
            if status.is_none() && text.len() + lines.line.len() <= SECTION {
                text.extend_from_slice(&lines.line);
            } else if status.is_none() {
                whole_section = false;
            }
        }
        let mut of_pair = read(&mut text.as_slice())?;
        of_pair.metrics.iter_mut().for_each(|metric| metric.line += started);
        of_pair.findings.iter_mut().for_each(|finding| finding.line += started);
        let good = |status: &str| {
            status.parse().is_ok_and(|status: i32| status == 0 || rules.exit.contains(&status))
        };
        let failed = status.as_deref().is_some_and(|status| !good(status));
        if failed {
            let error = of_pair.first_error.take().map_or_else(String::new, |error| format!(": {error}"));
            let text = format!("exit status {}{error}", status.as_deref().unwrap_or_default());
            of_pair.first_error = Some(text.clone());
            of_pair.findings.push(Finding {
                code: PAIR_FAILED.to_owned(),
                subject: Subject::default(),
                severity: Severity::Unknown,
                text,
                line: started,
            });
        }
        of_pair.name_pair(&client, &server);
        if let Some(error) = &mut of_pair.first_error {
            *error = format!("{client} to {server}: {error}");
        }
        of_pair.ended = match (status, whole_section) {
            (Some(_), true) if failed => of_pair.ended.worse(LogEnd::Failed),
            // A pair without output has no measurement.
            (Some(_), true) if of_pair.ended == LogEnd::Empty => LogEnd::Truncated,
            (Some(_), true) => of_pair.ended,
            _ => of_pair.ended.worse(LogEnd::Truncated),
        };
        whole.ended = whole.ended.worse(of_pair.ended);
        whole.append(of_pair);
        seen.insert((client, server));
    }
    let Some(nodes) = nodes else { return Ok(whole) };
    let expected = pair_rounds(nodes.len(), rules.rounds).into_iter().flatten();
    let mut expected = expected.filter_map(|(a, b)| Some((nodes.get(b)?.clone(), nodes.get(a)?.clone())));
    if let Some((client, server)) = expected.find(|pair| !seen.contains(pair)) {
        whole.ended = whole.ended.worse(LogEnd::Truncated);
        let others = expected.filter(|pair| !seen.contains(pair)).count();
        let error = || match others {
            0 => format!("no output of {client} to {server}"),
            _ => format!("no output of {client} to {server} and of {}", count(others as u64, "other pair")),
        };
        whole.first_error.get_or_insert_with(error);
    }
    Ok(whole)
}

/// The lines of a log. The rest of a line longer than [`MARK`] is another line.
struct PairLines<R> {
    log: BufReader<R>,
    line: Vec<u8>,
    /// Number of the current line, starting at 1.
    number: u64,
}

impl<R: Read> PairLines<R> {
    fn next(&mut self) -> io::Result<bool> {
        self.number += u64::from(self.line.is_empty() || self.line.ends_with(b"\n"));
        self.line.clear();
        (&mut self.log).take(MARK as u64).read_until(b'\n', &mut self.line)?;
        Ok(!self.line.is_empty())
    }

    /// The rest of the line after `mark`.
    fn mark(&self, mark: &str) -> Option<&str> {
        std::str::from_utf8(self.line.strip_prefix(mark.as_bytes())?).ok().map(str::trim_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ssh: a banner\nburnin pairs: n0 n1 n2\nburnin pair: n2 to n1\nburnin environment: n2 has A=1\nbw=10 GB/s\ndone\n\n\
                       burnin pair ended: 0\nserver: bw=99 GB/s\nburnin pair: n2 to n0\nbw=11 GB/s\ndone\n\nburnin pair ended: 0\n\
                       burnin pair: n1 to n0\nConnection refused\n\nburnin pair ended: 1\n";

    fn reading(log: &str, rounds: Option<u32>) -> Reading {
        let declaration: measure::Declaration = serde_json::from_value(serde_json::json!({
            "row": r"^bw=(?P<value>\S+) GB/s$", "end": "^done$", "name": "bw", "unit": "GB/s", "better": "higher", "scope": "pair",
        }))
        .unwrap();
        let declared = declaration.of_pairs().check(true).unwrap();
        let rules = PairRules { rounds, exit: &[] };
        read(&mut log.as_bytes(), rules, Reading::default(), |section| declared.read(section)).unwrap()
    }

    #[test]
    fn a_clients_values_name_both_nodes() {
        let read = reading(LOG, None);
        let values: Vec<_> = read
            .metrics
            .iter()
            .filter(|metric| *metric.name == *"bw")
            .map(|metric| (metric.subject.to_string(), metric.value, metric.line))
            .collect();
        let expected = [("node n2, to n1", Some(10.0), 5), ("node n2, to n0", Some(11.0), 11)];
        assert_eq!(values, expected.map(|(name, value, line)| (name.to_owned(), value, line)));
    }

    #[test]
    fn a_failed_pair_is_a_finding_of_both_nodes() {
        let read = reading(LOG, None);
        assert_eq!(read.ended, LogEnd::Failed);
        let finding = read.findings.iter().find(|finding| finding.code == PAIR_FAILED).unwrap();
        assert_eq!((finding.subject.to_string(), finding.line), ("node n1, to n0".to_owned(), 15));
        assert!(finding.text.starts_with("exit status 1"), "{}", finding.text);
    }

    #[test]
    fn a_truncated_log_and_a_log_without_the_section_of_a_pair_are_incomplete() {
        let good = LOG.replace(
            "Connection refused\n\nburnin pair ended: 1",
            "bw=10 GB/s\ndone\n\nburnin pair ended: 0",
        );
        assert_eq!(reading(&good, None).ended, LogEnd::Complete);
        let whole = good.trim_end().len();
        for cut in 0..whole {
            assert_ne!(reading(&good[..cut], None).ended, LogEnd::Complete, "{}", &good[..cut]);
        }
        let without = good.replace("burnin pair: n2 to n0\nbw=11 GB/s\ndone\n\nburnin pair ended: 0\n", "");
        let read = reading(&without, None);
        assert_eq!(read.first_error.as_deref(), Some("no output of n2 to n0"));
        // With a maximum of one round, only the pairs of the first round are expected.
        let first = &good[..good.find("burnin pair: n2 to n0").unwrap()];
        assert_eq!(reading(first, Some(1)).ended, LogEnd::Complete);
    }
}
