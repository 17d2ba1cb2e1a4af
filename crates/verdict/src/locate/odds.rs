//! Median and binomial tail, without overflow and underflow.

/// Median; 0 for an empty list. Reorders its input.
pub(super) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if below.len() < middle || values.len() % 2 == 1 {
        return upper;
    }
    let lower = values[..middle].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Divide first: the sum of two huge numbers would be infinite.
    lower / 2.0 + upper / 2.0
}

/// Probability of at least `hits` of `draws` when each is a hit with probability `share`.
pub(super) fn at_least(hits: usize, draws: usize, share: f64) -> f64 {
    if hits == 0 {
        return 1.0;
    }
    if hits > draws || share <= 0.0 {
        return 0.0;
    }
    if share >= 1.0 {
        return 1.0;
    }
    let (log_hit, log_miss) = (share.ln(), (-share).ln_1p());
    // Compute the binomial terms from `draws` hits downwards as logarithms, because they would underflow otherwise.
    let mut log_term = draws as f64 * log_hit;
    let mut sum = log_term.exp();
    for k in (hits..draws).rev() {
        log_term += ((k + 1) as f64 / (draws - k) as f64).ln() + log_miss - log_hit;
        sum += log_term.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0]), 3.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&mut [f64::MAX, f64::MAX]).is_finite());
    }

    #[test]
    fn the_binomial_tail_matches_the_textbook() {
        assert!((at_least(8, 8, 0.25) - 0.25_f64.powi(8)).abs() < 1e-15);
        assert!((at_least(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!((at_least(5, 10, 0.5) - 0.623_046_875).abs() < 1e-9);
        assert_eq!(at_least(0, 5, 0.1), 1.0);
        assert_eq!(at_least(6, 5, 0.1), 0.0);
    }
}
