//! Cost limits, with local processes and invented prices.

use crate::support::{TestProject, json};

/// Three nodes at 1,200 currency units per hour each cost 1 unit per second.
const PRICE: &str = "cost.node_hour=1200";

#[test]
fn a_run_that_would_exceed_its_budget_is_stopped_with_a_message() {
    let project = TestProject::new("sleep 60", "");
    // The budget covers 8 s of the cluster; the last 3 s are reserved for the release of the cluster.
    let set = ["--set", PRICE, "--set", "cost.budget=8", "--set", "limits.grace=3s"];
    let output = project.burnin(&[&["run", "w.yaml", "--output", "json"], &set[..]].concat());
    let document = json(&output);
    assert_eq!(output.status.code(), Some(3), "{document}");
    assert_eq!((&document["conclusion"], &document["verdict"]), (&"failed".into(), &serde_json::Value::Null));
    project.assert_nothing_left();
    let run = document["run"].as_str().unwrap();
    let replayed = String::from_utf8(project.burnin(&["replay", run]).stdout).unwrap();
    assert!(replayed.contains("over budget: "), "{replayed}");
    let explained = String::from_utf8(project.burnin(&["show", run]).stdout).unwrap();
    assert!(explained.contains("OVER_BUDGET") && explained.contains("raise cost.budget"), "{explained}");
}

#[test]
fn the_plan_states_the_maximum_cost() {
    let project = TestProject::new("", "");
    let plan = |set: &[&str]| {
        let mut arguments = vec!["plan", "w.yaml", "--set", "limits.lease=2h", "--set", "limits.attempts=2"];
        arguments.extend(set.iter().flat_map(|set| ["--set", set]));
        String::from_utf8(project.burnin(&arguments).stdout).unwrap()
    };
    assert!(plan(&[]).contains("Cost: unknown"), "{}", plan(&[]));
    let dear = plan(&[PRICE]);
    assert!(dear.contains("at most 14400.00 USD (3 nodes at 1200.00 per hour each)"), "{dear}");
    let bounded = plan(&[PRICE, "cost.budget=600", "cost.currency=EUR", "limits.grace=1m"]);
    assert!(bounded.contains("at most 600.00 EUR"), "{bounded}");
    assert!(
        bounded.contains("covers 10m of the cluster: a run that still uses the cluster after 9m"),
        "{bounded}"
    );
    let wrong = project.burnin(&["plan", "w.yaml", "--set", "cost.node_hour=-5"]);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("cost.node_hour"), "{wrong:?}");
}
