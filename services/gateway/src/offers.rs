//! Clusters offered by other systems: each offer starts the workflows that accept it, once.

use events::{CLUSTER_OFFERED, ClusterOffer, RunAnswer};
use model::{EventKey, Origin, RunId, System, Trigger};
use serde::{Deserialize, Serialize};
use service::{AttributesReader, Disposition, Event};
use sha2::{Digest, Sha256};
use triggers::OfferedCluster;

use crate::{Gateway, StartError, StartRequest, start};

/// Record of an offer and the workflows that accepted it. Workflows added later do not receive the offer.
#[derive(Debug, Deserialize, Serialize)]
struct OfferMark {
    format: u32,
    key: EventKey,
    /// SHA-256 of the offer, which detects another offer under the same id.
    offered: String,
    workflows: Vec<String>,
}

/// Reason why an offer starts no run.
enum RejectedOffer {
    Permanent(String),
    Transient(String),
}

impl From<StartError> for RejectedOffer {
    fn from(refused: StartError) -> Self {
        if refused.is_permanent() {
            Self::Permanent(refused.to_string())
        } else {
            Self::Transient(refused.to_string())
        }
    }
}

/// Fills the offer's settings with the defaults of its cluster kind.
fn completed(offer: ClusterOffer) -> Result<ClusterOffer, String> {
    let wrong = |why: String| format!("payload of `{CLUSTER_OFFERED}`: system: {why}");
    let name = offer.kind();
    let Some(kind) = clusters::kind(name).filter(|kind| kind.can_be_offered()) else {
        let known = clusters::names(|kind| kind.can_be_offered()).join(", ");
        return Err(wrong(format!("expected one of {known}, found `{name}`")));
    };
    let settings =
        (kind.form().read)(offer.system.settings()).map_err(|why| wrong(format!("{name}: {why}")))?;
    Ok(ClusterOffer { system: System::new(name, settings), ..offer })
}

impl Gateway {
    pub(crate) async fn on_cluster_offer(&self, event: &Event) -> Disposition {
        let key = EventKey { source: event.source().as_str().to_owned(), id: event.id().to_owned() };
        let concerned = match ClusterOffer::of(event).and_then(completed) {
            Ok(offer) => self.concerned(&key, &offer).await.map(|workflows| (offer, workflows)),
            Err(why) => Err(RejectedOffer::Permanent(why)),
        };
        let (offer, workflows) = match concerned {
            Ok(concerned) => concerned,
            Err(RejectedOffer::Transient(why)) => return Disposition::Retry(why),
            Err(RejectedOffer::Permanent(why)) => return self.refuse(key, vec![why]).await,
        };
        let mut problems = Vec::new();
        for workflow in workflows {
            let request = StartRequest {
                // A separate source, so that no sender can imitate another kind of key.
                key: EventKey { source: format!("//burnin/offers/{}", key.source), id: key.id.clone() },
                workflow: workflow.clone(),
                set: Default::default(),
                image: None,
                cluster: Some((key.source.clone(), offer.clone())),
                trigger: Trigger {
                    kind: "message".to_owned(),
                    by: format!("{}, which offered {}", key.source, offer.name),
                },
                origin: Some(Origin::Message(key.clone())),
            };
            match self.starter.start(&request).await.map_err(RejectedOffer::from) {
                Ok(started) => {
                    if let Err(later) = self.answer(&key, Ok(started.run)).await {
                        return later;
                    }
                }
                Err(RejectedOffer::Transient(why)) => return Disposition::Retry(why),
                Err(RejectedOffer::Permanent(why)) => problems.push(format!("{workflow}: {why}")),
            }
        }
        if problems.is_empty() { Disposition::Done } else { self.refuse(key, problems).await }
    }

    /// The workflows that accepted the offer when it first arrived.
    async fn concerned(&self, key: &EventKey, offer: &ClusterOffer) -> Result<Vec<String>, RejectedOffer> {
        let digest = hex::encode(start::digest(&[&key.source, &key.id]));
        let name = format!("offers/{}.json", digest.get(..32).unwrap_or(&digest));
        let offered = hex::encode(Sha256::digest(serde_json::to_vec(offer).unwrap_or_default()));
        let later = |error: &dyn std::error::Error| RejectedOffer::Transient(error.to_string());
        loop {
            if let Some(body) = self.store.read(&name).await.map_err(|error| later(&error))? {
                let mark: OfferMark = serde_json::from_slice(&body).map_err(|error| later(&error))?;
                let other =
                    "this source and id were used before for another cluster; use a new id".to_owned();
                return if mark.offered == offered {
                    Ok(mark.workflows)
                } else {
                    Err(RejectedOffer::Permanent(other))
                };
            }
            let read = self.catalogue.read().await.map_err(|error| later(&error))?;
            let known = OfferedCluster { source: &key.source, system: offer.kind(), name: &offer.name };
            let wants = |on: &triggers::Triggers| on.cluster.iter().any(|on| on.wants(known));
            let concerned = read.workflows.iter().filter(|(_, entry)| wants(&entry.offered.on));
            let workflows: Vec<_> = concerned.map(|(workflow, _)| workflow.clone()).collect();
            if workflows.is_empty() {
                let kind = offer.kind();
                return Err(RejectedOffer::Permanent(format!(
                    "no workflow accepts a {kind} cluster `{}` from `{}`; add it to `on.cluster` of one",
                    offer.name, key.source
                )));
            }
            let mark = OfferMark { format: 1, key: key.clone(), offered: offered.clone(), workflows };
            // Another gateway may have written the mark first: the next pass reads the stored mark.
            self.store.create_json(&name, &mark).await.map_err(|error| later(&error))?;
        }
    }

    async fn refuse(&self, key: EventKey, problems: Vec<String>) -> Disposition {
        for problem in &problems {
            if let Err(later) = self.answer(&key, Err(problem.clone())).await {
                return later;
            }
        }
        Disposition::Park(problems.join("\n"))
    }

    /// Publishes the result on the reply topic.
    async fn answer(&self, key: &EventKey, result: Result<RunId, String>) -> Result<(), Disposition> {
        let (run, problem) = match result {
            Ok(run) => (Some(run), None),
            Err(problem) => (None, Some(problem)),
        };
        let answer = RunAnswer { request: key.clone(), run, problem, ended: None };
        let published = self.bus.publish(answer.to_event("gateway", self.clock.now())).await;
        published.map_err(|error| Disposition::Retry(error.to_string()))
    }
}
