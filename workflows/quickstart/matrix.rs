//! Matrices whose product is exact in floats: small integers, so that every sum stays below 2^24.

use crate::MeasureError;

/// Element of the left matrix, -5 to 5.
pub fn left(row: usize, column: usize) -> f32 {
    ((row * 7 + column * 3) % 11) as f32 - 5.0
}

/// Element of the right matrix, -4 to 4.
pub fn right(row: usize, column: usize) -> f32 {
    ((row * 5 + column * 13) % 9) as f32 - 4.0
}

/// A square matrix with `n` rows, in row-major order.
pub fn filled(n: usize, element: fn(usize, usize) -> f32) -> Vec<f32> {
    (0..n * n).map(|at| element(at / n, at % n)).collect()
}

/// Floating-point operations of one product of square matrices with `n` rows.
pub fn operations(n: usize) -> f64 {
    2.0 * (n as f64).powi(3)
}

/// Checks every element of at most 16 rows of the product.
pub fn check(n: usize, product: &[f32]) -> Result<(), MeasureError> {
    for row in (0..n).step_by(n / 16 + 1) {
        for column in 0..n {
            let exact: f32 = (0..n).map(|at| left(row, at) * right(at, column)).sum();
            let found = product[row * n + column];
            if found != exact {
                return Err(MeasureError::Wrong(format!(
                    "row {row}, column {column} is {found} instead of {exact}"
                )));
            }
        }
    }
    Ok(())
}
