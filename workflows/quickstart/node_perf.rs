//! Memory bandwidth and a matrix product of this node: of each GPU, or of the processors if no GPU exists.
//!
//! `node_perf memory` copies memory; `node_perf product` multiplies two matrices of floats and checks the result. One line for each device
//! is printed, then `node_perf: done`. GPUs are used through the driver only (`libcuda.so.1`), so no toolkit is required; their product is
//! a simple kernel, which is far from the device's peak but equal on equal devices.
//!
//! Standard library only: a build step compiles this file and its modules with `rustc --edition 2024 -O` in seconds.
//!
//! Exit codes: 0 success, 1 error, 6 invalid usage, 7 wrong result.

mod cuda;
mod matrix;
mod processors;

use std::{env, process, time::Duration};

/// Duration of the measurement of each device.
const MEASURED: Duration = Duration::from_millis(300);

/// Reasons to end without a result.
enum MeasureError {
    /// The device or the system reports an error.
    Error(String),
    /// A result differs from the exact one.
    Wrong(String),
}

#[derive(Clone, Copy)]
enum Measurement {
    Memory,
    Product,
}

fn main() {
    let measurement = match env::args().nth(1).as_deref() {
        Some("memory") => Measurement::Memory,
        Some("product") => Measurement::Product,
        _ => {
            eprintln!("usage: node_perf memory|product");
            process::exit(6);
        }
    };
    println!("node_perf 1");
    let (message, code) = match measure(measurement) {
        Ok(()) => return println!("node_perf: done"),
        Err(MeasureError::Error(message)) => (message, 1),
        Err(MeasureError::Wrong(message)) => (format!("wrong result: {message}"), 7),
    };
    println!("node_perf: {message}");
    process::exit(code);
}

fn measure(measurement: Measurement) -> Result<(), MeasureError> {
    let Some(driver) = cuda::CudaDriver::load()? else {
        let name = processors::name();
        match measurement {
            Measurement::Memory => {
                println!("processors ({name}): memory {:.2} GB/s", processors::memory(MEASURED)?)
            }
            Measurement::Product => {
                println!("processors ({name}): product {:.4} TFLOP/s", processors::product(MEASURED)?)
            }
        }
        return Ok(());
    };
    for index in 0..driver.count()? {
        let gpu = driver.gpu(index)?;
        let name = gpu.name()?;
        match measurement {
            Measurement::Memory => println!("gpu {index} ({name}): memory {:.2} GB/s", gpu.memory(MEASURED)?),
            Measurement::Product => {
                println!("gpu {index} ({name}): product {:.4} TFLOP/s", gpu.product(MEASURED)?)
            }
        }
    }
    Ok(())
}
