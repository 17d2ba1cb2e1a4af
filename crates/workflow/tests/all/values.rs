//! A user's values, and the parameters of a deployment.

use std::{fs, path::Path};

use cluster_deployed::Deployed;
use model::ClusterSpec;
use workflow::{Resolved, resolve, resolve_with_values};

macro_rules! digest {
    () => {
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    };
}

const DEPLOY: &str = r#"
steps: [{id: a, name: b, automapSubstitutions: true, args: ["$_PROJECT", "$_EXPIRES", "$_CLUSTER", "$_NODES", "$_HOW"]}]
substitutions: {_CLUSTER: "", _EXPIRES: "", _PROJECT: "", _NODES: "2", _HOW: spot, _TOOLS: image}
artifacts: {objects: {location: "gs://x/", paths: [cluster.json]}}
"#;
const DESTROY: &str = r#"
steps: [{id: a, name: $_TOOLS, args: ["$_CLUSTER"]}]
substitutions: {_CLUSTER: "", _TOOLS: image}
artifacts: {objects: {location: "gs://x/", paths: [gone.json]}}
"#;
const PARAMETERS: &str = r#"
type: object
required: [_PROJECT]
properties:
  _PROJECT: {description: "a project's id (`gcloud projects list`)", pattern: "^[a-z]+$"}
  _NODES: {description: a number from 2 to 4, type: integer, minimum: 2, maximum: 4}
  _HOW: {description: spot or reservation, enum: [spot, reservation]}
"#;
const WORKFLOW: &str = r#"
name: w
cluster:
  rent:
    deployed:
      deploy: {config: deploy.yaml}
      destroy: {config: destroy.yaml}
      parameters: parameters.yaml
      substitutions: {_TOOLS: ours}
      slurm: {nodes: 3, ranks_per_node: 1, shared_folder: /s}
limits: {lease: 4h}
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("w.yaml", WORKFLOW),
            ("deploy.yaml", DEPLOY),
            ("destroy.yaml", DESTROY),
            ("parameters.yaml", PARAMETERS),
        ];
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn resolve(&self, values: &str, set: &[&str]) -> Result<Resolved, String> {
        let file = self.0.path().join("v.yaml");
        fs::write(&file, values).unwrap();
        let set: Vec<_> = set.iter().map(|set| set.parse().unwrap()).collect();
        let folder = format!("{}/", self.0.path().display());
        resolve_with_values(&self.0.path().join("w.yaml"), Some(&file), &set)
            .map_err(|problems| problems.to_string().replace(&folder, ""))
    }

    fn problems(&self, values: &str, set: &[&str]) -> String {
        self.resolve(values, set).map(|_| ()).unwrap_err()
    }
}

