//! Random variation of measurements.

/// A seeded xorshift generator. The documented results of the simulated histories are those of this sequence.
pub struct Noise(pub u64);

impl Noise {
    /// A number from 0 to 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An approximately normally distributed number.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
