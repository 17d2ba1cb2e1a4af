//! Measures the processors of this node, on all hardware threads at the same time.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{MeasureError, matrix};

/// Bytes of one copy by a thread: much more than the thread's share of the cache.
const COPIED: usize = 32 << 20;
/// Rows and columns of the matrices.
const ROWS: usize = 256;

/// Processor model from `/proc/cpuinfo`; `unknown` if the file does not state it.
pub fn name() -> String {
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| "unknown".to_owned(), |(_, model)| model.replace(['(', ')'], ""))
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Rate of copies, bytes read plus bytes written, GB/s.
pub fn memory(measured: Duration) -> Result<f64, MeasureError> {
    let rate = rate(measured, || {
        let (from, mut to) = (vec![1u8; COPIED], vec![0u8; COPIED]);
        move || {
            to.copy_from_slice(&from);
            std::hint::black_box(&mut to);
            Ok(2.0 * COPIED as f64)
        }
    });
    Ok(rate? / 1e9)
}

/// Rate of products of float matrices, TFLOP/s. Every product is checked.
pub fn product(measured: Duration) -> Result<f64, MeasureError> {
    let (left, right) = (matrix::filled(ROWS, matrix::left), matrix::filled(ROWS, matrix::right));
    let mut once = vec![0.0; ROWS * ROWS];
    multiply(&left, &right, &mut once);
    matrix::check(ROWS, &once)?;
    let rate = rate(measured, || {
        let mut product = vec![0.0; ROWS * ROWS];
        let (left, right, once) = (&left, &right, &once);
        move || {
            multiply(left, right, &mut product);
            if product != *once {
                return Err(MeasureError::Wrong("a product differs from the first one".to_owned()));
            }
            Ok(matrix::operations(ROWS))
        }
    });
    Ok(rate? / 1e12)
}

/// Sum of the rates of all threads; each executes its own work repeatedly. The first execution is not measured.
fn rate<W: FnMut() -> Result<f64, MeasureError> + Send>(
    measured: Duration,
    work: impl Fn() -> W,
) -> Result<f64, MeasureError> {
    let barrier = std::sync::Barrier::new(threads());
    thread::scope(|scope| {
        let started = (0..threads()).map(|_| {
            let (mut work, barrier) = (work(), &barrier);
            scope.spawn(move || {
                let first = work();
                barrier.wait();
                first?;
                let (begun, mut done) = (Instant::now(), 0.0);
                while begun.elapsed() < measured {
                    done += work()?;
                }
                Ok(done / begun.elapsed().as_secs_f64())
            })
        });
        let started: Vec<_> = started.collect();
        let died = |_| Err(MeasureError::Error("a thread ended without a result".to_owned()));
        started.into_iter().map(|thread| thread.join().unwrap_or_else(died)).sum()
    })
}

fn multiply(left: &[f32], right: &[f32], product: &mut [f32]) {
    product.fill(0.0);
    for (row, out) in product.chunks_exact_mut(ROWS).enumerate() {
        for at in 0..ROWS {
            let factor = left[row * ROWS + at];
            for (out, right) in out.iter_mut().zip(&right[at * ROWS..(at + 1) * ROWS]) {
                *out += factor * right;
            }
        }
    }
}
