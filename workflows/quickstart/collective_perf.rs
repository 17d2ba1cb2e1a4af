//! CPU collectives for machines without GPUs: a ring of processes over TCP.
//!
//! The program takes the flags of nccl-tests and prints its text format, so that everything behind it (parsing, loading,
//! judging) is exercised as with the real one. Its first lines state that it is not NCCL. Times are measured: N ranks, each
//! with a socket to its neighbours, exchange floats, and every rank checks its result.
//!
//! The beginning of the program's name selects the collective: `all_reduce_perf`, `all_gather_perf`, `reduce_scatter_perf`,
//! `alltoall_perf`, `broadcast_perf` or `sendrecv_perf`. Sizes, counts, bandwidth factors, operations, roots and the check of
//! in-place results follow nccl-tests 2.19.6 (`*GetCollByteCount`, `*GetBw`, `*InitData` and `*RunTest` in `src/*.cu`).
//!
//! One file, standard library only: a build step compiles it with `rustc --edition 2024 -O` in seconds.
//!
//! Where the ranks come from, first match wins:
//! * `BURNIN_RANK` of `BURNIN_RANKS` processes;
//! * `SLURM_PROCID` of `SLURM_NTASKS`, or `OMPI_COMM_WORLD_RANK` of `OMPI_COMM_WORLD_SIZE`;
//! * none, or one process: it starts `-t` x `-g` copies of itself, one rank each.
//!
//! Each of several processes hosts `-t` x `-g` ranks as threads, as the real one does with GPUs. More than one rank meet in
//! the folder `BURNIN_RENDEZVOUS`, where each leaves its address; they listen on `BURNIN_HOST` (127.0.0.1). Where no folder is
//! seen by all, each finds the others' addresses in its own: then rank N listens on the port `BURNIN_PORT` + N.
//!
//! Exit codes are those of nccl-tests: 0 well, 1 internal, 3 lost a rank, 4 timeout, 6 wrong usage, 7 wrong data.
//!
//! For tests, `BURNIN_FAULT` is `corrupt:RANK`, `slow:RANK:MICROSECONDS`, `exit:RANK:CODE` or `hang:RANK`; `@HOST` stands
//! for every rank on that host.

use std::env;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Named in failures, as nccl-tests names its own source.
const SOURCE: &str = "collective_perf.rs";
const FLOAT: usize = 4;
/// What is written before the other side is read. Both neighbours have room for two of these in their socket
/// buffers, and so the ring cannot block with everybody writing.
const SLICE: usize = 32 << 10;
/// Values repeat with this period, a prime, so that a chunk in a wrong place is a wrong value.
const PERIOD: usize = 251;
const BLOCK: usize = 64;
const HELLO: &[u8; 8] = b"burnin-1";

const LOST: i32 = 3;
const TIMEOUT: i32 = 4;
const USAGE: i32 = 6;
const WRONG: i32 = 7;

/// Whether a row of the table has been begun and not ended.
static IN_ROW: AtomicBool = AtomicBool::new(false);

fn main() {
    let collective = Collective::of_program(&name());
    let options = collective.and_then(|collective| Options::parse(collective, env::args().skip(1)));
    let options = options.unwrap_or_else(|message| {
        eprintln!("{}: {message} (-h for help)", name());
        process::exit(USAGE);
    });
    let local = options.threads * options.gpus;
    match World::from_environment(local) {
        Ok(Some(world)) => process::exit(world.run(options)),
        Ok(None) => process::exit(launch(local)),
        Err(message) => {
            eprintln!("{}: {message}", name());
            process::exit(USAGE);
        }
    }
}

/// The name of the program as it was started, without its folder.
fn name() -> String {
    let program = env::args().next().unwrap_or_default();
    program.rsplit('/').next().unwrap_or_default().to_owned()
}

// ---- collectives ---------------------------------------------------------------------------------------------

#[derive(Clone, Copy, PartialEq)]
enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    Alltoall,
    Broadcast,
    Sendrecv,
}

