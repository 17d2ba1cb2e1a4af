//! Records the checks of a rehearsal: the grants that each request used, and the denied requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::grants::{Grant, Grants, Resource};

/// IAM member of the service account with this email address.
pub fn member(email: &str) -> String {
    format!("serviceAccount:{email}")
}

/// A request that no grant allows.
#[derive(Clone, Debug)]
pub struct Denial {
    pub member: String,
    /// The missing permission, or the method without a rule.
    pub permission: String,
    pub resource: Resource,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { member, permission, resource } = self;
        write!(f, "{member} does not have {permission} access to {resource}")
    }
}

/// Uses of a grant: permission and kind of resource.
pub type Uses = BTreeMap<String, BTreeSet<(String, String)>>;

#[derive(Default)]
struct Log {
    denials: Vec<Denial>,
    allowed: u64,
    /// Requests that each grant allowed.
    uses: Uses,
    /// Grants that alone allowed at least one request.
    sole: BTreeSet<String>,
}

/// Service agents of Google, with the roles that Google grants them (each page "service agents"). Pub/Sub's own role is left out: it
/// has none in projects that used Pub/Sub before 2021-04-08, and then only the plan's grants count.
pub const AGENTS: [(&str, &str); 2] = [
    (
        "serviceAccount:service-data-number@gcp-sa-cloudscheduler.iam.gserviceaccount.com",
        "roles/cloudscheduler.serviceAgent",
    ),
    (
        "serviceAccount:service-data-number@gcp-sa-cloudbuild.iam.gserviceaccount.com",
        "roles/cloudbuild.serviceAgent",
    ),
];

/// Pub/Sub's service agent.
pub const PUBSUB: &str = "serviceAccount:service-data-number@gcp-sa-pubsub.iam.gserviceaccount.com";

/// Address of a grant that is not in the plan.
const OUTSIDE: &str = "outside the plan: ";

/// Checks requests.
pub struct Iam {
    grants: Mutex<Grants>,
    log: Mutex<Log>,
}

impl Iam {
    /// Checks requests against the grants of the plan and the grants of Google's agents.
    pub fn new(grants: Grants) -> Self {
        let iam = Self { grants: Mutex::new(grants), log: Mutex::default() };
        for (member, role) in AGENTS {
            iam.grant_outside("project", role, member);
        }
        iam
    }

    /// Adds a grant that Terraform does not make.
    pub fn grant_outside(&self, on: &str, role: &str, member: &str) {
        let address = format!("{OUTSIDE}{role} on {on} for {member}");
        let grant = Grant {
            address,
            on: on.to_owned(),
            role: role.to_owned(),
            member: member.to_owned(),
            condition: None,
        };
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).all.push(grant);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks and records a request.
    ///
    /// # Errors
    /// Returns an error if no grant allows it.
    pub fn check(&self, member: &str, permission: &str, resource: &Resource) -> Result<(), Denial> {
        let allowing: Result<Vec<String>, String> = {
            let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
            let found = grants.allowing(member, permission, resource);
            found.map(|found| found.iter().map(|grant| grant.address.clone()).collect())
        };
        let denied = |permission: String| {
            let denial = Denial { member: member.to_owned(), permission, resource: resource.clone() };
            self.log().denials.push(denial.clone());
            Err(denial)
        };
        match allowing {
            Err(unknown) => denied(unknown),
            Ok(found) if found.is_empty() => denied(permission.to_owned()),
            Ok(found) => {
                let mut log = self.log();
                log.allowed += 1;
                if let [only] = &found[..] {
                    log.sole.insert(only.clone());
                }
                for address in found {
                    let kind = resource.policies[0].clone();
                    log.uses.entry(address).or_default().insert((permission.to_owned(), kind));
                }
                Ok(())
            }
        }
    }

    /// Whether a request would be allowed; not recorded.
    pub fn would_allow(&self, member: &str, permission: &str, resource: &Resource) -> bool {
        let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.allowing(member, permission, resource).is_ok_and(|found| !found.is_empty())
    }

    /// Records a request that is refused before its permission is checked.
    pub fn refused(&self, member: &str, missing: &str, resource: &Resource) -> Denial {
        let (member, permission) = (member.to_owned(), missing.to_owned());
        let denial = Denial { member, permission, resource: resource.clone() };
        self.log().denials.push(denial.clone());
        denial
    }

    /// Records a request without a rule in the rehearsal: it is refused.
    pub fn unknown(&self, member: &str, what: &str) -> Denial {
        let missing = "a permission that tests/rehearsal/src/methods.rs does not define:";
        self.refused(member, missing, &Resource::unknown(what))
    }

    pub fn allowed(&self) -> u64 {
        self.log().allowed
    }

    pub fn denials(&self) -> Vec<Denial> {
        self.log().denials.clone()
    }

    /// Uses of the plan's grants, and the grants that alone allowed at least one request.
    pub fn uses(&self) -> (Uses, BTreeSet<String>) {
        let log = self.log();
        (log.uses.clone(), log.sole.clone())
    }
}
