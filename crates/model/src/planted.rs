//! Bugs planted on purpose, for the simulator to catch. Without the feature `planted` there are none, and every hook is
//! `false` when it is compiled.

#[cfg(feature = "planted")]
mod on {
    use std::cell::Cell;

    thread_local! {
        static BUG: Cell<&'static str> = const { Cell::new("") };
    }

    /// Plants this bug in the current thread, in place of any other.
    pub fn plant(bug: &'static str) {
        BUG.set(bug);
    }

    /// Whether this bug is planted here.
    pub fn planted(bug: &str) -> bool {
        BUG.get() == bug
    }
}

#[cfg(feature = "planted")]
pub use on::{plant, planted};

/// Whether this bug is planted here: never.
#[cfg(not(feature = "planted"))]
pub const fn planted(_: &str) -> bool {
    false
}
