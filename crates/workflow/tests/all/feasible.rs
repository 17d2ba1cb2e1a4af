//! Runs that cannot succeed are refused before they incur cost, each with the file, the line and the field.

use std::{fs, path::Path};

use workflow::{FileProblem, FileProblems, Override, resolve};

const WORKFLOW: &str = "\
name: nightly
cluster:
  existing:
    name: here
    system:
      slurm: {nodes: 3, ranks_per_node: 8, gpus_per_node: 8, shared_folder: /home/me}
benchmark:
  workload: {collective: all_gather, min_bytes: 8M, max_bytes: 8G}
  criteria: criteria.yaml
";

const CRITERIA: &str = "\
name: mine
ranks_per_node: 8
min_nodes: 2
floors:
  - {size_bytes: 8589934464, busbw: 150}
";

const DEPLOYED: &str = "\
name: nightly
cluster:
  rent:
    deployed:
      deploy: {config: deploy.yaml, substitutions: {_NODES: '2', _PROJECT: mine}}
      destroy: {config: destroy.yaml, substitutions: {_PROJECT: mine}}
      slurm: {nodes: 2, ranks_per_node: 8, gpus_per_node: 8, partition: a3, shared_folder: /home/me}
";

const DEPLOY: &str = "\
steps: [{name: bash, automapSubstitutions: true, script: echo}]
substitutions: {_CLUSTER: '', _EXPIRES: '', _NODES: '2', _PROJECT: '', _PARTITION: a3}
artifacts: {objects: {location: 'gs://any/', paths: [cluster.json]}}
";

const DESTROY: &str = "\
steps: [{name: bash, automapSubstitutions: true, script: echo}]
substitutions: {_CLUSTER: '', _PROJECT: ''}
artifacts: {objects: {location: 'gs://any/', paths: [gone.json]}}
";

/// A workflow, its criteria, and the values of `--set`.
type WorkflowFiles<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Errors and warnings of a workflow, without the folder's path.
fn found(workflow: &str, criteria: &str, set: &[&str]) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("w.yaml", workflow),
        ("criteria.yaml", criteria),
        ("deploy.yaml", DEPLOY),
        ("destroy.yaml", DESTROY),
    ];
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let set: Vec<Override> = set.iter().map(|set| set.parse().unwrap()).collect();
    let texts = |problems: Vec<FileProblem>| {
        let prefix = format!("{}/", folder.path().display());
        problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
    };
    match resolve(&folder.path().join("w.yaml"), &set) {
        Ok(resolved) => (vec![], texts(resolved.warnings)),
        Err(FileProblems(problems)) => (texts(problems), vec![]),
    }
}

