//! Checks the network used for the data.

use std::collections::BTreeSet;

use model::{Reason, Verdict, measurement::Reading};

use crate::clues::Clues;

/// Number of participating nodes according to the Rank lines.
pub fn nodes(reading: &Reading) -> usize {
    let devices = reading.tables.iter().flat_map(|table| &table.devices);
    devices.map(|device| device.host.as_str()).collect::<BTreeSet<_>>().len()
}

/// Checks the network in use against the required one.
pub fn network_reason(clues: &Clues, required: &str) -> Reason {
    let used = clues.network_names();
    let names = used.iter().copied().collect::<Vec<_>>().join(" and ");
    if used.is_empty() {
        let text =
            format!("no line names the network in use, but {required} is required: run with NCCL_DEBUG=INFO");
        Reason::new(Verdict::Inconclusive, "NETWORK_UNKNOWN", text)
    } else if used == BTreeSet::from([required]) {
        let lines = clues.networks.values().map(|occurrences| occurrences.times).sum::<u64>();
        let say = if lines == 1 { "line names" } else { "lines name" };
        Reason::new(
            Verdict::Pass,
            "RIGHT_NETWORK",
            format!("{lines} {say} {names}, and no line names another network"),
        )
    } else {
        Reason::new(
            Verdict::Fail,
            "WRONG_NETWORK",
            format!("the network used is {names}, {required} is required"),
        )
    }
}
