//! Invalid files: all problems at once, each with file, line, field and expectation.

use std::{fs, path::Path};

use model::{ByteSize, ChannelNotify, ClusterSpec, ImageSpec, News, Notify, System};
use proptest::prelude::*;
use workflow::{FileProblems, Override, YamlDocument, header_of, resolve};

const GOOD: &str = "\
name: good
cluster:
  rent:
    processes: {nodes: 2}
benchmark:
  workload:
    collective: all_reduce
    min_bytes: 8
    max_bytes: 64K
  criteria: criteria.yaml
limits:
  job: 5m
";

fn folder(workflow: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w.yaml"), workflow).unwrap();
    fs::write(folder.path().join("criteria.yaml"), "name: any\ndata_only: true\n").unwrap();
    folder
}

fn problems(workflow: &str, set: &[&str]) -> Vec<String> {
    let folder = folder(workflow);
    let set: Vec<Override> = set.iter().map(|set| set.parse().unwrap()).collect();
    let Err(FileProblems(problems)) = resolve(&folder.path().join("w.yaml"), &set) else { return vec![] };
    let prefix = format!("{}/", folder.path().display());
    problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
}

#[test]
fn the_workflows_of_this_repository_are_valid() {
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let mut checked = 0;
    for entry in fs::read_dir(workflows).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            // Only missing values of the user are problems.
            for problem in resolve(&path, &[]).err().into_iter().flat_map(|problems| problems.0) {
                assert!(problem.message.ends_with("state it in a file for --values"), "{problem}");
            }
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// The triggers in comments of the four systems' files are valid, too.
#[test]
fn commented_triggers_are_valid() {
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    for name in
        ["a3-mega-slurm", "a3-mega-slurm-lustre", "a3-mega-existing", "dgx-slurm-perf", "a4-gke-testbed"]
    {
        let text = fs::read_to_string(workflows.join(format!("{name}.yaml"))).unwrap();
        let (file, example) = text.split_once("(docs/TRIGGERS.md):\n").unwrap();
        let example: Vec<_> = example.lines().map(|line| line.strip_prefix("# ").unwrap()).collect();
        let whole = format!("{}\n{}\n", file.rsplit_once('\n').unwrap().0, example.join("\n"));
        let offered =
            header_of(&YamlDocument::parse(name, &whole).unwrap()).unwrap_or_else(|why| panic!("{why}"));
        let on = &offered.on;
        assert_eq!(
            (
                [on.schedule.len(), on.push.len(), on.build.len(), on.cluster.len()],
                offered.parameters[0].as_str()
            ),
            ([1; 4], "limits.job"),
            "{name}"
        );
        assert!(on.validated_every.is_some() && example[0].starts_with("values: "), "{name}");
    }
}

#[test]
fn the_build_config_of_this_repository_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cloudbuild.yaml");
    let config: cloudbuild::BuildConfig = YamlDocument::read(&path).unwrap().read_as().unwrap();
    cloudbuild::plan::check(&config, &cloudbuild::Inputs::default())
        .unwrap_or_else(|problems| panic!("{problems:?}"));
}

#[test]
fn a_valid_file_resolves_with_every_default() {
    let folder = folder(GOOD);
    let resolved = resolve(&folder.path().join("w.yaml"), &["limits.attempts=3".parse().unwrap()]).unwrap();
    let workflow = resolved.workflow;
    assert_eq!(workflow.cluster, Some(ClusterSpec::Provisioned(System::processes(2))));
    let workload = workflow.benchmark.unwrap().program.workload().unwrap().clone();
    assert_eq!((workload.max_bytes, workload.step_factor, workload.iterations), (65536, 2, 20));
    assert_eq!(workload.sizes().len(), 14);
    assert_eq!((workflow.limits.attempts, workflow.limits.job.to_string().as_str()), (3, "5m"));
    assert!(resolved.archives.is_empty());
}

