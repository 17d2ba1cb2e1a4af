//! Workload of a collective benchmark: operation, message sizes, iterations and options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One nccl-tests program and its arguments, in the terms of nccl-tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The collective; the program is `{collective}_perf`.
    pub collective: Collective,
    /// Smallest message, bytes (`-b`).
    pub min_bytes: u64,
    /// Largest message, bytes (`-e`).
    pub max_bytes: u64,
    /// Factor between consecutive sizes (`-f`), without `stepbytes` in `extra_args`.
    #[schemars(range(min = 2, max = 1024))]
    pub step_factor: u32,
    /// Timed iterations per size (`-n`).
    #[schemars(range(min = 1, max = 100_000))]
    pub iterations: u32,
    /// Untimed warm-up iterations (`-w`).
    #[schemars(range(max = 100_000))]
    pub warmup_iterations: u32,
    /// Check the data (`-c`).
    pub check: bool,
    /// Element type (`-d`), such as `bfloat16`; nccl-tests' default, `float`, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datatype: Option<Datatype>,
    /// Other options of nccl-tests.
    #[serde(default, skip_serializing_if = "ExtraArgs::is_none")]
    pub extra_args: ExtraArgs,
}

/// Options of nccl-tests by their long names (`longopts` in its common.cu, 2.19.6). Absent fields have nccl-tests' defaults.
///
/// Options that change the printed values (`-C`, `-F`) or run several operations or types in one table (`all`) are not
/// supported, because the verdict would not judge the requested operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtraArgs {
    /// Difference between consecutive sizes, bytes (`-i`), instead of the factor `step_factor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub stepbytes: Option<u64>,
    /// Reduction (`-o`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Reduction>,
    /// Root rank, for collectives with a root (`-r`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u32>,
    /// Number of operations in one timed group (`-m`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub agg_iters: Option<u32>,
    /// Number of launches of a CUDA graph with the operations (`-G`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub cudagraph: Option<u32>,
    /// Wait for all ranks after each operation (`-z`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocking: bool,
    /// Initialize the communicators of a process in parallel (`-p`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parallel_init: bool,
    /// Use the default stream of CUDA (`-y`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream_null: bool,
    /// Statistic over the ranks that is printed as the time (`-a`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<TimeOf>,
    /// Timeout of the program, seconds (`-T`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u32>,
}

impl ExtraArgs {
    /// No option is set: nccl-tests' defaults apply.
    pub const NONE: Self = Self {
        stepbytes: None,
        op: None,
        root: None,
        agg_iters: None,
        cudagraph: None,
        blocking: false,
        parallel_init: false,
        stream_null: false,
        average: None,
        timeout: None,
    };

    /// Whether no option is set.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Flags and values of the options that are set, except the difference of sizes: see [`Workload::step`].
    pub fn flags(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let number = |flag, value: Option<u32>| value.map(|value| (flag, value.to_string()));
        let switch = |flag, on: bool| on.then(|| (flag, "1".to_owned()));
        let all = [
            self.op.map(|op| ("-o", op.as_str().to_owned())),
            number("-r", self.root),
            number("-m", self.agg_iters),
            number("-G", self.cudagraph),
            switch("-z", self.blocking),
            switch("-p", self.parallel_init),
            switch("-y", self.stream_null),
            self.average.map(|of| ("-a", (of as u8).to_string())),
            number("-T", self.timeout),
        ];
        all.into_iter().flatten()
    }
}

/// A reduction, spelt as nccl-tests spells it (`test_opnames` in its common.cu).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are nccl-tests' own and need no explanation")]
pub enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
    Avg,
    Mulsum,
}

impl Reduction {
    /// The spelling of nccl-tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Max => "max",
            Self::Min => "min",
            Self::Avg => "avg",
            Self::Mulsum => "mulsum",
        }
    }
}

/// The statistic over the ranks that nccl-tests prints as the time of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeOf {
    /// The time of rank 0.
    Rank0 = 0,
    /// The average of all ranks; nccl-tests' default.
    Average = 1,
    /// The shortest time of all ranks.
    Min = 2,
    /// The longest time of all ranks.
    Max = 3,
}

/// An element type, spelt as nccl-tests spells it (`test_typenames` in its common.cu).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are nccl-tests' own and need no explanation")]
pub enum Datatype {
    Int8,
    Uint8,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Half,
    Float,
    Double,
    Bfloat16,
    F8e4m3,
    F8e5m2,
}

impl Datatype {
    /// The spelling of nccl-tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
            Self::Half => "half",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bfloat16 => "bfloat16",
            Self::F8e4m3 => "f8e4m3",
            Self::F8e5m2 => "f8e5m2",
        }
    }
}

impl Workload {
    /// Maximum number of sizes.
    pub const MOST_SIZES: usize = 1000;

    /// Requested sizes, bytes, in ascending order, limited to [`Workload::MOST_SIZES`] + 1. A measured size may be slightly smaller: see
    /// [`Workload::covers`].
    pub fn sizes(&self) -> Vec<u64> {
        let factor = u64::from(self.step_factor.max(2));
        // Replace 0 by 1, because sizes would never grow from 0 or with a difference of 0. A workflow file with 0 is rejected only after
        // this evaluation.
        let next = |size: &u64| match self.extra_args.stepbytes {
            Some(step) => size.checked_add(step.max(1)),
            None => size.checked_mul(factor),
        };
        std::iter::successors(Some(self.min_bytes.max(1)), next)
            .take_while(|size| *size <= self.max_bytes)
            .take(Self::MOST_SIZES + 1)
            .collect()
    }

    /// Flag and value of the step between sizes. nccl-tests ignores `-i` if the factor is above 1 (`stepfactor` in its common.cu, 2.19.6).
    pub fn step(&self) -> (&'static str, String) {
        match self.extra_args.stepbytes {
            Some(step) => ("-i", step.to_string()),
            None => ("-f", self.step_factor.to_string()),
        }
    }

    /// Whether a measured size satisfies a requested one.
    ///
    /// If each rank has its own part of the message, nccl-tests rounds that part down to 16 bytes: 8 MiB over
    /// 24 ranks becomes 8,388,480 bytes.
    pub fn covers(&self, requested: u64, measured: u64, ranks: Option<u32>) -> bool {
        let slack = match self.collective {
            Collective::AllGather
            | Collective::ReduceScatter
            | Collective::Alltoall
            | Collective::Gather
            | Collective::Scatter => 16 * u64::from(ranks.unwrap_or(1)),
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce | Collective::Sendrecv => 1,
        };
        measured <= requested && requested - measured < slack
    }
}

/// A collective operation, spelt as nccl-tests spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are nccl-tests' own and need no explanation")]
pub enum Collective {
    AllReduce,
    AllGather,
    ReduceScatter,
    Alltoall,
    Broadcast,
    Reduce,
    Sendrecv,
    Gather,
    Scatter,
}

impl Collective {
    /// All supported collectives.
    pub const ALL: [Self; 9] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Alltoall,
        Self::Broadcast,
        Self::Reduce,
        Self::Sendrecv,
        Self::Gather,
        Self::Scatter,
    ];

    /// The spelling in the program's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Alltoall => "alltoall",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Sendrecv => "sendrecv",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
        }
    }

    /// Ratio `busbw / algbw` for `ranks` ranks, at least two.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::Alltoall | Self::Gather | Self::Scatter => {
                (n - 1.0) / n
            }
            Self::Broadcast | Self::Reduce | Self::Sendrecv => 1.0,
        }
    }
}
