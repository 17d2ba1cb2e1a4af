//! Random numbers, all derived from one seed.

/// Reproducible random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Uses this seed. Adjacent seeds give unrelated numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// Any 64-bit number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        let number = self.number();
        if bound == 0 { 0 } else { number % bound }
    }

    /// An index into something of this length.
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

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = self.index(last + 1);
            things.swap(last, other);
        }
    }
}
