//! Moves between sets of bad members that preserve their probability distribution.
//!
//! The first move removes one member and draws another with the probability of the resulting set (Gibbs). The second move adds or removes
//! one member, drawn in the same way, and is accepted by the ratio of the weights of the forward and the reverse moves (Metropolis and
//! Hastings with locally informed proposals: Zanella 2020).

use super::evidence::{BadMembers, GroupEvidence};
use model::SplitMix64;

/// Random source and buffer of the moves; the set itself is passed to each step.
#[derive(Debug)]
pub(super) struct Sampler {
    pub chance: SplitMix64,
    /// `[member]`: buffer for the likelihoods of one move.
    room: Vec<f64>,
}

impl Sampler {
    /// Creates a sampler that draws from `chance`.
    pub fn new(chance: SplitMix64) -> Self {
        Self { chance, room: Vec::new() }
    }

    /// Performs both moves once.
    pub fn step(&mut self, bad: &mut BadMembers, evidence: &GroupEvidence) {
        self.exchange(bad, evidence);
        if self.chance.part() < 0.5 {
            self.grow(bad, evidence);
        } else {
            self.shrink(bad, evidence);
        }
    }

    fn exchange(&mut self, bad: &mut BadMembers, evidence: &GroupEvidence) {
        if bad.is_empty() {
            return;
        }
        let against = evidence.wrong(bad.iter().copied());
        let old = bad.remove(self.chance.below(bad.len()));
        let sum = evidence.likelihoods_with_each(bad, against, &mut self.room);
        insert(bad, self.draw(sum).unwrap_or(old));
    }

    fn grow(&mut self, bad: &mut BadMembers, evidence: &GroupEvidence) {
        if bad.len() == evidence.members {
            return;
        }
        let against = evidence.wrong(bad.iter().copied());
        let sum = evidence.likelihoods_with_each(bad, against, &mut self.room);
        let Some(newcomer) = self.draw(sum) else { return };
        insert(bad, newcomer);
        let there = sum * evidence.grown(bad.len());
        let back: f64 = likelihoods_without_each(bad, against, evidence).iter().sum();
        if self.chance.part() * back >= there {
            bad.retain(|member| *member != newcomer);
        }
    }

    fn shrink(&mut self, bad: &mut BadMembers, evidence: &GroupEvidence) {
        if bad.is_empty() {
            return;
        }
        let against = evidence.wrong(bad.iter().copied());
        let each = likelihoods_without_each(bad, against, evidence);
        let there: f64 = each.iter().sum();
        let mut left = self.chance.part() * there;
        let leaving = each.iter().position(|likelier| {
            left -= likelier;
            left < 0.0
        });
        let member = bad.remove(leaving.unwrap_or(bad.len() - 1));
        let back =
            evidence.likelihoods_with_each(bad, against, &mut self.room) * evidence.grown(bad.len() + 1);
        if self.chance.part() * back >= there {
            insert(bad, member);
        }
    }

    /// Draws a member with the probabilities in `room`.
    fn draw(&mut self, sum: f64) -> Option<usize> {
        let mut left = self.chance.part() * sum;
        self.room.iter().position(|likelier| {
            left -= likelier;
            left < 0.0
        })
    }
}

fn insert(bad: &mut BadMembers, member: usize) {
    let at = bad.partition_point(|other| *other < member);
    bad.insert(at, member);
}

/// `[at]`: likelihood ratio of `bad` without its member `at` to a set with `against` wrong outcomes, ignoring
/// sizes.
fn likelihoods_without_each(bad: &[usize], against: u32, evidence: &GroupEvidence) -> Vec<f64> {
    let without = |at: usize| bad[..at].iter().chain(&bad[at + 1..]).copied();
    (0..bad.len()).map(|at| evidence.likelihood_ratio(evidence.wrong(without(at)), against)).collect()
}
