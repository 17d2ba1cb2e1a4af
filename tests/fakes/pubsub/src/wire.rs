//! The messages of `google.pubsub.v1` that Burnin's clients send and receive (googleapis/googleapis:google/pubsub/v1/pubsub.proto),
//! and the frames of gRPC.

use std::collections::HashMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
#[derive(Clone, PartialEq, prost::Message)]
pub struct PubsubMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    #[prost(map = "string, string", tag = "2")]
    pub attributes: HashMap<String, String>,
    /// Id, set by Pub/Sub.
    #[prost(string, tag = "3")]
    pub message_id: String,
    #[prost(string, tag = "5")]
    pub ordering_key: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PublishRequest {
    #[prost(string, tag = "1")]
    pub topic: String,
    #[prost(message, repeated, tag = "2")]
    pub messages: Vec<PubsubMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PublishResponse {
    #[prost(string, repeated, tag = "1")]
    pub message_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StreamingPullRequest {
    #[prost(string, tag = "1")]
    pub subscription: String,
    #[prost(string, repeated, tag = "2")]
    pub ack_ids: Vec<String>,
    #[prost(int32, repeated, tag = "3")]
    pub modify_deadline_seconds: Vec<i32>,
    #[prost(string, repeated, tag = "4")]
    pub modify_deadline_ack_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ReceivedMessage {
    #[prost(string, tag = "1")]
    pub ack_id: String,
    #[prost(message, optional, tag = "2")]
    pub message: Option<PubsubMessage>,
    #[prost(int32, tag = "3")]
    pub delivery_attempt: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StreamingPullResponse {
    #[prost(message, repeated, tag = "1")]
    pub received_messages: Vec<ReceivedMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AcknowledgeRequest {
    #[prost(string, tag = "1")]
    pub subscription: String,
    #[prost(string, repeated, tag = "2")]
    pub ack_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ModifyAckDeadlineRequest {
    #[prost(string, tag = "1")]
    pub subscription: String,
    #[prost(int32, tag = "3")]
    pub ack_deadline_seconds: i32,
    #[prost(string, repeated, tag = "4")]
    pub ack_ids: Vec<String>,
}

/// A message in a frame of gRPC: the flag for no compression, the length, the bytes.
pub(crate) fn frame(message: &impl prost::Message) -> Bytes {
    let bytes = message.encode_to_vec();
    let mut framed = BytesMut::with_capacity(bytes.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(&bytes);
    framed.freeze()
}

/// Removes the next complete frame from `received` and decodes it; `None` if it is incomplete.
pub(crate) fn next<M: prost::Message + Default>(received: &mut BytesMut) -> Option<Result<M, String>> {
    let head: [u8; 5] = received.get(..5)?.try_into().ok()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if received.len() < 5 + length {
        return None;
    }
    received.advance(5);
    let bytes = received.split_to(length);
    if head[0] != 0 {
        return Some(Err("compressed messages are not supported".to_owned()));
    }
    Some(M::decode(bytes.freeze()).map_err(|error| error.to_string()))
}
