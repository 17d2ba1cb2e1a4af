//! Median and robust standard deviation of measurements.

/// Median; 0 for an empty list.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Scales the median absolute deviation of normal noise to its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Robust standard deviation around a center: up to half of the values may be extreme.
pub(crate) fn deviation(values: impl Iterator<Item = f64>, center: f64) -> f64 {
    MAD_TO_SIGMA * median(values.map(|value| (value - center).abs()).collect())
}
