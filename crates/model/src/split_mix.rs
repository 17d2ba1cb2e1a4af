//! Reproducible random numbers.

/// SplitMix64 (Steele, Lea and Flood 2014): fast, and fully determined by its seed. Simulations, searches and tests repeat exactly,
/// on every machine and with every version of a library.
#[derive(Clone, Debug)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Any 64-bit number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next random number from 0 (inclusive) to 1 (exclusive).
    pub const fn part(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next random index from 0 (inclusive) to `count` (exclusive), which must not be 0.
    pub fn below(&mut self, count: usize) -> usize {
        // The result is below `count`, so it fits.
        ((u128::from(self.number()) * count as u128) >> 64) as usize
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for last in (1..of.len()).rev() {
            of.swap(last, self.below(last + 1));
        }
    }
}
