//! Deliberate bugs for the simulator's tests. In release builds every hook is `false` at compile time. In development builds a hook is
//! `false` until the simulator plants its bug in the current thread, so that the simulator and all tests share one build.

#[cfg(debug_assertions)]
mod on {
    use std::cell::Cell;

    thread_local! {
        static BUG: Cell<&'static str> = const { Cell::new("") };
    }

    /// Activates this bug in the current thread, replacing any other.
    pub fn activate_failpoint(bug: &'static str) {
        BUG.set(bug);
    }

    /// Whether this bug is active in the current thread.
    pub fn failpoint_is_active(bug: &str) -> bool {
        BUG.get() == bug
    }
}

#[cfg(debug_assertions)]
pub use on::{activate_failpoint, failpoint_is_active};

/// Always `false` in release builds.
#[cfg(not(debug_assertions))]
pub const fn failpoint_is_active(_: &str) -> bool {
    false
}
