//! What every courier promises, whoever is at the other end.

use std::collections::BTreeSet;

use model::Span;

use crate::{
    notice::{Letter, Notice},
    port::{Courier, Reply},
};

/// What the other end is about to do with what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// Takes it.
    Takes,
    /// Takes it, and its answer gets lost.
    TakesInSilence,
    /// Asks to come again after so many seconds.
    Busy(u64),
    /// Refuses it for good.
    Refuses,
}

/// The other end of a courier.
pub trait OtherEnd: Send + Sync {
    /// What it does with the next delivery.
    fn will(&self, mood: Mood);

    /// The ids that arrived, in order.
    fn arrived(&self) -> Vec<String>;
}

/// Delivers notices of every kind, which nobody has seen yet, to that end.
///
/// # Panics
/// When a promise is broken.
pub async fn suite(courier: &dyn Courier, end: &dyn OtherEnd, notice: impl Fn(usize) -> Notice) {
    let of = |id: &str| end.arrived().iter().filter(|arrived| *arrived == id).count();

    let first = notice(1);
    end.will(Mood::Takes);
    assert_eq!(courier.deliver(&first).await, Reply::Delivered);
    assert_eq!(of(&first.id), 1, "what is delivered is there");

    end.will(Mood::Takes);
    assert_eq!(courier.deliver(&first).await, Reply::Delivered, "twice is as good as once");
    let once = matches!(first.letter, Letter::Check(_));
    assert_eq!(of(&first.id), if once { 1 } else { 2 }, "under the same id, and once where that can be told");

    let busy = notice(2);
    end.will(Mood::Busy(7));
    let said = courier.deliver(&busy).await;
    assert!(
        matches!(&said, Reply::Later { after: Some(after), .. } if *after == Span::from_secs(7)),
        "whoever asks for time gets it: {said:?}"
    );
    assert_eq!(of(&busy.id), 0);
    end.will(Mood::Takes);
    assert_eq!((courier.deliver(&busy).await, of(&busy.id)), (Reply::Delivered, 1));

    let refused = notice(3);
    end.will(Mood::Refuses);
    let said = courier.deliver(&refused).await;
    assert!(matches!(said, Reply::Never { .. }), "a refusal is one: {said:?}");
    assert_eq!(of(&refused.id), 0);

    let silent = notice(4);
    end.will(Mood::TakesInSilence);
    let said = courier.deliver(&silent).await;
    assert!(matches!(said, Reply::Later { .. }), "silence is no success: {said:?}");
    end.will(Mood::Takes);
    assert_eq!(courier.deliver(&silent).await, Reply::Delivered);
    assert!((1..=2).contains(&of(&silent.id)));

    let ids: BTreeSet<_> = end.arrived().into_iter().collect();
    assert_eq!(ids.len(), 3, "nothing else arrived");
}
