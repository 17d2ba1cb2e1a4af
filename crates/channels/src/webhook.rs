//! Webhooks: signed JSON, sent to a program.

use minijinja::ErrorKind;
use serde_json::json;

use crate::{ChannelForm, ChannelKind, ChannelRequest, Error, NoticeText, Posted, SecretOrigin, sign};

/// Header with the send time, seconds since 1970, which the signature covers.
const TIMESTAMP: &str = "x-burnin-timestamp";
const SIGNATURE: &str = "x-burnin-signature";

pub(crate) struct Webhook;

impl ChannelKind for Webhook {
    fn form(&self) -> ChannelForm {
        ChannelForm {
            kind: "webhook",
            title: "webhook",
            description: "A program that accepts signed JSON.",
            field: "target",
            secrets: &[SecretOrigin::Url, SecretOrigin::Key],
        }
    }

    fn content(&self, _: &NoticeText<'_>, payload: &Posted) -> Result<String, Error> {
        let body = serde_json::to_string(payload);
        body.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
    }

    fn test_content(&self, id: &str, channel: &str, text: &str) -> String {
        json!({"schema": "burnin/notice-test/v1", "id": id, "target": channel, "text": text}).to_string()
    }

    fn request(&self, content: &str, keys: &str, timestamp: &str) -> ChannelRequest {
        let headers =
            vec![(TIMESTAMP, timestamp.to_owned()), (SIGNATURE, sign(keys, timestamp, content.as_bytes()))];
        ChannelRequest { body: content.to_owned(), headers }
    }
}
