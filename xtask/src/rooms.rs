//! Dependencies between crates: read from the manifests, compared with `tests/rooms.out`, and checked against the rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Pure crates: no runtime, no clock, no randomness, no files.
const PURE: [&str; 11] = [
    "channels",
    "events",
    "lifecycle",
    "measure",
    "nccl",
    "ansible-events",
    "redact",
    "report",
    "model",
    "triggers",
    "verdict",
];
/// Libraries forbidden in pure crates.
const WORLDLY: [&str; 9] =
    ["axum", "supervisor", "indicatif", "service", "ledger", "rusqlite", "rustix", "tokio", "tokio-util"];
/// Crates that may depend on services, because they wire all of them together.
const OVER_SERVICES: [&str; 1] = ["sim"];
/// Libraries reserved for certain crates.
const KEPT: [(&str, &[&str]); 13] = [
    (
        "axum",
        &[
            "bigquery-standin",
            "cloudbuild-standin",
            "rehearsal",
            "gateway",
            "service",
            "kubernetes-standin",
            "pages",
            "storage-standin",
        ],
    ),
    ("google-cloud-auth", &["build-service", "gcp", "warehouse"]),
    ("google-cloud-bigquery-v2", &["warehouse"]),
    ("google-cloud-build-v1", &["build-service"]),
    ("google-cloud-pubsub", &["gcp"]),
    ("google-cloud-storage", &["gcp"]),
    ("indicatif", &["burnin"]),
    ("jsonwebtoken", &["gcp"]),
    ("k8s-openapi", &["cluster-kubernetes"]),
    ("kube", &["cluster-kubernetes"]),
    ("opentelemetry-otlp", &["gcp"]),
    ("plotters", &["report"]),
    ("rusqlite", &["bigquery-standin", "warehouse"]),
];

/// One line per crate: its dependencies within the workspace, and its reserved libraries.
pub fn drawing(root: &Path) -> Result<String, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|error| error.to_string())?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let rooms = rooms(&metadata);
    let mut broken = broken(&rooms);
    broken.extend(untested(&metadata));
    if !broken.is_empty() {
        return Err(broken.join("\n"));
    }
    let ours: BTreeSet<_> = rooms.keys().collect();
    let mut text = String::new();
    for (name, room) in &rooms {
        let (inside, outside): (Vec<_>, Vec<_>) =
            room.imports.iter().partition(|import| ours.contains(import));
        let guarded: Vec<_> =
            outside.into_iter().filter(|import| WORLDLY.contains(&import.as_str())).collect();
        _ = writeln!(text, "{:<32} {}", format!("{}/{name}", room.floor), join(&inside));
        if !guarded.is_empty() {
            _ = writeln!(text, "{:<32}   with {}", "", join(&guarded));
        }
    }
    Ok(text)
}

/// Libraries that are not compiled for tests, although a source file contains one.
fn untested(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let libraries = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let untested = libraries.filter(|target| target["test"] == false && target["kind"][0] == "lib");
    let roots = untested.filter_map(|target| Path::new(target["src_path"].as_str()?).parent());
    let files = roots.flat_map(files);
    files
        .filter(|file| fs::read_to_string(file).is_ok_and(|source| source.contains("#[cfg(test)]")))
        .map(|file| {
            format!("{} has unit tests; remove `test = false` from the package's Cargo.toml", file.display())
        })
        .collect()
}

/// Rust files in a folder and below.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

struct Room {
    floor: String,
    imports: BTreeSet<String>,
}

fn rooms(metadata: &Value) -> BTreeMap<String, Room> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .map(|package| {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            // Tests may depend on any crate.
            let imports = dependencies.filter(|dependency| dependency["kind"].is_null());
            let manifest = text(&package["manifest_path"]);
            let floor =
                ["crates", "services"].into_iter().find(|floor| manifest.contains(&format!("/{floor}/")));
            let room = Room {
                floor: floor.unwrap_or("").to_owned(),
                imports: imports.map(|dependency| text(&dependency["name"])).collect(),
            };
            (text(&package["name"]), room)
        })
        .collect()
}

fn broken(rooms: &BTreeMap<String, Room>) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, room) in rooms {
        for import in &room.imports {
            let service = rooms.get(import).is_some_and(|room| room.floor == "services");
            let under = matches!(room.floor.as_str(), "crates" | "services");
            if service && under && !OVER_SERVICES.contains(&name.as_str()) {
                broken.push(format!("{name} depends on the service {import}; only cli, sim and xtask may"));
            }
            if PURE.contains(&name.as_str()) && WORLDLY.contains(&import.as_str()) {
                broken.push(format!(
                    "{name} is pure and must not depend on {import}; move the code to a crate that may"
                ));
            }
            if name == "model" && rooms.contains_key(import) {
                broken.push(format!("model is the base of all crates and must not depend on {import}"));
            }
        }
        for (library, keepers) in KEPT {
            if room.imports.contains(library) && !keepers.contains(&name.as_str()) {
                broken.push(format!(
                    "{library} is reserved for {}, but {name} depends on it",
                    keepers.join(", ")
                ));
            }
        }
    }
    broken
}

fn join(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}
