//! Evidence in a log outside its tables: networks, errors and their hosts.
//!
//! [`ClueReader`] wraps a log's reader and keeps the relevant lines in constant memory.
//! [`diagnose`](crate::diagnose) derives the causes from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Read},
    sync::LazyLock,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use memchr::{memchr, memchr_iter, memmem, memrchr};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use model::measurement::NodesOfHosts;

use crate::{
    diagnose::catalogue::{self, Sign},
    environment::Environment,
};

/// Maximum lines kept per sign.
const KEPT: usize = 3;
/// Maximum bytes kept per line.
const TEXT: usize = 400;
/// Maximum bytes searched per line. NCCL's own buffer has 1,024.
const LINE: usize = 16 * 1024;
/// Maximum distinct hosts, networks and interfaces.
const NAMES: usize = 4096;

/// A log line used as evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClueLine {
    /// Log file of the line, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Line number, starting at 1.
    pub line: u64,
    /// Text, at most 400 bytes.
    pub text: String,
}

/// Occurrences of one sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkOccurrences {
    /// Number of log lines with the sign.
    pub times: u64,
    /// The first of these lines.
    pub lines: Vec<ClueLine>,
    /// Hosts that printed these lines or are named in them.
    pub hosts: BTreeSet<String>,
}

/// Evidence in a log outside its tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clues {
    /// Occurrences by sign.
    pub signs: BTreeMap<Sign, NetworkOccurrences>,
    /// Networks in use, by NCCL's name without version, such as `IB`, `Socket`, `FasTrak`.
    pub networks: BTreeMap<String, NetworkOccurrences>,
    /// Bootstrap interfaces of NCCL, such as `eth0`.
    pub interfaces: BTreeMap<String, NetworkOccurrences>,
    /// The CUDA version the driver supports, as NCCL prints it, such as `13000`.
    pub cuda_driver: Option<String>,
    /// The network plug-in with its version, such as `FasTrak (v7)` or `aws-ofi-nccl 1.5.0aws`.
    pub plugin: Option<String>,
    /// NCCL variables, as requested and as in effect.
    pub environment: Environment,
    /// Name of the node, in the log of a program that runs on each node.
    pub node: Option<String>,
    /// Nodes by the name of a host, such as a pod, where both names differ.
    pub nodes_of_hosts: BTreeMap<String, BTreeSet<String>>,
}

impl Clues {
    /// Occurrences of the sign by network; `None` if no line contains it.
    pub fn network(&self, sign: Sign) -> Option<&NetworkOccurrences> {
        self.signs.get(&sign)
    }

    /// The names of the networks in use.
    pub fn network_names(&self) -> BTreeSet<&str> {
        self.networks.keys().map(String::as_str).collect()
    }

    /// Merges the clues of another log of the same run. `log` becomes the file name of its lines.
    pub fn add(&mut self, log: &str, other: Self) {
        let named = |mut occurrences: NetworkOccurrences| {
            occurrences.lines.iter_mut().for_each(|line| line.log = Some(log.to_owned()));
            occurrences
        };
        other
            .signs
            .into_iter()
            .for_each(|(sign, occurrences)| self.signs.entry(sign).or_default().add(named(occurrences)));
        for (mine, theirs) in [(&mut self.networks, other.networks), (&mut self.interfaces, other.interfaces)]
        {
            theirs
                .into_iter()
                .for_each(|(name, occurrences)| mine.entry(name).or_default().add(named(occurrences)));
        }
        self.cuda_driver = self.cuda_driver.take().or(other.cuda_driver);
        self.plugin = self.plugin.take().or(other.plugin);
        self.environment.merge(other.environment);
        for (host, nodes) in other.nodes_of_hosts {
            self.nodes_of_hosts.entry(host).or_default().extend(nodes);
        }
    }

    /// Replaces the names of hosts by the names of their nodes. Texts of lines are unchanged.
    pub fn name_nodes(&mut self, nodes: &NodesOfHosts) {
        let signs = self.signs.values_mut();
        for occurrences in signs.chain(self.networks.values_mut()).chain(self.interfaces.values_mut()) {
            nodes.rename(&mut occurrences.hosts);
        }
        self.environment.name_nodes(nodes);
    }

