//! Operations that the plan must not allow to programs outside the services, regardless of their code: steps of builds, agents on
//! clusters, the delivery, the users of the deployment. Checked on the grants of the plan, so that a grant that `infra/rights.json` does
//! not list is found too.

use std::collections::BTreeSet;

use crate::{
    grants::{Grants, Resource},
    iam::member,
    methods::permissions,
    plan::TerraformPlan,
};

/// An operation, and the members that may nevertheless execute it.
struct Boundary {
    /// Method of `methods.json`.
    method: &'static str,
    on: Resource,
    allowed: &'static [&'static str],
}

const DELIVERY: &str = "serviceAccount:burnin-delivery@my-project.iam.gserviceaccount.com";
const CONDUCTOR: &str = "serviceAccount:burnin-conductor@my-project.iam.gserviceaccount.com";

/// Objects that decide which programs run, or the verdict of a run.
const DECIDING: [&str; 6] = [
    "artefacts/r-1/verdict/1/verdict.json",
    "artefacts/r-1/image/1/manifest.json",
    "baselines/nightly/1.json",
    "requests/key.json",
    "workflows/nightly.yaml",
    "sources/0.tar.gz",
];

fn boundaries(plan: &TerraformPlan) -> Vec<Boundary> {
    let (ledger, artefacts) = (plan.bucket("ledger"), plan.bucket("artefacts"));
    let none: &[&str] = &[];
    let boundary = |method, on, allowed| Boundary { method, on, allowed };
    let mut all = vec![
        boundary("storage.objects.delete", Resource::object(&ledger, "ledger/r-1/1.json"), none),
        boundary("storage.buckets.setIamPolicy", Resource::object(&ledger, ""), none),
        boundary("storage.buckets.setIamPolicy", Resource::object(&artefacts, ""), none),
        boundary("cloudresourcemanager.projects.setIamPolicy", Resource::project(), none),
    ];
    for object in DECIDING {
        all.push(boundary("storage.objects.insert", Resource::object(&artefacts, object), none));
        all.push(boundary("storage.objects.delete", Resource::object(&artefacts, object), none));
    }
    for topic in
        plan.topics.iter().filter(|topic| topic.ends_with("-facts") && !topic.ends_with("agent-facts"))
    {
        all.push(boundary("pubsub.projects.topics.publish", Resource::topic(topic), none));
    }
    for topic in &plan.topics {
        all.push(boundary("pubsub.projects.topics.setIamPolicy", Resource::topic(topic), none));
    }
    for subscription in plan.subscriptions.iter().filter(|of| of.push.is_some()) {
        let on = || Resource::subscription(&subscription.id);
        all.extend(SUBSCRIPTION_METHODS.map(|method| boundary(method, on(), none)));
    }
    for service in plan.services.values() {
        let on = || Resource::account(&service.account);
        // A rollout sets the image of a service.
        all.push(boundary("the account of a build or a service", on(), &[DELIVERY]));
        all.push(boundary("iamcredentials.projects.serviceAccounts.generateIdToken", on(), none));
        all.push(boundary("iam.projects.serviceAccounts.setIamPolicy", on(), none));
    }
    all
}

const SUBSCRIPTION_METHODS: [&str; 4] = [
    "pubsub.projects.subscriptions.delete",
    "pubsub.projects.subscriptions.patch",
    "pubsub.projects.subscriptions.pull",
    "pubsub.projects.subscriptions.setIamPolicy",
];

/// Operations that the plan allows and must not.
///
/// # Errors
/// Returns an error if a permission's roles are unknown.
pub fn broken(plan: &TerraformPlan) -> Result<Vec<String>, String> {
    let services: BTreeSet<_> = plan.services.values().map(|service| member(&service.account)).collect();
    // Google's own accounts execute the configuration of the services.
    let is_outside = |member: &str| !services.contains(member) && !member.contains("@gcp-sa-");
    let members: BTreeSet<&str> = plan.grants.all.iter().map(|grant| grant.member.as_str()).collect();
    let mut broken = Vec::new();
    for Boundary { method, on, allowed } in boundaries(plan) {
        for who in members.iter().filter(|who| is_outside(who) && !allowed.contains(who)) {
            if let Some(grant) = allowing(&plan.grants, who, method, &on)? {
                broken.push(format!("{who} may call {method} on {on}: {grant}"));
            }
        }
    }
    // Of the services, only the conductor writes the ledger.
    let record = Resource::object(&plan.bucket("ledger"), "ledger/r-1/1.json");
    for who in members.iter().filter(|who| **who != CONDUCTOR) {
        let creating = plan.grants.allowing(who, crate::methods::permission_to_create(), &record)?;
        broken.extend(creating.iter().map(|grant| format!("{who} may write the ledger: {}", grant.address)));
    }
    Ok(broken)
}

/// A grant that allows one of a method's permissions. An insert needs only the first to create a new object.
fn allowing(grants: &Grants, who: &str, method: &str, on: &Resource) -> Result<Option<String>, String> {
    for permission in permissions(method) {
        if let Some(grant) = grants.allowing(who, permission, on)?.first() {
            return Ok(Some(grant.address.clone()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::plan::PROJECT;

    fn plan(grants: &[(&str, Value)]) -> TerraformPlan {
        let resources: Vec<_> =
            grants.iter().map(|(kind, of)| json!({"address": "a", "type": kind, "values": of})).collect();
        TerraformPlan {
            grants: Grants::from_plan(&resources).unwrap(),
            services: BTreeMap::new(),
            subscriptions: Vec::new(),
            topics: vec![format!("projects/{PROJECT}/topics/burnin-facts")],
            tasks: Vec::new(),
            buckets: vec!["p-ledger".to_owned(), "p-artefacts".to_owned()],
            retention: BTreeMap::new(),
            encrypted: Vec::new(),
        }
    }

    #[test]
    fn a_grant_beyond_a_boundary_is_found() {
        let steps = "serviceAccount:burnin-cluster-build@my-project.iam.gserviceaccount.com";
        let on = |bucket: &str, role: &str, condition: Value| {
            let of = json!({"bucket": bucket, "role": role, "member": steps, "condition": condition});
            ("google_storage_bucket_iam_member", of)
        };
        let creator = "roles/storage.objectCreator";
        let below = |prefix: &str| {
            let name =
                format!("resource.name.startsWith(\"projects/_/buckets/p-artefacts/objects/{prefix}\")");
            json!([{"expression": name}])
        };
        let found = |grants: &[(&str, Value)]| broken(&plan(grants)).unwrap();
        assert_eq!(found(&[on("p-artefacts", creator, below("builds/"))]), Vec::<String>::new());
        let all = found(&[on("p-artefacts", creator, Value::Null)]);
        assert!(
            all.iter().any(|found| found.contains("verdict.json")) && all.len() == DECIDING.len(),
            "{all:?}"
        );
        let workflows = found(&[on("p-artefacts", creator, below("workflows/"))]);
        assert!(workflows.len() == 1 && workflows[0].contains("workflows/nightly.yaml"), "{workflows:?}");
        assert!(found(&[on("p-ledger", creator, Value::Null)])[0].contains("may write the ledger"));
        let publisher = json!({"topic": "burnin-facts", "role": "roles/pubsub.publisher", "member": steps});
        let published = found(&[("google_pubsub_topic_iam_member", publisher)]);
        assert!(published[0].contains("pubsub.projects.topics.publish"), "{published:?}");
    }
}
