//! Permissions in the cloud: checks `infra/rights.json` against the rules. The rehearsal writes docs/RIGHTS.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde::Deserialize;

/// Prefixes of hints: obsolete after the end of their run or cluster, and recoverable if lost.
const HINTS: [&str; 4] = ["open/", "clusters/open/", "requests/open/", "notices/open/"];

/// Prefixes below which programs outside the services may create objects: files of builds, of clusters and of jobs, and unreadable events.
const OUTSIDE: [&str; 5] = ["builds/", "clusters/", "kubernetes/", "logs/", "parked/"];
/// Stages of runs whose files agents create.
const OUTSIDE_STAGES: [&str; 2] = ["locate", "logs"];

fn is_narrow(below: &[String], stages: &[String]) -> bool {
    (!below.is_empty() || !stages.is_empty())
        && below.iter().all(|prefix| OUTSIDE.contains(&&**prefix))
        && stages.iter().all(|stage| OUTSIDE_STAGES.contains(&&**stage))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rights {
    buckets: BTreeMap<String, String>,
    rights: BTreeMap<String, String>,
    services: BTreeMap<String, ServiceRights>,
    agent: AgentRights,
    builds: BTreeMap<String, Build>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceRights {
    /// Service whose image this service runs; absent for a service with a separate image.
    image: Option<String>,
    /// Memory limit of its container; services that read the measurements of whole clusters need more than the default.
    #[serde(default)]
    #[expect(dead_code, reason = "only Terraform reads it")]
    memory: Option<String>,
    receives: Option<String>,
    publishes: Vec<String>,
    objects: Vec<Grant>,
    project: Vec<String>,
    warehouse: Vec<String>,
    acts_as: Vec<String>,
    periodic_tasks: BTreeMap<String, String>,
    /// Burnin's own variables; infra/services.tf names the values that are not literal.
    #[serde(default)]
    #[expect(dead_code, reason = "only Terraform reads it")]
    environment: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentRights {
    publishes: Vec<String>,
    objects: Vec<Grant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Build {
    #[expect(dead_code, reason = "the rehearsal writes it into docs/RIGHTS.md")]
    why: String,
    project: Vec<String>,
    objects: Vec<Grant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Grant {
    bucket: String,
    right: String,
    /// Prefixes of names; without prefixes and stages the grant is on the whole bucket.
    #[serde(default)]
    below: Vec<String>,
    #[serde(default)]
    stages: Vec<String>,
}

/// Checks `infra/rights.json` against the rules.
///
/// # Errors
/// Returns an error if the file cannot be read or a rule is broken.
pub fn check(root: &Path) -> Result<(), String> {
    let path = root.join("infra/rights.json");
    let message = |error: &dyn std::fmt::Display| format!("infra/rights.json: {error}");
    let text = fs::read_to_string(path).map_err(|error| message(&error))?;
    let rights: Rights = serde_json::from_str(&text).map_err(|error| message(&error))?;
    match &broken(&rights)[..] {
        [] => Ok(()),
        broken => Err(broken.iter().map(|what| message(what)).collect::<Vec<_>>().join("\n")),
    }
}

/// All accounts with permissions, and their object grants.
fn holders(rights: &Rights) -> Vec<(&str, &[Grant])> {
    let mut holders: Vec<(&str, &[Grant])> = vec![("agent", &rights.agent.objects)];
    holders.extend(rights.services.iter().map(|(name, of)| (name.as_str(), of.objects.as_slice())));
    holders.extend(rights.builds.iter().map(|(name, of)| (name.as_str(), of.objects.as_slice())));
    holders
}

fn broken(rights: &Rights) -> Vec<String> {
    let mut broken = Vec::new();
    for (holder, grants) in holders(rights) {
        let is_outside = holder == "agent" || rights.builds.contains_key(holder);
        for Grant { bucket, right, below, stages } in grants {
            if !rights.buckets.contains_key(bucket) {
                broken.push(format!("{holder}: `buckets` has no {bucket}; add it, or correct the grant"));
            }
            if !rights.rights.contains_key(right) {
                broken.push(format!("{holder}: `rights` has no {right}; add it, or correct the grant"));
            }
            match (bucket.as_str(), right.as_str()) {
                (bucket, "administer") if bucket != "build-logs" || !rights.builds.contains_key(holder) => {
                    broken.push(format!(
                        "{holder}: only builds may administer a bucket, and only that of their logs"
                    ));
                }
                ("ledger", "create") if holder != "conductor" => {
                    broken.push(format!("{holder}: only the conductor may create ledger objects"));
                }
                ("ledger", "remove") => {
                    broken.push(format!("{holder}: ledger objects must never be removed"))
                }
                (_, "create") if is_outside && !is_narrow(below, stages) => {
                    broken.push(format!(
                        "{holder}: builds and agents may create objects only below {} and in the stages {}: other objects decide verdicts",
                        OUTSIDE.join(", "),
                        OUTSIDE_STAGES.join(", ")
                    ));
                }
                (_, "remove")
                    if !stages.is_empty()
                        || below.is_empty()
                        || !below.iter().all(|prefix| HINTS.contains(&&**prefix)) =>
                {
                    broken.push(format!("{holder}: only hints below {} may be removed", HINTS.join(" and ")));
                }
                _ => {}
            }
        }
    }
    let provisions_clusters =
        |role: &str| ["compute.", "container.", "file."].iter().any(|kind| role.contains(kind));
    for (name, service) in &rights.services {
        if service.project.iter().any(|role| provisions_clusters(role)) {
            broken.push(format!("{name}: clusters are provisioned by builds, not by services"));
        }
        for build in &service.acts_as {
            let provisions = rights
                .builds
                .get(build)
                .is_some_and(|build| build.project.iter().any(|role| provisions_clusters(role)));
            if !rights.builds.contains_key(build) {
                broken.push(format!("{name}: undefined build {build}"));
            } else if provisions && name != "provisioner" {
                broken.push(format!("{name}: only the provisioner may provision clusters"));
            }
        }
        if service.warehouse.iter().any(|role| role != "roles/bigquery.dataViewer") && name != "loader" {
            broken.push(format!("{name}: only the loader may write the warehouse"));
        }
    }
    let acting = ["roles/iam.serviceAccountUser", "roles/iam.serviceAccountTokenCreator"];
    for (name, build) in &rights.builds {
        if build.project.iter().any(|role| acting.contains(&role.as_str())) {
            broken.push(format!(
                "{name}: this role in the project permits a build step to act as the conductor"
            ));
        }
    }
    let roles = rights.services.values().flat_map(|of| &of.project);
    let roles = roles.chain(rights.builds.values().flat_map(|of| &of.project));
    let basic = |role: &&String| ["roles/owner", "roles/editor", "roles/viewer"].contains(&role.as_str());
    broken.extend(
        roles.filter(basic).map(|role| format!("{role} is a basic role; grant a predefined role instead")),
    );
    let published: BTreeSet<&str> =
        rights.services.values().flat_map(|of| &of.publishes).map(String::as_str).collect();
    let taken = rights.services.values().filter_map(|of| of.receives.as_deref());
    for (name, service) in &rights.services {
        if service.image.as_ref().is_some_and(|image| !rights.services.contains_key(image)) {
            broken.push(format!("{name}: image of the undefined service {:?}", service.image));
        }
        // Public and user-facing services must not receive events or tasks.
        if ["dashboard", "hooks"].contains(&name.as_str())
            && (service.receives.is_some() || !service.periodic_tasks.is_empty())
        {
            broken.push(format!("{name}: must receive neither events nor tasks"));
        }
        let writes = |grant: &Grant| grant.right != "read";
        if name == "dashboard" && (service.objects.iter().any(writes) || !service.publishes.is_empty()) {
            broken.push("dashboard: must only read".to_owned());
        }
    }
    if rights.agent.publishes != ["agent-facts"] {
        broken.push("agent: may publish only facts of agents".to_owned());
    }
    let topics: BTreeSet<&str> = events::topics().into_iter().collect();
    let known: BTreeSet<&str> =
        published.into_iter().chain(taken).chain(rights.agent.publishes.iter().map(String::as_str)).collect();
    if known != topics {
        broken.push(format!("topics differ: code {topics:?}, rights.json {known:?}"));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights() -> Rights {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        serde_json::from_str(&fs::read_to_string(root.join("infra/rights.json")).unwrap()).unwrap()
    }

    #[test]
    fn the_rights_of_this_repository_satisfy_all_rules_and_each_rule_finds_a_violation() {
        assert_eq!(broken(&rights()), Vec::<String>::new());
        let grant = |bucket: &str, right: &str, prefix: Option<&str>| Grant {
            bucket: bucket.to_owned(),
            right: right.to_owned(),
            below: prefix.into_iter().map(str::to_owned).collect(),
            stages: Vec::new(),
        };
        type RightsEdit = Box<dyn Fn(&mut Rights)>;
        fn on(name: &'static str, change: impl Fn(&mut ServiceRights) + 'static) -> RightsEdit {
            Box::new(move |rights| change(rights.services.get_mut(name).unwrap()))
        }
        let changes: Vec<(&str, RightsEdit)> = vec![
            ("only the conductor", on("judge", move |of| of.objects.push(grant("ledger", "create", None)))),
            (
                "must never be removed",
                on("conductor", move |of| of.objects.push(grant("ledger", "remove", Some("open/")))),
            ),
            ("below open/", on("loader", move |of| of.objects.push(grant("artefacts", "remove", None)))),
            ("`buckets` has no attic", on("loader", move |of| of.objects.push(grant("attic", "read", None)))),
            (
                "`rights` has no guess",
                on("loader", move |of| of.objects.push(grant("artefacts", "guess", None))),
            ),
            ("only the provisioner", on("builder", |of| of.acts_as.push("cluster-build".to_owned()))),
            (
                "provisioned by builds",
                on("provisioner", |of| of.project.push("roles/compute.admin".to_owned())),
            ),
            ("only the loader", on("judge", |of| of.warehouse.push("roles/bigquery.dataEditor".to_owned()))),
            (
                "only builds may administer",
                on("builder", move |of| of.objects.push(grant("build-logs", "administer", None))),
            ),
            (
                "and only that of their logs",
                Box::new(move |rights| {
                    let build = rights.builds.get_mut("image-build").unwrap();
                    build.objects.push(grant("ledger", "administer", None));
                }),
            ),
            (
                "act as the conductor",
                Box::new(|rights| {
                    let build = rights.builds.get_mut("cluster-build").unwrap();
                    build.project.push("roles/iam.serviceAccountUser".to_owned());
                }),
            ),
            (
                "other objects decide verdicts",
                Box::new(move |rights| {
                    rights.agent.objects.push(grant("artefacts", "create", Some("baselines/")))
                }),
            ),
            (
                "other objects decide verdicts",
                Box::new(move |rights| {
                    let build = rights.builds.get_mut("image-build").unwrap();
                    build.objects.push(grant("artefacts", "create", None));
                }),
            ),
            (
                "may publish only facts of agents",
                Box::new(|rights| rights.agent.publishes.push("facts".to_owned())),
            ),
            ("basic role", on("judge", |of| of.project.push("roles/editor".to_owned()))),
            (
                "must only read",
                on("dashboard", move |of| of.objects.push(grant("artefacts", "create", None))),
            ),
            ("neither events nor tasks", on("hooks", |of| of.receives = Some("gateway".to_owned()))),
            ("undefined service", on("hooks", |of| of.image = Some("attic".to_owned()))),
            ("topics differ", on("judge", |of| of.publishes.push("gossip".to_owned()))),
        ];
        for (why, change) in changes {
            let mut rights = rights();
            change(&mut rights);
            let broken = broken(&rights).join("\n");
            assert!(broken.contains(why), "{why}: {broken}");
        }
    }
}
