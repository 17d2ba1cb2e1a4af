//! Several checks in a workflow file.

use std::{fs, process::Command};

use model::{Collective, Datatype, Every, OutputFormat, Program, Workflow};
use workflow::resolve;

const HEAD: &str = "\
name: several
cluster: {rent: {processes: {nodes: 2}}}
";
const WORKLOAD: &str = "workload: {collective: all_reduce, min_bytes: 8, max_bytes: 64K}, criteria: any.yaml";

fn read(text: &str) -> Result<(Workflow, Vec<String>), Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("any.yaml"), "name: any\ndata_only: true\n").unwrap();
    fs::write(folder.path().join("high.yaml"), "name: high\nfloors: [{size_bytes: 1M, busbw: 9}]\n").unwrap();
    fs::write(folder.path().join("value.yaml"), "name: value\nmetrics: [{metric: my.value, floor: 9}]\n")
        .unwrap();
    fs::write(folder.path().join("other.yaml"), "name: other\nmetrics: [{metric: hpl.gflops, floor: 9}]\n")
        .unwrap();
    let of_rate = [
        ("rate", "perftest.write.bandwidth, floor: 360"),
        ("gbits", "perftest.write.bandwidth, floor: 360, unit: Gb/s"),
    ];
    for (name, metric) in of_rate.into_iter().chain([("key", "kv.rtt_us, ceiling: 5")]) {
        let criteria = format!("name: {name}\nmetrics: [{{metric: {metric}}}]\n");
        fs::write(folder.path().join(format!("{name}.yaml")), criteria).unwrap();
    }
    for rule in ["off", "judged", "required"] {
        let criteria = format!("name: evidence\ndata_only: true\nevidence: {rule}\n");
        fs::write(folder.path().join(format!("{rule}.yaml")), criteria).unwrap();
    }
    fs::write(folder.path().join("w.yaml"), text).unwrap();
    let lines = |problems: &[workflow::FileProblem]| {
        let root = format!("{}/", folder.path().display());
        problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect::<Vec<_>>()
    };
    match resolve(&folder.path().join("w.yaml"), &[]) {
        Ok(resolved) => Ok((resolved.workflow, lines(&resolved.warnings))),
        Err(problems) => Err(lines(&problems.0)),
    }
}

fn names(workflow: &Workflow) -> Vec<&str> {
    workflow.checks.iter().map(|check| check.name.as_str()).collect()
}

#[test]
fn checks_keep_their_order_their_limits_and_their_environment() {
    let text = format!(
        "{HEAD}checks:\n  - {{name: smoke, {WORKLOAD}}}\n  - {{name: ring, {WORKLOAD}, needs: [smoke], limit: 5m, environment: {{NCCL_ALGO: Ring}}}}\n"
    );
    let (workflow, _) = read(&text).unwrap();
    assert_eq!((names(&workflow), workflow.benchmark.is_none()), (vec!["smoke", "ring"], true));
    let ring = &workflow.checks[1];
    assert_eq!(
        (ring.needs.as_slice(), ring.limit.unwrap().to_string().as_str()),
        (&["smoke".to_owned()][..], "5m")
    );
    assert_eq!(ring.benchmark.environment["NCCL_ALGO"], "Ring");
    assert!(workflow.checks[0].limit.is_none() && workflow.checks[0].benchmark.environment.is_empty());
}

