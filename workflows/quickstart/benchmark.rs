//! Measures and checks one size after the other.

use std::{
    process, thread,
    time::{Duration, Instant},
};

use crate::{
    FLOAT,
    collective::{Collective, PERIOD, value},
    options::ProgramOptions,
    ring::Ring,
    table::{end_row, general, print_foot, print_head, print_row, squeeze},
};

pub fn benchmark(ring: &mut Ring, options: &ProgramOptions, fault: Option<(&str, u64)>) -> i32 {
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

/// Buffers of one rank for one size.
struct Buffers {
    collective: Collective,
    part: usize,
    /// Rank, starting at 0, and number of ranks.
    place: (usize, usize),
    /// Index of the size, so that each size has different values.
    round: usize,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Input and result of an in-place operation.
    both: Vec<u8>,
}

impl Buffers {
    fn new(collective: Collective, part: usize, place: (usize, usize), round: usize) -> Self {
        let (send, receive) = collective.lengths(part, place.1);
        let (input, output, both) = (vec![0; send], vec![0; receive], vec![0; send.max(receive)]);
        let mut buffers = Self { collective, part, place, round, input, output, both };
        buffers.fill();
        buffers
    }

    /// Writes the inputs and overwrites the results with invalid values.
    fn fill(&mut self) {
        let (rank, ranks) = self.place;
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

    /// Number of wrong elements in this rank's result.
    fn count_wrong(&mut self, in_place: bool, corrupt: bool) -> usize {
        let (rank, ranks) = self.place;
        let found = match in_place {
            false => &mut self.output[..],
            true => &mut self.both[self.collective.in_place(self.part, rank, ranks).1],
        };
        if let (true, Some(first)) = (corrupt, found.first_mut()) {
            *first ^= 1;
        }
        let right = |(index, element): &(usize, &[u8])| {
            *element == self.collective.expected(*index, self.part, self.place, self.round).to_ne_bytes()
        };
        found.chunks_exact(FLOAT).enumerate().filter(|element| !right(element)).count()
    }
}

/// Injects a fault during a collective.
fn break_down(fault: Option<(&str, u64)>) {
    match fault {
        Some(("exit", code)) => process::exit(code as i32),
        Some(("hang", _)) => loop {
            thread::sleep(Duration::from_secs(3600));
        },
        _ => {}
    }
}

fn fill(buffer: &mut [u8], rank: usize, round: usize) {
    let pattern: Vec<u8> = (0..PERIOD).flat_map(|index| value(rank, index, round).to_ne_bytes()).collect();
    for part in buffer.chunks_mut(pattern.len()) {
        part.copy_from_slice(&pattern[..part.len()]);
    }
}
