//! Operations that the rehearsal checks without executing them: steps of builds that provision clusters, and the delivery of Burnin
//! itself. Each is derived from a file of this repository.

use crate::{
    deployment::Rehearsal,
    grants::Resource,
    iam::member,
    methods::{permission, permissions},
    plan::PROJECT,
};

pub struct OutsideOperation {
    /// Short name of the account.
    pub account: &'static str,
    /// Method of `methods.json`.
    pub method: &'static str,
    /// The file that requires the operation, and a text in that file; a test checks both.
    #[cfg_attr(not(test), expect(dead_code, reason = "only a test reads it"))]
    pub from: (&'static str, &'static str),
}

const fn operation(
    account: &'static str,
    method: &'static str,
    file: &'static str,
    text: &'static str,
) -> OutsideOperation {
    OutsideOperation { account, method, from: (file, text) }
}

/// All operations on the project; the creation of a machine also requires `actAs` on the machine's account. Operations on single services
/// follow in [`perform`].
pub const OPERATIONS: [OutsideOperation; 5] = [
    operation("cluster-build", "compute.instances.insert", "workflows/a3-mega/deploy.py", "gcluster"),
    operation(
        "cluster-build",
        "file.projects.locations.instances.create",
        "workflows/a3-mega/deploy.py",
        "gcluster",
    ),
    operation(
        "cluster-build",
        "container.projects.locations.clusters.create",
        "workflows/a4-gke-testbed/README.md",
        "container",
    ),
    operation("delivery", "push-image", "cloudbuild.yaml", "_REGISTRY"),
    operation("delivery", "logging.entries.write", "cloudbuild.yaml", "CLOUD_LOGGING_ONLY"),
];

/// Checks every operation.
///
/// # Errors
/// Returns an error at the first denial.
pub fn perform(rehearsal: &Rehearsal) -> Result<(), String> {
    let check = |account: &str, permission: &str, on: &Resource| {
        let account = member(&format!("burnin-{account}@{PROJECT}.iam.gserviceaccount.com"));
        rehearsal.iam.check(&account, permission, on).map_err(|denial| format!("403: {denial}"))
    };
    let acts_as = permission("act-as");
    for OutsideOperation { account, method, .. } in OPERATIONS {
        for permission in permissions(method) {
            let machines = format!("nodes@{PROJECT}.iam.gserviceaccount.com");
            let on = if permission == acts_as { Resource::account(&machines) } else { Resource::project() };
            check(account, permission, &on)?;
        }
    }
    // `.ci/rollout.sh` sets the image of each service, and must therefore act as the service's account.
    for service in rehearsal.plan.services.values() {
        for permission in permissions("run.projects.locations.services.patch") {
            check("delivery", permission, &Resource::service(&service.name))?;
        }
        check("delivery", acts_as, &Resource::account(&service.account))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn each_operation_cites_a_text_that_its_file_contains() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for OutsideOperation { method, from: (file, text), .. } in OPERATIONS {
            let content = fs::read_to_string(root.join(file)).unwrap_or_default();
            assert!(content.contains(text), "{method}: {file} has no {text}");
        }
    }
}
