//! The envelope: every fact and every command is a CloudEvent.
//!
//! | attribute | value |
//! |---|---|
//! | `type` | `dev.burnin.<noun>.<past verb>.v1` for facts, `dev.burnin.<noun>.<verb>.v1` for commands |
//! | `subject` | `runs/<run id>` |
//! | `source` | `//burnin/<who published it>` |
//! | `id` | of a command: its own id; of a fact: a digest of run, type, attempt and content |
//! | `attempt` | extension: the attempt of its stage |
//! | `traceparent` | extension: W3C trace context, where there is one |
//!
//! `source` and `id` follow from the content, so publishing the same thing twice makes the same event.

mod message;
mod request;
mod schema;
mod topics;

pub use message::{Content, Message, Unreadable};
pub use request::{
    CLUSTER_OFFERED, ClusterOffer, OfferedSystem, RUN_ANSWERED, RUN_REQUEST, RunAnswer, RunRequest, payload,
};
pub use schema::event_schemas;
pub use topics::{topic_of, topics};
