//! Checks that the measurements are complete and consistent.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Cluster, Criteria, Node, Reason, Verdict, count,
    measurement::{self, Half, LogEnd, Placement, Row, Table},
};

use crate::{
    evidence::RunEvidence,
    network, start,
    table::{halves, one_rank},
};

/// Code of the reason for a benchmark that did not start.
pub const NOT_STARTED: &str = "NOT_STARTED";
/// Maximum number of sizes with wrong data that a reason names.
const NAMED: usize = 4;
/// Maximum number of nodes that a reason names. `locate` and the list of the run's nodes contain all nodes.
const NAMED_NODES: usize = 16;
/// Bandwidth and time are printed with few digits; a larger relative difference is a contradiction.
const TOLERANCE: f64 = 0.05;

pub fn reasons(evidence: &RunEvidence<'_>, criteria: Option<&Criteria>) -> Vec<Reason> {
    let mut reasons = job(evidence);
    let tables = &evidence.reading.tables;
    match tables.as_slice() {
        [] => reasons.push(Reason::new(Verdict::Inconclusive, "NO_TABLE", no_table(evidence))),
        [table] => reasons.extend(one(table, evidence, criteria)),
        many => reasons.push(Reason::new(
            Verdict::Inconclusive,
            "MANY_TABLES",
            format!("{} tables instead of one: the ranks may have run independently", many.len()),
        )),
    }
    if reasons.is_empty() {
        reasons.push(Reason::new(Verdict::Pass, "SANE", pass_text(evidence)));
    }
    if let Some(required) = criteria.and_then(|criteria| criteria.network.as_deref()) {
        reasons.push(network::network_reason(evidence.clues, required));
    }
    reasons
}

/// Whether the table may be compared with a standard: the log has exactly one table, for the requested benchmark, with plausible numbers.
/// Missing or unproven parts do not invalidate the rest.
pub fn measures_what_it_claims(reasons: &[Reason]) -> bool {
    const OTHER: [&str; 6] =
        ["NO_TABLE", "MANY_TABLES", "WRONG_COLLECTIVE", "WRONG_RANKS", "NO_ROWS", "IMPLAUSIBLE"];
    !reasons.iter().any(|reason| OTHER.contains(&reason.code.as_str()))
}

fn pass_text(evidence: &RunEvidence<'_>) -> String {
    let ranks = evidence.cluster.map(Cluster::slots).or(evidence
        .reading
        .tables
        .first()
        .and_then(|table| table.ranks));
    let over = ranks.map_or_else(String::new, |ranks| format!(" over {}", count(ranks, "rank")));
    match evidence.workload {
        Some(workload) => format!("all {} sizes measured{over}, both placements", workload.sizes().len()),
        None => {
            let rows = evidence.reading.tables.iter().map(|table| table.rows.len() as u64).sum::<u64>();
            format!("{} measured{over}", count(rows, "row"))
        }
    }
}

fn no_table(evidence: &RunEvidence<'_>) -> String {
    match &evidence.reading.first_error {
        Some(error) => format!("the benchmark printed no table; the first error is: {error}"),
        None => "the benchmark printed no table".to_owned(),
    }
}

pub(crate) fn job(evidence: &RunEvidence<'_>) -> Vec<Reason> {
    let Some(end) = evidence.job else { return Vec::new() };
    let how = match (end.exit_code, end.signal) {
        (Some(code), _) => format!("the job ended with state {} and exit code {code}", end.state),
        (None, Some(signal)) => format!("the job ended with state {} by signal {signal}", end.state),
        (None, None) => format!("the job ended with state {}", end.state),
    };
    match (end.state.as_str(), end.exit_code) {
        ("COMPLETED", Some(0) | None) => Vec::new(),
        // The result of a stopped job is unknown.
        _ if stopped(evidence) => vec![Reason::new(Verdict::Inconclusive, "JOB_STOPPED", how)],
        _ if !start::began(evidence) && !start::faulty(evidence) => {
            let error = evidence.reading.first_error.as_deref().unwrap_or("its log states no reason");
            let text = format!(
                "{how} before the benchmark printed anything, so nothing was measured; correct the image, the command \
                 or the launcher and run again: {error}"
            );
            vec![Reason::new(Verdict::Inconclusive, NOT_STARTED, text)]
        }
        _ => vec![Reason::new(Verdict::Fail, "JOB_FAILED", how)],
    }
}

