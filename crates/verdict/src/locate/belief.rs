//! Beliefs from group tests: a probability for each set of bad members.
//!
//! The belief covers whole *sets* of bad members. All sets are too many to enumerate, so a few hundred
//! sampled sets are kept, each as often as it is likely: after an outcome the consistent ones are duplicated
//! and the others dropped (systematic resampling, Kitagawa 1996), then each is perturbed by Markov chain
//! Monte Carlo, which preserves the distribution and keeps the sets diverse (Chopin 2002; for noisy adaptive
//! group tests: Cuturi, Teboul, Berthet, Doucet and Vert 2020). Around the most likely set, where the search
//! ends, every set is weighted exactly.
//!
//! Randomness is seeded by the number of members: the same outcomes give the same belief.

use super::evidence::{Bad, GroupEvidence, sizes};
use super::sampler::Sampler;
use super::seeded::Seeded;

/// The belief after the outcomes so far.
#[derive(Debug)]
pub(super) struct Belief {
    /// Sets of bad members with their probability, sum 1, most likely first.
    pub sets: Vec<(Bad, f64)>,
    pub evidence: GroupEvidence,
    /// Sampled sets, each as often as it is likely.
    carried: Vec<Bad>,
    sampler: Sampler,
}

/// Number of sampled sets. In simulation, four times as many saved less than half a test of 54.
const CARRIED: usize = 256;

/// Moves per set and outcome.
const MOVES: usize = 3;

/// Sets below this fraction of the most likely one are dropped.
const NEGLIGIBLE: f64 = 1e-12;

impl Belief {
    /// The belief before any test. `noise` is the fraction of wrong outcomes, `expected` the expected number
    /// of bad members.
    pub fn new(members: usize, noise: f64, expected: f64) -> Self {
        let mut chance = Seeded(members as u64);
        let mut all: Vec<usize> = (0..members).collect();
        let chances: Vec<f64> = sizes(members, expected).iter().map(|chance| chance.exp()).collect();
        let carried = resampled(&chances, 0.5).map(|size| {
            chance.shuffle(&mut all);
            let mut bad = all[..size].to_vec();
            bad.sort_unstable();
            bad
        });
        let carried = carried.collect();
        let evidence = GroupEvidence::new(members, noise, expected);
        let mut belief = Self { sets: Vec::new(), evidence, carried, sampler: Sampler::new(chance) };
        belief.weigh();
        belief
    }

    /// Adds one outcome; `group[member]`: whether the member took part.
    pub fn hear(&mut self, group: &[bool], degraded: bool) {
        self.evidence.push(group, degraded);
        let noise = self.evidence.noise;
        let likelihood = |bad: &Bad| {
            if bad.iter().any(|member| group[*member]) == degraded { 1.0 - noise } else { noise }
        };
        let weights: Vec<f64> = self.carried.iter().map(likelihood).collect();
        let start = self.sampler.chance.part();
        self.carried = resampled(&weights, start).map(|at| self.carried[at].clone()).collect();
        for bad in &mut self.carried {
            for _ in 0..MOVES {
                self.sampler.step(bad, &self.evidence);
            }
        }
        self.weigh();
    }

    /// `[member]`: probability that it is bad.
    pub fn bad(&self) -> Vec<f64> {
        let mut each = vec![0.0; self.evidence.members];
        for (bad, likely) in &self.sets {
            bad.iter().for_each(|member| each[*member] += likely);
        }
        each
    }

    /// Random source derived from this state, without changing the state.
    pub fn chance(&self) -> Seeded {
        self.sampler.chance.clone()
    }

    /// Computes weights from the sampled sets.
    ///
    /// The probability of the most likely set and its neighbours together is their fraction of the samples;
    /// the probability of each of them is computed exactly. The sample frequencies alone are too coarse to
    /// end a search.
    fn weigh(&mut self) {
        let mut carried = self.carried.clone();
        carried.sort_unstable();
        let one = 1.0 / carried.len() as f64;
        self.sets.clear();
        for bad in carried {
            match self.sets.last_mut() {
                Some((last, likely)) if *last == bad => *likely += one,
                _ => self.sets.push((bad, one)),
            }
        }
        let likeliest =
            self.sets.iter().max_by(|a, b| self.evidence.likely(&a.0).total_cmp(&self.evidence.likely(&b.0)));
        let Some((likeliest, _)) = likeliest.cloned() else { return };
        let (near, mut sets): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sets).into_iter().partition(|(bad, _)| neighbours(bad, &likeliest));
        let together: f64 = near.iter().map(|(_, likely)| likely).sum();
        let exact = self.around(&likeliest);
        let sum: f64 = exact.iter().map(|(_, likely)| likely).sum();
        sets.extend(exact.into_iter().map(|(bad, likely)| (bad, likely / sum * together)));
        sets.sort_by(|a, b| b.1.total_cmp(&a.1));
        self.sets = sets;
    }

    /// A set, and all sets with one member added, removed or exchanged, with their likelihood relative to the
    /// first.
    fn around(&self, bad: &Bad) -> Vec<(Bad, f64)> {
        let evidence = &self.evidence;
        let against = evidence.wrong(bad.iter().copied());
        let mut sets = vec![(bad.clone(), 1.0)];
        let mut each = Vec::new();
        for without in 0..=bad.len() {
            let mut base = bad.clone();
            let mut size = 1.0;
            if without < bad.len() {
                base.remove(without);
                let wrong = evidence.wrong(base.iter().copied());
                sets.push((base.clone(), evidence.likelier(wrong, against) / evidence.grown(bad.len())));
            } else if bad.len() < evidence.members {
                size = evidence.grown(bad.len() + 1);
            }
            evidence.each_more(&base, against, &mut each);
            for (member, likelier) in each.iter().enumerate() {
                if likelier * size > NEGLIGIBLE && bad.binary_search(&member).is_err() {
                    let mut more = base.clone();
                    more.insert(more.partition_point(|other| *other < member), member);
                    sets.push((more, likelier * size));
                }
            }
        }
        sets
    }
}

/// Whether the sets differ by at most one member added, removed or exchanged.
fn neighbours(one: &Bad, other: &Bad) -> bool {
    let both = one.iter().filter(|member| other.binary_search(member).is_ok()).count();
    one.len() - both <= 1 && other.len() - both <= 1
}

/// [`CARRIED`] indices, each as often as its weight requires; `start` is from 0 to 1.
fn resampled(weights: &[f64], start: f64) -> impl Iterator<Item = usize> {
    let step = weights.iter().sum::<f64>() / CARRIED as f64;
    let (mut at, mut passed) = (0, 0.0);
    (0..CARRIED).map(move |draw| {
        let mark = (draw as f64 + start) * step;
        while at + 1 < weights.len() && passed + weights[at] < mark {
            passed += weights[at];
            at += 1;
        }
        at
    })
}
