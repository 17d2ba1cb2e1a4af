//! A published curve for another number of ranks.
//!
//! The time of each point is divided into transfer and overhead. The transfer time is the message size divided by a
//! bandwidth: the difference of the two largest sizes divided by the difference of their times. The overhead grows with
//! the steps of the algorithm: those of a ring are `ranks - 1`. NCCL executes an all-reduce over many nodes by trees,
//! whose depth is the logarithm of the number of nodes (NVIDIA, *Massively Scale Your Deep Learning Training with NCCL
//! 2.4*). The bandwidth of the transfer stays unchanged, because bus bandwidth does not depend on the number of ranks (nccl-tests
//! `doc/PERFORMANCE.md`). Exception: a bandwidth above the line rate, which is possible because a node exchanges only a part of the message
//! with other nodes, falls with that part, down to [`RING`] of the line rate.

use model::{Collective, CurvePoint, Reference};

use crate::line_rate::{Network, nodes};

/// Share of the line rate that remains over many nodes: NVIDIA's DGX-1 SuperPOD expects 42 of 50 GB/s, where two nodes
/// measure 54 (DeepOps documentation).
const RING: f64 = 0.84;
/// Maximum bandwidth of the transfer relative to the best point: two noisy points may be almost equal.
const MAX_ABOVE_BEST: f64 = 1.05;

/// The reference's curve, scaled to `ranks` ranks. `None` if the reference's number of ranks is unknown, if either
/// number of ranks does not fill two nodes, if the line rate of an all-reduce is unknown, or if a point has no positive
/// bandwidth.
pub fn scaled(
    reference: &Reference,
    ranks: u32,
    per_node: Option<u32>,
    line: Option<f64>,
) -> Option<Reference> {
    let (of, per_node) = (reference.ranks?, per_node?);
    let (few, many) = (nodes(of, per_node)?, nodes(ranks, per_node)?);
    if reference.points.iter().any(|at| !at.busbw.is_finite() || at.busbw <= 0.0) {
        return None;
    }
    let factor = |ranks| reference.collective.bus_factor(ranks);
    let best = reference.points.iter().map(|at| at.busbw).fold(0.0, f64::max);
    let transfer = asymptote(&reference.points, factor(of)).clamp(best, MAX_ABOVE_BEST * best);
    // Over few nodes an all-reduce does not use a ring at any line rate.
    let exceeds = match line {
        Some(line) => best > line,
        None if reference.collective == Collective::AllReduce => return None,
        None => false,
    };
    let transfer_here = match line.filter(|_| exceeds) {
        Some(line) => {
            let limit = |ranks: u32, nodes| {
                let part = 1.0 - 1.0 / f64::from(ranks);
                part * Network { line, ranks, nodes }.exchange()
            };
            let falling = transfer * limit(ranks, many) / limit(of, few);
            falling.max((RING * line).min(transfer))
        }
        None => transfer,
    };
    let steps = match reference.collective {
        Collective::AllReduce => f64::from(many).log2() / f64::from(few).log2(),
        _ => f64::from(ranks - 1) / f64::from(of - 1),
    };
    let points = reference.points.iter().map(|at| {
        let bytes = at.size_bytes as f64;
        let overhead = (bytes * factor(of)) * (1.0 / at.busbw - 1.0 / transfer).max(0.0);
        let moved = bytes * factor(ranks);
        let busbw = moved / (moved / transfer_here + overhead * steps);
        CurvePoint { size_bytes: at.size_bytes, busbw: (busbw * 100.0).round() / 100.0 }
    });
    Some(Reference {
        collective: reference.collective,
        ranks: Some(ranks),
        source: format!("{}; scaled from {of} to {ranks} ranks", reference.source),
        points: points.collect(),
    })
}

/// Difference in size of the two largest points divided by their difference in time, as bandwidth, GB/s. With a single point, its own
/// bandwidth.
fn asymptote(points: &[CurvePoint], factor: f64) -> f64 {
    let mut by_size: Vec<_> = points.iter().map(|at| (at.size_bytes as f64 * factor, at.busbw)).collect();
    by_size.sort_by(|a, b| a.0.total_cmp(&b.0));
    match by_size[..] {
        [.., (bytes, busbw), (more, faster)] => {
            let (time, longer) = (bytes / busbw, more / faster);
            if longer > time { (more - bytes) / (longer - time) } else { 0.0 }
        }
        _ => 0.0,
    }
}