#[test]
fn a_matrix_becomes_checks_with_stable_names() {
    let matrix = "matrix: {collectives: [all_gather, reduce_scatter], datatypes: [bfloat16, float], \
                  environments: {ring: {NCCL_ALGO: Ring}, tree: {NCCL_ALGO: Tree}}}";
    let text = format!(
        "{HEAD}checks:\n  - {{name: m, {WORKLOAD}, {matrix}, environment: {{NCCL_ALGO: x, A: b}}}}\n  - {{name: last, {WORKLOAD}, needs: [m]}}\n"
    );
    let (workflow, _) = read(&text).unwrap();
    let expected = [
        "m-all_gather-bfloat16-ring",
        "m-all_gather-bfloat16-tree",
        "m-all_gather-float-ring",
        "m-all_gather-float-tree",
        "m-reduce_scatter-bfloat16-ring",
        "m-reduce_scatter-bfloat16-tree",
        "m-reduce_scatter-float-ring",
        "m-reduce_scatter-float-tree",
        "last",
    ];
    assert_eq!(names(&workflow), expected);
    assert_eq!(workflow.checks[8].needs, expected[..8], "the name of a matrix selects all its checks");
    let benchmark = &workflow.checks[5].benchmark;
    assert_eq!(
        benchmark.program.workload().map(|it| (it.collective, it.datatype)),
        Some((Collective::ReduceScatter, Some(Datatype::Bfloat16)))
    );
    assert_eq!(
        (benchmark.environment["NCCL_ALGO"].as_str(), benchmark.environment["A"].as_str()),
        ("Tree", "b")
    );
}

#[test]
fn problems_name_the_check() {
    let one = |check: &str| {
        read(&format!("{HEAD}checks:\n  - {{name: first, {WORKLOAD}}}\n  - {{{check}}}\n")).unwrap_err()
    };
    let cases = [
        (
            format!("name: first, {WORKLOAD}"),
            "w.yaml:5:6: checks[1].name: `first` is the name of an earlier check; write another name",
        ),
        (format!("name: b, {WORKLOAD}, needs: [late]"), "checks[1].needs[0]: `late` is not an earlier check"),
        (format!("name: b c, {WORKLOAD}"), "checks[1].name: expected name"),
        (
            format!("name: b, {WORKLOAD}, environment: {{A B: x}}"),
            "checks[1].environment.A B: expected a name",
        ),
        (
            format!("name: b, {WORKLOAD}, matrix: {{environments: {{a b: {{}}}}}}"),
            "checks[1].matrix.environments.a b: is a part of the check's name",
        ),
        (
            "name: b, workload: {collective: all_reduce, min_bytes: 0, max_bytes: 64K}, criteria: any.yaml"
                .to_owned(),
            "checks[1].workload.min_bytes: must be at least 1",
        ),
        (
            "name: b, workload: {collective: all_reduce, min_bytes: 8, max_bytes: 64K}, criteria: high.yaml"
                .to_owned(),
            "high.yaml:2:11: floors[0].size_bytes: 1 MiB is never measured",
        ),
        (
            "name: b, workload: {collective: all_reduce, min_bytes: 8, max_bytes: 64K}, criteria: gone.yaml"
                .to_owned(),
            "checks[1].criteria: the file ",
        ),
        (
            format!("name: b, {WORKLOAD}, matrix: {{collectives: [all_gather, all_gather]}}"),
            "is the name of an earlier check",
        ),
    ];
    for (check, expected) in cases {
        let message = one(&check).join("\n");
        assert!(message.contains(expected), "{check}: {message}");
    }
    let both = format!("{HEAD}benchmark: {{{WORKLOAD}}}\nchecks: [{{name: a, {WORKLOAD}}}]\n");
    assert!(read(&both).unwrap_err()[0].contains("checks: cannot be combined with `benchmark`"));
    let nowhere = format!("name: several\nchecks: [{{name: a, {WORKLOAD}}}]\n");
    assert!(read(&nowhere).unwrap_err()[0].contains("checks: needs a `cluster`"));
}

#[test]
fn an_unchecked_workload_contradicts_criteria_that_require_the_check() {
    let workload =
        "workload: {collective: all_reduce, min_bytes: 8, max_bytes: 64K, check: false}, criteria: any.yaml";
    let messages = read(&format!("{HEAD}checks: [{{name: a, {workload}}}]\n")).unwrap_err();
    assert!(
        messages[0].contains("checks[0].workload.check: false, but the criteria require"),
        "{messages:?}"
    );
}

