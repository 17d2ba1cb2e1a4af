//! Deliberate bugs for the simulator's tests. In release builds every failpoint is inactive at compile time. In development builds a
//! failpoint is inactive until the simulator activates it in the current thread, so that the simulator and all tests share one build.

#[cfg(debug_assertions)]
mod on {
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<&'static str> = const { Cell::new("") };
    }

    /// Activates this failpoint in the current thread, replacing any other.
    pub fn activate_failpoint(name: &'static str) {
        ACTIVE.set(name);
    }

    /// Whether this failpoint is active in the current thread.
    pub fn failpoint_is_active(name: &str) -> bool {
        ACTIVE.get() == name
    }
}

#[cfg(debug_assertions)]
pub use on::{activate_failpoint, failpoint_is_active};

/// Always `false` in release builds.
#[cfg(not(debug_assertions))]
pub const fn failpoint_is_active(_: &str) -> bool {
    false
}
