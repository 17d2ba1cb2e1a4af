//! Factor from algorithm bandwidth to bus bandwidth.

/// Ratio `busbw / algbw` of a collective among `ranks` ranks; `None` for an unknown collective.
///
/// A single rank uses no bus: nccl-tests prints a bus bandwidth of 0 for it, so the factor is 0.
///
/// ```
/// assert_eq!(nccl::bus_factor("all_reduce", 8), Some(1.75));
/// assert_eq!(nccl::bus_factor("broadcast", 8), Some(1.0));
/// assert_eq!(nccl::bus_factor("all_reduce", 1), Some(0.0));
/// assert_eq!(nccl::bus_factor("matmul", 8), None);
/// ```
pub fn bus_factor(collective: &str, ranks: u32) -> Option<f64> {
    let n = f64::from(ranks);
    let factor = match collective {
        "all_reduce" => 2.0 * (n - 1.0) / n,
        "all_gather" | "reduce_scatter" | "alltoall" | "alltoallv" | "gather" | "scatter" => (n - 1.0) / n,
        "broadcast" | "reduce" | "sendrecv" | "hypercube" => 1.0,
        _ => return None,
    };
    match ranks {
        0 => None,
        1 => Some(0.0),
        _ => Some(factor),
    }
}
