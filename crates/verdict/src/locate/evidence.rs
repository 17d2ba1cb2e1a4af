//! Likelihood of a set of bad members, given the outcomes and the prior.

/// A set of bad members: indices, ascending.
pub(super) type BadMembers = Vec<usize>;

/// All outcomes, and the prior.
#[derive(Debug)]
pub(super) struct GroupEvidence {
    pub members: usize,
    /// Fraction of wrong outcomes; never 0, so that contradictory outcomes are tolerated.
    pub noise: f64,
    /// `[tests / 64][member]`: bit set of the tests the member took part in.
    took_part: Vec<Vec<u64>>,
    /// `[tests / 64]`: bit set of the degraded tests.
    degraded: Vec<u64>,
    tests: usize,
    /// `[size]`: logarithm of the prior probability of one given set of this size.
    before: Vec<f64>,
    /// `[AGREE + n]`: factor on the likelihood for `n` more wrong outcomes.
    less: Vec<f64>,
}

/// Maximum difference in the number of wrong outcomes; a larger one has the same factor.
const AGREE: u32 = 64;

/// Minimum noise.
const LEAST_NOISE: f64 = 1e-3;

impl GroupEvidence {
    /// `noise` is the fraction of wrong outcomes, `expected` the expected number of bad members.
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

    /// Adds one outcome; `group[member]`: whether the member took part.
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

    /// Number of wrong outcomes if exactly these members are bad.
    pub fn wrong(&self, bad: impl Iterator<Item = usize> + Clone) -> u32 {
        let words = self.took_part.iter().zip(&self.degraded);
        words.map(|(took, seen)| (bad.clone().fold(0, |hit, of| hit | took[of]) ^ seen).count_ones()).sum()
    }

    /// Log-likelihood that exactly these members are bad; only differences are meaningful.
    pub fn log_likelihood(&self, bad: &[usize]) -> f64 {
        let odds = ((1.0 - self.noise) / self.noise).ln();
        self.before[bad.len()] - odds * f64::from(self.wrong(bad.iter().copied()))
    }

    /// Likelihood ratio of this set size to a size smaller by one.
    pub fn grown(&self, size: usize) -> f64 {
        (self.before[size] - self.before[size - 1]).exp()
    }

    /// Likelihood ratio of `wrong` contradicting outcomes to `against`.
    pub fn likelihood_ratio(&self, wrong: u32, against: u32) -> f64 {
        self.less[(AGREE + wrong).saturating_sub(against).min(2 * AGREE) as usize]
    }

    /// `into[member]`: likelihood ratio of `bad` plus this member to a set with `against` wrong outcomes,
    /// ignoring sizes; 0 for members of `bad`. Returns the sum.
    pub fn likelihoods_with_each(&self, bad: &[usize], against: u32, into: &mut Vec<f64>) -> f64 {
        into.clear();
        into.resize(self.members, 0.0);
        let hit: Vec<u64> =
            self.took_part.iter().map(|took| bad.iter().fold(0, |hit, of| hit | took[*of])).collect();
        match (&self.took_part[..], &self.degraded[..]) {
            // Most searches end within 64 tests.
            ([took], [seen]) => {
                for (likelier, took) in into.iter_mut().zip(took) {
                    *likelier = self.likelihood_ratio(((hit[0] | took) ^ seen).count_ones(), against);
                }
            }
            (words, all_seen) => {
                for (member, likelier) in into.iter_mut().enumerate() {
                    let each = words.iter().zip(all_seen).zip(&hit);
                    let wrong = each.map(|((took, seen), hit)| ((hit | took[member]) ^ seen).count_ones());
                    *likelier = self.likelihood_ratio(wrong.sum(), against);
                }
            }
        }
        bad.iter().for_each(|of| into[*of] = 0.0);
        into.iter().sum()
    }
}

/// `[size]`: log-probability of `size` bad members.
///
/// The probability of zero bad members is `1 / (1 + 5 expected)`. That of other numbers decreases with the distance
/// from the expected number to the power of 2.5. This prior costs one test at the expected number, and a dozen tests at
/// a distance of ten: log2 of the inverse probability, divided by 0.71 bits per test at 5 % noise.
pub(super) fn sizes(members: usize, expected: f64) -> Vec<f64> {
    let usual = expected.clamp(1.0, members.max(1) as f64);
    let of = |size: usize| -2.5 * (1.0 + (size as f64 - usual).abs()).ln();
    let some: f64 = (1..=members).map(|size| of(size).exp()).sum();
    let none = 1.0 / (1.0 + 5.0 * expected);
    let rest = ((1.0 - none) / some.max(f64::MIN_POSITIVE)).ln();
    (0..=members).map(|size| if size == 0 { none.ln() } else { of(size) + rest }).collect()
}