#[test]
fn a_lease_shorter_than_all_limits_is_a_warning() {
    let check = |name: char| format!("  - {{name: {name}, {WORKLOAD}}}\n");
    let (_, warnings) =
        read(&format!("{HEAD}checks:\n{}", ('a'..='f').map(check).collect::<String>())).unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("limits.lease: 4h is shorter than the sum of all limits"), "{warnings:?}");
}

const READ: &str = "read: {row: '^v=(?P<value>\\S+)$', end: '^done$', name: my.value, unit: GB/s, better: higher, scope: node}";

#[test]
fn a_check_runs_any_program() {
    let text = format!(
        "{HEAD}checks:\n  - {{name: a, command: [nvbandwidth, -j], read: nvbandwidth, criteria: any.yaml}}\n  \
         - {{name: b, command: [x], {READ}, criteria: value.yaml, matrix: {{environments: {{one: {{A: b}}, two: {{}}}}}}}}\n"
    );
    let (workflow, _) = read(&text).unwrap();
    assert_eq!(names(&workflow), ["a", "b-one", "b-two"]);
    let command = |at: usize| workflow.checks[at].benchmark.program.command().unwrap();
    assert_eq!((command(0).every, command(2).every), (Every::Node, Every::Node));
    assert_eq!(command(0).read, OutputFormat::Format("nvbandwidth".to_owned()));
    // The stored form is read back unchanged, and a stored command has no field `workload`.
    let stored = serde_json::to_value(&workflow).unwrap();
    assert_eq!(serde_json::from_value::<Workflow>(stored.clone()).unwrap(), workflow);
    assert_eq!(stored["checks"][0]["command"]["argv"], serde_json::json!(["nvbandwidth", "-j"]));
    assert!(
        stored["checks"][0]["command"]["every"] == "node" && stored["checks"][0].get("workload").is_none()
    );
}

#[test]
fn checks_of_pairs_of_nodes_accept_every_evidence_rule() {
    let check = |every: &str, rule: &str| {
        let text = format!(
            "{{name: a, command: [x, '{{peer}}'], every: {every}, read: perftest, criteria: {rule}.yaml}}"
        );
        read(&format!("{HEAD}checks: [{text}]\n"))
    };
    for (every, rule) in [("node", "required"), ("pair", "required"), ("pair", "judged"), ("pair", "off")] {
        let (workflow, _) = check(every, rule).unwrap();
        let taken = workflow.checks[0].benchmark.criteria.evidence.is_taken();
        assert_eq!(taken, rule != "off");
    }
}

#[test]
fn problems_of_a_command_name_the_field() {
    let cases = [
        ("criteria: any.yaml".to_owned(), "checks[0]: has neither `workload` nor `command`"),
        (format!("{WORKLOAD}, command: [x]"), "checks[0].command: contradicts `workload`"),
        (format!("{WORKLOAD}, every: node"), "checks[0].every: contradicts `workload`"),
        ("command: [''], read: hpl, criteria: any.yaml".to_owned(), "checks[0].command[0]: is empty; write the name of the program"),
        ("command: [x], criteria: any.yaml".to_owned(), "checks[0].read: is missing; name the format"),
        ("command: [x], read: nvbandwith, criteria: any.yaml".to_owned(), "`nvbandwith` is not a format; expected one of: nccl-tests, nvbandwidth"),
        ("command: [x], every: pod, read: hpl, criteria: any.yaml".to_owned(), "checks[0].every: "),
        ("command: [x], read: {name: a}, criteria: any.yaml".to_owned(), "checks[0].read: lacks the field `better`"),
        ("command: [x], read: {row: '(?P<value>.', end: x, name: a, unit: s, better: lower, scope: node}, criteria: any.yaml".to_owned(), "checks[0].read.row: "),
        ("command: [x], read: {row: '(?P<value>[0-9.]+)', name: a, unit: s, better: lower, scope: node}, criteria: any.yaml".to_owned(), "checks[0].read.end: "),
        (format!("command: [x], {READ}, criteria: any.yaml, matrix: {{datatypes: [half]}}"), "checks[0].matrix.datatypes: applies to `workload` only"),
        (format!("command: [x], {READ}, image: 'x:latest', criteria: value.yaml"), "checks[0].image: expected NAME@sha256:DIGEST"),
        (format!("command: [x], {READ}, image: 'x@sha256:{}', criteria: value.yaml", "a".repeat(64)), "checks[0].image: applies to Kubernetes only"),
        (format!("command: [x], {READ}, criteria: any.yaml"), "any.yaml:1:1: metrics: no criterion bounds the declared metric"),
        (format!("command: [x], {READ}, criteria: other.yaml"), "other.yaml:2:12: metrics[0].metric: `hpl.gflops` is not a metric of the program's output"),
        (format!("command: [x], {}, criteria: value.yaml", READ.replace("scope: node", "scope: gpu")), "value.yaml:2:11: metrics[0].subjects: is missing"),
        ("command: [x], read: hpl, criteria: high.yaml".to_owned(), "the floors and references are those of nccl-tests"),
    ];
    for (check, expected) in cases {
        let message = read(&format!("{HEAD}checks: [{{name: a, {check}}}]\n")).unwrap_err().join("\n");
        assert!(message.contains(expected), "{check}: {message}");
    }
}

