//! Bugs that the simulator must catch. Each has a failpoint, a call of [`model::failpoint_is_active`]: most are around a port, the bus or
//! the store of the simulator; the others are single lines in the real code.

/// A bug and its description.
pub struct Failpoint {
    /// Name in the calls of `failpoint_is_active`.
    pub name: &'static str,
    /// Effect of the bug.
    pub what: &'static str,
}

const fn failpoint(name: &'static str, what: &'static str) -> Failpoint {
    Failpoint { name, what }
}

pub const ALL: &[Failpoint] = &[
    failpoint("ack_before_handling", "an event is acknowledged before its handler completes"),
    failpoint("ack_on_retry", "an event that must be redelivered is acknowledged"),
    failpoint("park_without_keeping", "unreadable events are not parked"),
    failpoint("forget_the_nonce", "every record carries the same nonce"),
    failpoint("real_clock", "a conductor reads the system clock"),
    failpoint("never_send_again", "a lost command is not resent"),
    failpoint("no_tick", "idle runs are not woken"),
    failpoint("random_in_a_cluster_name", "a cluster name is random"),
    failpoint("no_expiry", "a cluster outlives its lease by a day"),
    failpoint("delete_leaves_no_mark", "a cluster can be created after its release"),
    failpoint("delete_without_looking", "a requested deletion is reported as confirmed"),
    failpoint("no_sweep", "the independent sweeper is off"),
    failpoint("sweep_without_grace", "the independent sweeper has no grace period"),
    failpoint("random_in_a_job_name", "a job name is random"),
    failpoint("submit_without_looking", "an existing job is submitted again"),
    failpoint("no_answer_means_no_job", "a failed request to the scheduler is treated as an absent job"),
    failpoint("cancel_leaves_no_mark", "a job can be submitted after it was cancelled"),
    failpoint("cancelled_build_may_begin", "a build can be started after it was cancelled"),
    failpoint("absent_may_still_come", "a pending submission is reported as absent: the fence is missing"),
    failpoint("log_cut_short", "the last byte of a log is not collected"),
    failpoint("bytes_are_lost", "a lost object is reported as stored"),
    failpoint("manifest_first", "the manifest is written before its objects"),
    failpoint("random_in_a_load_id", "a load id is random"),
    failpoint("load_errors_swallowed", "failed rows are reported as loaded"),
    failpoint("everything_passes", "the verdict is always a pass"),
    failpoint("secret_in_a_failure", "a provider's error text is recorded as a failure"),
    failpoint("end_is_not_told", "the end of a run is not published"),
    failpoint("random_in_a_command_id", "a command names another attempt"),
    failpoint("teardown_only_on_success", "a cluster is released only after a completed run"),
    failpoint("lease_ends_before_the_search", "a cluster is released before the search for its bad node"),
    failpoint(
        "lease_ends_after_the_first_check",
        "a cluster is released after the logs of the first of several checks",
    ),
    failpoint(
        "budget_ends_after_the_first_check",
        "the budget of a run is not checked after the logs of the first of several checks",
    ),
    failpoint("needs_are_ignored", "a check runs although an earlier check that it needs did not pass"),
    failpoint("soak_ends_after_a_round", "a soak ends after its first round"),
    failpoint("yielded_jobs_are_repeated", "a job that yielded to others is submitted again"),
    failpoint("returned_without_a_pass", "re-tested nodes return to service although a check did not pass"),
    failpoint("a_good_node_is_named", "a search names the partner of the bad node"),
    failpoint("earlier_drains_are_ignored", "each search of a run drains the run's maximum of nodes"),
    failpoint("second_cluster_at_once", "a cluster is requested before the previous one is deleted"),
    failpoint("close_without_the_lease", "a run closes while its cluster exists"),
    failpoint("close_while_something_runs", "a run closes while its build or job is running"),
    failpoint("late_cluster_is_ignored", "a late cluster is ignored"),
    failpoint("cancel_is_ignored", "a cancel is acknowledged and not recorded"),
    failpoint("timeout_without_asking", "a stage times out without a poll"),
    failpoint("retry_the_workload", "a failed benchmark is repeated"),
    failpoint("last_end_counts", "a later end replaces the first"),
    failpoint(
        "conflict_taken_for_success",
        "a concurrent writer's record is mistaken for the conductor's own",
    ),
    failpoint("conflict_is_the_end", "a lost race is not followed by a new decision"),
    failpoint("time_goes_back", "records have unmodified clock times"),
    failpoint("no_hint", "open runs have no hint"),
    failpoint("hint_removed_too_early", "the hint is removed before the lease is released"),
];

#[cfg(debug_assertions)]
mod search {
    use super::Failpoint;
    use crate::{Scenario, run};

    /// The first seed that catches a bug, and the violated invariant. Without a planted bug no seed has violations, so the bug causes every
    /// violation.
    pub fn search(bug: &Failpoint, seeds: u64) -> Option<(u64, &'static str)> {
        model::activate_failpoint(bug.name);
        let caught = (0..seeds).find_map(|seed| {
            let outcome = run(Scenario::of(seed));
            if let Some(violation) = outcome.violations.first() {
                return Some((seed, violation.invariant));
            }
            // Repeating the run detects a dependence on any input but the seed.
            let again = || run(Scenario::of(seed)).digest != outcome.digest;
            (bug.name == "real_clock" && again()).then_some((seed, "I11 same seed, same history"))
        });
        model::activate_failpoint("");
        caught
    }
}

#[cfg(debug_assertions)]
pub use search::search;