impl Collective {
    const ALL: [(&'static str, Self); 6] = [
        ("all_reduce_perf", Self::AllReduce),
        ("all_gather_perf", Self::AllGather),
        ("reduce_scatter_perf", Self::ReduceScatter),
        ("alltoall_perf", Self::Alltoall),
        ("broadcast_perf", Self::Broadcast),
        ("sendrecv_perf", Self::Sendrecv),
    ];

    fn of_program(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| name.starts_with(known)).map(|(_, found)| *found);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("the name of the program selects the collective: start it as one of {names}")
        })
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, collective)| *collective == self).map_or("", |(name, _)| name)
    }

    /// Whether every rank has its own part of the message.
    fn is_split(self) -> bool {
        matches!(self, Self::AllGather | Self::ReduceScatter | Self::Alltoall)
    }

    /// Bytes of the smallest unit of a message of `size` bytes: a rank's part, rounded down to 16 bytes, or the whole.
    fn part(self, size: usize, ranks: usize) -> usize {
        if self.is_split() { size / FLOAT / ranks * FLOAT & !15 } else { size / FLOAT * FLOAT }
    }

    /// Bytes that a rank sends and receives, of parts of `part` bytes.
    fn lengths(self, part: usize, ranks: usize) -> (usize, usize) {
        match self {
            Self::AllReduce | Self::Broadcast | Self::Sendrecv => (part, part),
            Self::AllGather => (part, part * ranks),
            Self::ReduceScatter => (part * ranks, part),
            Self::Alltoall => (part * ranks, part * ranks),
        }
    }

    /// Where a rank's input and result lie in the buffer of an in-place operation.
    fn in_place(self, part: usize, rank: usize, ranks: usize) -> (Range<usize>, Range<usize>) {
        let (send, receive) = self.lengths(part, ranks);
        match self {
            Self::AllGather => (part * rank..part * rank + send, 0..receive),
            Self::ReduceScatter => (0..send, part * rank..part * rank + receive),
            _ => (0..send, 0..receive),
        }
    }

    /// Bus bandwidth over algorithm bandwidth.
    fn factor(self, ranks: usize) -> f64 {
        let ranks = ranks as f64;
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather | Self::ReduceScatter | Self::Alltoall => (ranks - 1.0) / ranks,
            Self::Broadcast | Self::Sendrecv => 1.0,
        }
    }

    /// The columns `redop` and `root`. nccl-tests prints an operation for sendrecv, too.
    fn operation(self) -> (&'static str, i32) {
        match self {
            Self::AllReduce | Self::ReduceScatter | Self::Sendrecv => ("sum", -1),
            Self::AllGather | Self::Alltoall => ("none", -1),
            Self::Broadcast => ("none", 0),
        }
    }

    /// nccl-tests reports no errors of these two in place, because NCCL does not support them.
    fn is_checked_in_place(self) -> bool {
        !matches!(self, Self::Alltoall | Self::Sendrecv)
    }

    /// The element `index` of the result of `rank`.
    fn expected(self, index: usize, part: usize, (rank, ranks): (usize, usize), round: usize) -> f32 {
        let part = (part / FLOAT).max(1);
        let sum = |index| (0..ranks).map(|rank| value(rank, index, round)).sum();
        match self {
            Self::AllReduce => sum(index),
            Self::ReduceScatter => sum(rank * part + index),
            Self::AllGather => value(index / part, index % part, round),
            Self::Alltoall => value(index / part, rank * part + index % part, round),
            Self::Broadcast => value(0, index, round),
            Self::Sendrecv => value((rank + ranks - 1) % ranks, index, round),
        }
    }
}

// ---- options -------------------------------------------------------------------------------------------------

const HELP: &str = "USAGE: all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf, broadcast_perf, sendrecv_perf
  -b SIZE     smallest size (32M); K, M, G are powers of 1024
  -e SIZE     largest size (32M)
  -i SIZE     step between sizes (1M)
  -f N        factor between sizes (off)
  -n N        timed iterations (20)
  -w N        iterations before (1)
  -c 0|1      check the results (1)
  -t N, -g N  threads a process, ranks a thread (1, 1)
  -d float    the only type
  -o sum      the only operation
  -r 0        the only root
  -T SECONDS  longest wait for another rank (60)
  -h          this text";

struct Options {
    collective: Collective,
    min: usize,
    max: usize,
    step: usize,
    factor: usize,
    iters: usize,
    warmup: usize,
    check: bool,
    threads: usize,
    gpus: usize,
    timeout: Duration,
}

