//! Bugs that the simulator has to catch. Each is planted by a hook that is `false` unless the feature `planted` is on:
//! most of them outside, around a port, the bus or the store, the others in one line where the real code is.

/// A bug, and what it is.
pub struct Planted {
    /// Its name, as at its hook.
    pub name: &'static str,
    /// What is broken.
    pub what: &'static str,
}

const fn bug(name: &'static str, what: &'static str) -> Planted {
    Planted { name, what }
}

/// Every bug there is.
pub const ALL: &[Planted] = &[
    bug("ack_before_handling", "the bus is told before the handler is through"),
    bug("ack_on_retry", "an event that should come again is acknowledged"),
    bug("park_without_keeping", "what cannot be read is put aside nowhere"),
    bug("forget_the_nonce", "every record carries the same nonce"),
    bug("real_clock", "a conductor reads the machine's clock"),
    bug("never_send_again", "a command that got lost is not repeated"),
    bug("no_tick", "nobody wakes a run to which nothing happens"),
    bug("random_in_a_cluster_name", "a cluster is named by chance"),
    bug("no_expiry", "a cluster outlives its lease by a day"),
    bug("delete_leaves_no_mark", "a cluster can be made after it was given back"),
    bug("delete_without_looking", "gone is what was asked to go"),
    bug("no_sweep", "nobody tries the second door"),
    bug("sweep_without_grace", "the second door leaves no time to whoever holds the lease"),
    bug("random_in_a_job_name", "a job is named by chance"),
    bug("submit_without_looking", "a job that is there is submitted again"),
    bug("no_answer_means_no_job", "a scheduler that does not answer knows no job"),
    bug("cancel_leaves_no_mark", "a job can be submitted after it was cancelled"),
    bug("cancelled_build_may_begin", "a build can be started after it was cancelled"),
    bug("absent_may_still_come", "absent is said of what may be on its way: the fence is dropped"),
    bug("log_cut_short", "the last byte of a log is not collected"),
    bug("bytes_are_lost", "an object is reported as stored and is not"),
    bug("manifest_first", "the manifest is written before its objects"),
    bug("random_in_a_load_id", "a load is named by chance"),
    bug("load_errors_swallowed", "rows that did not arrive are reported as loaded"),
    bug("everything_passes", "the verdict is a pass, whatever was measured"),
    bug("secret_in_a_failure", "a provider's error text is recorded as a failure"),
    bug("end_is_not_told", "a run is closed and nobody hears of it"),
    bug("random_in_a_command_id", "a command names another attempt"),
    bug("teardown_only_on_success", "a cluster is given back when its run completed"),
    bug("lease_ends_before_the_search", "a cluster is given back before its bad node is found"),
    bug("a_good_node_is_named", "a search names the partner of the bad node"),
    bug("second_cluster_at_once", "a cluster is asked for before the last one is gone"),
    bug("close_without_the_lease", "a run closes while its cluster is there"),
    bug("close_while_something_runs", "a run closes while its build or job goes on"),
    bug("late_cluster_is_ignored", "a cluster that shows up late is nobody's"),
    bug("cancel_is_ignored", "a cancel is acknowledged and not recorded"),
    bug("timeout_without_asking", "past its limit a stage is given up unasked"),
    bug("retry_the_workload", "a failed benchmark is run again"),
    bug("last_end_counts", "a later ending takes the place of the first"),
    bug("conflict_taken_for_success", "a rival's record is taken for one's own"),
    bug("conflict_is_the_end", "who lost a race does not decide again"),
    bug("time_goes_back", "records carry whatever the clock says"),
    bug("no_hint", "nobody notes that a run is open"),
    bug("hint_removed_too_early", "the hint goes before the lease"),
];

#[cfg(feature = "planted")]
mod hunt {
    use super::Planted;
    use crate::{Scenario, run};

    /// The seed under which a bug is caught, and by which invariant. Without a bug no seed finds anything, so every
    /// violation is its doing.
    pub fn hunt(bug: &Planted, seeds: u64) -> Option<(u64, &'static str)> {
        model::plant(bug.name);
        let caught = (0..seeds).find_map(|seed| {
            let outcome = run(Scenario::of(seed));
            if let Some(violation) = outcome.violations.first() {
                return Some((seed, violation.invariant));
            }
            // What depends on anything but the seed shows when it is run again.
            let again = || run(Scenario::of(seed)).digest != outcome.digest;
            (bug.name == "real_clock" && again()).then_some((seed, "I11 same seed, same history"))
        });
        model::plant("");
        caught
    }
}

#[cfg(feature = "planted")]
pub use hunt::hunt;
