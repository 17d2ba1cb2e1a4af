//! A short simulation: a range of seeds, every order, every single crash, and the same trace twice.

use std::{process::Command, sync::Arc};

use ledger::conformance;
use sim::{Fault, ObjectFile, Scenario, run};

#[test]
fn seeds_have_no_violations_and_most_runs_are_judged() {
    let summary = sim::seeds::many(0, 200, 2);
    assert_eq!(summary.failed, Default::default());
    assert!(summary.judged() * 2 > summary.runs(), "{:?}", summary.endings);
}

#[test]
fn the_same_seed_produces_the_same_trace() {
    for seed in 0..12 {
        let first = run(Scenario::of(seed).traced());
        let second = run(Scenario::of(seed).traced());
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.digest, run(Scenario::of(seed)).digest, "seed {seed}: tracing changed the digest");
    }
}

#[test]
fn the_same_seed_produces_the_same_trace_in_two_processes() {
    let replay = |seed: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(["replay", seed]).output().unwrap();
        assert!(output.status.success(), "seed {seed}");
        output.stdout
    };
    for seed in ["3", "7", "14"] {
        let first = replay(seed);
        assert!(first.len() > 1000);
        assert!(first == replay(seed), "seed {seed}");
    }
}

#[tokio::test]
async fn a_bucket_in_a_file_satisfies_the_contract() {
    conformance::store(Arc::new(ObjectFile::new().unwrap())).await;
    conformance::ledger(Arc::new(ObjectFile::new().unwrap())).await;
    conformance::artefacts(Arc::new(ObjectFile::new().unwrap())).await;
}

#[test]
fn every_order_of_eight_facts_results_in_the_same_state() {
    let (orders, ends) = sim::orders::every(8);
    assert_eq!((orders, ends.len()), (40_320, 1));
}

#[test]
fn a_run_without_faults_has_twelve_records() {
    let outcome = run(Scenario::without_faults(0, 3));
    assert_eq!(outcome.violations, []);
    for ending in outcome.endings {
        assert_eq!((ending.verdict.as_deref(), ending.records), (Some("pass"), 12));
    }
}

#[test]
fn maximum_fault_rates_cause_no_violation() {
    for seed in 0..20 {
        let mut scenario = Scenario::of(seed);
        scenario.faults.set(Fault::ProviderRefuses, 400);
        scenario.faults.set(Fault::StoreRefuses, 100);
        scenario.faults.set(Fault::StoreLies, 250);
        scenario.faults.set(Fault::ProviderLies, 250);
        let outcome = run(scenario);
        assert_eq!(outcome.violations, [], "seed {seed}");
    }
}