#[test]
fn all_problems_are_reported_at_once() {
    let wrong = "\
name: Bad Name
image:
  build: {config: nope.yaml, sorce: x}
cluster:
  rent: {processors: {nodes: 2}}
benchmark:
  workload:
    collective: all_redcue
    min_bytes: 16X
    max_bytes: -3
    iterations: lots
limits: {job: 10 parsecs, attempts: 0}
colour: red
";
    let found = problems(wrong, &["limits.image=never"]);
    let expected = [
        "--set: limits.image: expected a duration such as 90s, 10m or 1h 30m, found \"never\"",
        "w.yaml:1:1: name: expected short name: a letter, then lower-case letters, digits and `-`, found \"Bad Name\"; write bad-name",
        "w.yaml:3:11: image.build.config: the file nope.yaml does not exist",
        "w.yaml:3:30: image.build.sorce: is not a known field; did you mean `source`?",
        "w.yaml:5:3: cluster.rent: expected one of `processes`, `deployed`, found the fields processors; did you mean `processes`?",
        "w.yaml:6:1: benchmark: lacks the field `criteria`; add `criteria: ...`: File with the criteria",
        "w.yaml:8:5: benchmark.workload.collective: expected one of `all_reduce`, `all_gather`, `reduce_scatter`, \
         `alltoall`, `broadcast`, `reduce`, `sendrecv`, `gather`, `scatter`, found \"all_redcue\"; did you mean `all_reduce`?",
        "w.yaml:9:5: benchmark.workload.min_bytes: expected bytes: a number, or a text such as 64K, 16M or 1G in \
         powers of 1024, found \"16X\"",
        "w.yaml:10:5: benchmark.workload.max_bytes: -3 is less than the minimum of 0; write 0 or more",
        "w.yaml:11:5: benchmark.workload.iterations: expected a whole number, found \"lots\"",
        "w.yaml:12:10: limits.job: expected a duration such as 90s, 10m or 1h 30m, found \"10 parsecs\"",
        "w.yaml:12:27: limits.attempts: 0 is less than the minimum of 1; write 1 or more",
        "w.yaml:13:1: colour: is not a known field; known fields: name, description, values, image, cluster, benchmark, checks, suite, \
         soak, locate, limits, cost, notify, on, parameters",
    ];
    assert_eq!(found, expected);
}

#[test]
fn rules_beyond_the_schema_are_checked() {
    let cases = [
        (
            GOOD.replace("min_bytes: 8", "min_bytes: 1M"),
            "w.yaml:9:5: benchmark.workload.max_bytes: 64K is smaller than min_bytes, 1M; write 1M or more",
        ),
        (
            GOOD.replace("criteria.yaml", "no.yaml"),
            "w.yaml:10:3: benchmark.criteria: the file no.yaml does not exist",
        ),
        (
            GOOD.replace("cluster:\n  rent:\n    processes: {nodes: 2}\n", ""),
            "w.yaml:2:1: benchmark: needs a `cluster` to run on",
        ),
        ("name: empty\n".to_owned(), "w.yaml:1:1: has no effect: set `image`, `cluster` or both"),
    ];
    for (workflow, expected) in cases {
        assert_eq!(problems(&workflow, &[]), [expected]);
    }
}

#[test]
fn a_build_config_is_checked_with_its_own_lines() {
    let folder = folder("name: built\nimage:\n  build: {config: image.yaml, source: src}\n");
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/a.txt"), "a").unwrap();
    let config = folder.path().join("image.yaml");
    let path = folder.path().join("w.yaml");

    fs::write(&config, "steps:\n  - name: bash\n    script: echo\n    waitFor: [nobody]\n    colour: red\n")
        .unwrap();
    let message = resolve(&path, &[]).unwrap_err().to_string();
    assert!(message.contains("image.yaml:5:5: steps[0].colour: is not a known field"), "{message}");
    fs::write(&config, "steps:\n  - name: bash\n    script: echo\n    waitFor: [nobody]\n").unwrap();
    let message = resolve(&path, &[]).unwrap_err().to_string();
    assert!(message.contains("image.yaml:4:") && message.contains("nobody"), "{message}");

    fs::write(&config, "steps:\n  - name: bash\n    script: echo\n").unwrap();
    let resolved = resolve(&path, &[]).unwrap();
    let again = resolve(&path, &[]).unwrap();
    let Some(ImageSpec::Build(build)) = resolved.workflow.image else { panic!("a build") };
    let [archive] = &resolved.archives[..] else { panic!("one source folder gives one archive") };
    assert_eq!(archive.bytes, again.archives[0].bytes, "equal folders have equal archives");
    assert_eq!(archive.object, format!("sources/{}.tar", build.source.unwrap().sha256));

    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("src/link")).unwrap();
    assert!(resolve(&path, &[]).unwrap_err().to_string().contains("neither a file nor a folder"));
}