impl Options {
    fn parse(collective: Collective, arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        #[rustfmt::skip]
        let mut options = Self {
            collective, min: 32 << 20, max: 32 << 20, step: 1 << 20, factor: 1, iters: 20, warmup: 1, check: true,
            threads: 1, gpus: 1, timeout: Duration::from_secs(60),
        };
        let mut words = arguments.flat_map(split_flag);
        while let Some(flag) = words.next() {
            if flag == "-h" {
                println!("{HELP}");
                process::exit(0);
            }
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let wrong = || format!("{flag} cannot be {value:?}");
            let number = || value.parse::<usize>().map_err(|_| wrong());
            let positive = || number().and_then(|number| if number > 0 { Ok(number) } else { Err(wrong()) });
            match flag.as_str() {
                "-b" => options.min = size(&value).ok_or_else(wrong)?,
                "-e" => options.max = size(&value).ok_or_else(wrong)?,
                "-i" => options.step = size(&value).ok_or_else(wrong)?,
                "-f" => options.factor = positive()?,
                "-n" => options.iters = positive()?,
                "-w" => options.warmup = number()?,
                "-c" => options.check = number()? > 0,
                "-t" => options.threads = positive()?,
                "-g" => options.gpus = positive()?,
                "-T" => options.timeout = Duration::from_secs(positive()? as u64),
                "-d" if value == "float" => {}
                "-o" if value == "sum" => {}
                "-r" if value == "0" => {}
                "-d" | "-o" | "-r" => return Err(wrong()),
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        if options.min > options.max {
            let (min, max) = (options.min, options.max);
            println!("invalid sizes for 'minbytes' and 'maxbytes': {min} > {max}");
            process::exit(255);
        }
        Ok(options)
    }

    /// The sizes in bytes.
    fn sizes(&self) -> Vec<usize> {
        let next = |&size: &usize| match self.factor {
            1 => size.checked_add(self.step.max(1)),
            factor => size.max(1).checked_mul(factor),
        };
        std::iter::successors(Some(self.min), next).take_while(|&size| size <= self.max).collect()
    }

    /// What all ranks must agree on.
    fn fingerprint(&self) -> u64 {
        let check = usize::from(self.check);
        let parts = [
            self.collective as usize,
            self.min,
            self.max,
            self.step,
            self.factor,
            self.iters,
            self.warmup,
            check,
        ];
        parts.iter().fold(17, |hash: u64, &part| hash.wrapping_mul(0x100_0000_01b3) ^ part as u64)
    }
}

/// Takes `-b8` apart.
fn split_flag(word: String) -> Vec<String> {
    match word.get(2..).filter(|value| word.starts_with('-') && !value.is_empty()) {
        Some(value) => vec![word[..2].to_owned(), value.to_owned()],
        None => vec![word],
    }
}

fn size(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    (number >= 0.0 && number < 1e9).then_some((number * f64::from(1u32 << shift)) as usize)
}

// ---- processes -----------------------------------------------------------------------------------------------

/// Starts one copy a rank and waits for all of them. One that fails takes the others along, after a moment in which
/// they can say what they saw.
fn launch(ranks: usize) -> i32 {
    let folder = env::temp_dir().join(format!("{}-{}", name(), process::id()));
    let outcome = fs::create_dir(&folder).and_then(|()| launch_in(&folder, ranks));
    let _ = fs::remove_dir_all(&folder);
    outcome.unwrap_or_else(|error| {
        eprintln!("{}: cannot start {ranks} ranks: {error}", name());
        1
    })
}

fn launch_in(folder: &Path, ranks: usize) -> io::Result<i32> {
    use std::os::unix::process::CommandExt;
    let program = env::current_exe()?;
    let mut children = Vec::new();
    for rank in 0..ranks {
        // The other end of its standard input is ours: a copy whose parent is gone reads the end of it.
        let child = Command::new(&program)
            .arg0(name())
            .args(env::args_os().skip(1))
            .env("BURNIN_RANK", rank.to_string())
            .env("BURNIN_RANKS", ranks.to_string())
            .env("BURNIN_RENDEZVOUS", folder)
            .env("BURNIN_COPY", "1")
            .stdin(Stdio::piped())
            .spawn()?;
        children.push(child);
    }
    let (mut code, mut failed) = (0, None);
    while !children.is_empty() {
        children.retain_mut(|child| {
            let Ok(Some(status)) = child.try_wait() else { return true };
            let this = exit_code(status);
            if this != 0 {
                failed.get_or_insert_with(Instant::now);
                // A rank that lost another one is a victim; the cause is worth more.
                code = if code == 0 || (code == LOST && this != LOST) { this } else { code };
            }
            false
        });
        if failed.is_some_and(|when: Instant| when.elapsed() > Duration::from_secs(2)) {
            // An error means that it has just ended.
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(code)
}

fn exit_code(status: process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// Which ranks this process hosts, and where they find the others.
struct World {
    first: usize,
    local: usize,
    ranks: usize,
    rendezvous: PathBuf,
    fault: Option<(String, Whose, u64)>,
}

impl World {
    fn from_environment(local: usize) -> Result<Option<Self>, String> {
        let number = |name: &str| match env::var(name) {
            Err(_) => Ok(None),
            Ok(text) => text.parse::<usize>().map(Some).map_err(|_| format!("{name} is no number: {text:?}")),
        };
        let sources = [
            ("BURNIN_RANK", "BURNIN_RANKS"),
            ("SLURM_PROCID", "SLURM_NTASKS"),
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ];
        for (rank_name, count_name) in sources {
            let (Some(rank), Some(count)) = (number(rank_name)?, number(count_name)?) else { continue };
            if rank >= count {
                return Err(format!("{rank_name} is {rank}, and {count_name} only {count}"));
            }
            let copy = env::var_os("BURNIN_COPY").is_some();
            if copy {
                thread::spawn(|| {
                    let _ = io::stdin().read(&mut [0]);
                    process::exit(LOST);
                });
            } else if count == 1 {
                break;
            }
            let Some(rendezvous) = env::var_os("BURNIN_RENDEZVOUS").map(PathBuf::from) else {
                return Err("BURNIN_RENDEZVOUS must name a folder that all ranks see".to_owned());
            };
            let local = if copy { 1 } else { local };
            let (first, ranks) = (rank * local, count * local);
            return Ok(Some(Self { first, local, ranks, rendezvous, fault: fault()? }));
        }
        Ok(None)
    }

    /// Runs the ranks of this process, the first of them in this thread.
    fn run(&self, options: Options) -> i32 {
        if let Err(error) = fs::create_dir_all(&self.rendezvous) {
            fail(line!(), 1, &format!("{}: {error}", self.rendezvous.display()));
        }
        thread::scope(|scope| {
            let options = &options;
            let others: Vec<_> = (1..self.local)
                .map(|index| scope.spawn(move || self.run_rank(self.first + index, options)))
                .collect();
            let code = self.run_rank(self.first, options);
            others.into_iter().map(|other| other.join().unwrap_or(1)).fold(code, i32::max)
        })
    }

    fn run_rank(&self, rank: usize, options: &Options) -> i32 {
        let mut ring = Ring::join(rank, self.ranks, &self.rendezvous, options);
        let fault = self.fault.as_ref().filter(|(_, whose, _)| match whose {
            Whose::Rank(whose) => *whose == rank,
            Whose::Host(whose) => *whose == host(),
        });
        if let Some((_, _, micros)) = fault.filter(|(kind, ..)| kind == "slow") {
            ring.delay = Duration::from_micros(*micros);
        }
        benchmark(&mut ring, options, fault.map(|(kind, _, value)| (kind.as_str(), *value)))
    }
}

/// Who has a fault.
enum Whose {
    Rank(usize),
    Host(String),
}

fn whose(text: &str) -> Option<Whose> {
    match text.strip_prefix('@') {
        Some(host) => Some(Whose::Host(host.to_owned())),
        None => text.parse().ok().map(Whose::Rank),
    }
}

fn fault() -> Result<Option<(String, Whose, u64)>, String> {
    let Ok(text) = env::var("BURNIN_FAULT") else { return Ok(None) };
    let parts: Vec<&str> = text.split(':').collect();
    let parsed = match parts[..] {
        [kind @ ("corrupt" | "hang"), who] => whose(who).map(|who| (kind.to_owned(), who, 0)),
        [kind @ ("slow" | "exit"), who, value] => {
            whose(who).zip(value.parse().ok()).map(|(who, value)| (kind.to_owned(), who, value))
        }
        _ => None,
    };
    parsed.map(Some).ok_or_else(|| format!("BURNIN_FAULT is not understood: {text:?}"))
}

// ---- the ring ------------------------------------------------------------------------------------------------

/// One rank, with a socket to the next one and one from the previous one.
struct Ring {
    rank: usize,
    ranks: usize,
    /// None for a lone rank.
    links: Option<(TcpStream, TcpStream)>,
    timeout: Duration,
    delay: Duration,
    incoming: Vec<u8>,
    scratch: [Vec<u8>; 2],
}

impl Ring {
    fn join(rank: usize, ranks: usize, rendezvous: &Path, options: &Options) -> Self {
        let timeout = options.timeout;
        let links = (ranks > 1).then(|| {
            let hello = hello(rank, ranks, options);
            let expected = self::hello((rank + ranks - 1) % ranks, ranks, options);
            let result = publish(rank, rendezvous).and_then(|listener| {
                let next = call((rank + 1) % ranks, rendezvous, timeout, &hello)?;
                Ok((next, answer(&listener, timeout, &expected)?))
            });
            result.unwrap_or_else(|error| {
                let code = if error.kind() == ErrorKind::TimedOut { TIMEOUT } else { LOST };
                fail(line!(), code, &format!("rank {rank} cannot join the ring: {error}"))
            })
        });
        Self {
            rank,
            ranks,
            links,
            timeout,
            delay: Duration::ZERO,
            incoming: vec![0; SLICE],
            scratch: [vec![], vec![]],
        }
    }

    /// The collective over parts of `part` bytes, from `input` into `buffer`; without `input` in place.
    fn run(&mut self, collective: Collective, part: usize, input: Option<&[u8]>, buffer: &mut [u8]) {
        if !self.delay.is_zero() {
            thread::sleep(self.delay);
        }
        match collective {
            Collective::AllReduce => self.all_reduce(input, buffer),
            Collective::AllGather => self.all_gather(part, input, buffer),
            Collective::ReduceScatter => self.reduce_scatter(part, input, buffer),
            Collective::Alltoall => self.alltoall(part, input, buffer),
            Collective::Broadcast => self.broadcast(input, buffer),
            Collective::Sendrecv => self.sendrecv(input, buffer),
        }
    }

    /// The sum over all ranks.
    fn all_reduce(&mut self, input: Option<&[u8]>, buffer: &mut [u8]) {
        let (rank, ranks, count) = (self.rank, self.ranks, buffer.len() / FLOAT);
        if let (1, Some(input)) = (ranks, input) {
            buffer.copy_from_slice(input);
        }
        let chunk = |index: usize| {
            let index = index % ranks;
            count * index / ranks * FLOAT..count * (index + 1) / ranks * FLOAT
        };
        // Reduce-scatter: after n-1 steps each rank holds the whole sum of one chunk.
        for step in 0..ranks - 1 {
            let (out, into) = (chunk(rank + ranks - step), chunk(rank + 2 * ranks - step - 1));
            for (out, into) in slices(out, into) {
                // The first step sends what this rank began with, the later ones what has been summed up so far.
                self.send(if step == 0 { &input.unwrap_or(buffer)[out] } else { &buffer[out] });
                self.receive_into_scratch(into.len());
                add(
                    &mut buffer[into.clone()],
                    input.map(|input| &input[into.clone()]),
                    &self.incoming[..into.len()],
                );
            }
        }
        self.pass_round(rank + 1, &chunk, buffer);
    }

    /// Every rank's part, in the order of ranks.
    fn all_gather(&mut self, part: usize, input: Option<&[u8]>, buffer: &mut [u8]) {
        let (rank, ranks) = (self.rank, self.ranks);
        let chunk = |index: usize| index % ranks * part..(index % ranks + 1) * part;
        if let Some(input) = input {
            buffer[chunk(rank)].copy_from_slice(input);
        }
        self.pass_round(rank, &chunk, buffer);
    }

    /// n-1 steps: each rank passes on the chunk it got last, beginning with `first`.
    fn pass_round(&mut self, first: usize, chunk: &dyn Fn(usize) -> Range<usize>, buffer: &mut [u8]) {
        let ranks = self.ranks;
        for step in 0..ranks - 1 {
            let (out, into) = (chunk(first + ranks - step), chunk(first + ranks - step - 1));
            for (out, into) in slices(out, into) {
                self.send(&buffer[out]);
                self.receive(&mut buffer[into]);
            }
        }
    }

    /// The sum over all ranks of this rank's part.
    fn reduce_scatter(&mut self, part: usize, input: Option<&[u8]>, buffer: &mut [u8]) {
        let (rank, ranks) = (self.rank, self.ranks);
        let chunk = |index: usize| index % ranks * part..(index % ranks + 1) * part;
        let mut sums = self.scratch(0, &[input.unwrap_or(buffer)]);
        for step in 0..ranks - 1 {
            let (out, into) = (chunk(rank + 2 * ranks - 1 - step), chunk(rank + 2 * ranks - 2 - step));
            for (out, into) in slices(out, into) {
                self.send(&sums[out]);
                self.receive_into_scratch(into.len());
                add(&mut sums[into.clone()], None, &self.incoming[..into.len()]);
            }
        }
        let mine = if input.is_some() { 0..part } else { chunk(rank) };
        buffer[mine].copy_from_slice(&sums[chunk(rank)]);
        self.scratch[0] = sums;
    }

    /// Part i of rank j becomes part j of rank i. Parts move around the ring up to their rank.
    fn alltoall(&mut self, part: usize, input: Option<&[u8]>, buffer: &mut [u8]) {
        let (rank, ranks) = (self.rank, self.ranks);
        let chunk = |index: usize| index % ranks * part..(index % ranks + 1) * part;
        let from = input.unwrap_or(buffer);
        // The parts of the rank `step` places back that are still to travel, nearest destination first: from the rank
        // after this one to the last, then from the first to this one.
        let mut carried = self.scratch(0, &[&from[(rank + 1) * part..], &from[..rank * part]]);
        let mut arrived = self.scratch(1, &[&carried]);
        if let Some(input) = input {
            buffer[chunk(rank)].copy_from_slice(&input[chunk(rank)]);
        }
        for step in 1..ranks {
            // The parts before `off` have arrived.
            let off = (step - 1) * part;
            for (out, into) in slices(off..carried.len(), off..arrived.len()) {
                self.send(&carried[out]);
                self.receive(&mut arrived[into]);
            }
            buffer[chunk(rank + ranks - step)].copy_from_slice(&arrived[off..off + part]);
            std::mem::swap(&mut carried, &mut arrived);
        }
        self.scratch = [carried, arrived];
    }

    /// The data of rank 0, passed from neighbour to neighbour.
    fn broadcast(&mut self, input: Option<&[u8]>, buffer: &mut [u8]) {
        if let (0, Some(input)) = (self.rank, input) {
            buffer.copy_from_slice(input);
        }
        for slice in buffer.chunks_mut(SLICE) {
            if self.rank > 0 {
                self.receive(slice);
            }
            if self.rank + 1 < self.ranks {
                self.send(slice);
            }
        }
    }

    /// Sends to the next rank what it has, and receives from the previous one.
    fn sendrecv(&mut self, input: Option<&[u8]>, buffer: &mut [u8]) {
        if self.ranks == 1 {
            return input.map_or((), |input| buffer.copy_from_slice(input));
        }
        for (out, into) in slices(0..buffer.len(), 0..buffer.len()) {
            // In place, too, each slice is sent before it is overwritten.
            self.send(&input.unwrap_or(buffer)[out]);
            self.receive(&mut buffer[into]);
        }
    }

    /// A block of every rank, in their order. Also a barrier: nobody has all before everybody has sent one.
    fn gather(&mut self, mine: [u8; BLOCK]) -> Vec<[u8; BLOCK]> {
        let mut all = vec![[0; BLOCK]; self.ranks];
        all[self.rank] = mine;
        for step in 0..self.ranks - 1 {
            let out = all[(self.rank + self.ranks - step) % self.ranks];
            self.send(&out);
            self.receive(&mut all[(self.rank + 2 * self.ranks - step - 1) % self.ranks]);
        }
        all
    }

    /// The sum of a number over all ranks.
    fn sum(&mut self, mine: f64) -> f64 {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&mine.to_ne_bytes());
        self.gather(block).iter().map(|block| f64::from_ne_bytes(block[..8].try_into().unwrap())).sum()
    }

    fn send(&mut self, bytes: &[u8]) {
        let Some((next, _)) = &mut self.links else { return };
        if let Err(error) = next.write_all(bytes) {
            self.lost(line!(), self.rank + 1, &error);
        }
    }

    fn receive(&mut self, bytes: &mut [u8]) {
        let Some((_, previous)) = &mut self.links else { return };
        if let Err(error) = previous.read_exact(bytes) {
            self.lost(line!(), self.rank + self.ranks - 1, &error);
        }
    }

    /// Memory that outlives one collective, so that none of it is allocated while time is taken, holding `parts`.
    fn scratch(&mut self, which: usize, parts: &[&[u8]]) -> Vec<u8> {
        let mut scratch = std::mem::take(&mut self.scratch[which]);
        scratch.clear();
        parts.iter().for_each(|part| scratch.extend_from_slice(part));
        scratch
    }

    fn receive_into_scratch(&mut self, length: usize) {
        let mut scratch = std::mem::take(&mut self.incoming);
        self.receive(&mut scratch[..length]);
        self.incoming = scratch;
    }

    fn lost(&self, line: u32, peer: usize, error: &io::Error) -> ! {
        let (rank, peer) = (self.rank, peer % self.ranks);
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                let seconds = self.timeout.as_secs();
                fail(line, TIMEOUT, &format!("timeout ({seconds}s): rank {rank} waits for rank {peer}"))
            }
            _ => fail(
                line,
                LOST,
                &format!("remote process exited or there was a network error: rank {rank} lost rank {peer}"),
            ),
        }
    }
}

/// Two ranges cut alike, for a send and a receive in turn.
fn slices(out: Range<usize>, into: Range<usize>) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let cut = |range: &Range<usize>, at: usize| {
        (range.start + at).min(range.end)..(range.start + at + SLICE).min(range.end)
    };
    (0..out.len().max(into.len())).step_by(SLICE).map(move |at| (cut(&out, at), cut(&into, at)))
}

fn add(sum: &mut [u8], base: Option<&[u8]>, incoming: &[u8]) {
    let float = |bytes: &[u8]| f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if let Some(base) = base {
        sum.copy_from_slice(base);
    }
    for (sum, incoming) in sum.chunks_exact_mut(FLOAT).zip(incoming.chunks_exact(FLOAT)) {
        sum.copy_from_slice(&(float(sum) + float(incoming)).to_ne_bytes());
    }
}

/// What a rank says first on a new connection: who it is, of how many, started with which flags.
fn hello(rank: usize, ranks: usize, options: &Options) -> [u8; 32] {
    let mut hello = [0; 32];
    hello[..8].copy_from_slice(HELLO);
    hello[8..16].copy_from_slice(&(rank as u64).to_be_bytes());
    hello[16..24].copy_from_slice(&(ranks as u64).to_be_bytes());
    hello[24..].copy_from_slice(&options.fingerprint().to_be_bytes());
    hello
}

/// Listens, and leaves the address where the others look for it: under its name at once and whole.
fn publish(rank: usize, rendezvous: &Path) -> io::Result<TcpListener> {
    // Ranks on other hosts reach this one by the name its scheduler knows, where that is a name on the network.
    let host = env::var("BURNIN_HOST").or_else(|_| env::var("SLURMD_NODENAME"));
    let host = host.unwrap_or_else(|_| "127.0.0.1".to_owned());
    let known = env::var("BURNIN_PORT").ok().map(|text| match text.parse::<u16>() {
        Ok(port) if usize::from(port) + rank <= usize::from(u16::MAX) => Ok(port + rank as u16),
        _ => Err(io::Error::other(format!("BURNIN_PORT is no port for rank {rank}: {text:?}"))),
    });
    let listener = match known.transpose()? {
        Some(port) => TcpListener::bind((host.as_str(), port))?,
        None => TcpListener::bind((host.as_str(), 0)).or_else(|_| TcpListener::bind(("127.0.0.1", 0)))?,
    };
    let draft = rendezvous.join(format!("rank-{rank}.{}", process::id()));
    fs::write(&draft, listener.local_addr()?.to_string())?;
    fs::rename(draft, rendezvous.join(format!("rank-{rank}")))?;
    Ok(listener)
}

fn call(peer: usize, rendezvous: &Path, timeout: Duration, hello: &[u8]) -> io::Result<TcpStream> {
    let file = rendezvous.join(format!("rank-{peer}"));
    poll(timeout, &format!("rank {peer} did not appear"), || {
        // An address that an earlier run left behind refuses us until its owner's successor has replaced it.
        let Ok(address) = fs::read_to_string(&file) else { return Ok(None) };
        let Ok(mut stream) = TcpStream::connect(address.as_str()) else { return Ok(None) };
        tune(&stream, timeout)?;
        stream.write_all(hello)?;
        Ok(Some(stream))
    })
}

fn answer(listener: &TcpListener, timeout: Duration, expected: &[u8]) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    poll(timeout, "the previous rank did not connect", || {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        tune(&stream, timeout)?;
        let mut hello = [0; 32];
        stream.read_exact(&mut hello)?;
        match () {
            () if hello == expected => Ok(Some(stream)),
            () if hello[..24] == expected[..24] => {
                Err(io::Error::other("the ranks were started with other flags"))
            }
            // A stranger.
            () => Ok(None),
        }
    })
}