/// Reasons from the end of the job. `dcgmi diag` fails with status 226 for each kind of finding, a missing persistence mode included, so
/// the status adds no information to a complete document; without a finding it contradicts the document.
pub(crate) fn job_of_metrics(evidence: &RunEvidence<'_>) -> Vec<Reason> {
    let mut reasons = job(evidence);
    let reading = evidence.reading;
    let is_diagnosis = reading.format.as_deref() == Some("dcgm-diag") && reading.ended == LogEnd::Complete;
    if is_diagnosis && evidence.job.is_some_and(|job| job.state == "FAILED" && job.signal.is_none()) {
        reasons.iter_mut().for_each(|reason| reason.weighs = Verdict::Inconclusive);
    }
    reasons
}

/// Whether the job was stopped by a user or its time limit.
fn stopped(evidence: &RunEvidence<'_>) -> bool {
    evidence.job.is_some_and(|job| matches!(job.state.as_str(), "CANCELLED" | "TIMEOUT"))
}

fn one(table: &Table, evidence: &RunEvidence<'_>, criteria: Option<&Criteria>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |weighs, code, text: String| reasons.push(Reason::new(weighs, code, text));
    match table.ended {
        LogEnd::Complete => {}
        LogEnd::Failed => {
            let error = evidence.reading.first_error.as_deref().unwrap_or("the log states no reason");
            // An error printed while the job is being stopped is not a failure of the benchmark.
            let weighs = if stopped(evidence) { Verdict::Inconclusive } else { Verdict::Fail };
            add(weighs, "BENCHMARK_FAILED", format!("the benchmark failed: {error}"));
        }
        LogEnd::Truncated | LogEnd::Empty => {
            // If the log has a summary, a part before the summary is missing.
            let how = match table.average_busbw.and(evidence.reading.first_error.as_deref()) {
                Some(error) => format!("the log is incomplete: {error}"),
                None => "the log stops before the summary".to_owned(),
            };
            add(Verdict::Inconclusive, "TRUNCATED", how);
        }
    }
    if let Some(requested) = evidence.workload.map(|workload| workload.collective.as_str())
        && let Some(found) = table.collective.as_deref().filter(|found| *found != requested)
    {
        add(Verdict::Inconclusive, "WRONG_COLLECTIVE", format!("{requested} was requested, {found} was run"));
    }
    ranks(table, evidence, criteria, &mut add);
    if table.rows.is_empty() {
        add(Verdict::Inconclusive, "NO_ROWS", "the table has no rows: nothing was measured".to_owned());
    }
    sizes(table, evidence, &mut add);
    values(table, evidence, criteria, &mut add);
    // The times of one rank are so short that the printed digits are mostly rounding errors.
    if !one_rank(table) {
        plausible(table, &mut add);
    }
    reasons
}

/// Checks ranks and nodes against the request and the criteria.
fn ranks(
    table: &Table,
    evidence: &RunEvidence<'_>,
    criteria: Option<&Criteria>,
    add: &mut impl FnMut(Verdict, &'static str, String),
) {
    let requested = evidence.cluster.map(Cluster::slots);
    if let Some(requested) = requested.filter(|requested| table.ranks != Some(*requested)) {
        let found = table.ranks.map_or_else(|| "an unknown number of".to_owned(), |ranks| ranks.to_string());
        let were = if requested == 1 { "was" } else { "were" };
        let text = format!("{} {were} requested, {found} participated", count(requested, "rank"));
        return add(Verdict::Inconclusive, "WRONG_RANKS", text);
    }
    let mut per_node: BTreeMap<&str, u32> = BTreeMap::new();
    table.devices.iter().for_each(|device| *per_node.entry(&device.host).or_default() += 1);
    let (least, each) =
        criteria.map_or((None, None), |criteria| (criteria.min_nodes, criteria.ranks_per_node));
    if let Some(least) = least.filter(|least| per_node.len() < *least as usize) {
        let text = match per_node.len() {
            0 => format!("the log does not name the participating nodes, but {least} are required"),
            found => format!("{} participated, but {least} are required", count(found as u64, "node")),
        };
        return add(Verdict::Inconclusive, "TOO_FEW_NODES", text);
    }
    let odd = per_node.iter().find(|(_, ranks)| each.is_some_and(|each| **ranks != each));
    if let (Some((host, ranks)), Some(each)) = (odd, each) {
        let found = count(u64::from(*ranks), "rank");
        let text = format!("{host} had {found}; required on every node: {each}");
        add(Verdict::Inconclusive, "WRONG_RANKS", text);
    }
}

fn sizes(table: &Table, evidence: &RunEvidence<'_>, add: &mut impl FnMut(Verdict, &'static str, String)) {
    let Some(workload) = evidence.workload else {
        if let Some(text) = missing_value(table) {
            add(Verdict::Inconclusive, "MISSING_SIZE", text);
        }
        return;
    };
    let measured = |size: u64| {
        let whole = table.rows.iter().filter(|row| row.out_of_place.is_some() && row.in_place.is_some());
        whole.into_iter().any(|row| workload.covers(size, row.size_bytes, table.ranks))
    };
    let missing: Vec<_> = workload.sizes().into_iter().filter(|size| !measured(*size)).collect();
    if let Some(first) = missing.first() {
        let text = format!(
            "{} of the requested sizes are not in the table, the first is {first} bytes",
            missing.len()
        );
        add(Verdict::Inconclusive, "MISSING_SIZE", text);
    }
}

