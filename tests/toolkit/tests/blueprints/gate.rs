//! Tests every blueprint with all kinds of parameters that parameters.py accepts, and with each known defect reintroduced.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::{Map, Value};
use toolkit::repository;
use workflow::YamlDocument;

use crate::expand::{Expanded, expand, modules};

fn json(file: &str) -> Value {
    serde_json::from_slice(&fs::read(repository(file)).unwrap()).unwrap()
}

fn declared() -> Value {
    json("tests/toolkit/blueprints/v1.39.0.json")
}

fn blueprint(file: &str, change: &dyn Fn(String) -> String) -> Value {
    let path = repository("workflows/a3-mega").join(file);
    let text = change(fs::read_to_string(path).unwrap());
    YamlDocument::parse(file, &text).unwrap_or_else(|problems| panic!("{problems}")).value
}

/// Variables of each blueprint, as deploy.py passes them.
fn deployments(parameters: &[(&str, &str)]) -> BTreeMap<String, Map<String, Value>> {
    let folder = tempfile::tempdir().unwrap();
    let source = repository("workflows/a3-mega");
    assert!(Command::new("cp").arg("-rT").arg(&source).arg(folder.path()).status().unwrap().success());
    let config = YamlDocument::read(&source.join("deploy.yaml")).unwrap().value;
    let defaults = config["substitutions"].as_object().unwrap().iter();
    let defaults = defaults.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
    let mut environment: BTreeMap<_, _> = defaults.collect();
    let state = folder.path().join("state").display().to_string();
    let given = [
        ("_CLUSTER", "night-1-cluster-1"),
        ("_RUN", "night-1"),
        ("_EXPIRES", "99999999999"),
        ("_STATE", &state),
        ("_PROJECT", "my-project"),
        ("_REGION", "us-central1"),
        ("_ZONE", "us-central1-a"),
        ("_STATE_BUCKET", "tfstate"),
        ("_RESERVATION", "eight-gpus"),
    ];
    for (name, value) in given.iter().chain(parameters) {
        environment.insert((*name).to_owned(), (*value).to_owned());
    }
    let program = repository("tests/toolkit/blueprints").join("settings.py");
    let output =
        Command::new("python3").arg(program).current_dir(folder.path()).envs(environment).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let settings = text.lines().find_map(|line| line.strip_prefix("SETTINGS "));
    let settings = settings.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(settings).unwrap()
}

/// Variants of the parameters that the toolkit's conditions depend on.
fn variants() -> Vec<Vec<(&'static str, &'static str)>> {
    let storages: [&[(&str, &str)]; 3] = [
        &[("_STORAGE", "filestore")],
        &[
            ("_STORAGE", "lustre"),
            ("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240904"),
            ("_SOURCE_PROJECT", "ubuntu-os-cloud"),
        ],
        &[
            ("_STORAGE", "lustre"),
            ("_SOURCE_IMAGE", "ubuntu-2204-jammy-v20240904"),
            ("_SOURCE_PROJECT", "ubuntu-os-cloud"),
            ("_GCS_BUCKET", "data"),
            ("_SERVICE_ACCOUNT", "slurm-nodes@my-project.iam.gserviceaccount.com"),
        ],
    ];
    let provisioning: [&[(&str, &str)]; 4] = [
        &[("_PROVISIONING", "reservation")],
        &[("_PROVISIONING", "reservation"), ("_MAINTENANCE", "PERIODIC")],
        &[("_PROVISIONING", "spot"), ("_RESERVATION", "")],
        &[("_PROVISIONING", "on-demand"), ("_RESERVATION", "")],
    ];
    let mut all = Vec::new();
    for storage in storages {
        for provisioned in provisioning {
            for nodes in ["2", "512"] {
                all.push([storage, provisioned, &[("_NODES", nodes)]].concat());
            }
        }
    }
    all
}

fn expanded(
    deployments: &BTreeMap<String, Map<String, Value>>,
    change: &dyn Fn(String) -> String,
) -> Vec<(String, Expanded)> {
    let declared = declared();
    let all = deployments.iter().map(|(file, vars)| {
        let blueprint = blueprint(file, change);
        (file.clone(), expand(&modules(&blueprint), vars, &declared["modules"]))
    });
    all.collect()
}

fn problems(
    deployments: &BTreeMap<String, Map<String, Value>>,
    change: &dyn Fn(String) -> String,
) -> Vec<String> {
    expanded(deployments, change).into_iter().flat_map(|(_, expanded)| expanded.problems).collect()
}

#[test]
fn the_blueprints_match_the_pinned_toolkit() {
    let pins = json("workflows/a3-mega/pins.json");
    assert_eq!(declared()["version"], pins["toolkit"]["version"]);
    let mut undecided = BTreeSet::new();
    for parameters in variants() {
        let deployments = deployments(&parameters);
        assert_eq!(deployments.len(), 3, "{parameters:?}");
        for (file, expanded) in expanded(&deployments, &|text| text) {
            assert_eq!(expanded.problems, [""; 0], "{file} has problems with {parameters:?}");
            undecided.extend(expanded.undecided);
        }
    }
    // These conditions need a provider, or call a function that is not evaluated here.
    let about = |part: &str| undecided.iter().filter(|condition| condition.contains(part)).count();
    assert!(about("local.") + about("self.") > 5, "{undecided:#?}");
    let conditions: usize = declared()["modules"]
        .as_object()
        .unwrap()
        .values()
        .map(|module| module["conditions"].as_array().unwrap().len())
        .sum();
    println!("{} of {conditions} conditions are not decided here: {undecided:#?}", undecided.len());
    assert!(undecided.len() < 45, "{undecided:#?}");
}

