//! Notices to Slack channels through Slack's incoming webhooks.

use serde_json::json;

use crate::{ChannelForm, ChannelKind, ChannelRequest, Error, NoticeText, Posted, SecretOrigin};

pub(crate) struct Slack;

impl ChannelKind for Slack {
    fn form(&self) -> ChannelForm {
        ChannelForm {
            kind: "slack",
            title: "Slack",
            description: "A channel with Slack's incoming webhooks.",
            field: "webhook",
            secrets: &[SecretOrigin::Url],
        }
    }

    fn content(&self, text: &NoticeText<'_>, _: &Posted) -> Result<String, Error> {
        text.render("slack.mrkdwn", include_str!("../templates/slack.mrkdwn"))
    }

    fn test_content(&self, _: &str, _: &str, text: &str) -> String {
        text.to_owned()
    }

    fn request(&self, content: &str, _: &str, _: &str) -> ChannelRequest {
        ChannelRequest { body: json!({"text": content}).to_string(), headers: Vec::new() }
    }
}
