//! The tables of nccl-tests as metrics, so that the views of metrics show collectives, too.

use std::collections::BTreeMap;

use model::{
    measurement::{Row, Table},
    metric::{Better, Metric, Scope, Subject},
};

/// Bus bandwidth of one size and placement.
pub(crate) const BUS_BANDWIDTH: &str = "nccl_tests.bus_bandwidth";
/// Median time of the iterations of one process at the largest size.
pub(crate) const PROCESS_TIME: &str = "nccl_tests.process_time";

/// Whether a metric with this name repeats a value of a table.
pub(crate) fn is_projected(name: &str) -> bool {
    name == BUS_BANDWIDTH || name == PROCESS_TIME
}

/// The metrics of a table: the bus bandwidth of every size and placement in the order of the rows, then the time of each process at
/// the largest size, if the table has times of processes (`-I`).
pub(crate) fn metrics(table: &Table) -> Vec<Metric> {
    let (scope, subject) = subject_of_all(table);
    let mut metrics = Vec::new();
    for row in &table.rows {
        for (placement, half) in [("out_of_place", &row.out_of_place), ("in_place", &row.in_place)] {
            let Some(half) = half else { continue };
            let labels = labels(table, row, placement);
            let value = (half.busbw, "GB/s", Better::Higher);
            metrics.push(metric(BUS_BANDWIDTH, value, (scope, subject.clone()), labels));
        }
    }
    let timed = table.rows.iter().filter_map(|row| Some((row, row.processes.as_deref()?)));
    if let Some((row, times)) = timed.max_by_key(|(row, _)| row.size_bytes) {
        for (placement, processes) in
            [("out_of_place", &times.out_of_place_us), ("in_place", &times.in_place_us)]
        {
            for (rank, iterations) in (0..).zip(processes) {
                let Some(time) = median(iterations) else { continue };
                let subject = process(table, rank, processes.len());
                let labels = labels(table, row, placement);
                metrics.push(metric(
                    PROCESS_TIME,
                    (time, "us", Better::Lower),
                    (Scope::Rank, subject),
                    labels,
                ));
            }
        }
    }
    metrics
}

/// The single node of all ranks, or else the whole job.
fn subject_of_all(table: &Table) -> (Scope, Subject) {
    let mut hosts = table.devices.iter().map(|device| &device.host);
    match hosts.next().filter(|first| hosts.all(|host| host == *first)) {
        Some(host) => (Scope::Node, Subject { node: Some(host.as_str().into()), ..Subject::default() }),
        None => (Scope::World, Subject::default()),
    }
}

/// A process with the device of its rank. For processes with several GPUs no device is stated.
fn process(table: &Table, rank: u32, processes: usize) -> Subject {
    let devices = &table.devices;
    let device = devices.iter().find(|device| device.rank == rank && devices.len() == processes);
    Subject {
        node: device.map(|device| device.host.as_str().into()),
        gpu: device.and_then(|device| device.device),
        rank: Some(rank),
        bus_id: device.and_then(|device| device.bus_id.as_deref()).map(Into::into),
        ..Subject::default()
    }
}

/// Properties that distinguish values of one metric. Values with other numbers of ranks are not comparable.
fn labels(table: &Table, row: &Row, placement: &str) -> BTreeMap<String, String> {
    let labels = [
        ("collective", table.collective.clone()),
        ("dtype", Some(row.dtype.clone()).filter(|dtype| !dtype.is_empty())),
        ("placement", Some(placement.to_owned())),
        ("ranks", table.ranks.map(|ranks| ranks.to_string())),
        ("redop", row.redop.clone()),
        ("root", row.root.filter(|root| *root >= 0).map(|root| root.to_string())),
        ("size", Some(row.size_bytes.to_string())),
    ];
    labels.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn metric(
    name: &str,
    (value, unit, better): (f64, &str, Better),
    (scope, subject): (Scope, Subject),
    labels: BTreeMap<String, String>,
) -> Metric {
    Metric {
        name: name.into(),
        unit: unit.into(),
        better,
        scope,
        subject,
        labels: labels.into(),
        value: Some(value),
        resolution: None,
        unmeasurable: None,
        line: 0,
    }
}

/// The median; `None` without values.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (lower, upper) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some((lower + upper) / 2.0)
}
