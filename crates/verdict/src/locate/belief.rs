//! Beliefs from group tests: a probability for each set of bad members.
//!
//! The belief covers whole *sets* of bad members. The sets cannot be enumerated, because their number is exponential. Therefore 256 sampled
//! sets are kept, each with a frequency proportional to its probability. After an outcome the consistent sets are duplicated and the others
//! dropped (systematic resampling, Kitagawa 1996). Then each set is perturbed by Markov chain Monte Carlo, which preserves the distribution
//! and keeps the sets diverse (Chopin 2002; for noisy adaptive group tests: Cuturi, Teboul, Berthet, Doucet and Vert 2020). Around the most
//! likely set, where the search ends, every set is weighted exactly.
//!
//! Randomness is seeded by the number of members: the same outcomes give the same belief.

use super::evidence::{BadMembers, GroupEvidence, sizes};
use super::sampler::Sampler;
use model::SplitMix64;

/// The belief after all added outcomes.
#[derive(Debug)]
pub(super) struct Belief {
    /// Sets of bad members with their probability, sum 1, most likely first.
    pub sets: Vec<(BadMembers, f64)>,
    pub evidence: GroupEvidence,
    /// Sampled sets. The frequency of a set is proportional to its probability.
    samples: Vec<BadMembers>,
    sampler: Sampler,
}

/// Number of sampled sets. In simulated searches of 54 tests, four times as many sets saved less than half a test.
const SAMPLES: usize = 256;

/// Steps of the sampler for each set after each outcome.
const MOVES: usize = 3;

/// Sets below this fraction of the most likely one are dropped.
const NEGLIGIBLE: f64 = 1e-12;

impl Belief {
    /// The belief before any test. `noise` is the fraction of wrong outcomes, `expected` the expected number
    /// of bad members.
    pub fn new(members: usize, noise: f64, expected: f64) -> Self {
        let mut rng = SplitMix64(members as u64);
        let mut all: Vec<usize> = (0..members).collect();
        let chances: Vec<f64> = sizes(members, expected).iter().map(|log_prior| log_prior.exp()).collect();
        let samples = resampled(&chances, 0.5).map(|size| {
            rng.shuffle(&mut all);
            let mut bad = all[..size].to_vec();
            bad.sort_unstable();
            bad
        });
        let samples = samples.collect();
        let evidence = GroupEvidence::new(members, noise, expected);
        let mut belief = Self { sets: Vec::new(), evidence, samples, sampler: Sampler::new(rng) };
        belief.update_probabilities();
        belief
    }

    /// Adds one outcome; `group[member]`: whether the member took part.
    pub fn learn(&mut self, group: &[bool], degraded: bool) {
        self.evidence.push(group, degraded);
        let noise = self.evidence.noise;
        let likelihood = |bad: &BadMembers| {
            if bad.iter().any(|member| group[*member]) == degraded { 1.0 - noise } else { noise }
        };
        let weights: Vec<f64> = self.samples.iter().map(likelihood).collect();
        let start = self.sampler.chance.part();
        self.samples = resampled(&weights, start).map(|at| self.samples[at].clone()).collect();
        for bad in &mut self.samples {
            for _ in 0..MOVES {
                self.sampler.step(bad, &self.evidence);
            }
        }
        self.update_probabilities();
    }

    /// `[member]`: probability that it is bad.
    pub fn bad_probabilities(&self) -> Vec<f64> {
        let mut each = vec![0.0; self.evidence.members];
        for (bad, likely) in &self.sets {
            bad.iter().for_each(|member| each[*member] += likely);
        }
        each
    }

    /// Random source derived from this state, without changing the state.
    pub fn chance(&self) -> SplitMix64 {
        self.sampler.chance.clone()
    }