/// `ib_write_bw` without `--report_gbits` prints MiB/s: a slow link would exceed a floor in Gb/s.
#[test]
fn a_bound_without_a_unit_is_a_warning_if_the_program_prints_the_unit() {
    let warnings = |format: &str, criteria: &str| {
        let check = format!("name: a, command: [x], every: node, read: {format}, criteria: {criteria}.yaml");
        read(&format!("{HEAD}checks: [{{{check}}}]\n")).unwrap().1.join("\n")
    };
    let expected = "rate.yaml:2:11: metrics[0].unit: is missing: the program prints the unit of `perftest.write.bandwidth`";
    let found = warnings("perftest", "rate");
    assert!(found.contains(expected) && found.contains("write the unit of `floor`"), "{found}");
    for (format, criteria) in [("perftest", "gbits"), ("key-value", "key")] {
        let found = warnings(format, criteria);
        assert!(!found.contains("unit"), "{criteria}: {found}");
    }
}

#[test]
fn an_element_of_a_list_is_set_by_its_name_or_number() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("any.yaml"), "name: any\ndata_only: true\n").unwrap();
    let text = format!("{HEAD}checks: [{{name: one, {WORKLOAD}}}, {{name: two, {WORKLOAD}}}]\n");
    fs::write(folder.path().join("w.yaml"), text).unwrap();
    let set = |settings: &[&str]| {
        let settings: Vec<_> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
        resolve(&folder.path().join("w.yaml"), &settings)
    };
    let collectives = |workflow: &Workflow| -> Vec<Collective> {
        let workloads = workflow.checks.iter().map(|check| check.benchmark.program.workload().unwrap());
        workloads.map(|workload| workload.collective).collect()
    };
    let both = ["checks.two.workload.collective=alltoall", "checks[0].workload.collective=broadcast"];
    let resolved = set(&both).unwrap();
    assert_eq!(collectives(&resolved.workflow), [Collective::Broadcast, Collective::Alltoall]);
    let message = set(&["checks.two.workload.max_bytes=1"]).unwrap_err().0[0].to_string();
    assert!(
        message.contains("--set: checks[1].workload.max_bytes: 1 is smaller than min_bytes, 8"),
        "{message}"
    );
    let message = set(&["checks.two.needs=[one]"]).unwrap_err().0[0].to_string();
    assert!(
        message.contains(
            "--set does not support lists: set one element of an existing list (`checks[1].needs[0]=...`)"
        ),
        "{message}"
    );
    // A text is set without quotes, even if it reads as a number.
    let resolved = set(&["checks.one.skip=7", "description=1e3", "limits.job=7m"]).unwrap().workflow;
    assert_eq!((resolved.excluded["one"].as_str(), resolved.description.as_str()), ("7", "1e3"));
    let message = set(&["soak.drift=x"]).unwrap_err().to_string();
    assert!(message.contains("soak.drift: expected a number"), "{message}");
    // An unknown name must not replace the list of checks.
    let problems = set(&["checks.three.skip=x", "limits.jop=1m"]).unwrap_err().0;
    let unknown = problems.iter().find(|problem| problem.field == "checks.three.skip").unwrap();
    assert_eq!(unknown.message, "no element of the list is named `three`");
    assert_eq!(unknown.help, "known names: one, two");
    assert!(
        problems.iter().any(|problem| problem.field == "limits.jop"),
        "expected all problems, found {problems:?}"
    );
}

