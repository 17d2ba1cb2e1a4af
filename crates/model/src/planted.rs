//! Deliberate bugs for the simulator's tests. Without the feature `planted`, no bug exists and every hook is
//! `false` at compile time.

#[cfg(feature = "planted")]
mod on {
    use std::cell::Cell;

    thread_local! {
        static BUG: Cell<&'static str> = const { Cell::new("") };
    }

    /// Activates this bug in the current thread, replacing any other.
    pub fn plant(bug: &'static str) {
        BUG.set(bug);
    }

    /// Whether this bug is active in the current thread.
    pub fn planted(bug: &str) -> bool {
        BUG.get() == bug
    }
}

#[cfg(feature = "planted")]
pub use on::{plant, planted};

/// Always `false` without the feature `planted`.
#[cfg(not(feature = "planted"))]
pub const fn planted(_: &str) -> bool {
    false
}
