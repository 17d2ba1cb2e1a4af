//! What group tests let one believe: which members are the bad ones, all of them together.
//!
//! The belief is over whole *sets* of bad members. There are far too many to list, so some hundred sets are carried
//! along, each as often as it is likely: after an outcome those that agree with it are copied and the others dropped
//! (systematic resampling, Kitagawa 1996), then each moves a little by Markov chain Monte Carlo, which keeps the
//! frequencies right and the sets different (Chopin 2002; for noisy adaptive group tests: Cuturi, Teboul, Berthet,
//! Doucet and Vert 2020). Around the likeliest set, where the search ends, every set is weighed exactly.
//!
//! The chance in it is seeded by the number of members: the same outcomes give the same belief.

use super::evidence::{Bad, Evidence, sizes};
use super::sampler::Sampler;
use super::seeded::Seeded;

/// The state of the search.
#[derive(Debug)]
pub(super) struct Belief {
    /// Sets of bad members and how likely each is, together 1, likeliest first.
    pub sets: Vec<(Bad, f64)>,
    pub evidence: Evidence,
    /// Sets, each as often as it is likely.
    carried: Vec<Bad>,
    sampler: Sampler,
}

/// How many sets are carried. In simulation four times as many saved less than half a test of 54.
const CARRIED: usize = 256;

/// Moves per set and outcome.
const MOVES: usize = 3;

/// Less likely than this part of the likeliest: left out.
const NEGLIGIBLE: f64 = 1e-12;

impl Belief {
    /// Before any test. `noise` is the part of wrong outcomes, `expected` how many bad ones to expect.
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
        let evidence = Evidence::new(members, noise, expected);
        let mut belief = Self { sets: Vec::new(), evidence, carried, sampler: Sampler::new(chance) };
        belief.weigh();
        belief
    }

    /// Takes one more outcome into account; `group[member]`: took part.
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

    /// `[member]`: how likely it is bad.
    pub fn bad(&self) -> Vec<f64> {
        let mut each = vec![0.0; self.evidence.members];
        for (bad, likely) in &self.sets {
            bad.iter().for_each(|member| each[*member] += likely);
        }
        each
    }

    /// Chance for what follows from this state, without changing it.
    pub fn chance(&self) -> Seeded {
        self.sampler.chance.clone()
    }

    /// From the sets carried to their weights.
    ///
    /// How likely the likeliest set or one of its neighbours is, is what part of those carried are that; how likely each
    /// of them, is reckoned exactly. The frequencies alone would be too coarse to end a search by.
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

    /// A set, and those with one member more, less or exchanged, with how likely each is compared to the first.
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

/// One member more, less or exchanged at most.
fn neighbours(one: &Bad, other: &Bad) -> bool {
    let both = one.iter().filter(|member| other.binary_search(member).is_ok()).count();
    one.len() - both <= 1 && other.len() - both <= 1
}

/// [`CARRIED`] places, each as often as its weight says; `start` is from 0 to 1.
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