    /// Launchers sometimes interleave the lines of two ranks: `Using network IBnode-2:21:26 [0] NCCL INFO
    /// ...`. A name with a colon is resolved to the longest network name that is its prefix and occurs on a
    /// complete line.
    fn split_merged(&mut self) {
        let (glued, mut whole): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.networks).into_iter().partition(|(name, _)| name.contains(':'));
        for (name, occurrences) in glued {
            let longest =
                whole.keys().filter(|network| name.starts_with(*network)).max_by_key(|name| name.len());
            whole
                .entry(longest.cloned().unwrap_or(name))
                .or_insert_with(NetworkOccurrences::default)
                .add(occurrences);
        }
        self.networks = whole;
    }

    fn line(&mut self, number: u64, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(LINE)];
        let text = String::from_utf8_lossy(bytes);
        let host = host(&text);
        for found in AUTOMATON.find_overlapping_iter(bytes) {
            let (phrase, after) = (&catalogue::PHRASES[found.pattern().as_usize()], &bytes[found.end()..]);
            let after = String::from_utf8_lossy(after);
            let named = phrase.names_host.then(|| word(&after)).filter(|name| !name.is_empty());
            // Two interleaved lines: the second cannot be attributed to a host.
            let glued = memmem::find_iter(&bytes[..found.end()], "] NCCL ").nth(1).is_some();
            let host = named.or(host.as_deref().filter(|_| !glued));
            let mut record = |occurrences: &mut NetworkOccurrences| occurrences.record(number, bytes, host);
            match phrase.sign {
                Sign::Network => name(&mut self.networks, network(value(&after)), &mut record),
                Sign::Route => {
                    // Text of the line up to the point where another line may be interleaved.
                    let route = value(&after).split(':').next().unwrap_or_default();
                    let network = network(route.split('/').next().unwrap_or_default());
                    let direct = route.contains("GDRDMA");
                    // NCCL reports missing support for GPU memory only for InfiniBand and RoCE.
                    if network == "Socket" {
                        record(self.signs.entry(Sign::SocketRoute).or_default());
                    }
                    if network.ends_with("IB") {
                        let sign = if direct { Sign::DirectRoute } else { Sign::StagedRoute };
                        record(self.signs.entry(sign).or_default());
                    }
                    name(&mut self.networks, network, &mut record);
                }
                Sign::Interface => {
                    let interface = after.trim_start_matches("[0]").split(':').next().unwrap_or_default();
                    name(&mut self.interfaces, interface.to_owned(), &mut record);
                }
                Sign::CudaDriver => _ = self.cuda_driver.get_or_insert_with(|| word(&after).to_owned()),
                Sign::Plugin => _ = self.plugin.get_or_insert_with(|| value(&after).to_owned()),
                Sign::Environment => self.environment.read_report(after.trim_end_matches('\r')),
                Sign::Node => _ = self.node.get_or_insert_with(|| word(&after).to_owned()),
                Sign::Setting => {
                    // Two interleaved lines may have swapped their values.
                    if !glued {
                        let before = String::from_utf8_lossy(&bytes[..found.start()]);
                        self.environment.read_nccl(&before, value(&after), host);
                    }
                    if catalogue::is_tuning(&text) {
                        record(self.signs.entry(Sign::Setting).or_default());
                    }
                }
                Sign::Corrupt if !catalogue::is_corrupt(&after) => {}
                Sign::ConfigMismatch if text.contains("recommended") => {}
                sign => record(self.signs.entry(sign).or_default()),
            }
        }
    }
}

fn name(
    names: &mut BTreeMap<String, NetworkOccurrences>,
    name: String,
    record: &mut impl FnMut(&mut NetworkOccurrences),
) {
    if !name.is_empty() && (names.len() < NAMES || names.contains_key(&name)) {
        record(names.entry(name).or_default());
    }
}

impl NetworkOccurrences {
    fn record(&mut self, line: u64, bytes: &[u8], host: Option<&str>) {
        // Two phrases in one line count as one line.
        if self.lines.last().is_none_or(|last| last.line != line) {
            self.times += 1;
        }
        if self.lines.len() < KEPT && self.lines.last().is_none_or(|last| last.line != line) {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT)]);
            self.lines.push(ClueLine { log: None, line, text: text.trim().to_owned() });
        }
        if let Some(host) = host.filter(|host| self.hosts.len() < NAMES && !self.hosts.contains(*host)) {
            self.hosts.insert(host.to_owned());
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.times += other.times;
        let room = KEPT.saturating_sub(self.lines.len());
        self.lines.extend(other.lines.into_iter().take(room));
        self.hosts.extend(other.hosts);
    }
}

