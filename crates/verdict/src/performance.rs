//! Is it as fast as it should be? Only asked of a sane table.

use terms::{Criteria, Reason, Verdict, measurement::size};

use crate::{
    judge::{Evidence, reason},
    sanity::halves,
};

pub fn reasons(evidence: &Evidence<'_>, criteria: &Criteria) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for floor in &criteria.floors {
        let at_size = || {
            let tables = evidence.reading.tables.iter();
            tables
                .flat_map(halves)
                .filter(|(bytes, _)| *bytes == floor.size_bytes)
                .map(|(_, half)| half.busbw)
        };
        let slowest = at_size().fold(f64::INFINITY, f64::min);
        let at = format!("at {}", size(floor.size_bytes));
        reasons.push(if at_size().next().is_none() {
            reason(
                Verdict::Inconclusive,
                "NOT_MEASURED",
                format!("{at} nothing was measured, so the floor cannot be checked"),
            )
        } else if slowest < floor.busbw {
            let text =
                format!("{at} bus bandwidth is {slowest} GB/s, below the floor of {} GB/s", floor.busbw);
            reason(Verdict::Fail, "BELOW_FLOOR", text)
        } else {
            let text = format!("{at} bus bandwidth is {slowest} GB/s, the floor is {} GB/s", floor.busbw);
            reason(Verdict::Pass, "ABOVE_FLOOR", text)
        });
    }
    reasons
}
