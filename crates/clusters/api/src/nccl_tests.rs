//! Renders a workload as nccl-tests program and arguments. Pure.

use model::Workload;

/// Program name of a workload.
pub fn program(workload: &Workload) -> String {
    format!("{}_perf", workload.collective.as_str())
}

/// Arguments in nccl-tests' own flags. `slots`: number of GPUs of each process.
pub fn arguments(workload: &Workload, slots: u32) -> Vec<String> {
    let flags = [
        ("-b", workload.min_bytes.to_string()),
        ("-e", workload.max_bytes.to_string()),
        ("-f", workload.step_factor.to_string()),
        ("-n", workload.iterations.to_string()),
        ("-w", workload.warmup_iterations.to_string()),
        ("-c", u8::from(workload.check).to_string()),
        ("-g", slots.to_string()),
    ];
    let datatype = workload.datatype.map(|datatype| ("-d", datatype.as_str().to_owned()));
    flags.into_iter().chain(datatype).flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
}