/// The rest of the value, up to the line's own escaping (a JSON log escapes its newline).
fn value(after: &str) -> &str {
    let end = after.find(['\\', '"', '\u{1b}', '\r', '\n', '<']).unwrap_or(after.len());
    after[..end].trim().trim_end_matches('.')
}

fn word(after: &str) -> &str {
    value(after).split([' ', ':', ',', ';', '\'']).find(|word| !word.is_empty()).unwrap_or_default()
}

/// `IBext_v8` is InfiniBand through another plug-in; `GPUDirectTCPX_v7` is GPUDirectTCPX in some version.
fn network(name: &str) -> String {
    let stem = match name.rsplit_once("_v") {
        Some((stem, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    };
    stem.strip_suffix("ext").unwrap_or(stem).to_owned()
}

/// The host in `host:pid:tid [device]`, NCCL's line prefix, or in `host: Test NCCL failure`.
fn host(line: &str) -> Option<String> {
    let end = line.find(" [").or_else(|| line.find(": Test "))?;
    let before = &line[..end];
    let start =
        before.rfind(|c: char| c.is_whitespace() || matches!(c, '>' | '"' | ']')).map_or(0, |at| at + 1);
    let host = before[start..].split(':').next()?;
    let valid = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    (!host.is_empty() && host.len() < 256 && valid).then(|| host.to_owned())
}

/// The phrases are constants: an invalid set would fail every test.
static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .build(catalogue::PHRASES.iter().map(|phrase| phrase.text))
        .expect("the phrases fit an automaton")
});

/// Passes a log through to its reader and extracts clues.
pub struct ClueReader<R> {
    log: R,
    clues: Clues,
    /// Number of complete lines processed.
    lines: u64,
    /// Incomplete last line.
    partial_line: Vec<u8>,
}

impl<R: Read> ClueReader<R> {
    /// Extracts clues from a plain-text log; the caller must decompress compressed logs.
    pub fn new(log: R) -> Self {
        Self { log, clues: Clues::default(), lines: 0, partial_line: Vec::new() }
    }

    /// Returns the clues of all data read, including an incomplete last line.
    pub fn finish(mut self) -> Clues {
        let last = std::mem::take(&mut self.partial_line);
        self.scan_lines(&last);
        self.clues.split_merged();
        self.clues
    }

    fn scan(&mut self, mut bytes: &[u8]) {
        if !self.partial_line.is_empty() {
            let Some(end) = memchr(b'\n', bytes) else { return self.begin(bytes) };
            self.begin(&bytes[..end]);
            let line = std::mem::take(&mut self.partial_line);
            self.scan_lines(&line);
            self.lines += 1;
            bytes = &bytes[end + 1..];
        }
        let end = memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        self.scan_lines(&bytes[..end]);
        self.lines += memchr_iter(b'\n', &bytes[..end]).count() as u64;
        self.begin(&bytes[end..]);
    }

    fn begin(&mut self, part: &[u8]) {
        let room = LINE.saturating_sub(self.partial_line.len());
        self.partial_line.extend_from_slice(&part[..part.len().min(room)]);
    }

    /// Processes complete lines. Most contain no clue, so one pass searches all of them, and only lines with a match
    /// are parsed.
    fn scan_lines(&mut self, lines: &[u8]) {
        let (mut at, mut number) = (0, self.lines + 1);
        while let Some(found) = AUTOMATON.find(&lines[at..]) {
            let found = at + found.start();
            let start = memrchr(b'\n', &lines[at..found]).map_or(at, |newline| at + newline + 1);
            let end = memchr(b'\n', &lines[found..]).map_or(lines.len(), |newline| found + newline);
            number += memchr_iter(b'\n', &lines[at..start]).count() as u64;
            self.clues.line(number, &lines[start..end]);
            at = (end + 1).min(lines.len());
            number += 1;
        }
    }
}

impl<R: Read> Read for ClueReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.log.read(buffer)?;
        self.scan(&buffer[..count]);
        Ok(count)
    }
}
