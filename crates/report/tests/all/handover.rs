//! The hand-over document: measured values, serial numbers from the hardware evidence, and devices that no check measured.

use model::{
    GpuEvidence, MetricCriterion, NodeEvidence,
    measurement::NodesOfHosts,
    metric::{Better, Metric, Scope, Subject},
};
use report::handover;

use crate::support::{reading, whole, workflow};

fn gpu(node: &str, index: u32, serial: &str, bus: &str) -> GpuEvidence {
    let subject = Subject {
        node: Some(node.into()),
        serial: Some(serial.into()),
        bus_id: Some(bus.into()),
        ..Subject::gpu(index)
    };
    GpuEvidence { subject, ..GpuEvidence::default() }
}

fn section<'a>(text: &'a str, title: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("{title}: {text}"));
    rest.split("\n## ").next().unwrap()
}

#[test]
fn the_measured_values_are_listed_with_the_serial_numbers_of_their_devices() {
    let workflow = workflow();
    let mut reading = reading(&workflow);
    // nccl-tests counts the GPUs of n0 in a different order than the driver: the bus id identifies each device.
    (reading.tables[0].devices[0].device, reading.tables[0].devices[0].bus_id) =
        (Some(0), Some("0000:1c:00".to_owned()));
    reading.evidence = vec![
        NodeEvidence {
            node: "n0".to_owned(),
            gpus: vec![gpu("n0", 0, "S0", "00000000:1B:00.0"), gpu("n0", 1, "S1", "00000000:1C:00.0")],
            ..NodeEvidence::default()
        },
        NodeEvidence {
            node: "n1".to_owned(),
            gpus: vec![gpu("n1", 0, "S2", "00000000:1B:00.0")],
            ..NodeEvidence::default()
        },
    ];
    reading.metrics = [(1, 705.25), (1, 701.25), (2, 690.0)]
        .map(|(index, value)| Metric {
            name: "gemm.throughput".into(),
            unit: "TFLOP/s".into(),
            better: Better::Higher,
            scope: Scope::Gpu,
            subject: Subject { node: Some("n0".into()), ..Subject::gpu(index) },
            labels: Default::default(),
            value: Some(value),
            resolution: None,
            unmeasurable: None,
            line: 1,
        })
        .to_vec();
    let run = whole(workflow, reading);
    let text = handover(&[run.input()]);

    let measured = section(&text, "Measured");
    let half = run.reading.as_ref().unwrap().tables[0].rows.last().unwrap();
    let slowest = half.in_place.unwrap().busbw.min(half.out_of_place.unwrap().busbw);
    assert!(measured.contains(&format!("| `all_reduce` | 2 | 1 KiB to 16 MiB | {slowest} |")), "{measured}");
    assert!(measured.contains("| `gemm.throughput` | `TFLOP/s` | 2 | 701.25 | 690 |"), "{measured}");

    let devices = section(&text, "Devices");
    let row = |start: &str| {
        devices.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{devices}"))
    };
    let second = row("| `n0` | 1 |");
    assert!(second.contains("`S1`") && second.contains("`gemm.throughput 703.25 TFLOP/s`"), "{second}");
    assert!(second.contains("`CPU`"), "nccl-tests names the device by its bus id: {second}");
    assert!(row("| `n1` | 0 |").contains("`S2`"), "{devices}");
    assert!(
        row("| `n0` | 2 |").contains("| unknown |"),
        "a GPU without evidence has no serial number: {devices}"
    );

    let missing = section(&text, "Not measured");
    assert!(missing.contains("node n0, GPU 0, serial S0: no check measured this device"), "{missing}");
    assert!(!missing.contains("serial S1") && !missing.contains("serial S2"), "{missing}");
}

/// A ceiling needs no direction of improvement, so the document lists the value that the ceiling bounds.
#[test]
fn a_metric_without_a_direction_is_listed_if_criteria_bound_it() {
    let metric = |name: &str, value| Metric {
        name: name.into(),
        unit: "us".into(),
        better: Better::None,
        scope: Scope::Node,
        subject: Subject { node: Some("n0".into()), ..Subject::default() },
        labels: Default::default(),
        value: Some(value),
        resolution: None,
        unmeasurable: None,
        line: 1,
    };
    let mut workflow = workflow();
    let mut reading = reading(&workflow);
    reading.metrics = vec![metric("kv.rtt_us", 4.25), metric("kv.other_us", 7.0)];
    let measured = |workflow: &model::Workflow| {
        let text = handover(&[whole(workflow.clone(), reading.clone()).input()]);
        section(&text, "Measured").to_owned()
    };
    let unbounded = measured(&workflow);
    assert!(!unbounded.contains("worst subject") && unbounded.contains("2 metrics without"), "{unbounded}");
    let ceiling =
        MetricCriterion { metric: "kv.rtt_us".to_owned(), ceiling: Some(9.0), ..MetricCriterion::default() };
    workflow.benchmark.as_mut().unwrap().criteria.metrics.push(ceiling);
    let bounded = measured(&workflow);
    assert!(bounded.contains("| `kv.rtt_us` | `us` | 1 | 4.25 |"), "{bounded}");
    assert!(!bounded.contains("kv.other_us") && bounded.contains("1 metric without"), "{bounded}");
}

/// The table names pods, and the evidence names the nodes of these pods.
#[test]
fn a_device_that_a_pod_names_is_listed_once() {
    let workflow = workflow();
    let mut reading = reading(&workflow);
    for (device, (pod, bus)) in
        reading.tables[0].devices.iter_mut().zip([("job-w-0-0", "0000:1b:00"), ("job-w-0-1", "0000:1b:00")])
    {
        device.host = pod.to_owned();
        (device.device, device.bus_id) = (Some(0), Some(bus.to_owned()));
    }
    let node = |name: &str, serial| NodeEvidence {
        node: name.to_owned(),
        gpus: vec![gpu(name, 0, serial, "00000000:1B:00.0")],
        ..NodeEvidence::default()
    };
    reading.evidence = vec![node("n1", "S1"), node("n2", "S2")];
    let hosts = [("job-w-0-0", "n1"), ("job-w-0-1", "n2")]
        .map(|(host, node)| (host.to_owned(), [node.to_owned()].into()));
    reading.name_nodes(&NodesOfHosts::of_logs([&hosts.into()]));
    let text = handover(&[whole(workflow, reading).input()]);
    let devices = section(&text, "Devices");
    let rows: Vec<_> = devices.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(
        matches!(rows[..], [one, two] if one.starts_with("| `n1` | 0 |") && two.starts_with("| `n2` | 0 |")),
        "{devices}"
    );
    assert!(!text.contains("job-w-0") && !text.contains("no check measured this device"), "{text}");
}

#[test]
fn the_document_of_a_run_without_a_log_states_that_no_measurement_was_recorded() {
    let run = crate::support::cancelled();
    let text = handover(&[run.input()]);
    assert!(section(&text, "Measured").contains("No measurement was recorded."), "{text}");
    assert!(section(&text, "Devices").contains("No log names a device."), "{text}");
}
