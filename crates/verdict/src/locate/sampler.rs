//! Moves from one set of bad members to another, such that each set is visited as often as it is likely.
//!
//! Two moves. One member is taken out and another drawn, each as likely as it makes the set (Gibbs). Or one comes to
//! the set or leaves it, drawn in the same manner, and the move is accepted by how many ways lead back (Metropolis and
//! Hastings with locally informed proposals: Zanella 2020).

use super::evidence::{Bad, Evidence};
use super::seeded::Seeded;

/// What the moves need beside the set.
#[derive(Debug)]
pub(super) struct Sampler {
    pub chance: Seeded,
    /// `[member]`: room for the likelihoods of one move.
    room: Vec<f64>,
}

impl Sampler {
    /// With this chance.
    pub fn new(chance: Seeded) -> Self {
        Self { chance, room: Vec::new() }
    }

    /// Both moves once.
    pub fn step(&mut self, bad: &mut Bad, evidence: &Evidence) {
        self.exchange(bad, evidence);
        if self.chance.part() < 0.5 {
            self.grow(bad, evidence);
        } else {
            self.shrink(bad, evidence);
        }
    }

    fn exchange(&mut self, bad: &mut Bad, evidence: &Evidence) {
        if bad.is_empty() {
            return;
        }
        let against = evidence.wrong(bad.iter().copied());
        let old = bad.remove(self.chance.below(bad.len()));
        let sum = evidence.each_more(bad, against, &mut self.room);
        insert(bad, self.draw(sum).unwrap_or(old));
    }

    fn grow(&mut self, bad: &mut Bad, evidence: &Evidence) {
        if bad.len() == evidence.members {
            return;
        }
        let against = evidence.wrong(bad.iter().copied());
        let sum = evidence.each_more(bad, against, &mut self.room);
        let Some(newcomer) = self.draw(sum) else { return };
        insert(bad, newcomer);
        let there = sum * evidence.grown(bad.len());
        let back: f64 = each_less(bad, against, evidence).iter().sum();
        if self.chance.part() * back >= there {
            bad.retain(|member| *member != newcomer);
        }
    }

    fn shrink(&mut self, bad: &mut Bad, evidence: &Evidence) {
        if bad.is_empty() {
            return;
        }
        let against = evidence.wrong(bad.iter().copied());
        let each = each_less(bad, against, evidence);
        let there: f64 = each.iter().sum();
        let mut left = self.chance.part() * there;
        let leaving = each.iter().position(|likelier| {
            left -= likelier;
            left < 0.0
        });
        let member = bad.remove(leaving.unwrap_or(bad.len() - 1));
        let back = evidence.each_more(bad, against, &mut self.room) * evidence.grown(bad.len() + 1);
        if self.chance.part() * back >= there {
            insert(bad, member);
        }
    }

    /// A member, as likely as `room` says.
    fn draw(&mut self, sum: f64) -> Option<usize> {
        let mut left = self.chance.part() * sum;
        self.room.iter().position(|likelier| {
            left -= likelier;
            left < 0.0
        })
    }
}

fn insert(bad: &mut Bad, member: usize) {
    let at = bad.partition_point(|other| *other < member);
    bad.insert(at, member);
}

/// `[at]`: how much likelier `bad` without its member `at` is than one with `against` wrong outcomes, sizes aside.
fn each_less(bad: &[usize], against: u32, evidence: &Evidence) -> Vec<f64> {
    let without = |at: usize| bad[..at].iter().chain(&bad[at + 1..]).copied();
    (0..bad.len()).map(|at| evidence.likelier(evidence.wrong(without(at)), against)).collect()
}
