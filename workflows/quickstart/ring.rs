//! One rank in a ring: the collectives over its two sockets.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    ops::Range,
    path::Path,
    thread,
    time::Duration,
};

use crate::{
    BLOCK, FLOAT, LOST, TIMEOUT,
    collective::Collective,
    connect::{answer, call, hello, publish},
    failure::fail,
    options::ProgramOptions,
};

/// Bytes written before the next read. The neighbors' socket buffers have room for two of these slices, so the ring cannot block
/// with every rank writing.
const SLICE: usize = 32 << 10;

/// One rank, with a socket to the next rank and a socket from the previous rank.
pub struct Ring {
    pub rank: usize,
    pub ranks: usize,
    /// Sockets to the next and from the previous rank; `None` for a single rank.
    links: Option<(TcpStream, TcpStream)>,
    timeout: Duration,
    pub delay: Duration,
    incoming: Vec<u8>,
    scratch: [Vec<u8>; 2],
}

impl Ring {
    pub fn join(rank: usize, ranks: usize, rendezvous: &Path, options: &ProgramOptions) -> Self {
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

    /// Runs the collective over parts of `part` bytes, from `input` into `buffer`; in place without `input`.
    pub fn run(&mut self, collective: Collective, part: usize, input: Option<&[u8]>, buffer: &mut [u8]) {
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

    /// Computes the sum over all ranks, on every rank.
    fn all_reduce(&mut self, input: Option<&[u8]>, buffer: &mut [u8]) {
        let (rank, ranks, count) = (self.rank, self.ranks, buffer.len() / FLOAT);
        if let (1, Some(input)) = (ranks, input) {
            buffer.copy_from_slice(input);
        }
        let chunk = |index: usize| {
            let index = index % ranks;
            count * index / ranks * FLOAT..count * (index + 1) / ranks * FLOAT
        };
        // Reduce-scatter: after n-1 steps each rank has the whole sum of one chunk.
        for step in 0..ranks - 1 {
            let (out, into) = (chunk(rank + ranks - step), chunk(rank + 2 * ranks - step - 1));
            for (out, into) in slices(out, into) {
                // The first step sends this rank's own chunk, later steps send partial sums.
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

    /// Every rank's part, in rank order.
    fn all_gather(&mut self, part: usize, input: Option<&[u8]>, buffer: &mut [u8]) {
        let (rank, ranks) = (self.rank, self.ranks);
        let chunk = |index: usize| index % ranks * part..(index % ranks + 1) * part;
        if let Some(input) = input {
            buffer[chunk(rank)].copy_from_slice(input);
        }
        self.pass_round(rank, &chunk, buffer);
    }

    /// n-1 steps: each rank forwards the chunk it received last, starting with `first`.
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

    /// Computes the sum over all ranks of this rank's part.
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
        // The remaining parts of the rank `step` places back, nearest destination first: from the rank
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

    /// The data of rank 0, passed from neighbor to neighbor.
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

    /// Sends to the next rank and receives from the previous one.
    fn sendrecv(&mut self, input: Option<&[u8]>, buffer: &mut [u8]) {
        if self.ranks == 1 {
            return input.map_or((), |input| buffer.copy_from_slice(input));
        }
        for (out, into) in slices(0..buffer.len(), 0..buffer.len()) {
            // Each slice is sent before it is overwritten, also in place.
            self.send(&input.unwrap_or(buffer)[out]);
            self.receive(&mut buffer[into]);
        }
    }

    /// A block of every rank, in rank order. Also a barrier: no rank has all blocks before every rank has sent one.
    pub fn gather(&mut self, mine: [u8; BLOCK]) -> Vec<[u8; BLOCK]> {
        let mut all = vec![[0; BLOCK]; self.ranks];
        all[self.rank] = mine;
        for step in 0..self.ranks - 1 {
            let out = all[(self.rank + self.ranks - step) % self.ranks];
            self.send(&out);
            self.receive(&mut all[(self.rank + 2 * self.ranks - step - 1) % self.ranks]);
        }
        all
    }

    /// Returns the sum of `mine` over all ranks.
    pub fn sum(&mut self, mine: f64) -> f64 {
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

    /// Returns a copy of `parts` in a buffer that collectives reuse, so that a measurement allocates no memory.
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

/// Slices two ranges equally, for alternating sends and receives.
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
