//! Tables of one rank. No link is part of them: nccl-tests multiplies by (n-1)/n, so the bus bandwidth is 0 by definition,
//! and an in-place operation of one rank is empty, so its time is meaningless.

use terms::{Reason, Verdict, measurement::Table};

use crate::{
    judge::{Evidence, Standard, reason},
    sanity::halves,
};

/// A bandwidth that is printed as more than this is not rounded to 0.
const PRINTED: f64 = 0.1;

/// Whether one rank alone ran. Without Rank lines the bus bandwidth shows it: no other number of ranks has the factor 0.
#[must_use]
pub fn one_rank(table: &Table) -> bool {
    let mut moved = halves(table).filter(|(_, half)| half.algbw >= PRINTED).peekable();
    match table.ranks {
        Some(ranks) => ranks == 1,
        None => moved.peek().is_some() && moved.all(|(_, half)| half.busbw == 0.0),
    }
}

/// Judges the data of one rank; it proves nothing about a link.
pub fn judged(table: &Table, evidence: &Evidence<'_>, standard: &Standard<'_>) -> Reason {
    let criteria = standard.criteria;
    let demands = [
        criteria.filter(|it| !it.floors.is_empty()).map(|it| format!("the floors of {}", it.name)),
        criteria.filter(|it| !it.references.is_empty()).map(|it| format!("the references of {}", it.name)),
        standard.baseline.map(|_| "the baseline".to_owned()),
    ];
    let demands: Vec<_> = demands.into_iter().flatten().collect();
    const WHY: &str = "one rank measures no link: its bus bandwidth is 0 by definition";
    let asked = evidence.workload.is_none_or(|workload| workload.check);
    let checked = asked && halves(table).all(|(_, half)| half.wrong.is_some() || half.error.is_some());
    let (weighs, rest) = match (demands.is_empty(), checked) {
        (false, _) => {
            let demands = demands.join(" and ");
            let text = format!("{demands} cannot be applied; run on two GPUs or more, or judge by criteria without them");
            (Verdict::Inconclusive, text)
        }
        (true, false) => (
            Verdict::Inconclusive,
            "nor was the data checked, so nothing was measured; set `check: true`, or run on two GPUs or more".to_owned(),
        ),
        (true, true) => (Verdict::Pass, "only the data was judged".to_owned()),
    };
    reason(weighs, "ONE_RANK", format!("{WHY}; {rest}"))
}
