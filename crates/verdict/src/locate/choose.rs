//! Selects the most informative group test.
//!
//! An outcome depends only on whether the group contains a bad member. So the most informative group is the one that
//! contains a bad member with a probability nearest to one half, for any noise. Groups are tried in several orders,
//! each up to its best length: most likely first, random order, and random order after one nearly certain member, which
//! retests that member.

use super::belief::Belief;

/// Number of orders tried.
const ORDERS: usize = 16;

/// The group of at least two members whose probability of degradation is nearest to one half, and that
/// probability.
pub(super) fn most_informative(belief: &Belief) -> Option<(Vec<usize>, f64)> {
    let each = belief.bad_probabilities();
    let mut chance = belief.chance();
    let mut best: Option<(Vec<usize>, f64)> = None;
    let mut consider = |order: &[usize]| {
        let (to, degraded) = up_to(belief, order);
        if to >= 2
            && best
                .as_ref()
                .is_none_or(|best| distance_from_half(degraded) < distance_from_half(best.1) - 1e-9)
        {
            best = Some((order[..to].to_vec(), degraded));
        }
    };
    let mut order: Vec<usize> = (0..each.len()).collect();
    for _ in 0..ORDERS {
        chance.shuffle(&mut order);
        consider(&order);
    }
    let (certain, mut others): (Vec<usize>, Vec<usize>) =
        order.iter().partition(|member| each[**member] > 0.5);
    for _ in 0..ORDERS / 2 {
        chance.shuffle(&mut others);
        consider(&others);
        for again in &certain {
            let with: Vec<usize> = std::iter::once(*again).chain(others.iter().copied()).collect();
            consider(&with);
        }
    }
    order.sort_by(|a, b| each[*b].total_cmp(&each[*a]));
    consider(&order);
    best
}

/// Distance from one half.
fn distance_from_half(chance: f64) -> f64 {
    (chance - 0.5).abs()
}

/// The best prefix length of `order`, at least two if possible, and its probability of containing a bad
/// member.
fn up_to(belief: &Belief, order: &[usize]) -> (usize, f64) {
    let mut position = vec![usize::MAX; belief.evidence.members];
    order.iter().enumerate().for_each(|(at, member)| position[*member] = at);
    // `[position]`: probability that the first bad member in this order is at this position.
    let mut first = vec![0.0; order.len()];
    for (bad, likely) in &belief.sets {
        if let Some(at) = bad.iter().map(|member| position[*member]).min().filter(|at| *at < order.len()) {
            first[at] += likely;
        }
    }
    let (mut sum, mut best) = (0.0, (0, f64::INFINITY));
    for (at, first) in first.iter().enumerate() {
        sum += first;
        if at >= 1 && distance_from_half(sum) < distance_from_half(best.1) - 1e-12 {
            best = (at + 1, sum);
        }
    }
    best
}