#[test]
fn repositories_of_builds_are_checked() {
    let of = |repository: &str| {
        let folder = folder(&format!("name: built\nimage:\n  build: {{config: image.yaml, {repository}}}\n"));
        fs::write(folder.path().join("image.yaml"), "steps:\n  - name: bash\n    script: echo\n").unwrap();
        match resolve(&folder.path().join("w.yaml"), &[]) {
            Ok(resolved) => serde_json::to_string(&resolved.workflow.image).unwrap(),
            Err(problems) => problems.to_string(),
        }
    };
    assert!(of("repository: {url: https://h/a/b}").contains(r#""revision":"HEAD""#));
    assert!(
        of("repository: {url: git@h:a/b.git, revision: release/1}").contains(r#""revision":"release/1""#)
    );
    for (repository, expected) in [
        ("repository: {url: ext::sh}", "repository.url: expected a URL"),
        ("repository: {url: --upload-pack=x}", "repository.url: expected a URL"),
        ("repository: {url: 'https://me:secret@h/a/b'}", "repository.url: contains a password"),
        ("repository: {url: https://h/a/b, revision: --help}", "repository.revision: expected a branch"),
        ("repository: {url: https://h/a/b, revision: 'a:b'}", "repository.revision: expected a branch"),
        ("repository: {url: https://h/a/b, connection: mine}", "repository.connection: expected projects/"),
        ("source: ., repository: {url: https://h/a/b}", "repository: cannot be combined with `source`"),
    ] {
        let message = of(repository);
        assert!(message.contains(&format!("image.build.{expected}")), "{repository}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn a_workflow_may_name_its_values_file() {
    let folder = folder(&GOOD.replace("limits:", "values: mine.yaml\nlimits:"));
    let path = folder.path().join("w.yaml");
    let job = |set: &[Override]| resolve(&path, set).map(|resolved| resolved.workflow.limits.job);
    fs::write(folder.path().join("mine.yaml"), "limits.job: 7m\n").unwrap();
    assert_eq!(job(&[]).unwrap().0.as_secs(), 7 * 60);
    let set = "limits.job=9m".parse().unwrap();
    assert_eq!(job(&[set]).unwrap().0.as_secs(), 9 * 60, "the command line has priority");
    fs::write(folder.path().join("mine.yaml"), "_NO_SUCH: 7\n").unwrap();
    let message = job(&[]).unwrap_err().to_string();
    assert!(message.contains("mine.yaml:1:") && message.contains("_NO_SUCH"), "{message}");
    fs::remove_file(folder.path().join("mine.yaml")).unwrap();
    let message = job(&[]).unwrap_err().to_string();
    assert!(message.contains("w.yaml:11:1: values: the file mine.yaml does not exist"), "{message}");
}

#[test]
fn unsupported_yaml_features_are_rejected() {
    let cases = [
        ("a: 1\na: 2\n", "f:2:1: a: is given twice"),
        ("a: &x 1\nb: *x\n", "a: anchors are not supported; write the value out"),
        ("a: !!python/object 1\n", "a: tags are not supported"),
        ("a: 1\n---\nb: 2\n", "f:2:1: a second document begins here; write one per file"),
        ("", "f:1:1: is empty"),
        ("a: [1\n", "is not YAML"),
        ("? [a]\n: b\n", "a key must be a string"),
    ];
    for (text, expected) in cases {
        let message = YamlDocument::parse("f", text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text:?}: {message}");
    }
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(YamlDocument::parse("f", &deep).unwrap_err().to_string().contains("nested too deeply"));
    assert!(YamlDocument::parse("f", &"[".repeat(100_000)).is_err());
    assert!(YamlDocument::parse("f", &"- ".repeat(100_000)).is_err());
    assert!(
        YamlDocument::parse("f", &"x".repeat(2 << 20)).unwrap_err().to_string().contains("is larger than")
    );
}

#[test]
fn ambiguous_scalars_are_texts() {
    let text = "{a: no, b: 0x10, c: 010, d: 1.5, e: \"1\", f: ~, g: true, h: 2026-11-20}";
    let value = YamlDocument::parse("f", text).unwrap().value;
    let expected = r#"{"a":"no","b":"0x10","c":"010","d":1.5,"e":"1","f":null,"g":true,"h":"2026-11-20"}"#;
    assert_eq!(value.to_string(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_causes_a_panic(text in any::<String>()) {
        if let Ok(document) = YamlDocument::parse("f", &text) {
            drop(document.read_as::<workflow::WorkflowFile>());
        }
    }

    #[test]
    fn sizes_round_trip(bytes in any::<u64>()) {
        prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
    }

    #[test]
    fn the_text_of_an_override_is_kept_unchanged(value in "[ -~]{0,40}") {
        let folder = folder(GOOD);
        let set = Override { field: "description".into(), value };
        if let Ok(resolved) = resolve(&folder.path().join("w.yaml"), std::slice::from_ref(&set)) {
            prop_assert!(resolved.workflow.description == set.value || set.value.is_empty());
        }
    }
}

#[test]
fn cluster_steps_must_use_substitutions_and_write_results() {
    let deployed = "name: d\ncluster:\n  rent:\n    deployed:\n      deploy: {config: up.yaml, source: src}\n      \
                    destroy: {config: down.yaml, source: src}\n      slurm: {nodes: 2, shared_folder: /home/x}\n";
    let folder = folder(deployed);
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/a.txt"), "a").unwrap();
    let path = folder.path().join("w.yaml");
    let config = |declared: &str, leaves: &str| {
        format!(
            "steps:\n  - name: bash\n    automapSubstitutions: true\n    script: echo\nsubstitutions: {{{declared}}}\n\
             artifacts:\n  objects: {{location: gs://b/, paths: [{leaves}]}}\n"
        )
    };
    let write = |up: String, down: String| {
        fs::write(folder.path().join("up.yaml"), up).unwrap();
        fs::write(folder.path().join("down.yaml"), down).unwrap();
    };
    let all = "_CLUSTER: '', _EXPIRES: ''";

    write(config(all, "cluster.json"), config("_CLUSTER: ''", "gone.json"));
    let resolved = resolve(&path, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let system = resolved.workflow.cluster.as_ref().unwrap().system();
    let spec = cluster_deployed::Deployed::of(system).expect("the cluster is deployed");
    assert_eq!((resolved.archives.len(), system.nodes()), (1, 2), "one source folder gives one archive");
    assert_eq!(spec.deploy.source, spec.destroy.source);

    write(config("_OTHER: ''", "made"), config("_X: ''", "made"));
    let message = resolve(&path, &[]).unwrap_err().to_string();
    for expected in [
        "up.yaml:5:1: substitutions: must declare `_CLUSTER: \"\"`",
        "up.yaml:5:1: substitutions: must declare `_EXPIRES: \"\"`",
        "up.yaml:7:32: artifacts.objects.paths: must name `cluster.json`",
        "down.yaml:5:1: substitutions: must declare `_CLUSTER: \"\"`",
        "down.yaml:7:32: artifacts.objects.paths: must name `gone.json`",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }

    write(config(all, "cluster.json"), config("_CLUSTER: ''", "gone.json"));
    let set = |text: &str| resolve(&path, &[text.parse().unwrap()]).unwrap_err().to_string();
    let message = set("cluster.rent.deployed.deploy.substitutions={_CLUSTER: mine}");
    assert!(message.contains("substitutions"), "{message}");
    let message = set("cluster.rent.deployed.slurm.partition=a b");
    assert!(message.contains("cluster.rent.deployed.slurm.partition"), "{message}");
    let message = set("cluster.rent.deployed.destroy.config=nowhere.yaml");
    assert!(message.contains("destroy.config: the file"), "{message}");
}

#[test]
fn triggers_and_parameters_are_checked_with_positions() {
    let on = |text: &str| problems(&format!("{GOOD}{text}"), &[]);
    let good = "on:\n  push: [{repository: acme/images, branches: [main]}]\n  schedule: [{cron: 0 2 * * *, zone: Europe/Zurich}]\n  validated_every: 26h\nparameters: [limits.job]\n";
    assert_eq!(on(good), [""; 0]);
    assert_eq!(
        on("on:\n  push:\n    - {repository: acme}\n  schedule:\n    - cron: 0 2 * * *\n      zone: Mars\n"),
        [
            "w.yaml:15:8: on.push[0].repository: expected owner/name, found `acme`",
            "w.yaml:18:7: on.schedule[0].zone: the time zone `Mars` does not exist; write a name of the IANA time zone database, such as `Europe/Zurich`",
        ]
    );
    assert_eq!(
        on("on: {pull: []}\n"),
        [
            "w.yaml:13:6: on.pull: is not a known field; known fields: push, schedule, build, cluster, validated_every"
        ]
    );
    assert_eq!(
        on("parameters: [limits.job, name, on.push]\n"),
        [
            "w.yaml:13:26: parameters[1]: is not a field that can be overridden",
            "w.yaml:13:32: parameters[2]: is not a field that can be overridden",
        ]
    );
    let folder = folder(&format!("{GOOD}{good}"));
    let offered = workflow::read_header(&folder.path().join("w.yaml")).unwrap();
    assert_eq!((offered.name.as_str(), offered.parameters.len(), offered.on.push.len()), ("good", 1, 1));
}

#[test]
fn invalid_fields_of_a_kubernetes_cluster_are_reported_by_name() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows/kubernetes-cpu.yaml");
    let resolved = resolve(&path, &[]).unwrap_or_else(|problems| panic!("{problems}"));
    let Some(ClusterSpec::Existing { system, .. }) = resolved.workflow.cluster else {
        panic!("expected an existing cluster")
    };
    let layout = clusters::layout(&system).unwrap();
    assert_eq!((system.kind(), layout.nodes, layout.gpus_per_node), ("kubernetes", 4, None));
    for (field, wrong) in [
        ("image", "host/name:latest"),
        ("namespace", "Default"),
        ("nodes", "0"),
        ("access.kubeconfig.path", "relative"),
        ("launch", "by hand"),
    ] {
        let set = format!("cluster.existing.system.kubernetes.{field}={wrong}");
        let message = resolve(&path, &[set.parse().unwrap()]).unwrap_err().to_string();
        let named = format!("cluster.existing.system.kubernetes.{field}");
        assert!(message.contains(&named), "{message}");
    }
}

#[test]
fn a_list_with_an_invalid_element_is_not_reported_as_empty() {
    let existing = |hosts: &str| {
        format!("cluster: {{existing: {{system: {{hosts: {{hosts: {hosts}}}}}, name: lab}}}}\n")
    };
    let found = |hosts: &str| {
        problems(&GOOD.replace("cluster:\n  rent:\n    processes: {nodes: 2}\n", &existing(hosts)), &[])
    };
    assert_eq!(
        found("[n1]"),
        [
            "w.yaml:2:47: cluster.existing.system.hosts.hosts[0]: expected fields (`name: value`), found \"n1\""
        ]
    );
    assert_eq!(
        found("[]"),
        ["w.yaml:2:39: cluster.existing.system.hosts.hosts: is empty; name at least one host"]
    );
}

#[test]
fn notification_targets_are_checked_with_positions() {
    let push = "on: {push: [{repository: acme/images}]}\n";
    let messages = |text: &str| problems(&format!("{GOOD}{push}{text}"), &[]);
    let good = "notify:\n  - github: {check: true}\n  - slack: {webhook: ops-channel, on: [failed, still-failing]}\n  - webhook: {target: pager}\n";
    assert_eq!(messages(good), [""; 0]);
    let folder = folder(&format!("{GOOD}{push}{good}"));
    let workflow = resolve(&folder.path().join("w.yaml"), &[]).unwrap().workflow;
    let [Notify::Github(github), slack, pager] = &workflow.notify[..] else { panic!("three") };
    assert!(github.status && github.check);
    let channel = |kind: &str, field: &str, name: &str, on: &[News]| {
        let [kind, field, name] = [kind, field, name].map(str::to_owned);
        Notify::Channel(ChannelNotify { kind, field, name, on: on.to_vec() })
    };
    assert_eq!(*slack, channel("slack", "webhook", "ops-channel", &[News::Failed, News::StillFailing]));
    assert_eq!(*pager, channel("webhook", "target", "pager", &News::ALL));
    let stored = r#"{"slack":{"webhook":"ops-channel","on":["failed","still-failing"]}}"#;
    assert_eq!(serde_json::to_string(slack).unwrap(), stored);

    let name = "expected a name: a letter, then lower-case letters, digits and `-`, at most 40 characters; not an address";
    let cases = [
        (
            "notify: [slack: {webhook: 'https://hooks.example/T/B/secret'}]\n",
            format!("w.yaml:14:18: notify[0].slack.webhook: {name}"),
        ),
        (
            "notify:\n  - webhook: {target: pager}\n  - webhook: {target: pager}\n",
            "w.yaml:16:15: notify[1].webhook.target: `pager` is given twice; remove one entry".to_owned(),
        ),
        (
            "notify:\n  - webhook: {target: pager, on: []}\n",
            "w.yaml:15:30: notify[0].webhook.on: expected at least one value, without repetition".to_owned(),
        ),
        (
            "notify:\n  - github: {status: false}\n",
            "w.yaml:15:5: notify[0].github: has no effect: set `status`, `check` or both".to_owned(),
        ),
        (
            "notify:\n  - email: {to: me}\n",
            "w.yaml:15:5: notify[0]: expected one of `github`, `slack`, `webhook`, found the fields email"
                .to_owned(),
        ),
        (
            "notify:\n  - slack: {webhook: a, on: [fialed]}\n",
            "w.yaml:15:30: notify[0].slack.on[0]: expected one of".to_owned(),
        ),
        (
            "notify:\n  - slack: {webhook: a, url: x}\n",
            "w.yaml:15:25: notify[0].slack.url: is not a known field".to_owned(),
        ),
        (
            "parameters: [notify]\n",
            "w.yaml:14:14: parameters[0]: is not a field that can be overridden".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        let messages = messages(text);
        assert!(messages.len() == 1 && messages[0].starts_with(&expected), "{text}: {messages:?}");
    }
    assert_eq!(
        problems(&format!("{GOOD}notify: [github: {{}}]\n"), &[]),
        ["w.yaml:13:10: notify[0].github: needs `on.push`: only a run started by a push has a commit"]
    );
}

#[test]
fn an_override_with_null_removes_a_named_file() {
    let folder = folder(&(GOOD.to_owned() + "values: mine.yaml\n"));
    let path = folder.path().join("w.yaml");
    let why = resolve(&path, &[]).unwrap_err().to_string();
    assert!(why.contains("values: the file mine.yaml does not exist"), "{why}");
    for null in ["null", "~", ""] {
        resolve(&path, &[format!("values={null}").parse().unwrap()]).unwrap();
    }
}