#[test]
fn a_suite_is_shared_by_workflows_and_a_check_is_excluded_only_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("suites")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("suites/any.yaml", "name: any\ndata_only: true\n");
    write(
        "suites/s.yaml",
        &format!(
            "description: two\nchecks:\n  - {{name: one, {WORKLOAD}}}\n  - {{name: two, {WORKLOAD}, needs: [one]}}\n"
        ),
    );
    write("w.yaml", &format!("{HEAD}suite: suites/s.yaml\n"));
    let set = |settings: &[&str]| {
        let settings: Vec<_> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
        resolve(&folder.path().join("w.yaml"), &settings).map(|resolved| resolved.workflow)
    };
    let workflow = set(&[]).unwrap();
    assert_eq!((names(&workflow), workflow.description.as_str()), (vec!["one", "two"], "two"));
    let workflow = set(&["checks.one.skip=no link"]).unwrap();
    assert_eq!(names(&workflow), ["two"]);
    assert!(workflow.checks[0].needs.is_empty(), "a check that needs an excluded one runs");
    assert_eq!(workflow.excluded, [("one".to_owned(), "no link".to_owned())].into());
    let message = |settings: &[&str]| set(settings).unwrap_err().to_string();
    let all = ["checks.one.skip=x", "checks.two.skip=x"];
    assert!(message(&all).contains("s.yaml:2:1: checks: are all skipped"), "{}", message(&all));
    assert!(message(&["suite=gone.yaml"]).contains("suite: the file gone.yaml does not exist"));
    assert!(message(&["checks.one.workload.max_bytes=1"]).contains("is smaller than min_bytes"));
    write("suites/s.yaml", &format!("checks:\n  - {{name: one, {WORKLOAD}, skip: ' '}}\n"));
    assert!(message(&[]).contains("checks[0].skip: is empty"), "{}", message(&[]));
    write("w.yaml", &format!("{HEAD}suite: suites/s.yaml\nchecks: [{{name: a, {WORKLOAD}}}]\n"));
    assert!(message(&[]).contains("suite: cannot be combined with"), "{}", message(&[]));
}

#[test]
fn the_shipped_suites_run_on_every_existing_kind_of_cluster() {
    let workflows = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    for (suite, count) in [("smoke", 2), ("nightly", 6), ("acceptance", 21)] {
        for kind in ["slurm", "kubernetes-cpu", "hosts"] {
            let file = workflows.join(format!("{kind}.yaml"));
            let mut document = fs::read_to_string(&file).unwrap();
            let at = document.find("\nbenchmark:").unwrap();
            let end = document[at + 1..].find("\n\n").map_or(document.len(), |end| at + 1 + end);
            document.replace_range(at..end, &format!("\nsuite: suites/{suite}.yaml\n"));
            let document = workflow::YamlDocument::parse(&file.display().to_string(), &document).unwrap();
            let resolved = workflow::resolve_document(document, &file, None, &[], None);
            let workflow =
                resolved.unwrap_or_else(|problems| panic!("{suite} on {kind}: {problems}")).workflow;
            assert_eq!(workflow.checks.len(), count, "{suite} on {kind}: {:?}", names(&workflow));
        }
    }
}