fn poll<T>(timeout: Duration, late: &str, mut ask: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    let started = Instant::now();
    loop {
        if let Some(value) = ask()? {
            return Ok(value);
        }
        if started.elapsed() > timeout {
            return Err(io::Error::new(ErrorKind::TimedOut, format!("{late} within {}s", timeout.as_secs())));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn tune(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

// ---- the benchmark -------------------------------------------------------------------------------------------

fn benchmark(ring: &mut Ring, options: &Options, fault: Option<(&str, u64)>) -> i32 {
    print_head(ring, options);
    let collective = options.collective;
    let sizes = options.sizes();
    let (operation, root) = collective.operation();
    let (mut bad_halves, mut busbw_sum) = (0.0, 0.0);
    for (round, &size) in sizes.iter().enumerate() {
        let part = collective.part(size, ring.ranks);
        let bytes = if collective.is_split() { part * ring.ranks } else { part };
        let mut buffers = Buffers::new(collective, part, (ring.rank, ring.ranks), round);
        let count = part / FLOAT;
        print_row(ring, &format!("{bytes:12}  {count:12}  {:>8}  {operation:>6}  {root:6}", "float"));
        for _ in 0..options.warmup {
            buffers.run(ring, false);
        }
        if round == 1.min(sizes.len() - 1) {
            break_down(fault);
        }
        for in_place in [false, true] {
            buffers.fill();
            ring.sum(0.0);
            let started = Instant::now();
            for _ in 0..options.iters {
                buffers.run(ring, in_place);
            }
            let mine = started.elapsed().as_secs_f64() * 1e6 / options.iters as f64;
            let time = ring.sum(mine) / ring.ranks as f64;
            let checked = options.check && (!in_place || collective.is_checked_in_place());
            let wrong = checked.then(|| {
                buffers.fill();
                buffers.run(ring, in_place);
                let corrupt = matches!(fault, Some(("corrupt", _)));
                let mine = buffers.count_wrong(in_place, corrupt);
                bad_halves += ring.sum(f64::from(u8::from(mine > 0)));
                ring.sum(mine as f64)
            });
            let algbw = bytes as f64 / time / 1e3;
            let busbw = algbw * collective.factor(ring.ranks);
            busbw_sum += busbw;
            let wrong = wrong.map_or("N/A".to_owned(), general);
            let (time, algbw, busbw) = (squeeze(time, 7), squeeze(algbw, 6), squeeze(busbw, 6));
            print_row(ring, &format!("  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}"));
        }
        end_row(ring);
    }
    print_foot(ring, collective, bad_halves, busbw_sum / (2 * sizes.len()) as f64)
}

/// The memory of one rank for one size.
struct Buffers {
    collective: Collective,
    part: usize,
    /// This rank, and how many there are.
    who: (usize, usize),
    /// Changes the values from size to size.
    round: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Input and result of an operation in place.
    both: Vec<u8>,
}

impl Buffers {
    fn new(collective: Collective, part: usize, who: (usize, usize), round: usize) -> Self {
        let (send, receive) = collective.lengths(part, who.1);
        let (input, output, both) = (vec![0; send], vec![0; receive], vec![0; send.max(receive)]);
        let mut buffers = Self { collective, part, who, round, input, output, both };
        buffers.fill();
        buffers
    }

    /// Writes the inputs anew and spoils the results.
    fn fill(&mut self) {
        let (rank, ranks) = self.who;
        fill(&mut self.input, rank, self.round);
        self.output.fill(0xff);
        self.both.fill(0xff);
        let (input, _) = self.collective.in_place(self.part, rank, ranks);
        fill(&mut self.both[input], rank, self.round);
    }

    fn run(&mut self, ring: &mut Ring, in_place: bool) {
        match in_place {
            false => ring.run(self.collective, self.part, Some(&self.input), &mut self.output),
            true => ring.run(self.collective, self.part, None, &mut self.both),
        }
    }

    /// Elements of this rank's result that are not what they should be.
    fn count_wrong(&mut self, in_place: bool, corrupt: bool) -> usize {
        let (rank, ranks) = self.who;
        let found = match in_place {
            false => &mut self.output[..],
            true => &mut self.both[self.collective.in_place(self.part, rank, ranks).1],
        };
        if let (true, Some(first)) = (corrupt, found.first_mut()) {
            *first ^= 1;
        }
        let right = |(index, element): &(usize, &[u8])| {
            *element == self.collective.expected(*index, self.part, self.who, self.round).to_ne_bytes()
        };
        found.chunks_exact(FLOAT).enumerate().filter(|element| !right(element)).count()
    }
}

/// Does what the fault says, where other ranks are in the middle of their work.
fn break_down(fault: Option<(&str, u64)>) {
    match fault {
        Some(("exit", code)) => process::exit(code as i32),
        Some(("hang", _)) => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        _ => {}
    }
}

/// Small whole numbers: their sum is exact in whatever order it is made.
fn value(rank: usize, index: usize, round: usize) -> f32 {
    ((index * 7 + rank * 13 + round * 5) % PERIOD) as f32
}

fn fill(buffer: &mut [u8], rank: usize, round: usize) {
    let pattern: Vec<u8> = (0..PERIOD).flat_map(|index| value(rank, index, round).to_ne_bytes()).collect();
    for part in buffer.chunks_mut(pattern.len()) {
        part.copy_from_slice(&pattern[..part.len()]);
    }
}

// ---- what is printed -----------------------------------------------------------------------------------------

fn print_head(ring: &mut Ring, options: &Options) {
    let host = host();
    let mut block = [0; BLOCK];
    let name = &host.as_bytes()[..host.len().min(BLOCK - 8)];
    block[..4].copy_from_slice(&process::id().to_ne_bytes());
    block[8..8 + name.len()].copy_from_slice(name);
    let devices = ring.gather(block);
    if ring.rank > 0 {
        return;
    }
    let Options { threads, gpus, min, max, warmup, iters, .. } = options;
    let step = match options.factor {
        1 => format!("{}(bytes)", options.step),
        factor => format!("{factor}(factor)"),
    };
    println!("# Burnin's CPU collectives: a ring over TCP (loopback, or the address in BURNIN_HOST).");
    println!("# This is not NCCL and measures no GPU: it replaces nccl-tests on a machine without one.");
    println!("# Collective test starting: {}", options.collective.name());
    println!(
        "# nThread {threads} nGpus {gpus} minBytes {min} maxBytes {max} step: {step} warmup iters: {warmup} \
         iters: {iters} agg iters: 1 validation: {} graph: 0 unalign: 0",
        u8::from(options.check)
    );
    println!("#\n# Using devices");
    let mut hosts: Vec<&[u8]> = Vec::new();
    for (rank, block) in devices.iter().enumerate() {
        let pid = u32::from_ne_bytes(block[..4].try_into().unwrap());
        let name = block[8..].split(|&byte| byte == 0).next().unwrap_or_default();
        let device = hosts.iter().filter(|&&host| host == name).count();
        hosts.push(name);
        let name = String::from_utf8_lossy(name);
        println!(
            "#  Rank {rank:2} Group  0 Pid {pid:6} on {name:>10} device {device:2} [cpu:{device:02}] CPU"
        );
    }
    println!("#\n#{:62}out-of-place{:23}in-place          ", "", "");
    let half = |first: &str, second: &str, third: &str, last: &str| {
        format!("  {first:>7}  {second:>6}  {third:>6}  {last:>6}")
    };
    let line = |left: [&str; 5], half: String| {
        let [size, count, kind, op, root] = left;
        println!("#{size:>11}  {count:>12}  {kind:>8}  {op:>6}  {root:>6}{half}{half} ");
    };
    line(["size", "count", "type", "redop", "root"], half("time", "algbw", "busbw", "#wrong"));
    line(["(B)", "(elements)", "", "", ""], half("(us)", "(GB/s)", "(GB/s)", ""));
}

/// Writes a part of a row; it becomes visible with the end of the line, as in the real one.
fn print_row(ring: &Ring, text: &str) {
    if ring.rank == 0 {
        IN_ROW.store(true, Ordering::Relaxed);
        print!("{text}");
    }
}

fn end_row(ring: &Ring) {
    if ring.rank == 0 {
        println!();
        IN_ROW.store(false, Ordering::Relaxed);
    }
}

fn print_foot(ring: &mut Ring, collective: Collective, bad_halves: f64, average: f64) -> i32 {
    let code = if bad_halves > 0.0 { WRONG } else { 0 };
    if ring.rank == 0 {
        let word = if code == 0 { "OK" } else { "FAILED" };
        println!("# Out of bounds values : {} {word}", general(bad_halves));
        println!("# Avg bus bandwidth    : {} ", general(average));
        println!("#\n# Collective test concluded: {}\n#\n", collective.name());
        if code != 0 {
            println!(" .. {} pid {}: Test failure {SOURCE}:{}", host(), process::id(), line!());
        }
    }
    // Nobody leaves before everybody has finished, or a slow rank would take a good end for a lost neighbour.
    ring.sum(0.0);
    code
}

/// Ends this process as the real one ends on a failure.
fn fail(line: u32, code: i32, text: &str) -> ! {
    if IN_ROW.swap(false, Ordering::Relaxed) {
        println!();
    }
    let host = host();
    println!("{host}: Test failure {SOURCE}:{line} '{text}'");
    println!(" .. {host} pid {}: Test failure {SOURCE}:{}", process::id(), line!());
    process::exit(code)
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| env::var("HOSTNAME").ok());
    let name = name.unwrap_or_default();
    name.trim().split('.').next().filter(|name| !name.is_empty()).unwrap_or("localhost").to_owned()
}

/// A number with two decimals, or with as many as fit the width, or with an exponent.
fn squeeze(value: f64, width: usize) -> String {
    let plain = (0..=2).rev().map(|decimals| format!("{value:.decimals$}")).find(|text| text.len() <= width);
    plain.unwrap_or_else(|| exponent(&format!("{value:.*e}", width.saturating_sub(6))))
}

/// A number as `%g` prints it: six digits, without trailing zeros.
fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { "-nan".to_owned() };
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(5 - power) {
        Ok(decimals) if power >= -4 => trim(&format!("{value:.decimals$}")),
        _ => exponent(&format!("{}e{power}", trim(mantissa))),
    }
}

/// `1.5e7` as C writes it: `1.5e+07`.
fn exponent(text: &str) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.abs())
}
