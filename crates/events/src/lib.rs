//! The envelope: every fact and every command is a CloudEvent.
//!
//! | attribute | value |
//! |---|---|
//! | `type` | `dev.burnin.<noun>.<past verb>.v1` for facts, `dev.burnin.<noun>.<verb>.v1` for commands |
//! | `subject` | `runs/<run id>` |
//! | `source` | `//burnin/<publisher>` |
//! | `id` | command: its own id; fact: a digest of run, type, attempt and content |
//! | `attempt` | extension: the attempt of its stage |
//! | `traceparent` | extension: W3C trace context, if present |
//!
//! `source` and `id` are derived from the content, so publishing the same content twice creates the same
//! event.

#![deny(missing_docs)]

mod message;
mod request;
mod schema;
mod topics;

pub use message::{Content, Message, UnreadableEvent};
pub use request::{CLUSTER_OFFERED, ClusterOffer, RUN_ANSWERED, RUN_REQUEST, RunAnswer, RunRequest, payload};
pub use schema::event_schemas;
pub use topics::{is_of_agent, topic_of, topics};