#[test]
fn feasible_workflows_have_no_finding() {
    assert_eq!(found(WORKFLOW, CRITERIA, &[]), (vec![], vec![]));
    assert_eq!(found(DEPLOYED, CRITERIA, &[]), (vec![], vec![]));
    for shipped in ["quickstart", "slurm", "kubernetes-cpu", "hosts"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../workflows/{shipped}.yaml"));
        resolve(&path, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

#[test]
fn infeasible_runs_are_reported_at_the_faulty_field() {
    let criteria = |text: &'static str| (WORKFLOW, text, &[][..]);
    let cases: &[(WorkflowFiles<'_>, &str)] = &[
        (
            criteria("name: mine\nfloors:\n  - size_bytes: 7G\n    busbw: 1\n"),
            "criteria.yaml:3:5: floors[0].size_bytes: 7 GiB is never measured; the nearest measured sizes are 4294967040 bytes and 8589934464 bytes",
        ),
        // The part of each of the 24 ranks is a multiple of 16 bytes, so 8 GiB is rounded down to a measured size; 16 GiB is never
        // measured.
        (
            criteria("name: mine\nfloors: [{size_bytes: 8G, busbw: 1}, {size_bytes: 16G, busbw: 1}]\n"),
            "criteria.yaml:2:39: floors[1].size_bytes: 16 GiB is never measured; the nearest measured sizes are 8589934464 bytes",
        ),
        (
            criteria("name: mine\nranks_per_node: 8\nline_rate: 200\nline_rate_share: 2\n"),
            "criteria.yaml:4:1: line_rate_share: 2 is more than the maximum of 1.0; write 1.0 or less",
        ),
        (
            criteria(
                "name: mine\ndata_only: true\nmetrics: [{metric: nccl_tests.bus_bandwidth, floor: 400}]\n",
            ),
            "criteria.yaml:3:12: metrics[0].metric: is not judged for nccl-tests; write `floors` or `references`",
        ),
        (
            criteria("name: mine\n"),
            "criteria.yaml:1:1: no floor and no reference bounds the bandwidth, so any speed passes; add `floors`, `references` or a `line_rate`, or write `data_only: true` if that is intended",
        ),
        (
            criteria("name: mine\ndata_only: true\nfloors: [{size_bytes: 8589934464, busbw: 1}]\n"),
            "criteria.yaml:2:1: data_only: contradicts the floors, references or baseline of the check; remove one of them",
        ),
        (
            criteria(
                "name: mine\nreferences: [{collective: all_reduce, source: us, points: [{size_bytes: 8M, busbw: 1}]}]\n",
            ),
            "criteria.yaml:2:1: references: contain no curve for all_gather over 24 ranks, which the workflow measures; add one",
        ),
        (
            criteria(
                "name: mine\nreferences: [{collective: all_gather, ranks: 24, source: us, points: [{size_bytes: 4M, busbw: 1}]}]\n",
            ),
            "criteria.yaml:2:72: references[0].points[0].size_bytes: 4 MiB is never measured; the nearest measured sizes are 8388480 bytes",
        ),
        (
            criteria("name: mine\ndata_only: true\nranks_per_node: 4\nmin_nodes: 4\n"),
            "criteria.yaml:3:1: ranks_per_node: 4, but the workflow runs 8 (cluster.existing.system.slurm.ranks_per_node)\n\
             criteria.yaml:4:1: min_nodes: 4, but the workflow has 3 (cluster.existing.system.slurm.nodes)",
        ),
        (
            (WORKFLOW, CRITERIA, &["benchmark.workload.check=false"]),
            "--set: benchmark.workload.check: false, but the criteria require checked data (`require_check`): the verdict would never be pass",
        ),
        (
            (WORKFLOW, "name: mine\ndata_only: true\n", &["cluster.existing.system.slurm.ranks_per_node=16"]),
            "--set: cluster.existing.system.slurm.ranks_per_node: 16 ranks on 8 GPUs (`gpus_per_node`); each rank needs a GPU",
        ),
        (
            (WORKFLOW, CRITERIA, &["limits.job=0s"]),
            "--set: limits.job: 0s is too short; write a span such as 30m",
        ),
        (
            (WORKFLOW, CRITERIA, &["limits.lease=100000000000d"]),
            "--set: limits.lease: 273785078years 8months 16days 23h 31m 12s is longer than 366 days; write less",
        ),
        (
            (DEPLOYED, CRITERIA, &["limits.lease=1h", "limits.cluster=2h"]),
            "--set: limits.lease: 1h is shorter than its stages (cluster 2h); write at least 2h",
        ),
        (
            (DEPLOYED, CRITERIA, &["cost.node_hour=88", "cost.budget=2"]),
            "--set: cost.budget: 2.00 covers 40s 909ms of 2 nodes at 88.00 an hour; a run is stopped 2m (limits.grace) before that, so no run could start; raise the budget, or lower limits.grace",
        ),
        (
            (DEPLOYED, CRITERIA, &["cluster.rent.deployed.slurm.nodes=4"]),
            "--set: cluster.rent.deployed.slurm.nodes: 4, but the steps that deploy get _NODES `2`; write the same in both (cluster.rent.deployed.deploy.substitutions._NODES)",
        ),
        (
            (
                DEPLOYED,
                CRITERIA,
                &[
                    "cluster.rent.deployed.deploy.substitutions._PARTITION=a3",
                    "cluster.rent.deployed.slurm.partition=b",
                ],
            ),
            "--set: cluster.rent.deployed.slurm.partition: b, but the steps that deploy get _PARTITION `a3`; write the same in both (cluster.rent.deployed.deploy.substitutions._PARTITION)",
        ),
        (
            (DEPLOYED, CRITERIA, &["cluster.rent.deployed.destroy.substitutions._PROJECT=other"]),
            "--set: cluster.rent.deployed.destroy.substitutions._PROJECT: `mine` to deploy and `other` to destroy; write the same in both",
        ),
    ];
    for ((workflow, criteria, set), expected) in cases {
        let (errors, _) = found(workflow, criteria, set);
        assert_eq!(errors.join("\n"), *expected, "{set:?}");
    }
}

/// A teardown without `_PROJECT` would delete the resources of another project.
#[test]
fn a_substitution_of_one_build_is_compared_with_the_default_of_the_other() {
    let one_side = DEPLOYED.replace("substitutions: {_PROJECT: mine}}", "substitutions: {}}");
    let (errors, _) = found(&one_side, CRITERIA, &[]);
    assert!(errors.concat().contains("_PROJECT: `mine` to deploy and `` to destroy"), "{errors:?}");
}

#[test]
fn an_undeclared_substitution_and_a_schedule_that_never_fires_are_refused() {
    let unknown = DEPLOYED.replace("_NODES: '2',", "_NODSE: '2',");
    let (errors, _) = found(&unknown, CRITERIA, &[]);
    assert!(
        errors.concat().contains("deploy.substitutions._NODSE: is not a substitution of deploy.yaml"),
        "{errors:?}"
    );
    let never = format!("{WORKFLOW}on: {{schedule: [{{cron: '0 3 30 2 *'}}]}}\n");
    let (errors, _) = found(&never, CRITERIA, &[]);
    assert!(errors.concat().contains("on.schedule[0].cron: `0 3 30 2 *` never occurs"), "{errors:?}");
}

#[test]
fn possible_failures_are_warnings() {
    let two = ["locate.drain=propose", "cluster.existing.system.slurm.nodes=2"];
    let criteria = "name: mine\ndata_only: true\n";
    let (errors, warnings) = found(WORKFLOW, criteria, &two);
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        warnings,
        [
            "--set: locate: 2 nodes make one pair at most, which cannot identify a bad node; a search needs 3 or more"
        ]
    );
    let (errors, warnings) = found(DEPLOYED, CRITERIA, &["cost.node_hour=88", "cost.budget=100"]);
    assert_eq!(errors, Vec::<String>::new());
    assert!(warnings.concat().contains("cost.budget: 100.00 covers 34m 5s 454ms of 2 nodes"), "{warnings:?}");
}

#[test]
fn a_line_rate_is_not_judged_without_the_number_of_ranks() {
    let unknown = WORKFLOW.replace("nodes: 3", "nodes: 0");
    let (errors, _) = found(&unknown, "name: mine\nranks_per_node: 8\nline_rate: 200\n", &[]);
    assert!(errors.len() == 1 && errors[0].contains("slurm.nodes"), "{errors:?}");
}

#[test]
fn bounds_of_zero_have_no_effect() {
    for criteria in [
        "name: mine\nfloors: [{size_bytes: 8589934464, busbw: 0}]\n",
        "name: mine\nreferences: [{collective: all_gather, source: us, points: [{size_bytes: 8589934464, busbw: 0}]}]\n",
    ] {
        let (errors, _) = found(WORKFLOW, criteria, &[]);
        assert!(errors.iter().any(|error| error.contains("so any speed passes")), "{errors:?}");
    }
}
