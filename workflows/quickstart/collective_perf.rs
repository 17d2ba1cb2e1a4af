//! CPU collectives for machines without GPUs: a ring of processes over TCP.
//!
//! The program accepts the flags of nccl-tests and prints its text format, so that parsing, loading and judging are tested as
//! with nccl-tests. Its first lines state that it is not NCCL. Times are measured: N ranks, each with sockets to its neighbors,
//! exchange floats, and every rank checks its result.
//!
//! The beginning of the program's name selects the collective: `all_reduce_perf`, `all_gather_perf`, `reduce_scatter_perf`,
//! `alltoall_perf`, `broadcast_perf` or `sendrecv_perf`. Sizes, counts, bandwidth factors, operations, roots and the check of
//! in-place results follow nccl-tests 2.19.6 (`*GetCollByteCount`, `*GetBw`, `*InitData` and `*RunTest` in `src/*.cu`).
//!
//! Standard library only: a build step compiles this file and its modules with `rustc --edition 2024 -O` in seconds.
//!
//! Sources of rank and number of ranks; the first match is used:
//! * `BURNIN_RANK` of `BURNIN_RANKS` processes;
//! * `SLURM_PROCID` of `SLURM_NTASKS`, or `OMPI_COMM_WORLD_RANK` of `OMPI_COMM_WORLD_SIZE`;
//! * otherwise, or for one process: it starts `-t` x `-g` copies of itself with one rank each.
//!
//! With several processes each hosts `-t` x `-g` ranks as threads, as nccl-tests does with GPUs. Ranks write their addresses to
//! the folder `BURNIN_RENDEZVOUS` and listen on `BURNIN_HOST` (127.0.0.1). Without a shared folder each host's folder must contain
//! the other ranks' addresses, and rank N listens on the port `BURNIN_PORT` + N.
//!
//! Exit codes of nccl-tests: 0 success, 1 internal error, 3 lost rank, 4 timeout, 6 invalid usage, 7 wrong data.
//!
//! For tests, `BURNIN_FAULT` is `corrupt:RANK`, `slow:RANK:MICROSECONDS`, `exit:RANK:CODE` or `hang:RANK`; `@HOST` means every rank on that
//! host.

mod benchmark;
mod collective;
mod connect;
mod failure;
mod options;
mod ring;
mod table;
mod world;

use std::{env, process};

use collective::Collective;
use options::ProgramOptions;
use world::{Ranks, launch};

/// Bytes of an element.
const FLOAT: usize = 4;
/// Bytes that every rank sends to every other rank before and after a measurement.
const BLOCK: usize = 64;

const LOST: i32 = 3;
const TIMEOUT: i32 = 4;
const USAGE: i32 = 6;
const WRONG: i32 = 7;

fn main() {
    let collective = Collective::of_program(&name());
    let options = collective.and_then(|collective| ProgramOptions::parse(collective, env::args().skip(1)));
    let options = options.unwrap_or_else(|message| {
        eprintln!("{}: {message} (-h for help)", name());
        process::exit(USAGE);
    });
    let local = options.threads * options.gpus;
    match Ranks::from_environment(local) {
        Ok(Some(world)) => process::exit(world.run(options)),
        Ok(None) => process::exit(launch(local)),
        Err(message) => {
            eprintln!("{}: {message}", name());
            process::exit(USAGE);
        }
    }
}

/// The program's name at its start, without the folder.
fn name() -> String {
    let program = env::args().next().unwrap_or_default();
    program.rsplit('/').next().unwrap_or_default().to_owned()
}
