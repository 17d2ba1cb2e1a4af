//! Phrases that identify relevant lines, found in a single pass.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phrase {
    /// `nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809`
    Version,
    /// `Collective test starting: all_reduce_perf`
    Starting,
    /// `Collective test concluded: all_reduce_perf`
    Concluded,
    /// `nThread 1 nGpus 4 minBytes ...`
    Banner,
    /// `Using devices`
    Devices,
    /// `Rank  0 Group  0 Pid   1616 on     node-1 device  0 [0000:00:06] NVIDIA H200`
    Rank,
    /// `Device  0 ->  0 [0x0a] NAME` of the NCCL 1 self-tests.
    OldRank,
    /// `out-of-place    in-place`
    Placement,
    /// A header line.
    Header,
    /// `Out of bounds values : 0 OK`
    OutOfBounds,
    /// `Avg bus bandwidth    : 187.866`
    Average,
    /// `NCCL version 2.28.9+cuda13.0`
    Library,
    /// The name of a test program.
    Program,
    Failure,
    /// `# error: TEXT`, a failure if TEXT is not empty.
    LastError,
    /// An NCCL warning: not a failure itself, but often closer to the cause of a failure.
    Warning,
    /// `[burnin: cut here, 123 bytes left out]`: a part was removed when the log was collected.
    Cut,
    /// A message that may explain a log without any other content.
    Hint,
}

use Phrase::{
    Average, Banner, Concluded, Cut, Devices, Failure, Header, Hint, LastError, Library, OldRank,
    OutOfBounds, Placement, Program, Rank, Starting, Version, Warning,
};

const PHRASES: &[(&str, Phrase)] = &[
    ("nccl-tests version ", Version),
    ("Collective test starting: ", Starting),
    ("Collective test concluded: ", Concluded),
    ("nThread", Banner),
    ("Using devices", Devices),
    ("Rank ", Rank),
    (" Device ", OldRank),
    ("out-of-place ", Placement),
    ("in-place", Placement),
    ("algbw", Header),
    ("Out of bounds values", OutOfBounds),
    ("Avg bus bandwidth", Average),
    ("NCCL version", Library),
    ("RCCL version", Library),
    ("_perf", Program),
    // Messages that the program prints when it exits.
    ("NCCL failure ", Failure),
    ("CUDA failure ", Failure),
    ("Cuda failure ", Failure),
    ("HIP failure ", Failure),
    ("CURAND failure ", Failure),
    ("cuRAND failure ", Failure),
    ("Test failure ", Failure),
    ("Test timeout ", Failure),
    ("# error: ", LastError),
    ("NCCL WARN", Warning),
    ("[burnin: cut here, ", Cut),
    // Messages that nccl-tests prints before it exits during its start (src/common.cu and src/util.cu of v2.19.6).
    ("Invalid number of GPUs", Failure),
    ("invalid sizes for ", Failure),
    ("invalid size specified", Failure),
    ("invalid option ", Failure),
    (") requires NCCL >= ", Failure),
    ("requires enabling symmetric memory registration", Failure),
    ("is not supported by this test", Failure),
    ("Incompatible NCCL versions. ", Failure),
    // Launchers.
    ("srun: error: ", Failure),
    ("slurmstepd: error: ", Failure),
    ("mpirun noticed that", Failure),
    ("mpiexec noticed that", Failure),
    ("prterun noticed that", Failure),
    ("exited due to process rank", Failure),
    ("exited due to signal", Failure),
    ("MPI_ABORT was invoked", Failure),
    ("BAD TERMINATION OF ONE OF YOUR", Failure),
    ("Primary job  terminated normally, but", Failure),
    ("command terminated with exit code", Failure),
    ("Process completed with exit code", Failure),
    ("not enough slots available", Failure),
    ("was unable to launch the specified application", Failure),
    ("ORTE daemon has unexpectedly failed", Failure),
    ("PRTE has lost communication", Failure),
    // Messages of the operating system.
    ("Segmentation fault", Failure),
    ("Caught signal ", Failure),
    ("(core dumped)", Failure),
    ("terminate called after throwing", Failure),
    ("OOMKilled", Failure),
    ("oom-kill event", Failure),
    ("error while loading shared libraries", Hint),
    ("command not found", Hint),
    ("No such file or directory", Hint),
    ("Permission denied", Hint),
];

/// The phrases are constants: an invalid set would fail every test.
static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .kind(Some(AhoCorasickKind::DFA))
        .build(PHRASES.iter().map(|(text, _)| text))
        .expect("the phrases fit an automaton")
});

/// The phrases of a line with their positions, from left to right.
pub(crate) fn phrases(line: &[u8]) -> impl Iterator<Item = (Phrase, usize, usize)> {
    AUTOMATON.find_iter(line).map(|found| (PHRASES[found.pattern().as_usize()].1, found.start(), found.end()))
}

/// The collective of the test program whose name contains the `_perf` at `at`, such as `all_reduce_perf`.
pub(crate) fn collective(line: &[u8], at: usize) -> Option<&'static str> {
    const COLLECTIVES: [&str; 11] = [
        "all_reduce",
        "reduce_scatter",
        "all_gather",
        "alltoallv",
        "alltoall",
        "broadcast",
        "hypercube",
        "sendrecv",
        "scatter",
        "gather",
        "reduce",
    ];
    let head = &line[..at];
    COLLECTIVES.into_iter().find(|name| {
        head.ends_with(name.as_bytes()) && {
            let before = head[..head.len() - name.len()].last();
            !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        }
    })
}
