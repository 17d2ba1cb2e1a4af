//! Message sizes and results of each collective, as in nccl-tests 2.19.6.

use std::ops::Range;

use crate::FLOAT;

/// Values repeat with this period, a prime, so that a misplaced chunk results in wrong values.
pub const PERIOD: usize = 251;

#[derive(Clone, Copy, PartialEq)]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    Alltoall,
    Broadcast,
    Sendrecv,
}

impl Collective {
    const ALL: [(&'static str, Self); 6] = [
        ("all_reduce_perf", Self::AllReduce),
        ("all_gather_perf", Self::AllGather),
        ("reduce_scatter_perf", Self::ReduceScatter),
        ("alltoall_perf", Self::Alltoall),
        ("broadcast_perf", Self::Broadcast),
        ("sendrecv_perf", Self::Sendrecv),
    ];

    pub fn of_program(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| name.starts_with(known)).map(|(_, found)| *found);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("the program's name selects the collective; start it as one of {names}")
        })
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, collective)| *collective == self).map_or("", |(name, _)| name)
    }

    /// Whether every rank has its own part of the message.
    pub fn is_split(self) -> bool {
        matches!(self, Self::AllGather | Self::ReduceScatter | Self::Alltoall)
    }

    /// Bytes of the smallest unit of a message of `size` bytes: a rank's part, rounded down to 16 bytes, or the whole message.
    pub fn part(self, size: usize, ranks: usize) -> usize {
        if self.is_split() { size / FLOAT / ranks * FLOAT & !15 } else { size / FLOAT * FLOAT }
    }

    /// Number of bytes of a rank's input and of its result, for parts of `part` bytes.
    pub fn lengths(self, part: usize, ranks: usize) -> (usize, usize) {
        match self {
            Self::AllReduce | Self::Broadcast | Self::Sendrecv => (part, part),
            Self::AllGather => (part, part * ranks),
            Self::ReduceScatter => (part * ranks, part),
            Self::Alltoall => (part * ranks, part * ranks),
        }
    }

    /// Ranges of a rank's input and result in the buffer of an in-place operation.
    pub fn in_place(self, part: usize, rank: usize, ranks: usize) -> (Range<usize>, Range<usize>) {
        let (send, receive) = self.lengths(part, ranks);
        match self {
            Self::AllGather => (part * rank..part * rank + send, 0..receive),
            Self::ReduceScatter => (0..send, part * rank..part * rank + receive),
            _ => (0..send, 0..receive),
        }
    }

    /// Ratio of bus bandwidth to algorithm bandwidth.
    pub fn factor(self, ranks: usize) -> f64 {
        let ranks = ranks as f64;
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather | Self::ReduceScatter | Self::Alltoall => (ranks - 1.0) / ranks,
            Self::Broadcast | Self::Sendrecv => 1.0,
        }
    }

    /// The columns `redop` and `root`. nccl-tests prints an operation even for sendrecv.
    pub fn operation(self) -> (&'static str, i32) {
        match self {
            Self::AllReduce | Self::ReduceScatter | Self::Sendrecv => ("sum", -1),
            Self::AllGather | Self::Alltoall => ("none", -1),
            Self::Broadcast => ("none", 0),
        }
    }

    /// nccl-tests reports no errors of alltoall and sendrecv in place, because NCCL does not support them in place.
    pub fn is_checked_in_place(self) -> bool {
        !matches!(self, Self::Alltoall | Self::Sendrecv)
    }

    /// Expected element `index` of the result of `rank`.
    pub fn expected(self, index: usize, part: usize, (rank, ranks): (usize, usize), round: usize) -> f32 {
        let part = (part / FLOAT).max(1);
        let sum = |index| (0..ranks).map(|rank| value(rank, index, round)).sum();
        match self {
            Self::AllReduce => sum(index),
            Self::ReduceScatter => sum(rank * part + index),
            Self::AllGather => value(index / part, index % part, round),
            Self::Alltoall => value(index / part, rank * part + index % part, round),
            Self::Broadcast => value(0, index, round),
            Self::Sendrecv => value((rank + ranks - 1) % ranks, index, round),
        }
    }
}

/// The test data of a rank: small integers, so that their sum is exact in any order.
pub fn value(rank: usize, index: usize, round: usize) -> f32 {
    ((index * 7 + rank * 13 + round * 5) % PERIOD) as f32
}
