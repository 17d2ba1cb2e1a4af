//! Selects the criteria's floors and reference that apply to a measurement.

use std::borrow::Cow;

use model::{Cluster, Collective, Criteria, Floor, Reference, Workload, measurement::Table};

use crate::{line_rate::Network, scaled::scaled};

/// Maximum relative difference between a measured size and a stated one: nccl-tests rounds a message so that all ranks
/// have equal parts.
const SAME_SIZE: f64 = 1e-3;
/// Maximum relative difference of a bus factor that is computed from printed bandwidths, which have two decimals.
const FACTOR: f64 = 2e-3;

/// Whether a measured size equals a stated size that nccl-tests has rounded.
#[must_use]
pub fn same_size(measured: u64, stated: u64) -> bool {
    let stated = stated as f64;
    (measured as f64 - stated).abs() <= SAME_SIZE * stated
}

/// The measured operation; an unknown property is `None`, or empty for the sizes.
#[derive(Clone, Debug, Default)]
pub struct JudgedTable<'a> {
    /// Collective by its name in nccl-tests.
    pub collective: Option<Cow<'a, str>>,
    /// `None` if the log does not state the number of ranks.
    pub ranks: Option<u32>,
    /// Ratio of bus to algorithm bandwidth.
    pub factor: Option<f64>,
    /// Message sizes, bytes, ascending.
    pub sizes: Vec<u64>,
}

impl<'a> JudgedTable<'a> {
    /// Subject of a table. The requested benchmark and cluster are known only for a run.
    #[must_use]
    pub fn of(table: &'a Table, (workload, cluster): (Option<&'a Workload>, Option<&Cluster>)) -> Self {
        let requested = workload.map(|workload| workload.collective.as_str());
        let mut sizes: Vec<_> = table.rows.iter().map(|row| row.size_bytes).collect();
        sizes.sort_unstable();
        Self {
            collective: table.collective.as_deref().or(requested).map(Cow::Borrowed),
            ranks: table.ranks.or(cluster.map(Cluster::slots)),
            factor: factor(table),
            sizes,
        }
    }

    /// Text for messages, such as `all_gather over 32 ranks`.
    #[must_use]
    pub fn name(&self) -> String {
        let collective = self.collective.as_deref().unwrap_or("an unknown collective");
        let ranks = self.ranks.map_or_else(String::new, |ranks| format!(" over {ranks} ranks"));
        format!("{collective}{ranks}")
    }

    /// Whether this is the collective over this number of ranks. Old versions of nccl-tests print neither: the ratio of
    /// bus to algorithm bandwidth identifies them.
    fn is(&self, collective: Collective, ranks: Option<u32>) -> bool {
        let same_name = self.collective.as_deref().is_none_or(|name| name == collective.as_str());
        let same_ranks = ranks.is_none_or(|of| self.ranks.is_none_or(|here| here == of));
        let known = self.collective.is_some() && (self.ranks.is_some() || ranks.is_none());
        let same_factor = || match (self.factor, ranks.or(self.ranks)) {
            (Some(factor), Some(ranks)) => (factor / collective.bus_factor(ranks) - 1.0).abs() < FACTOR,
            _ => false,
        };
        same_name && same_ranks && (known || same_factor())
    }

    fn is_floored_by(&self, floor: &Floor) -> bool {
        match floor.collective {
            Some(collective) => self.is(collective, floor.ranks),
            None => floor.ranks.is_none_or(|ranks| self.ranks == Some(ranks)),
        }
    }

    fn known_collective(&self) -> Option<Collective> {
        Collective::ALL.into_iter().find(|one| self.collective.as_deref() == Some(one.as_str()))
    }
}

/// Ratio of bus to algorithm bandwidth of the fastest measurement, because its bandwidths are printed with the most digits.
fn factor(table: &Table) -> Option<f64> {
    let halves = table.rows.iter().flat_map(|row| [&row.out_of_place, &row.in_place]).flatten();
    let fastest = halves.max_by(|a, b| a.algbw.total_cmp(&b.algbw))?;
    (fastest.algbw > 0.0).then(|| fastest.busbw / fastest.algbw)
}

/// Floors and reference that apply to a measurement.
#[derive(Clone, Debug, Default)]
pub struct Bounds<'a> {
    /// Floors of the criteria, or of the line rate if the criteria have none for the measurement.
    pub floors: Vec<Floor>,
    /// The published curve, possibly scaled to the number of ranks; the source of the curve then states the scaling.
    pub reference: Option<Cow<'a, Reference>>,
    /// Highest bus bandwidth that the network permits, GB/s.
    pub limit: Option<f64>,
    /// Whether the criteria bound only other collectives or numbers of ranks.
    pub inapplicable: bool,
}

impl<'a> Bounds<'a> {
    /// Bounds that the criteria define for this subject.
    #[must_use]
    pub fn of(subject: &JudgedTable<'_>, criteria: &'a Criteria) -> Self {
        let floors: Vec<_> =
            criteria.floors.iter().filter(|floor| subject.is_floored_by(floor)).copied().collect();
        let exact =
            criteria.references.iter().find(|reference| subject.is(reference.collective, reference.ranks));
        let reference = exact.map(Cow::Borrowed).or_else(|| nearest(subject, criteria).map(Cow::Owned));
        // A curve is a bound only if the run measured at least one of its sizes.
        let measured = |reference: &Cow<'_, Reference>| {
            reference.points.iter().any(|at| subject.sizes.iter().any(|size| same_size(*size, at.size_bytes)))
        };
        let network = Network::of(criteria.line_rate, subject.ranks, criteria.ranks_per_node);
        let network = network.zip(subject.known_collective());
        let limit = network.and_then(|(network, collective)| network.limit(collective));
        let by_line_rate = || match network {
            Some((network, collective)) => {
                network.floors(collective, criteria.line_rate_share, &subject.sizes)
            }
            None => Vec::new(),
        };
        let reference = reference.filter(|reference| network.is_none() || measured(reference));
        let bounded = reference.is_some() || (!floors.is_empty() && criteria.references.is_empty());
        let derived = if bounded { Vec::new() } else { by_line_rate() };
        let inapplicable = !bounded && derived.is_empty() && criteria.bound_bandwidth();
        let floors = floors.into_iter().chain(derived).collect();
        Self { floors, reference, limit, inapplicable }
    }
}

/// The reference of the nearest number of ranks, scaled.
fn nearest(subject: &JudgedTable<'_>, criteria: &Criteria) -> Option<Reference> {
    let ranks = subject.ranks?;
    let of_collective = criteria.references.iter().filter(|it| subject.is(it.collective, Some(ranks)));
    let by_distance = |it: &&Reference| it.ranks.map_or(u32::MAX, |of| of.max(ranks) / of.min(ranks).max(1));
    let nearest = of_collective.min_by_key(by_distance)?;
    scaled(nearest, ranks, criteria.ranks_per_node, criteria.line_rate)
}