/// A shipped suite on the shipped Slurm cluster.
fn suite(name: &str, settings: &[&str]) -> Workflow {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows/slurm.yaml");
    let mut document = fs::read_to_string(&file).unwrap();
    let at = document.find("\nbenchmark:").unwrap();
    let end = document[at + 1..].find("\n\n").map_or(document.len(), |end| at + 1 + end);
    document.replace_range(at..end, &format!("\nsuite: suites/{name}.yaml\n"));
    let document = workflow::YamlDocument::parse(&file.display().to_string(), &document).unwrap();
    let settings: Vec<_> = settings.iter().map(|setting| setting.parse().unwrap()).collect();
    workflow::resolve_document(document, &file, None, &settings, None).unwrap().workflow
}

/// The real program ended with "couldn't find compare kernel: compare.fatbin" in any other folder.
#[test]
fn gpu_burn_runs_in_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (own, bin) = (folder.join("gpu burn"), folder.join("bin"));
    fs::create_dir(&own).unwrap();
    fs::create_dir(&bin).unwrap();
    fs::write(own.join("compare.fatbin"), "").unwrap();
    fs::write(own.join("gpu_burn"), "#!/bin/sh\n[ -f compare.fatbin ] && echo \"$*\"\n").unwrap();
    fs::set_permissions(own.join("gpu_burn"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(own.join("gpu_burn"), bin.join("gpu_burn")).unwrap();
    let acceptance = suite("acceptance", &["checks.burn.command[4]=30"]);
    let burn = acceptance.checks.iter().find(|check| check.name == "burn").unwrap();
    let Program::Command(command) = &burn.benchmark.program else { panic!("{:?}", burn.benchmark.program) };
    let run = |path: &str| {
        let mut process = Command::new(&command.argv[0]);
        process.args(&command.argv[1..]).current_dir(&folder).env("PATH", path).output().unwrap()
    };
    let output = run(&format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "-tc 30\n", "{output:?}");
    // The `PATH` is only this folder, because the host may have a real gpu_burn.
    std::os::unix::fs::symlink("/bin/bash", own.join("bash")).unwrap();
    fs::remove_file(own.join("gpu_burn")).unwrap();
    let output = run(&own.display().to_string());
    assert_eq!(output.status.code(), Some(127), "{output:?}");
}

#[test]
fn the_nightly_and_acceptance_suites_require_evidence_of_each_node() {
    for name in ["nightly", "acceptance"] {
        for settings in [&[][..], &["checks.memory.criteria=../criteria/gpu-memory.yaml"]] {
            for check in &suite(name, settings).checks {
                let expected = match check.name.as_str() {
                    "memory" if !settings.is_empty() => model::EvidenceRule::Judged,
                    _ => model::EvidenceRule::Required,
                };
                assert_eq!(check.benchmark.criteria.evidence, expected, "{name}: {}", check.name);
            }
        }
    }
}

#[test]
fn the_nightly_suite_measures_enough_values_to_show_small_changes() {
    let workflow = suite("nightly", &[]);
    let trend = workflow.checks.iter().find(|check| check.name == "trend").unwrap();
    let sizes = trend.benchmark.program.workload().unwrap().sizes();
    assert_eq!((sizes[0], sizes[1] - sizes[0], sizes[48]), (2 << 30, 128 << 20, 8 << 30));
    // `docs/VERDICT.md` states the nights until a change is shown for the median of 96 values.
    assert!(2 * sizes.len() >= 96, "{sizes:?}");
    for check in workflow.checks.iter().filter(|check| check.benchmark.program.workload().is_some()) {
        assert!(check.benchmark.criteria.history, "{} is compared with earlier runs", check.name);
    }
}

/// Judges a diagnosis by the criteria of a suite, without hardware evidence. Returns the verdict, codes and texts of the reasons, and
/// number of suspects.
fn diagnosed(workflow: &Workflow, document: &serde_json::Value) -> (model::Verdict, String, usize) {
    let check = workflow.checks.iter().find(|check| check.name == "diagnostics").unwrap();
    let criteria = model::Criteria { evidence: model::EvidenceRule::Off, ..check.benchmark.criteria.clone() };
    let reading = measure::read(document.to_string().as_bytes()).unwrap();
    let standard = verdict::Standard { criteria: Some(&criteria), ..Default::default() };
    let judgement =
        verdict::judge(&verdict::RunEvidence::of(&reading, &verdict::Clues::default()), &standard);
    let reasons = judgement.reasons.iter().map(|reason| format!("{} {}\n", reason.code, reason.text));
    (judgement.verdict, reasons.collect(), judgement.suspects.len())
}

/// DCGM leaves out plug-ins that it does not support on a GPU (NVIDIA/DCGM#55, #139).
#[test]
fn the_acceptance_diagnostics_never_pass_if_one_of_their_tests_is_missing() {
    use model::Verdict::{Inconclusive, Pass};
    let acceptance = suite("acceptance", &[]);
    let samples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/tests/samples/dcgm-diag");
    let sample = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(samples.join(name)).unwrap()).unwrap()
    };
    let disabled = sample("4.5.2-gb10-level2-plugins-allowed.json");
    let (verdict, reasons, suspects) = diagnosed(&acceptance, &disabled);
    assert_eq!((verdict, suspects), (Inconclusive, 0), "persistence mode is not a fault: {reasons}");
    assert!(!reasons.contains("NOT_MEASURED"), "{reasons}");
    let mut healthy = disabled;
    let software = &mut healthy["DCGM Diagnostic"]["test_categories"][0]["tests"][0];
    software["results"] = serde_json::json!([{"entity_group": "GPU", "entity_id": 0, "status": "Pass"}]);
    software["test_summary"] = serde_json::json!({"status": "Pass"});
    let (verdict, reasons, _) = diagnosed(&acceptance, &healthy);
    assert_eq!(verdict, Pass, "{reasons}");
    for (category, metric) in ["dcgm.software", "dcgm.memory", "dcgm.pcie"].iter().enumerate() {
        let mut omitted = healthy.clone();
        omitted["DCGM Diagnostic"]["test_categories"].as_array_mut().unwrap().remove(category);
        let (verdict, reasons, suspects) = diagnosed(&acceptance, &omitted);
        assert_eq!((verdict, suspects), (Inconclusive, 0), "{metric}: {reasons}");
        assert!(reasons.contains(&format!("NOT_MEASURED {metric} is not in the log")), "{reasons}");
    }
    let (verdict, reasons, _) = diagnosed(&acceptance, &sample("4.5.2-gb10-level2-plugins-gated.json"));
    assert!(verdict == Inconclusive && reasons.contains("UNMEASURABLE"), "{reasons}");

    let older = suite("acceptance", &["checks.diagnostics.criteria=../criteria/diagnostics-3-evidence.yaml"]);
    let result =
        |name: &str| serde_json::json!({"name": name, "results": [{"gpu_ids": "0", "status": "PASS"}]});
    let document = |tests: &[&str]| {
        let tests: Vec<_> = tests.iter().map(|name| result(name)).collect();
        serde_json::json!({"DCGM GPU Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}})
    };
    assert_eq!(diagnosed(&older, &document(&["GPU Memory", "PCIe"])).0, Pass);
    for tests in [["GPU Memory"], ["PCIe"]] {
        let (verdict, reasons, _) = diagnosed(&older, &document(&tests));
        assert!(verdict == Inconclusive && reasons.contains("NOT_MEASURED"), "{tests:?}: {reasons}");
    }
}

#[test]
fn options_of_nccl_tests_are_typed_and_checks_are_repeated() {
    let with = |collective: &str, extra: &str| {
        let workload = format!(
            "workload: {{collective: {collective}, min_bytes: 8, max_bytes: 64K, extra_args: {{{extra}}}}}"
        );
        read(&format!("{HEAD}checks: [{{name: a, {workload}, criteria: any.yaml, repeat: 3}}]\n"))
    };
    let (workflow, _) =
        with("all_reduce", "op: avg, agg_iters: 4, cudagraph: 20, blocking: true, average: max, timeout: 60")
            .unwrap();
    assert_eq!(names(&workflow), ["a-1", "a-2", "a-3"]);
    let workload = workflow.checks[2].benchmark.program.workload().unwrap();
    let flags: Vec<_> = workload.extra_args.flags().map(|(flag, value)| format!("{flag} {value}")).collect();
    assert_eq!(flags, ["-o avg", "-m 4", "-G 20", "-z 1", "-a 3", "-T 60"]);
    assert_eq!(workload.step(), ("-f", "2".to_owned()));
    let (workflow, _) = with("all_reduce", "stepbytes: 16384").unwrap();
    let workload = workflow.checks[0].benchmark.program.workload().unwrap();
    assert_eq!(
        (workload.step(), workload.sizes()),
        (("-i", "16384".to_owned()), vec![8, 16392, 32776, 49160])
    );
    let cases = [
        (
            "all_reduce",
            "stepbytes: 65",
            "checks[0].workload.step_bytes: results in more than 1000 sizes from 8 to 64K",
        ),
        ("broadcast", "op: sum", "checks[0].workload.extra_args.op: has no effect on broadcast"),
        ("all_reduce", "root: 1", "checks[0].workload.extra_args.root: has no effect on all_reduce"),
        ("all_reduce", "op: all", "checks[0].workload.extra_args.op: "),
        ("all_reduce", "report_cputime: 1", "checks[0].workload.extra_args.report_cputime: "),
        ("all_reduce", "cudagraph: 0", "checks[0].workload.extra_args.cudagraph: "),
    ];
    for (collective, extra, expected) in cases {
        let message = with(collective, extra).unwrap_err().join("\n");
        assert!(message.contains(expected), "{extra}: {message}");
    }
}

#[test]
fn sizes_grow_by_a_factor_or_by_a_difference() {
    let with = |step: &str| {
        let workload = format!("workload: {{collective: all_reduce, min_bytes: 8, max_bytes: 64K, {step}}}");
        read(&format!("{HEAD}checks: [{{name: a, {workload}, criteria: any.yaml}}]\n"))
    };
    let (workflow, _) = with("step_bytes: 32K").unwrap();
    assert_eq!(workflow.checks[0].benchmark.program.workload().unwrap().sizes(), [8, 32776]);
    for (step, expected) in [
        (
            "step_factor: 4, step_bytes: 1K",
            "step_bytes: has no effect beside step_factor; remove one of them",
        ),
        (
            "step_bytes: 1K, extra_args: {stepbytes: 1024}",
            "step_bytes: has no effect beside extra_args.stepbytes",
        ),
        ("step_bytes: 0", "step_bytes: results in more than 1000 sizes from 8 to 64K; write a larger step"),
    ] {
        let message = with(step).unwrap_err().join("\n");
        assert!(message.contains(expected), "{step}: {message}");
    }
}

#[test]
fn options_of_nccl_tests_fit_each_collective_of_the_matrix() {
    let with = |base: &str, matrix: &str| {
        let workload = format!(
            "workload: {{collective: {base}, min_bytes: 8, max_bytes: 64K, extra_args: {{op: max}}}}"
        );
        let matrix = format!("matrix: {{collectives: [{matrix}]}}");
        read(&format!("{HEAD}checks: [{{name: a, {workload}, {matrix}, criteria: any.yaml}}]\n"))
    };
    let message = with("all_reduce", "all_reduce, all_gather").unwrap_err().join("\n");
    assert!(message.contains("extra_args.op: has no effect on all_gather"), "{message}");
    let (workflow, _) = with("all_gather", "all_reduce, reduce").unwrap();
    assert_eq!(names(&workflow), ["a-all_reduce", "a-reduce"]);
}
