//! The identity of a subject by its position in the cluster.

use model::metric::{Metric, Subject};

/// A subject without serial number and bus id, because some lines of a log omit them. Borrowed: a large fleet has hundreds of
/// thousands of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SubjectPosition<'a> {
    node: Option<&'a str>,
    gpu: Option<u32>,
    link: Option<&'a str>,
    rank: Option<u32>,
    peer: Option<&'a str>,
}

impl<'a> SubjectPosition<'a> {
    pub(super) fn of(subject: &'a Subject) -> Self {
        let Subject { node, gpu, link, peer, rank, serial: _, bus_id: _ } = subject;
        Self { node: node.as_deref(), gpu: *gpu, link: link.as_deref(), rank: *rank, peer: peer.as_deref() }
    }

    /// The subject, without serial number and bus id.
    pub(super) fn subject(&self) -> Subject {
        let Self { node, gpu, link, rank, peer } = *self;
        let [node, link, peer] = [node, link, peer].map(|name| name.map(Into::into));
        Subject { node, gpu, link, peer, rank, serial: None, bus_id: None }
    }

    pub(super) const fn node(&self) -> Option<&'a str> {
        self.node
    }

    pub(super) const fn names_a_gpu(&self) -> bool {
        self.gpu.is_some()
    }

    /// The node and GPU alone, without link, rank and peer.
    pub(super) const fn device(self) -> Self {
        Self { link: None, rank: None, peer: None, ..self }
    }

    /// The GPU, node or rank that a link belongs to.
    pub(super) const fn without_link(self) -> Self {
        Self { link: None, ..self }
    }

    pub(super) fn of_metric(metric: &'a Metric) -> Self {
        Self::of(&metric.subject)
    }
}

/// The subject without serial number and bus id.
pub(super) fn owned(subject: &Subject) -> Subject {
    Subject { serial: None, bus_id: None, ..subject.clone() }
}
