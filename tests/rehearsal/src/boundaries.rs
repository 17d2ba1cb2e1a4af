//! Operations that the plan must not allow to programs outside the services, regardless of their code: steps of builds, agents on
//! clusters, the delivery, the users of the deployment. Checked on the grants of the plan, so that a grant that `infra/rights.json` does
//! not list is found too.

use std::collections::BTreeSet;

use crate::{
    grants::{Grants, Resource},
    iam::member,
    methods::permissions,
    plan::{PROJECT, TerraformPlan},
};

/// An operation, and the members that may nevertheless execute it.
struct Boundary {
    /// Method of `methods.json`.
    method: &'static str,
    on: Resource,
    allowed: Vec<String>,
}

/// The member of an account that `infra/` creates.
fn account(name: &str) -> String {
    member(&format!("burnin-{name}@{PROJECT}.iam.gserviceaccount.com"))
}

/// Topics that programs outside the services publish to: requests, and facts of agents.
const OPEN_TOPICS: [&str; 2] = ["gateway", "agent-facts"];

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
    let boundary = |method, on| Boundary { method, on, allowed: Vec::new() };
    let mut all = vec![
        boundary("storage.objects.delete", Resource::object(&ledger, "ledger/r-1/1.json")),
        boundary("storage.buckets.setIamPolicy", Resource::object(&ledger, "")),
        boundary("storage.buckets.setIamPolicy", Resource::object(&artefacts, "")),
        boundary("cloudresourcemanager.projects.setIamPolicy", Resource::project()),
    ];
    for object in DECIDING {
        all.push(boundary("storage.objects.insert", Resource::object(&artefacts, object)));
        all.push(boundary("storage.objects.delete", Resource::object(&artefacts, object)));
    }
    let open = OPEN_TOPICS.map(|name| format!("projects/{PROJECT}/topics/burnin-{name}"));
    for topic in &plan.topics {
        if !open.contains(topic) {
            all.push(boundary("pubsub.projects.topics.publish", Resource::topic(topic)));
        }
        all.push(boundary("pubsub.projects.topics.setIamPolicy", Resource::topic(topic)));
    }
    for subscription in plan.subscriptions.iter().filter(|of| of.push.is_some()) {
        let on = || Resource::subscription(&subscription.id);
        all.extend(SUBSCRIPTION_METHODS.map(|method| boundary(method, on())));
    }
    for service in plan.services.values() {
        let on = || Resource::account(&service.account);
        // A rollout sets the image of a service.
        all.push(Boundary { allowed: vec![account("delivery")], ..boundary("act-as", on()) });
        all.push(boundary("iamcredentials.projects.serviceAccounts.generateIdToken", on()));
        all.push(boundary("iam.projects.serviceAccounts.setIamPolicy", on()));
    }
    all
}

const SUBSCRIPTION_METHODS: [&str; 4] = [
    "pubsub.projects.subscriptions.delete",
    "pubsub.projects.subscriptions.patch",
    "pubsub.projects.subscriptions.pull",
    "pubsub.projects.subscriptions.setIamPolicy",
];

/// Forbidden operations that the plan allows.
///
/// # Errors
/// Returns an error if a permission's roles are unknown.
pub fn broken(plan: &TerraformPlan) -> Result<Vec<String>, String> {
    let services: BTreeSet<_> = plan.services.values().map(|service| member(&service.account)).collect();
    // Google's service agents execute the configuration of the services.
    let is_outside = |member: &str| !services.contains(member) && !member.contains("@gcp-sa-");
    let members: BTreeSet<&str> = plan.grants.all.iter().map(|grant| grant.member.as_str()).collect();
    let mut broken = Vec::new();
    for Boundary { method, on, allowed } in boundaries(plan) {
        for who in members.iter().filter(|who| is_outside(who) && !allowed.iter().any(|of| of == *who)) {
            if let Some(grant) = allowing(&plan.grants, who, method, &on)? {
                broken.push(format!("{who} may call {method} on {on}: {grant}"));
            }
        }
    }
    // The retention of the buckets is not locked: an account that may update a bucket can remove the retention (Google's page "Bucket
    // Lock").
    for (bucket, who) in plan.retention.keys().flat_map(|bucket| members.iter().map(move |who| (bucket, who)))
    {
        if let Some(grant) =
            allowing(&plan.grants, who, "storage.buckets.patch", &Resource::object(bucket, ""))?
        {
            broken.push(format!("{who} may remove the retention of {bucket}: {grant}"));
        }
    }
    // Of the services, only the conductor writes the ledger.
    let record = Resource::object(&plan.bucket("ledger"), "ledger/r-1/1.json");
    for who in members.iter().filter(|who| **who != account("conductor")) {
        let creating = plan.grants.allowing(who, crate::methods::permission_to_create(), &record)?;
        broken.extend(creating.iter().map(|grant| format!("{who} may write the ledger: {}", grant.address)));
    }
    Ok(broken)
}

/// The address of a grant that allows one of a method's permissions. An insert needs only the first permission to create a new object.
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
    use std::{collections::BTreeMap, time::Duration};

    use serde_json::{Value, json};

    use super::*;

    fn plan(grants: &[(&str, Value)]) -> TerraformPlan {
        let resources: Vec<_> =
            grants.iter().map(|(kind, of)| json!({"address": "a", "type": kind, "values": of})).collect();
        TerraformPlan {
            grants: Grants::from_plan(&resources).unwrap(),
            services: BTreeMap::new(),
            subscriptions: Vec::new(),
            topics: ["facts", "judge", "gateway", "agent-facts"]
                .map(|name| format!("projects/{PROJECT}/topics/burnin-{name}"))
                .into(),
            tasks: Vec::new(),
            buckets: vec!["p-ledger".to_owned(), "p-artefacts".to_owned()],
            retention: [("p-ledger".to_owned(), Duration::from_secs(1))].into(),
            encrypted: Vec::new(),
        }
    }

    #[test]
    fn a_grant_beyond_a_boundary_is_found() {
        let steps = account("cluster-build");
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
        let administrator = found(&[on("p-ledger", "roles/storage.admin", Value::Null)]);
        let removes = |found: &String| found.contains("may remove the retention of p-ledger");
        assert!(administrator.iter().any(removes), "{administrator:?}");
        let published = |topic: &str| {
            let publisher = json!({"topic": topic, "role": "roles/pubsub.publisher", "member": steps});
            found(&[("google_pubsub_topic_iam_member", publisher)])
        };
        for topic in ["burnin-facts", "burnin-judge"] {
            let found = published(topic);
            assert!(found.len() == 1 && found[0].contains("pubsub.projects.topics.publish"), "{found:?}");
        }
        for topic in ["burnin-gateway", "burnin-agent-facts"] {
            assert_eq!(published(topic), Vec::<String>::new());
        }
    }
}