fn deployed(resolved: &Resolved) -> Deployed {
    match &resolved.workflow.cluster {
        Some(ClusterSpec::Provisioned(system)) => Deployed::of(system).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_applies_to_every_build_that_declares_it() {
    let folder = Folder::new();
    let resolved = folder.resolve("_PROJECT: mine\n", &[]).unwrap();
    let Deployed { deploy, destroy, .. } = deployed(&resolved);
    let of = |substitutions: &std::collections::BTreeMap<String, String>| {
        substitutions.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(of(&deploy.substitutions), ["_NODES=3", "_PROJECT=mine", "_TOOLS=ours"]);
    assert_eq!(
        of(&destroy.substitutions),
        ["_TOOLS=ours"],
        "a build receives the values that its config declares"
    );

    // The values file takes precedence over the workflow, the command line over both.
    let values = "_PROJECT: mine\n_TOOLS: theirs\ncluster.rent.deployed.slurm.nodes: 4\n";
    let resolved =
        folder.resolve(values, &["cluster.rent.deployed.deploy.substitutions._PROJECT=set"]).unwrap();
    let Deployed { deploy, destroy, system, .. } = deployed(&resolved);
    assert_eq!(of(&deploy.substitutions), ["_NODES=4", "_PROJECT=set", "_TOOLS=theirs"]);
    assert_eq!((of(&destroy.substitutions), system.nodes()), (vec!["_TOOLS=theirs".to_owned()], 4));
    let resolved = folder.resolve(values, &["cluster.rent.deployed.substitutions._TOOLS=set"]).unwrap();
    let Deployed { deploy, destroy, .. } = deployed(&resolved);
    assert_eq!((&*deploy.substitutions["_TOOLS"], &*destroy.substitutions["_TOOLS"]), ("set", "set"));
}

#[test]
fn a_mapping_of_values_leaves_the_other_fields_of_its_section_unchanged() {
    let folder = Folder::new();
    let workflow = WORKFLOW.replace("limits: {lease: 4h}", "limits: {lease: 4h, logs: 7m}");
    fs::write(folder.0.path().join("w.yaml"), workflow).unwrap();
    let resolved = folder.resolve("_PROJECT: mine\nlimits:\n  lease: 5h\n  job: 3m\n", &[]).unwrap();
    let limits = resolved.workflow.limits;
    let seconds = [limits.lease, limits.job, limits.logs].map(|span| span.0.as_secs());
    assert_eq!(seconds, [5 * 3600, 180, 420]);
    let problem = folder.problems("_PROJECT: mine\nlimits:\n  job: 3\n", &[]);
    assert_eq!(
        problem,
        "v.yaml:3:3: limits.job: 3 has no unit; expected a duration such as 90s, 10m or 1h 30m; write 3m for minutes, 3s for seconds or 3h for \
         hours"
    );
    let deep = format!("_PROJECT: mine\n{}: 1\n", ["a"; 65].join("."));
    let problem = folder.problems(&deep, &[]);
    assert!(problem.ends_with("is nested deeper than 64 levels"), "{problem}");
}

#[test]
fn invalid_and_missing_values_are_reported_with_their_position() {
    let folder = Folder::new();
    let cases: &[(&str, &[&str], &str)] = &[
        (
            "# nothing yet\n_PROJECT:\n",
            &[],
            "v.yaml:2:1: _PROJECT: is missing; expected a project's id (`gcloud projects list`); state it in a file for --values",
        ),
        (
            "_PROJECT: A1\n",
            &[],
            "v.yaml:1:1: _PROJECT: expected a project's id (`gcloud projects list`); found \"A1\"",
        ),
        ("_PROJECT: a\n_HOW: [1]\n", &[], "v.yaml:2:1: _HOW: expected a text, a number, true or false"),
        (
            "_PROJECT: a\n_HWO: spot\n",
            &[],
            "v.yaml:2:1: _HWO: no build of the workflow declares it; did you mean _HOW?",
        ),
        (
            "_PROJECT: a\n_QUITE_ANOTHER: 1\n",
            &[],
            "v.yaml:2:1: _QUITE_ANOTHER: no build of the workflow declares it; expected one of: _HOW, _NODES, _PROJECT, _TOOLS",
        ),
        ("_PROJECT: a\nlimits.jop: 3m\n", &[], "v.yaml:2:1: limits.jop: is not a known field"),
        (
            "_PROJECT: a\nlimits.job: 3\n",
            &[],
            "v.yaml:2:1: limits.job: 3 has no unit; expected a duration such as 90s, 10m or 1h 30m; write 3m for minutes, 3s for seconds or 3h for \
         hours",
        ),
        (
            "_PROJECT: a\ncluster.rent.deployed.slurm.nodes: 9\n",
            &[],
            "v.yaml:2:1: cluster.rent.deployed.slurm.nodes: expected a number from 2 to 4; found \"9\"",
        ),
        (
            "_PROJECT: a\n",
            &["cluster.rent.deployed.slurm.nodes=9"],
            "--set: cluster.rent.deployed.slurm.nodes: expected a number from 2 to 4; found \"9\"",
        ),
        (
            "_PROJECT: a\n",
            &["cluster.rent.deployed.deploy.substitutions._HOW=gift"],
            "--set: cluster.rent.deployed.deploy.substitutions._HOW: expected spot or reservation; found \"gift\"",
        ),
        (
            "_PROJECT: a\n_HOW: spot\n",
            &["cluster.rent.deployed.substitutions._HOW=gift"],
            "--set: cluster.rent.deployed.substitutions._HOW: expected spot or reservation; found \"gift\"",
        ),
        (
            "_PROJECT: a\n",
            &["cluster.rent.deployed.substitutions._OTHER=x"],
            "--set: cluster.rent.deployed.substitutions._OTHER: is declared by neither config; correct its name or remove it",
        ),
        (
            "_PROJECT: a\n",
            &["cluster.rent.deployed.substitutions._CLUSTER=x"],
            "--set: cluster.rent.deployed.substitutions._CLUSTER: is set by Burnin; remove it",
        ),
        ("- 1\n", &[], "v.yaml:1:1: expected a mapping of `_NAME: value` and `field: value`"),
    ];
    for (values, set, expected) in cases {
        let problems = folder.problems(values, set);
        assert!(problems.starts_with(expected), "{values}{set:?}:\n{problems}\nexpected\n{expected}");
    }
    // Without a values file, the problem is reported with a position in the workflow file.
    let alone = resolve(&folder.0.path().join("w.yaml"), &[]).map(|_| ()).unwrap_err().to_string();
    assert!(
        alone.contains("w.yaml:9:7: cluster.rent.deployed.substitutions._PROJECT: is missing"),
        "{alone}"
    );
}

/// Values of a user, by name.
type UserValues = &'static [(&'static str, &'static str)];

/// A shipped workflow, its template, and a user's values for the template.
const TEMPLATES: [(&str, &str, UserValues); 4] = [
    ("a3-mega-slurm", "a3-mega", A3_MEGA),
    ("a3-mega-slurm-lustre", "a3-mega", A3_MEGA),
    (
        "a4-gke-testbed",
        "a4-gke-testbed",
        &[
            ("_TOOLS", "registry/tools"),
            ("_PROJECT", "my-project"),
            ("_REGION", "us-central1"),
            ("_ZONE", "us-central1-b"),
            ("_RESERVATION", "a4-res"),
            ("_TERRAFORM_BUCKET", "states"),
            ("_JOBSET_CHART", concat!("oci://h.example/jobset@sha256:", digest!())),
            ("_KUEUE_CHART", concat!("oci://h.example/kueue@sha256:", digest!())),
            ("_GIB_IMAGE", concat!("h.example/gib@sha256:", digest!())),
            ("cluster.rent.deployed.kubernetes.nodes", "8"),
        ],
    ),
    ("dgx-slurm-perf", "dgx-slurm-perf", &[("_SSH_USER", "me"), ("cluster.rent.deployed.slurm.nodes", "8")]),
];
const A3_MEGA: UserValues = &[
    ("_TOOLS", "registry/tools"),
    ("_PROJECT", "my-project"),
    ("_REGION", "us-central1"),
    ("_ZONE", "us-central1-a"),
    ("_STATE_BUCKET", "my-state"),
    ("_RESERVATION", "mine"),
    ("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240614"),
    ("cluster.rent.deployed.slurm.nodes", "8"),
];

/// Missing values of a template are reported, and a filled one passes.
#[test]
fn filled_templates_give_a_valid_workflow() {
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    for (name, template, filled) in TEMPLATES {
        let workflow = workflows.join(name).with_extension("yaml");
        let template =
            fs::read_to_string(workflows.join("values").join(template).with_extension("yaml")).unwrap();
        // Commented lines are examples of further values, which must be valid, too.
        let all: String = template
            .lines()
            .map(|line| {
                line.strip_prefix('#').filter(|rest| rest.starts_with('_')).unwrap_or(line).to_owned() + "\n"
            })
            .collect();
        fs::write(&values, &all).unwrap();
        let problems = resolve_with_values(&workflow, Some(&values), &[]).map(|_| ()).err();
        for problem in problems.iter().flat_map(|problems| &problems.0) {
            assert!(
                problem.message.contains("is missing; expected") || !problem.message.contains("no build"),
                "{name}: {problem}"
            );
        }
        let mut text = template.clone();
        for (field, value) in filled {
            let line = template.lines().find(|line| line.starts_with(&format!("{field}:")));
            text = match line {
                Some(line) => text.replace(line, &format!("{field}: {value}")),
                None => format!("{text}{field}: {value}\n"),
            };
        }
        fs::write(&values, text).unwrap();
        let resolved = resolve_with_values(&workflow, Some(&values), &[]);
        let resolved = resolved.unwrap_or_else(|problems| panic!("{name}: {problems}"));
        let deployed = deployed(&resolved);
        assert_eq!(deployed.system.nodes(), 8, "{name}");
        if deployed.deploy.config["substitutions"].get("_NODES").is_some() {
            assert_eq!(deployed.deploy.substitutions["_NODES"], "8", "{name} is stated once");
        }
    }
}

/// `burnin check` rejects every parameter that the steps would reject, by name.
#[test]
fn every_shipped_schema_rejects_hostile_values() {
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    for (name, schema) in [
        ("a3-mega-slurm", "a3-mega/parameters.yaml"),
        ("a4-gke-testbed", "a4-gke-testbed/parameters.yaml"),
        ("dgx-slurm-perf", "dgx-slurm-perf/parameters.yaml"),
    ] {
        let schema = workflow::YamlDocument::read(&workflows.join(schema)).unwrap().value;
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        for hostile in ["x; touch /tmp/hurt", "$(reboot)", "-oProxyCommand=x", "../..", "{{ x }}", "a\nb"] {
            let text: String =
                names.iter().map(|name| format!("{name}: {}\n", serde_json::json!(hostile))).collect();
            fs::write(&values, text).unwrap();
            let workflow = workflows.join(name).with_extension("yaml");
            let problems =
                resolve_with_values(&workflow, Some(&values), &[]).map(|_| ()).unwrap_err().to_string();
            for parameter in &names {
                // A path may be relative, and a file's name is looked up in the folder of the steps only.
                let harmless = parameter == "_INVENTORY" && hostile == "../..";
                assert!(
                    harmless || problems.contains(&format!("{parameter}: expected")),
                    "{name}: {parameter}={hostile:?}: {problems}"
                );
            }
        }
    }
}

/// The workflows of an existing and of a deployed cluster differ only in the source of the cluster.
#[test]
fn existing_and_deployed_a3_mega_clusters_have_the_same_benchmark_and_settings() {
    let workflows = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workflows");
    let existing = resolve(&workflows.join("a3-mega-existing.yaml"), &[])
        .unwrap_or_else(|problems| panic!("{problems}"))
        .workflow;
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    let text: String = A3_MEGA
        .iter()
        .filter(|(name, _)| *name != "_SOURCE_IMAGE")
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    fs::write(&values, text).unwrap();
    let deployed_one = resolve_with_values(&workflows.join("a3-mega-slurm.yaml"), Some(&values), &[]);
    let deployed_one = deployed_one.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(existing.benchmark, deployed_one.workflow.benchmark);
    let Some(ClusterSpec::Existing { system, .. }) = &existing.cluster else {
        panic!("{:?}", existing.cluster)
    };
    let mine = system.settings();
    let theirs = deployed(&deployed_one).system;
    for setting in ["ranks_per_node", "gpus_per_node", "memory_mib", "mpi", "environment"] {
        assert_eq!(mine[setting], theirs.settings()[setting], "{setting}");
    }
    let pins: serde_json::Value =
        serde_json::from_slice(&fs::read(workflows.join("a3-mega/pins.json")).unwrap()).unwrap();
    let programs = mine["programs"].as_str().unwrap();
    assert!(programs.contains(pins["nccl_tests"]["commit"].as_str().unwrap()), "{programs}");
}
