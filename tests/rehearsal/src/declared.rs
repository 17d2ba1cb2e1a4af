//! Operations that the rehearsal checks without executing them: steps of builds that provision clusters, and the delivery of Burnin
//! itself. Each is derived from a file of this repository.

use crate::{deployment::Rehearsal, grants::Resource, iam::member, plan::PROJECT};

/// An operation outside the services.
pub struct OutsideOperation {
    /// Short name of the account.
    pub account: &'static str,
    pub permission: &'static str,
    /// The account that the operation acts as; `None`: the resource is the project.
    pub acts_as: Option<&'static str>,
    /// The file that requires the operation, and a text in that file; a test checks both.
    #[cfg_attr(not(test), expect(dead_code, reason = "only a test reads it"))]
    pub from: (&'static str, &'static str),
}

const fn operation(
    account: &'static str,
    permission: &'static str,
    file: &'static str,
    text: &'static str,
) -> OutsideOperation {
    OutsideOperation { account, permission, acts_as: None, from: (file, text) }
}

/// All operations. The permissions of single services on themselves follow in [`perform`].
pub const OPERATIONS: [OutsideOperation; 6] = [
    operation("cluster-build", "compute.instances.create", "workflows/a3-mega/deploy.py", "gcluster"),
    operation("cluster-build", "file.instances.create", "workflows/a3-mega/deploy.py", "gcluster"),
    operation(
        "cluster-build",
        "container.clusters.create",
        "workflows/a4-gke-testbed/README.md",
        "container",
    ),
    OutsideOperation {
        acts_as: Some("nodes"),
        ..operation(
            "cluster-build",
            "iam.serviceAccounts.actAs",
            "workflows/a3-mega/README.md",
            "_SERVICE_ACCOUNT",
        )
    },
    operation("delivery", "artifactregistry.repositories.uploadArtifacts", "cloudbuild.yaml", "_REGISTRY"),
    operation("delivery", "logging.logEntries.create", "cloudbuild.yaml", "CLOUD_LOGGING_ONLY"),
];

/// Checks every operation.
///
/// # Errors
/// Returns an error at the first denial.
pub fn perform(rehearsal: &Rehearsal) -> Result<(), String> {
    let email = |name: &str| match name {
        "nodes" => format!("nodes@{PROJECT}.iam.gserviceaccount.com"),
        name => format!("burnin-{name}@{PROJECT}.iam.gserviceaccount.com"),
    };
    let check = |account: &str, permission: &str, on: &Resource| {
        rehearsal
            .iam
            .check(&member(&email(account)), permission, on)
            .map_err(|denial| format!("403: {denial}"))
    };
    for OutsideOperation { account, permission, acts_as, .. } in OPERATIONS {
        let on = acts_as.map_or_else(Resource::project, |other| Resource::account(&email(other)));
        check(account, permission, &on)?;
    }
    // `.ci/rollout.sh` sets the image of each service, and must therefore act as the service's account.
    for service in rehearsal.plan.services.values() {
        for permission in ["run.services.get", "run.services.update"] {
            check("delivery", permission, &Resource::service(&service.name))?;
        }
        check("delivery", "iam.serviceAccounts.actAs", &Resource::account(&service.account))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn each_operation_follows_from_a_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for OutsideOperation { permission, from: (file, text), .. } in OPERATIONS {
            let content = fs::read_to_string(root.join(file)).unwrap_or_default();
            assert!(content.contains(text), "{permission}: {file} has no {text}");
        }
    }
}
