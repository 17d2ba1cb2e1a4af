//! Random numbers, all derived from one seed.

use model::SplitMix64;

/// Reproducible random numbers.
#[derive(Clone, Debug)]
pub struct SeededRandom(SplitMix64);

impl SeededRandom {
    /// Creates a generator with this seed. Adjacent seeds result in unrelated numbers.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix64(seed.wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    pub const fn number(&mut self) -> u64 {
        self.0.number()
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        let number = self.number();
        if bound == 0 { 0 } else { number % bound }
    }

    /// An index into a sequence of this length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number of milliseconds from `low` to `high`, inclusive.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below((high - low).max(0).unsigned_abs() + 1)).unwrap_or(0)
    }

    /// `true` with probability `times` in a thousand.
    pub const fn per_mille(&mut self, times: u32) -> bool {
        self.below(1000) < times as u64
    }

    /// `true` with probability one in `times`.
    pub const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = self.index(last + 1);
            things.swap(last, other);
        }
    }
}
