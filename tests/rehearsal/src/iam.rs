//! Records the checks of a rehearsal: the grants that each request used, and the denied requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
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
struct AccessLog {
    denials: Vec<Denial>,
    allowed: u64,
    /// Requests that each grant allowed.
    uses: Uses,
    /// Grants without which at least one request would have been denied.
    sole: BTreeSet<String>,
}

/// Service agents of Google, with the roles that Google grants them (each page "service agents"). The role of Pub/Sub's agent is omitted:
/// the agent has none in projects that used Pub/Sub before 2021-04-08, and then only the plan's grants apply.
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
    log: Mutex<AccessLog>,
    /// Delay of the effect of a new grant.
    delay: Mutex<Duration>,
    /// New grants, each with the time at which it takes effect.
    pending: Mutex<Vec<(Instant, Grant)>>,
    /// Callers that created the jobs of BigQuery, by the jobs' ids.
    jobs: Mutex<BTreeMap<String, String>>,
}

impl Iam {
    /// Checks requests against the grants of the plan and the grants of Google's agents.
    pub fn new(grants: Grants) -> Self {
        let (log, delay, pending, jobs) = Default::default();
        let iam = Self { grants: Mutex::new(grants), log, delay, pending, jobs };
        for (member, role) in AGENTS {
            iam.grant_outside("project", role, member);
        }
        iam
    }

    /// Delays the effect of all grants that are added from now on. Requests that such a grant would allow are refused, but not recorded
    /// as denials.
    pub fn delay_grants(&self, delay: Duration) {
        *self.delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    /// Applies the pending grants whose delay is over.
    fn apply_grants(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let applied = pending.extract_if(.., |(at, _)| *at <= now).map(|(_, grant)| grant);
        self.grants.lock().unwrap_or_else(PoisonError::into_inner).all.extend(applied);
    }

    /// Whether a pending grant will allow the request.
    fn is_pending(&self, member: &str, permission: &str, resource: &Resource) -> bool {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let all = pending.iter().map(|(_, grant)| grant.clone()).collect();
        let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner).with(all);
        grants.allowing(member, permission, resource).is_ok_and(|found| !found.is_empty())
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
        let delay = *self.delay.lock().unwrap_or_else(PoisonError::into_inner);
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now() + delay, grant));
        self.apply_grants();
    }

    fn log(&self) -> MutexGuard<'_, AccessLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks and records a request.
    ///
    /// # Errors
    /// Returns an error if no grant allows it.
    pub fn check(&self, member: &str, permission: &str, resource: &Resource) -> Result<(), Denial> {
        self.apply_grants();
        let allowing: Result<Vec<String>, String> = {
            let grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
            let found = grants.allowing(member, permission, resource);
            found.map(|found| found.iter().map(|grant| grant.address.clone()).collect())
        };
        let denied = |permission: String| {
            let denial = Denial { member: member.to_owned(), permission, resource: resource.clone() };
            if !self.is_pending(member, &denial.permission, resource) {
                self.log().denials.push(denial.clone());
            }
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

    /// Records the caller that created a job of BigQuery.
    pub fn job_created(&self, member: &str, id: &str) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.entry(id.to_owned()).or_insert_with(|| member.to_owned());
    }

    /// Whether another caller created this job.
    pub fn is_job_of_another(&self, member: &str, id: Option<&str>) -> bool {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        id.and_then(|id| jobs.get(id)).is_some_and(|creator| creator != member)
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

    /// Uses of the plan's grants, and the grants without which at least one request would have been denied.
    pub fn uses(&self) -> (Uses, BTreeSet<String>) {
        let log = self.log();
        (log.uses.clone(), log.sole.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_grant_takes_effect_after_its_delay() {
        const AGENT: &str = "serviceAccount:agent@p.iam.gserviceaccount.com";
        let iam = Iam::new(Grants::from_plan(&[]).unwrap());
        iam.delay_grants(Duration::from_millis(50));
        let subscription = Resource::subscription("projects/p/subscriptions/s");
        let allowed = || iam.check(AGENT, "pubsub.subscriptions.consume", &subscription).is_ok();
        iam.grant_outside("subscription s", "roles/pubsub.subscriber", AGENT);
        assert!(!allowed());
        assert_eq!(iam.denials().len(), 0, "the grant exists");
        std::thread::sleep(Duration::from_millis(60));
        assert!(allowed());
        assert!(iam.check(AGENT, "pubsub.topics.publish", &Resource::topic("t")).is_err());
        assert_eq!(iam.denials().len(), 1);
    }

    #[test]
    fn a_job_belongs_to_the_caller_that_created_it() {
        let iam = Iam::new(Grants::from_plan(&[]).unwrap());
        iam.job_created("loader", "job-1");
        iam.job_created("another", "job-1");
        assert!(!iam.is_job_of_another("loader", Some("job-1")));
        assert!(iam.is_job_of_another("another", Some("job-1")));
        assert!(!iam.is_job_of_another("another", Some("absent")) && !iam.is_job_of_another("another", None));
    }
}