/// Gaps visible in the table itself, for logs without a request: a row or half that was printed but not
/// measured, or a missing size between the first and the last.
fn missing_value(table: &Table) -> Option<String> {
    if let Some((row, partial)) = table.rows.iter().find_map(|row| Some((row, row.partial.as_ref()?))) {
        let placement = match partial.placement {
            Placement::OutOfPlace => "out-of-place",
            Placement::InPlace => "in-place",
        };
        let size = measurement::size(row.size_bytes);
        return Some(format!("at {size} the {placement} columns are truncated or have an unreadable number"));
    }
    if table.unmeasured > 0 {
        return Some(format!("rows printed with an invalid number: {}", table.unmeasured));
    }
    let half_of = |of: fn(&Row) -> bool, placement: &str| {
        let lacks = table.rows.iter().find(|row| !of(row)).filter(|_| table.rows.iter().any(of))?;
        Some(format!("at {} nothing was measured {placement}", measurement::size(lacks.size_bytes)))
    };
    half_of(|row| row.out_of_place.is_some(), "out of place")
        .or_else(|| half_of(|row| row.in_place.is_some(), "in place"))
        .or_else(|| {
            let sizes: Vec<u64> = table.rows.iter().map(|row| row.size_bytes).collect();
            let (before, after) = first_gap(&sizes)?;
            let (before, after) = (measurement::size(before), measurement::size(after));
            Some(format!("a size of the series is missing between {before} and {after}"))
        })
}

/// The first gap of several steps. Sizes are multiplied by a factor or increased by a step, and each is
/// rounded to a whole number of elements per rank.
fn first_gap(sizes: &[u64]) -> Option<(u64, u64)> {
    let pairs = || sizes.windows(2).filter_map(|pair| <[u64; 2]>::try_from(pair).ok());
    let grows = || pairs().filter(|[before, after]| 0 < *before && before < after);
    let usual = |steps: Vec<f64>| {
        let least = steps.iter().copied().fold(f64::INFINITY, f64::min);
        let like = steps.iter().filter(|step| close(**step, least)).count();
        (steps.len() >= 3 && like * 3 >= steps.len() * 2).then_some(least)
    };
    let factor = usual(grows().map(|[before, after]| (after as f64 / before as f64).ln()).collect());
    let step = usual(grows().map(|[before, after]| (after - before) as f64).collect());
    let several = |taken: f64, one: f64| {
        let steps = (taken / one).round();
        steps >= 2.0 && close(taken / steps, one)
    };
    let leaps = grows().find(|[before, after]| match (factor, step) {
        (Some(factor), _) => several((*after as f64 / *before as f64).ln(), factor),
        (None, Some(step)) => several((after - before) as f64, step),
        (None, None) => false,
    });
    leaps.map(|[before, after]| (before, after))
}

fn close(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 0.02
}