    /// Derives the probability of each set from the samples.
    ///
    /// The neighborhood of the most likely set is as probable as its fraction of the samples. This probability
    /// is divided among the sets of the neighborhood by their exact likelihoods: the sample frequencies alone
    /// are too coarse to end a search.
    fn update_probabilities(&mut self) {
        let sampled = frequencies(&self.samples);
        let Some(likeliest) = self.likeliest(&sampled) else { return };
        let (near, far): (Vec<_>, Vec<_>) =
            sampled.into_iter().partition(|(bad, _)| neighbors(bad, &likeliest));
        let neighborhood: f64 = near.iter().map(|(_, fraction)| fraction).sum();
        let likelihoods = self.with_neighbors(&likeliest);
        let total: f64 = likelihoods.iter().map(|(_, likelihood)| likelihood).sum();
        let exact = likelihoods.into_iter().map(|(bad, likelihood)| (bad, likelihood / total * neighborhood));
        self.sets = far.into_iter().chain(exact).collect();
        self.sets.sort_by(|a, b| b.1.total_cmp(&a.1));
    }

    /// The sampled set with the highest likelihood.
    fn likeliest(&self, sampled: &[(BadMembers, f64)]) -> Option<BadMembers> {
        let likelihood = |(bad, _): &(BadMembers, f64)| self.evidence.log_likelihood(bad);
        let likeliest = sampled.iter().max_by(|a, b| likelihood(a).total_cmp(&likelihood(b)))?;
        Some(likeliest.0.clone())
    }

    /// A set, and all sets with one member removed, exchanged or added, with their likelihood relative to the
    /// first.
    fn with_neighbors(&self, bad: &BadMembers) -> Vec<(BadMembers, f64)> {
        let evidence = &self.evidence;
        let against = evidence.wrong(bad.iter().copied());
        let mut sets = vec![(bad.clone(), 1.0)];
        for removed in 0..bad.len() {
            let mut rest = bad.clone();
            rest.remove(removed);
            let wrong = evidence.wrong(rest.iter().copied());
            sets.push((rest.clone(), evidence.likelihood_ratio(wrong, against) / evidence.grown(bad.len())));
            // An exchange leaves the size unchanged.
            sets.extend(self.with_one_more(&rest, bad, against, 1.0));
        }
        if bad.len() < evidence.members {
            sets.extend(self.with_one_more(bad, bad, against, evidence.grown(bad.len() + 1)));
        }
        sets
    }

    /// The sets with `rest` and one member that is not in `bad`, with their likelihood relative to `bad`, which
    /// `against` outcomes contradict. `size_ratio`: likelihood ratio of the new size to the size of `bad`.
    fn with_one_more(
        &self,
        rest: &BadMembers,
        bad: &BadMembers,
        against: u32,
        size_ratio: f64,
    ) -> impl Iterator<Item = (BadMembers, f64)> {
        let mut each = Vec::new();
        self.evidence.likelihoods_with_each(rest, against, &mut each);
        each.into_iter().enumerate().filter_map(move |(member, ratio)| {
            let likelihood = ratio * size_ratio;
            if likelihood <= NEGLIGIBLE || bad.binary_search(&member).is_ok() {
                return None;
            }
            let mut set = rest.clone();
            set.insert(set.partition_point(|other| *other < member), member);
            Some((set, likelihood))
        })
    }
}

/// The distinct sets, ascending, with their fraction of the samples.
fn frequencies(samples: &[BadMembers]) -> Vec<(BadMembers, f64)> {
    let one = 1.0 / samples.len() as f64;
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let mut distinct: Vec<(BadMembers, f64)> = Vec::new();
    for bad in sorted {
        match distinct.last_mut() {
            Some((last, fraction)) if *last == bad => *fraction += one,
            _ => distinct.push((bad, one)),
        }
    }
    distinct
}

/// Whether the sets differ by at most one member added, removed or exchanged.
fn neighbors(one: &BadMembers, other: &BadMembers) -> bool {
    let both = one.iter().filter(|member| other.binary_search(member).is_ok()).count();
    one.len() - both <= 1 && other.len() - both <= 1
}

/// [`SAMPLES`] indices, each repeated in proportion to its weight; `start` is between 0 and 1.
fn resampled(weights: &[f64], start: f64) -> impl Iterator<Item = usize> {
    let step = weights.iter().sum::<f64>() / SAMPLES as f64;
    let (mut at, mut passed) = (0, 0.0);
    (0..SAMPLES).map(move |draw| {
        let mark = (draw as f64 + start) * step;
        while at + 1 < weights.len() && passed + weights[at] < mark {
            passed += weights[at];
            at += 1;
        }
        at
    })
}
