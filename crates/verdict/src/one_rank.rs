//! Tables of one rank. They involve no link: nccl-tests multiplies by (n-1)/n, so the bus bandwidth is 0 by
//! definition, and an in-place operation of one rank is a no-op, so its time is meaningless.

use model::{
    OneRank, Reason, Verdict,
    measurement::{self, Table},
};

use crate::{evidence::RunEvidence, sanity::unchecked, standard::Standard};

/// Judges the data of one rank; it is no evidence about a link.
pub fn one_rank_reason(table: &Table, evidence: &RunEvidence<'_>, standard: &Standard<'_>) -> Reason {
    const WHY: &str = "one rank measures no link: its bus bandwidth is 0 by definition";
    // The text is short, because the measurement is appended to it and a terminal truncates long lines.
    const DATA: &str = "one rank measures no link; its data is right";
    let bounding = standard.criteria.filter(|criteria| criteria.one_rank == OneRank::Inconclusive);
    let demands = [
        bounding.filter(|it| !it.floors.is_empty()).map(|it| format!("the floors of {}", it.name)),
        bounding.filter(|it| !it.references.is_empty()).map(|it| format!("the references of {}", it.name)),
        bounding.and_then(|it| it.line_rate.map(|_| format!("the line rate of {}", it.name))),
        standard.baseline.map(|_| "the baseline".to_owned()),
    ];
    let demands: Vec<_> = demands.into_iter().flatten().collect();
    let requested = evidence.workload.is_none_or(|workload| workload.check);
    let checked = requested && !table.rows.is_empty() && !unchecked(table, evidence);
    let (weighs, rest) = match (demands.is_empty(), checked) {
        (false, _) => {
            let demands = demands.join(" and ");
            let next = "run on two GPUs or more, or judge by criteria without them";
            (Verdict::Inconclusive, format!("{demands} cannot be applied; {next}"))
        }
        (true, false) => (
            Verdict::Inconclusive,
            "and the data was not checked, so nothing was measured; set `check: true`, or run on two GPUs or more".to_owned(),
        ),
        (true, true) => {
            return Reason::new(Verdict::Pass, "ONE_RANK", format!("{DATA}{}", copied(table)));
        }
    };
    Reason::new(weighs, "ONE_RANK", format!("{WHY}; {rest}"))
}

/// Memory bandwidth of the rank: out of place, a collective of one rank copies its input to its output.
fn copied(table: &Table) -> String {
    let largest = table.rows.iter().filter(|row| row.out_of_place.is_some()).max_by_key(|row| row.size_bytes);
    let half = largest.and_then(|row| Some((row.size_bytes, row.out_of_place.as_ref()?)));
    half.map_or_else(String::new, |(bytes, half)| {
        let device = table.devices.first().and_then(|device| device.name.as_deref()).unwrap_or("it");
        format!("; {device} copied {} within its memory at {} GB/s", measurement::size(bytes), half.algbw)
    })
}