fn values(
    table: &Table,
    evidence: &RunEvidence<'_>,
    criteria: Option<&Criteria>,
    add: &mut impl FnMut(Verdict, &'static str, String),
) {
    let wrong = |(_, half): &(u64, &Half)| half.wrong.is_some_and(|wrong| wrong > 0);
    if let Some((size, half)) = halves(table).find(wrong) {
        let count = halves(table).filter(wrong).count();
        let size = measurement::size(size);
        let elements = half.wrong.unwrap_or(0);
        let mut sizes: Vec<u64> = halves(table).filter(wrong).map(|(size, _)| size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let more = sizes.len().saturating_sub(NAMED);
        let sizes: Vec<_> = sizes.into_iter().take(NAMED).map(measurement::size).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let text = format!(
            "wrong data in {count} measurements, the first at {size} with {elements} wrong elements; sizes: {}{more}; {}",
            sizes.join(", "),
            on_nodes(table, evidence)
        );
        add(Verdict::Fail, "WRONG_DATA", text);
    } else if table.out_of_bounds.is_some_and(|bounds| !bounds.ok || bounds.count > 0) {
        let nodes = on_nodes(table, evidence);
        add(Verdict::Fail, "WRONG_DATA", format!("the benchmark reports values out of bounds; {nodes}"));
    }
    let is_requested = evidence.workload.is_none_or(|workload| workload.check);
    if criteria.is_some_and(|criteria| criteria.require_check)
        && (unchecked(table, evidence) || !is_requested)
    {
        add(Verdict::Inconclusive, "UNCHECKED", "the data was not checked".to_owned());
    }
}

/// The nodes of the table's ranks, as the table prints them, with the names of the scheduler. If the table prints fewer nodes than the
/// cluster has, its header may be cut: then the nodes of the cluster are returned.
fn nodes(table: &Table, evidence: &RunEvidence<'_>) -> Vec<String> {
    let known = |host: &String| match evidence.clues.nodes_of_hosts.get(host) {
        Some(nodes) => nodes.iter().cloned().collect(),
        None => vec![host.clone()],
    };
    let printed: BTreeSet<String> = table.devices.iter().flat_map(|device| known(&device.host)).collect();
    let of_cluster = evidence.cluster.filter(|cluster| printed.len() < cluster.nodes.len());
    let of_cluster = of_cluster.map_or_else(Vec::new, |cluster| {
        let names = cluster.nodes.iter().map(|node| &node.name);
        names.filter(|name| !Node::is_placeholder(name)).cloned().collect()
    });
    if of_cluster.is_empty() { printed.into_iter().collect() } else { of_cluster }
}

/// The node with wrong data, or all candidate nodes: nccl-tests prints only the sum over all ranks.
fn on_nodes(table: &Table, evidence: &RunEvidence<'_>) -> String {
    let all = evidence.cluster.map_or(0, |cluster| cluster.nodes.len());
    match &*nodes(table, evidence) {
        [] => "the log does not name the nodes".to_owned(),
        [node] if all > 1 => format!("the log names only {node} of {all} nodes"),
        [node] => format!("on {node}"),
        nodes => {
            let more = nodes.len().saturating_sub(NAMED_NODES);
            let named = nodes[..nodes.len() - more].join(", ");
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("on one or more of {named}{more} (`locate: {{}}` identifies it)")
        }
    }
}

/// The node with wrong data, if neither the table nor the cluster has another node.
pub fn node_with_wrong_data(evidence: &RunEvidence<'_>, reasons: &[Reason]) -> Option<String> {
    let [table] = evidence.reading.tables.as_slice() else { return None };
    let mut nodes = nodes(table, evidence);
    let is_only = nodes.len() == 1 && evidence.cluster.is_none_or(|cluster| cluster.nodes.len() <= 1);
    (is_only && reasons.iter().any(|reason| reason.code == "WRONG_DATA")).then(|| nodes.remove(0))
}

/// Whether a measurement that nccl-tests can check was not checked.
pub fn unchecked(table: &Table, evidence: &RunEvidence<'_>) -> bool {
    // Until 2022 nccl-tests printed the largest error and compared it with a bound: that also is a check of the data.
    let is_unchecked = |half: &Half| half.wrong.is_none() && half.error.is_none();
    // nccl-tests does not check these two in place (`reportErrors` in alltoall.cu and sendrecv.cu of 2.19.6),
    // because NCCL does not support them.
    let collective = table.collective.as_deref().or(evidence.workload.map(|of| of.collective.as_str()));
    let in_place_too = !matches!(collective, Some("alltoall" | "sendrecv"));
    table.rows.iter().any(|row| {
        row.out_of_place.as_ref().is_some_and(is_unchecked)
            || in_place_too && row.in_place.as_ref().is_some_and(is_unchecked)
    })
}

/// Checks that size equals time times bandwidth.
fn plausible(table: &Table, add: &mut impl FnMut(Verdict, &'static str, String)) {
    let odd = halves(table).find(|(size, half)| {
        let numbers = [half.time_us, half.algbw, half.busbw];
        if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) || half.time_us <= 0.0 {
            return true;
        }
        // Below 1 GB/s the two printed decimals are too imprecise for this check.
        let bytes = half.time_us * half.algbw * 1e3;
        half.algbw >= 1.0 && (bytes / *size as f64 - 1.0).abs() > TOLERANCE
    });
    if let Some((size, half)) = odd {
        let text = format!(
            "at {} the time of {} us and the bandwidth of {} GB/s contradict each other",
            measurement::size(size),
            half.time_us,
            half.algbw
        );
        add(Verdict::Inconclusive, "IMPLAUSIBLE", text);
    }
}
