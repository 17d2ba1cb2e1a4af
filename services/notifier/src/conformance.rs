//! Conformance suite of senders.

use std::collections::BTreeSet;

use model::Span;

use crate::{
    notice::{Notice, OutgoingMessage},
    port::{Reply, Sender},
};

/// Planned reaction of the receiver to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedReply {
    /// Accepts the delivery.
    Accepts,
    /// Accepts the delivery, but the response is lost.
    AcceptsWithoutResponse,
    /// Requests a retry after this delay, seconds.
    Busy(u64),
    /// Refuses the delivery permanently.
    Refuses,
}

/// The receiver that a test controls.
pub trait TestReceiver: Send + Sync {
    /// Sets the reaction to the next delivery.
    fn plan(&self, planned: PlannedReply);

    /// Ids of the notices that arrived, in order.
    fn arrived(&self) -> Vec<String>;
}

/// Checks a sender: delivers notices of one kind, made by `notice`, to the receiver `end`.
///
/// # Panics
/// Panics if a check fails.
pub async fn suite(sender: &dyn Sender, end: &dyn TestReceiver, notice: impl Fn(usize) -> Notice) {
    let of = |id: &str| end.arrived().iter().filter(|arrived| *arrived == id).count();

    let first = notice(1);
    end.plan(PlannedReply::Accepts);
    assert_eq!(sender.deliver(&first).await, Reply::Delivered);
    assert_eq!(of(&first.id), 1, "a delivered notice arrived");

    end.plan(PlannedReply::Accepts);
    assert_eq!(sender.deliver(&first).await, Reply::Delivered, "a second delivery succeeds");
    let once = matches!(first.letter, OutgoingMessage::Check(_));
    assert_eq!(of(&first.id), if once { 1 } else { 2 }, "a repeated delivery has the same id");

    let busy = notice(2);
    end.plan(PlannedReply::Busy(7));
    let reply = sender.deliver(&busy).await;
    assert!(
        matches!(&reply, Reply::Transient { after: Some(after), .. } if *after == Span::from_secs(7)),
        "the requested delay is respected: {reply:?}"
    );
    assert_eq!(of(&busy.id), 0);
    end.plan(PlannedReply::Accepts);
    assert_eq!((sender.deliver(&busy).await, of(&busy.id)), (Reply::Delivered, 1));

    let refused = notice(3);
    end.plan(PlannedReply::Refuses);
    let reply = sender.deliver(&refused).await;
    assert!(matches!(reply, Reply::Permanent { .. }), "a refusal is permanent: {reply:?}");
    assert_eq!(of(&refused.id), 0);

    let silent = notice(4);
    end.plan(PlannedReply::AcceptsWithoutResponse);
    let reply = sender.deliver(&silent).await;
    assert!(matches!(reply, Reply::Transient { .. }), "a lost response is not a success: {reply:?}");
    end.plan(PlannedReply::Accepts);
    assert_eq!(sender.deliver(&silent).await, Reply::Delivered);
    assert!((1..=2).contains(&of(&silent.id)));

    let ids: BTreeSet<_> = end.arrived().into_iter().collect();
    assert_eq!(ids.len(), 3, "no other notice arrived");
}
