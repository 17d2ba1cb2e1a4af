//! Texts of notices, and their escaping.

use std::sync::Arc;

use crate::support::*;
use channels::Posted;
use model::{News, Verdict};
use notifier::{
    fake::FakeSender,
    notice::{Notice, OutgoingMessage},
};
use serde_json::json;

async fn notices_of_run(paper: SimulatedRun) -> Vec<Notice> {
    let sender = Arc::new(FakeSender::default());
    let bed = NotifierBed::new(sender.clone());
    let channels =
        json!([{"github": {"check": true}}, {"slack": {"webhook": "ops"}}, {"webhook": {"target": "pager"}}]);
    bed.ends(&paper.notifying(channels).pushed()).await;
    let mut taken = sender.received_notices();
    taken.sort_by_key(Notice::channel);
    taken
}

#[tokio::test]
async fn a_failure_notice_is_short() {
    let notices = notices_of_run(SimulatedRun::new("w-1", FAIL, 1.0)).await;
    let [check, status, slack, webhook] = &notices[..] else { panic!("{notices:?}") };
    let OutgoingMessage::Check(check) = &check.letter else { panic!("a check run") };
    assert_eq!((check.name.as_str(), check.conclusion.as_str()), ("burnin/nightly", "failure"));
    assert_eq!(check.title, "the verdict is fail");
    assert_eq!(
        check.summary,
        "**the verdict is fail**\n\n- ABOVE\\_FLOOR: bus bandwidth is low\n\nThe workflow nightly on c1, run w-1: \
         [details](https://burnin.example/runs/w-1)"
    );
    let report = check.text.as_ref().unwrap();
    assert!(report.contains("FAIL") && report.contains("bus bandwidth is low"), "{report}");
    let OutgoingMessage::Status(status) = &status.letter else { panic!("a status") };
    assert_eq!(status.description, "the verdict is fail: bus bandwidth is low");
    let OutgoingMessage::Channel { name, content: text, .. } = &slack.letter else { panic!("a message") };
    assert_eq!(name, "ops");
    assert_eq!(
        *text,
        "*nightly* on c1: the verdict is fail\n• ABOVE_FLOOR: bus bandwidth is low\nw-1, started by push: bus \
         bandwidth is low, ended at 2026-11-19T23:10:00.000Z. <https://burnin.example/runs/w-1|Details>"
            .replace("2026-11-19T23:10:00.000Z", &at(1.0).to_string())
    );
    let OutgoingMessage::Channel { content: body, .. } = &webhook.letter else { panic!("JSON") };
    let posted: Posted = serde_json::from_str(body).unwrap();
    assert_eq!((posted.schema.as_str(), &posted.id), ("burnin/notice/v1", &webhook.id));
    assert_eq!((posted.news, posted.verdict, posted.since), (News::Failed, Some(Verdict::Fail), at(1.0)));
    assert_eq!(posted.reasons[0].text, "bus bandwidth is low");
}

#[tokio::test]
async fn a_failure_notice_names_the_failed_stage() {
    let notices = notices_of_run(SimulatedRun::new("w-1", RunEnd::Broken, 1.0)).await;
    let OutgoingMessage::Check(check) = &notices[0].letter else { panic!("a check run") };
    assert!(
        check.conclusion == "failure" && check.summary.contains("image: CONFIG: bus"),
        "{}",
        check.summary
    );
    let OutgoingMessage::Channel { content: text, .. } = &notices[2].letter else { panic!("a message") };
    assert!(text.contains("\n• image: CONFIG: bus bandwidth is low\n"), "{text}");
    let notices = notices_of_run(SimulatedRun::new("w-1", UNSURE, 1.0)).await;
    let OutgoingMessage::Check(check) = &notices[0].letter else { panic!("a check run") };
    assert_eq!(
        check.conclusion, "action_required",
        "the conclusion is never neutral, which GitHub treats as success"
    );
}

#[tokio::test]
async fn external_text_is_escaped() {
    for how in [FAIL, RunEnd::Broken] {
        let hostile = SimulatedRun {
            cluster: HOSTILE.replace('\n', ""),
            text: HOSTILE.to_owned(),
            ..SimulatedRun::new("w-1", how, 1.0)
        };
        let notices = notices_of_run(hostile).await;
        let OutgoingMessage::Check(check) = &notices[0].letter else { panic!("a check run") };
        // Other tests check the report; this text must not contain the report's fences.
        let summary = &check.summary;
        for acting in ["<script", "<!channel", "@here", "](https://evil", "https://evil", "\n# ", "\u{202e}"]
        {
            assert!(!summary.contains(acting), "{acting}: {summary}");
        }
        let OutgoingMessage::Status(status) = &notices[1].letter else { panic!("a status") };
        assert!(
            status.description.chars().count() <= 140 && !status.description.contains(['\n', '\u{202e}'])
        );
        let OutgoingMessage::Channel { content: text, .. } = &notices[2].letter else { panic!("a message") };
        for acting in ["<!", "<script", "@here", "](", "https://evil", "\n# ", "\u{202e}"] {
            assert!(!text.contains(acting), "{acting}: {text}");
        }
        let OutgoingMessage::Channel { content: body, .. } = &notices[3].letter else { panic!("JSON") };
        let posted: Posted = serde_json::from_str(body).unwrap();
        let found = posted.reasons.first().map(|reason| &reason.text);
        let found =
            found.or(posted.failure.as_ref().and_then(|failed| Some(&failed.failure.as_ref()?.message)));
        assert_eq!(found.map(String::as_str), Some(HOSTILE), "a webhook contains the unescaped text");
    }
}

#[tokio::test]
async fn long_texts_are_truncated() {
    let long = "é".repeat(100_000);
    let notices = notices_of_run(SimulatedRun { text: long, ..SimulatedRun::new("w-1", FAIL, 1.0) }).await;
    let OutgoingMessage::Status(status) = &notices[1].letter else { panic!("a status") };
    assert_eq!(status.description.chars().count(), 140);
    let OutgoingMessage::Channel { content: text, .. } = &notices[2].letter else { panic!("a message") };
    assert!(text.chars().count() < 2000, "Slack accepts at most 40,000 characters");
}
