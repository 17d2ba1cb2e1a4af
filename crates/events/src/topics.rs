//! Topics of events: one per service that receives commands, one for the facts of services and one for those of agents, one for ends of
//! runs.
//!
//! No topic needs a subscription filter: every subscriber processes all events of its topic.

use crate::{CLUSTER_OFFERED, RUN_ANSWERED, RUN_REQUEST};

/// A topic, with the nouns of its event types.
struct Topic {
    name: &'static str,
    commands: &'static [&'static str],
}

const fn topic(name: &'static str, commands: &'static [&'static str]) -> Topic {
    Topic { name, commands }
}

/// Facts of services, received by the conductor.
const FACTS: &str = "facts";
/// Facts of agents, received by the conductor on a separate path. Agents run on clusters, and Pub/Sub authorizes publishers for each
/// topic: on the topic of services a compromised cluster could publish a verdict.
const AGENT_FACTS: &str = "agent-facts";
/// Ends of runs, for any subscriber. The conductor publishes them and does not subscribe.
const CLOSED: &str = "closed";

/// External requests, received by the gateway.
const REQUESTS: &str = "gateway";
/// Answers to external requests, for the requester.
const REPLIES: &str = "replies";

const COMMANDS: [Topic; 5] = [
    topic("builder", &["image.build", "image.observe", "image.cancel"]),
    topic("provisioner", &["cluster.create", "cluster.observe", "cluster.delete"]),
    topic(
        "agent",
        &["job.submit", "job.observe", "job.cancel", "logs.collect", "nodes.locate", "nodes.cancel"],
    ),
    topic("judge", &["run.judge"]),
    topic("loader", &["results.load"]),
];

/// Names of all topics: of commands, facts, ends of runs, requests and answers.
pub fn topics() -> Vec<&'static str> {
    COMMANDS.iter().map(|topic| topic.name).chain([FACTS, AGENT_FACTS, CLOSED, REQUESTS, REPLIES]).collect()
}

/// Whether events of this type are facts of agents.
pub fn is_of_agent(event_type: &str) -> bool {
    topic_of(event_type) == AGENT_FACTS
}

/// Name of the topic that carries events of this type, without the deployment's prefix.
pub fn topic_of(event_type: &str) -> &'static str {
    match event_type {
        "dev.burnin.run.closed.v1" => return CLOSED,
        // The loader stores the cluster usage, and no other service receives it.
        "dev.burnin.run.used.v1" => return "loader",
        RUN_REQUEST | CLUSTER_OFFERED => return REQUESTS,
        RUN_ANSWERED => return REPLIES,
        _ => {}
    }
    let name = event_type.strip_prefix("dev.burnin.").and_then(|rest| rest.strip_suffix(".v1"));
    let takes = |topic: &&Topic| name.is_some_and(|name| topic.commands.contains(&name));
    let noun = name.and_then(|name| name.split_once('.')).map(|(noun, _)| noun);
    let facts = if matches!(noun, Some("job" | "logs" | "nodes")) { AGENT_FACTS } else { FACTS };
    COMMANDS.iter().find(takes).map_or(facts, |topic| topic.name)
}

#[cfg(test)]
mod tests {
    use model::{Body, Fact};

    use super::*;

    #[test]
    fn every_command_is_routed_to_its_service_and_every_fact_to_the_conductor() {
        for event_type in Body::TYPES {
            assert!(COMMANDS.iter().any(|topic| topic.name == topic_of(event_type)), "{event_type}");
        }
        for event_type in Fact::TYPES {
            let expected = match *event_type {
                "dev.burnin.run.closed.v1" => CLOSED,
                "dev.burnin.run.used.v1" => "loader",
                "dev.burnin.job.accepted.v1"
                | "dev.burnin.job.done.v1"
                | "dev.burnin.job.failed.v1"
                | "dev.burnin.logs.collected.v1"
                | "dev.burnin.logs.failed.v1"
                | "dev.burnin.nodes.located.v1"
                | "dev.burnin.nodes.failed.v1" => AGENT_FACTS,
                _ => FACTS,
            };
            assert_eq!(topic_of(event_type), expected, "{event_type}");
            assert_eq!(is_of_agent(event_type), expected == AGENT_FACTS, "{event_type}");
        }
        assert_eq!(COMMANDS.iter().map(|topic| topic.commands.len()).sum::<usize>(), Body::TYPES.len());
    }
}
