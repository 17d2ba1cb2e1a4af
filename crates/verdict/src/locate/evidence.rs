//! How well a set of bad members agrees with the outcomes, and with what was expected before any.

/// A set of bad members: their numbers, ascending.
pub(super) type Bad = Vec<usize>;

/// All outcomes, and the belief before the first.
#[derive(Debug)]
pub(super) struct Evidence {
    pub members: usize,
    /// Part of the outcomes that are wrong; never 0, so that outcomes that contradict each other are borne.
    pub noise: f64,
    /// `[tests / 64][member]`: bit by bit, whether the member took part.
    took_part: Vec<Vec<u64>>,
    /// `[tests / 64]`: bit by bit, whether the test was degraded.
    degraded: Vec<u64>,
    tests: usize,
    /// `[size]`: logarithm of the chance that just these, so many members are bad.
    before: Vec<f64>,
    /// `[AGREE + n]`: how much less likely a set is for `n` more outcomes that must be wrong.
    less: Vec<f64>,
}

/// Differences in wrong outcomes beyond this are as good as this.
const AGREE: u32 = 64;

/// Noise to reckon with where none is expected.
const LEAST_NOISE: f64 = 1e-3;

impl Evidence {
    /// `noise` is the part of wrong outcomes, `expected` how many bad ones to expect.
    pub fn new(members: usize, noise: f64, expected: f64) -> Self {
        let noise = noise.max(LEAST_NOISE);
        let odds = ((1.0 - noise) / noise).ln();
        let less = (0..=2 * AGREE).map(|at| (-odds * (f64::from(at) - f64::from(AGREE))).exp()).collect();
        let (mut before, mut sets) = (Vec::new(), 0.0);
        for (size, chance) in sizes(members, expected).into_iter().enumerate() {
            before.push(chance - sets);
            // ln C(n, k + 1) = ln C(n, k) + ln (n - k) / (k + 1).
            sets += ((members - size) as f64 / (size + 1) as f64).ln();
        }
        Self { members, noise, took_part: Vec::new(), degraded: Vec::new(), tests: 0, before, less }
    }

    /// One more outcome; `group[member]`: took part.
    pub fn push(&mut self, group: &[bool], degraded: bool) {
        let bit = self.tests % 64;
        if bit == 0 {
            self.took_part.push(vec![0; self.members]);
            self.degraded.push(0);
        }
        let word = self.took_part.len() - 1;
        for (bits, took) in self.took_part[word].iter_mut().zip(group) {
            *bits |= u64::from(*took) << bit;
        }
        self.degraded[word] |= u64::from(degraded) << bit;
        self.tests += 1;
    }

    /// How many outcomes are wrong if these are the bad ones.
    pub fn wrong(&self, bad: impl Iterator<Item = usize> + Clone) -> u32 {
        let words = self.took_part.iter().zip(&self.degraded);
        words.map(|(took, seen)| (bad.clone().fold(0, |hit, of| hit | took[of]) ^ seen).count_ones()).sum()
    }

    /// Logarithm of how likely these are the bad ones; only differences mean anything.
    pub fn likely(&self, bad: &[usize]) -> f64 {
        let odds = ((1.0 - self.noise) / self.noise).ln();
        self.before[bad.len()] - odds * f64::from(self.wrong(bad.iter().copied()))
    }

    /// How much likelier a set is for being of this size than for having one member less.
    pub fn grown(&self, size: usize) -> f64 {
        (self.before[size] - self.before[size - 1]).exp()
    }

    /// How much likelier one is with `wrong` outcomes against it than with `against`.
    pub fn likelier(&self, wrong: u32, against: u32) -> f64 {
        self.less[(AGREE + wrong).saturating_sub(against).min(2 * AGREE) as usize]
    }

    /// `into[member]`: how much likelier `bad` and this member is than one with `against` wrong outcomes, sizes aside;
    /// 0 for who is in `bad`. Returns the sum.
    pub fn each_more(&self, bad: &[usize], against: u32, into: &mut Vec<f64>) -> f64 {
        into.clear();
        into.resize(self.members, 0.0);
        let hit: Vec<u64> =
            self.took_part.iter().map(|took| bad.iter().fold(0, |hit, of| hit | took[*of])).collect();
        match (&self.took_part[..], &self.degraded[..]) {
            // Most searches end within 64 tests.
            ([took], [seen]) => {
                for (likelier, took) in into.iter_mut().zip(took) {
                    *likelier = self.likelier(((hit[0] | took) ^ seen).count_ones(), against);
                }
            }
            (words, all_seen) => {
                for (member, likelier) in into.iter_mut().enumerate() {
                    let each = words.iter().zip(all_seen).zip(&hit);
                    let wrong = each.map(|((took, seen), hit)| ((hit | took[member]) ^ seen).count_ones());
                    *likelier = self.likelier(wrong.sum(), against);
                }
            }
        }
        bad.iter().for_each(|of| into[*of] = 0.0);
        into.iter().sum()
    }
}

/// `[size]`: logarithm of the chance that so many are bad.
///
/// None with one chance in `1 + 5 expected`; other numbers are the less likely the further they are from the expected
/// one, but slowly, by the distance to the power of 2.5: the expected one costs one test, one that is ten off a dozen,
/// log2 of its improbability over 0.71 at 5 % noise.
pub(super) fn sizes(members: usize, expected: f64) -> Vec<f64> {
    let usual = expected.clamp(1.0, members.max(1) as f64);
    let of = |size: usize| -2.5 * (1.0 + (size as f64 - usual).abs()).ln();
    let some: f64 = (1..=members).map(|size| of(size).exp()).sum();
    let none = 1.0 / (1.0 + 5.0 * expected);
    let rest = ((1.0 - none) / some.max(f64::MIN_POSITIVE)).ln();
    (0..=members).map(|size| if size == 0 { none.ln() } else { of(size) + rest }).collect()
}