/// Tests the check itself: it finds each defect that a real toolkit once reported.
#[test]
fn each_known_defect_is_found() {
    let filestore = deployments(&variants()[0]);
    let lustre = deployments(&variants()[8]);
    let without = |line: &'static str| move |text: String| text.replace(line, "");
    type TextEdit<'a> = &'a dyn Fn(String) -> String;
    let placement = without("      enable_placement: false\n");
    let smt = without("      enable_smt: true\n");
    let disk = without("      # At least the size of the image.\n      disk_size_gb: $(vars.disk_gb)\n");
    let used = |text: String| {
        text.replace(
            "use: [sysnet, gpu_partition, slurm_login]",
            "use: [sysnet, gpu_partition, slurm_login, lustrefs]",
        )
    };
    let unknown = |text: String| text.replace("enable_public_ips: false", "enable_public_addresses: false");
    let missing = |text: String| {
        text.replace("      network_name_prefix: $(vars.gpu_network_prefix)\n", "")
            .replace("use: [sysnet, gpunets]", "use: [gpunets]")
    };
    let module = |text: String| text.replace("modules/network/multivpc", "modules/network/gpu-rdma-vpc");
    let docker = |text: String| text.replace("      install_docker: true\n", "");
    let long = |text: String| {
        text.replace("slurm_cluster_name: $(vars.slurm_cluster_name)", "slurm_cluster_name: a-long-name")
    };
    let many = |text: String| text.replace("enable_public_ips: false", "enable_public_ips: never");
    let idle = |text: String| {
        text.replace("ip_range: $(vars.gpu_range)", "ip_range: 10.9.0.0/16")
            .replace("global_ip_address_range: $(vars.gpu_range)", "global_ip_address_range: 10.9.0.0/16")
    };
    let cases: [(&BTreeMap<_, _>, TextEdit<'_>, &str); 11] = [
        (&filestore, &placement, "gpu_nodeset: If a reservation is specified"),
        (&filestore, &smt, "gpu_nodeset: node_conf has ThreadsPerCore 2, but enable_smt is not set"),
        (&filestore, &disk, "slurm_login: 'disk_size_gb: "),
        (
            &lustre,
            &used,
            "slurm_controller: `use` of lustrefs sets no variable of slurm_controller; remove it",
        ),
        (&filestore, &unknown, "gpu_nodeset: enable_public_addresses is not a setting"),
        (&filestore, &many, "gpu_nodeset: enable_public_ips is \"never\", expected bool"),
        (&filestore, &idle, "vars: gpu_range is not used in the blueprint"),
        (&filestore, &missing, "gpu_nodeset: subnetwork_self_link is required"),
        (&filestore, &module, "gpunets: modules/network/gpu-rdma-vpc is not a module"),
        (
            &filestore,
            &docker,
            "image_script: If var.enable_docker_world_writable is set to true, var.install_docker must",
        ),
        (&filestore, &long, "slurm_controller: Variable 'slurm_cluster_name' must be a match of regex"),
    ];
    for (deployments, change, expected) in cases {
        let found = problems(deployments, change);
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{expected}: {found:#?}");
    }
}

#[test]
fn a_null_variable_is_reported() {
    let mut deployments = deployments(&variants()[0]);
    let cluster = deployments.get_mut("blueprints/cluster.yaml").unwrap();
    cluster.insert("machine_account".to_owned(), Value::Null);
    let found = problems(&deployments, &|text| text);
    assert!(found.contains(&"vars: machine_account was not set".to_owned()), "{found:#?}");
}

/// Settings of upstream's example that differ from this repository's blueprints, each with its reason in the README.
#[test]
fn every_difference_from_the_upstream_example_is_explained() {
    let declared = declared();
    let examples = declared["examples"].as_object().unwrap();
    let named = |part: &str| examples.iter().find(|(file, _)| file.ends_with(part)).unwrap().1;
    let ours = deployments(&variants()[0]);
    let readme = fs::read_to_string(repository("workflows/a3-mega").join("README.md")).unwrap();
    let mut unexplained = Vec::new();
    for (part, deployment) in [
        ("base", "deployment-base.yaml"),
        ("image", "deployment-image-cluster.yaml"),
        ("cluster", "deployment-image-cluster.yaml"),
    ] {
        let example = named(&format!("slurm-a3mega-{part}.yaml"));
        let mut vars = example["vars"].as_object().unwrap().clone();
        vars.extend(named(deployment)["vars"].as_object().unwrap().clone());
        let theirs: Vec<_> = example["modules"].as_array().unwrap().iter().collect();
        let theirs_expanded = expand(&theirs, &vars, &declared["modules"]).settings;
        let file = format!("blueprints/{part}.yaml");
        let blueprint = blueprint(&file, &|text| text);
        let our_modules = modules(&blueprint);
        let ours_expanded = expand(&our_modules, &ours[&file], &declared["modules"]).settings;
        for our in &our_modules {
            let (id, source) = (our["id"].as_str().unwrap(), our["source"].as_str().unwrap());
            // Modules of one source correspond by position, without upstream's debug partition, which has no
            // counterpart.
            let their = theirs.iter().filter(|their| {
                their["source"] == source && !their["id"].as_str().unwrap().contains("debug")
            });
            let position =
                our_modules.iter().filter(|one| one["source"] == source).position(|one| one["id"] == id);
            let their = their.clone().nth(position.unwrap());
            let Some(their) = their.and_then(|their| theirs_expanded.get(their["id"].as_str().unwrap()))
            else {
                unexplained.push(format!("{part}.{id}"));
                continue;
            };
            let mine = &ours_expanded[id];
            // These settings differ in every deployment.
            let identity = ["project_id", "region", "zone", "labels", "deployment_name"];
            let names: BTreeSet<_> =
                their.keys().chain(mine.keys()).filter(|name| !identity.contains(&name.as_str())).collect();
            for name in names {
                let default = &declared["modules"][source]["variables"][name.as_str()]["default"];
                let value = |of: &Map<String, Value>| of.get(name.as_str()).unwrap_or(default).clone();
                if value(their) != value(mine) {
                    unexplained.push(format!("{part}.{id}.{name}"));
                }
            }
        }
        let our_sources: BTreeSet<_> =
            our_modules.iter().map(|our| our["source"].as_str().unwrap()).collect();
        for their in theirs {
            let (id, source) = (their["id"].as_str().unwrap(), their["source"].as_str().unwrap());
            if !our_sources.contains(source) || id.contains("debug") {
                unexplained.push(format!("{part}: {id}"));
            }
        }
    }
    unexplained.retain(|difference| !readme.contains(&format!("`{difference}`")));
    assert_eq!(
        unexplained, [""; 0],
        "differences from upstream's example that workflows/a3-mega/README.md does not explain"
    );
}

/// A4 has another pinned version: v1.39.0 lacks its modules, and v1.83 and later need another Terraform.
#[test]
fn the_a4_blueprint_matches_its_pinned_toolkit() {
    let declared = json("tests/toolkit/blueprints/v1.82.0.json");
    let pinned = &json("workflows/a4-gke-testbed/cluster/pins.json")["toolkit"];
    assert_eq!(declared["version"], pinned["version"]);
    // The modules require 1.5 or later, but their plan fails with versions before 1.12; pins.json names the source.
    assert_eq!(pinned["terraform"], "1.12");
    let path = repository("workflows/a4-gke-testbed/cluster/blueprint.yaml");
    let text = fs::read_to_string(path).unwrap();
    let found = |text: &str, networks: Value| {
        let blueprint = YamlDocument::parse("blueprint.yaml", text).unwrap().value;
        let vars = serde_json::json!({
            "project_id": "my-project", "deployment_name": "b0123456789", "region": "us-central1", "zone": "us-central1-b",
            "static_node_count": 2, "authorized_networks": networks, "reservation": "a4-res", "version_prefix": "1.33.",
            "labels": {"burnin-cluster": "c-1"},
        });
        assert_eq!(
            vars.as_object().unwrap().keys().collect::<BTreeSet<_>>(),
            blueprint["vars"].as_object().unwrap().keys().collect::<BTreeSet<_>>(),
            "deploy.py must set exactly the blueprint's variables"
        );
        expand(&modules(&blueprint), vars.as_object().unwrap(), &declared["modules"]).problems
    };
    let office = serde_json::json!([{"cidr_block": "203.0.113.7/32", "display_name": "deployment"}]);
    assert_eq!(found(&text, serde_json::json!([])), [""; 0]);
    assert_eq!(found(&text, office.clone()), [""; 0]);
    for (from, to, expected) in [
        ("enable_external_dns_endpoint", "enable_dns_endpoint", "gke: enable_dns_endpoint is not a setting"),
        (
            "enable_gcsfuse_csi: true",
            "enable_gcsfuse_csi: [yes]",
            "gke: enable_gcsfuse_csi is [\"yes\"], expected bool",
        ),
        ("$(vars.authorized_networks)", "[]", "vars: authorized_networks is not used"),
        ("use: [gke, nodes_account]", "use: [nodes_account]", "a4: cluster_id is required"),
        (
            "modules/network/gpu-rdma-vpc",
            "modules/network/rdma-vpc",
            "rdma: modules/network/rdma-vpc is not a module",
        ),
    ] {
        let found = found(&text.replace(from, to), office.clone());
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{expected}: {found:#?}");
    }
    // GKE's API: "Auto_upgrade must be true when release_channel is set".
    assert!(text.contains("release_channel: REGULAR") && text.contains("auto_upgrade: true"));
}
