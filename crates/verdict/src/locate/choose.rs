//! Which group test tells most.
//!
//! An outcome depends on the bad members only through whether the group holds one of them, so the test that tells most
//! is the one whose group does so with a chance nearest to one half, whatever the noise. Groups are tried in several
//! orders, each as far as is best: the likeliest first, any order, and any order behind one who is all but certain,
//! which asks for that one again.

use super::belief::Belief;

/// Orders tried.
const ORDERS: usize = 16;

/// The group, of two members at least, whose chance of being degraded is nearest to one half, and that chance.
pub(super) fn most_telling(belief: &Belief) -> Option<(Vec<usize>, f64)> {
    let each = belief.bad();
    let mut chance = belief.chance();
    let mut best: Option<(Vec<usize>, f64)> = None;
    let mut consider = |order: &[usize]| {
        let (to, degraded) = up_to(belief, order);
        if to >= 2 && best.as_ref().is_none_or(|best| off(degraded) < off(best.1) - 1e-9) {
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

/// How far from a toss-up.
fn off(chance: f64) -> f64 {
    (chance - 0.5).abs()
}

/// How many of `order`, two at least where there are, are nearest to a toss-up, and their chance of holding a bad one.
fn up_to(belief: &Belief, order: &[usize]) -> (usize, f64) {
    let mut place = vec![usize::MAX; belief.evidence.members];
    order.iter().enumerate().for_each(|(at, member)| place[*member] = at);
    // `[place]`: chance that the first bad one in this order stands there.
    let mut first = vec![0.0; order.len()];
    for (bad, likely) in &belief.sets {
        if let Some(at) = bad.iter().map(|member| place[*member]).min().filter(|at| *at < order.len()) {
            first[at] += likely;
        }
    }
    let (mut sum, mut best) = (0.0, (0, f64::INFINITY));
    for (at, first) in first.iter().enumerate() {
        sum += first;
        if at >= 1 && off(sum) < off(best.1) - 1e-12 {
            best = (at + 1, sum);
        }
    }
    best
}
