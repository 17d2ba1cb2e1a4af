//! Tables of runs and their notices.

use std::collections::{BTreeMap, BTreeSet};

use model::{News, Notify, Push, Span, Timestamp, Trigger, Verdict};
use notifier::decide::{
    ChannelHistory, NoticeEvent, NoticeSubject, PlannedNotice, Recipient, RunOutcome, STILL, StateChange,
    notices_of_start,
};
use run_index::{RunStatus, RunSummary};
use serde_json::json;

fn at(hours: f64) -> Timestamp {
    Timestamp::from_millis(1_795_122_600_000 + (hours * 3_600_000.0) as i64)
}

/// A run of workflow `w` on cluster `c1`. `how`: `p`ass, `f`ail, `i`nconclusive, `b`roken, `t`imed out, `c`ancelled, `o`pen.
fn summary_of(number: usize, how: char, hours: f64) -> RunSummary {
    let (conclusion, verdict) = match how {
        'p' => ("completed", Some(Verdict::Pass)),
        'd' => ("completed", None),
        'f' => ("completed", Some(Verdict::Fail)),
        'i' => ("completed", Some(Verdict::Inconclusive)),
        'b' => ("failed", None),
        'l' => ("failed", Some(Verdict::Fail)), // a fail whose rows could not be loaded
        'u' => ("failed", Some(Verdict::Pass)),
        't' => ("timed_out", None),
        'c' => ("cancelled", None),
        _ => ("open", None),
    };
    RunSummary {
        checks: Vec::new(),
        run: format!("w-{number:03}").parse().unwrap(),
        workflow: "w".to_owned(),
        system: Some("slurm".to_owned()),
        cluster: Some("c1".to_owned()),
        trigger: Trigger { kind: "manual".to_owned(), by: "me".to_owned() },
        requested_at: at(hours - 0.5),
        state: if how == 'o' { RunStatus::Open } else { RunStatus::Closed },
        conclusion: conclusion.to_owned(),
        verdict,
        stage: None,
        settled_at: Some(at(hours)),
        closed_at: (how != 'o').then(|| at(hours)),
        setup: BTreeMap::new(),
        cost: None,
        changes_nodes: None,
    }
}

/// Planned notices, if every channel received the notices of every earlier run.
fn ended(subject: &NoticeSubject<'_>, others: &[RunSummary]) -> Vec<PlannedNotice> {
    let channels: BTreeSet<_> = subject.targets.iter().filter_map(notifier::decide::channel).collect();
    let history: ChannelHistory =
        others.iter().map(|summary| (summary.run.clone(), channels.clone())).collect();
    notifier::decide::notices_of_end(subject, others, &history)
}

fn slack(on: &[News]) -> Vec<Notify> {
    serde_json::from_value(json!([{"slack": {"webhook": "ops", "on": on}}])).unwrap()
}

/// Notices of these runs, which end an hour apart, for a channel of all kinds.
fn notices_of(entries: &str) -> Vec<&'static str> {
    notices_to(entries, &News::ALL, 1.0)
}

fn notices_to(entries: &str, on: &[News], apart: f64) -> Vec<&'static str> {
    let summaries: Vec<_> = entries
        .chars()
        .enumerate()
        .map(|(number, how)| summary_of(number, how, number as f64 * apart))
        .collect();
    let notify = slack(on);
    let news = |subject: &RunSummary| {
        let subject = NoticeSubject { summary: subject, cluster: Some("c1"), push: None, targets: &notify };
        match ended(&subject, &summaries).as_slice() {
            [] => "",
            [PlannedNotice { event: NoticeEvent::Changed(new), .. }] => new.news.as_str(),
            other => panic!("{other:?}"),
        }
    };
    summaries.iter().map(news).collect()
}

#[test]
fn channels_are_notified_of_changes_only() {
    let cases: [(&str, &[&str]); 16] = [
        // The first run of the system.
        ("p", &[""]),
        ("f", &["failed"]),
        ("i", &["inconclusive"]),
        ("b", &["broken"]),
        ("c", &[""]),
        ("o", &[""]),
        // The first failure after passes and the recovery are news; the second failure is not.
        ("ppffppf", &["", "", "failed", "", "recovered", "", "failed"]),
        // A completed run without a benchmark is a pass; a fail verdict takes precedence over later stages.
        ("dld", &["", "failed", "recovered"]),
        // A run that does not complete is not a success, even with a passed verdict.
        ("pup", &["", "broken", "recovered"]),
        ("pt", &["", "broken"]),
        // Failed, inconclusive and broken runs have separate series.
        ("pfibfibp", &["", "failed", "inconclusive", "broken", "", "", "", "recovered"]),
        ("piip", &["", "inconclusive", "", "recovered"]),
        ("pbbp", &["", "broken", "", "recovered"]),
        // Cancelled runs have no effect.
        ("pcfcfcp", &["", "", "failed", "", "", "", "recovered"]),
        ("fcp", &["failed", "", "recovered"]),
        ("pop", &["", "", ""]),
    ];
    for (entries, expected) in cases {
        assert_eq!(notices_of(entries), expected, "{entries}");
    }
}

#[test]
fn one_reminder_is_sent_after_a_day() {
    let all = News::ALL;
    // A run ends every eight hours, so the fourth failure ends a day after the first.
    assert_eq!(
        notices_to("pffffffffp", &all, 8.0),
        ["", "failed", "", "", "still-failing", "", "", "", "", "recovered"]
    );
    // Failures over less than a day cause no reminder; a failure after a day and a half causes one.
    assert_eq!(notices_to("fff", &all, 11.9), ["failed", "", ""]);
    assert_eq!(notices_to("ff", &all, 36.0), ["failed", "still-failing"]);
    // Each kind of failure has its own reminder, and has another one after a recovery.
    assert_eq!(notices_to("fiif", &all, 24.0), ["failed", "inconclusive", "still-failing", "still-failing"]);
    assert_eq!(
        notices_to("ffpff", &all, 24.0),
        ["failed", "still-failing", "recovered", "failed", "still-failing"]
    );
    // A failure exactly one day later causes a reminder.
    assert_eq!(STILL, Span::from_secs(86_400));
    assert_eq!(notices_to("ff", &all, 24.0), ["failed", "still-failing"]);
}

#[test]
fn channels_receive_only_subscribed_news() {
    use News::{Broken, Failed, Inconclusive, Recovered, StillFailing};
    assert_eq!(notices_to("pfibp", &[Failed], 1.0), ["", "failed", "", "", ""]);
    assert_eq!(notices_to("pfibp", &[Broken, Inconclusive], 1.0), ["", "", "inconclusive", "broken", ""]);
    // A failure that was not sent has no recovery; a channel that subscribed only to recoveries receives all of them.
    assert_eq!(notices_to("pip", &[Failed, Recovered], 1.0), ["", "", ""]);
    assert_eq!(notices_to("pfp", &[Failed, Recovered], 1.0), ["", "failed", "recovered"]);
    assert_eq!(notices_to("pip", &[Recovered], 1.0), ["", "", "recovered"]);
    assert_eq!(notices_to("pii", &[Failed, StillFailing], 24.0), ["", "", ""]);
    assert_eq!(notices_to("pii", &[StillFailing], 24.0), ["", "", "still-failing"]);
}

#[test]
fn concurrent_runs_are_ordered_by_their_ends() {
    let notify = slack(&News::ALL);
    let news = |summary: &RunSummary, others: &[RunSummary]| {
        let subject = NoticeSubject { summary, cluster: Some("c1"), push: None, targets: &notify };
        ended(&subject, others).first().map(|planned| match &planned.event {
            NoticeEvent::Changed(StateChange { news, since, first, .. }) => {
                (*news, *since, first.to_string())
            }
            other => panic!("{other:?}"),
        })
    };
    // One run is requested first and ends last.
    let slow = RunSummary { requested_at: at(-9.0), ..summary_of(1, 'f', 3.0) };
    let quick = summary_of(2, 'p', 2.0);
    let next = summary_of(3, 'f', 4.0);
    for others in [[slow.clone(), quick.clone(), next.clone()], [next.clone(), quick.clone(), slow.clone()]] {
        assert_eq!(news(&slow, &others), Some((News::Failed, at(3.0), "w-001".to_owned())));
        assert_eq!(news(&quick, &others), None, "runs that end later are ignored");
        assert_eq!(news(&next, &others), None);
    }
    // Every process orders two simultaneous runs in the same way.
    let (one, two) = (summary_of(1, 'f', 1.0), summary_of(2, 'f', 1.0));
    let both = [two.clone(), one.clone()];
    assert!(news(&one, &both).is_some() && news(&two, &both).is_none());
    // A late, out-of-order event has the same result as a timely one.
    let (first, later) = (summary_of(1, 'f', 1.0), summary_of(9, 'p', 9.0));
    let late = [later.clone(), first.clone()];
    assert_eq!(news(&first, &late), news(&first, &[]));
    assert_eq!(news(&later, &late), Some((News::Recovered, at(1.0), "w-001".to_owned())));
}

#[test]
fn systems_are_tracked_separately() {
    let notify = slack(&News::ALL);
    let failed = summary_of(1, 'f', 1.0);
    let second = summary_of(2, 'f', 2.0);
    let count = |others: &[RunSummary], cluster| {
        ended(&NoticeSubject { summary: &second, cluster, push: None, targets: &notify }, others).len()
    };
    assert_eq!(count(std::slice::from_ref(&failed), Some("c1")), 0);
    let addresses = RunSummary { cluster: Some("c2".to_owned()), ..failed.clone() };
    assert_eq!(
        count(std::slice::from_ref(&addresses), Some("c1")),
        1,
        "another existing cluster is another system"
    );
    assert_eq!(count(&[addresses], None), 0, "provisioned clusters of a workflow are one system");
    let other = RunSummary { workflow: "v".to_owned(), ..failed };
    assert_eq!(count(&[other], Some("c1")), 1, "another workflow");
}

#[test]
fn a_commit_receives_a_status_for_every_run() {
    let notify: Vec<Notify> =
        serde_json::from_value(json!([{"github": {"check": true}}, {"webhook": {"target": "pager"}}]))
            .unwrap();
    let push = Push {
        repository: "acme/images".to_owned(),
        reference: "refs/heads/main".to_owned(),
        commit: "a".repeat(40),
    };
    let lines: Vec<_> = "pffp".chars().enumerate().map(|(n, how)| summary_of(n, how, n as f64)).collect();
    let of = |summary: &RunSummary, push: Option<&Push>| {
        ended(&NoticeSubject { summary, cluster: None, push, targets: &notify }, &lines)
    };
    for (line, outcome) in
        lines.iter().zip([RunOutcome::Passed, RunOutcome::Failed, RunOutcome::Failed, RunOutcome::Passed])
    {
        let notices = of(line, Some(&push));
        let event = NoticeEvent::Ended(outcome);
        assert_eq!(notices[0], PlannedNotice { to: Recipient::Status(push.clone()), event: event.clone() });
        assert_eq!(notices[1], PlannedNotice { to: Recipient::Check(push.clone()), event });
        assert_eq!(notices[2..], of(line, None), "a run without a push has no commit");
    }
    let count = |number: usize| of(&lines[number], None).len();
    assert_eq!([0, 1, 2, 3].map(count), [0, 1, 0, 1]);

    let (open, over) = (summary_of(7, 'o', 7.0), summary_of(8, 'p', 8.0));
    let begins = |summary: &RunSummary, push| {
        notices_of_start(&NoticeSubject { summary, cluster: None, push, targets: &notify })
    };
    assert_eq!(
        begins(&open, Some(&push)),
        [PlannedNotice { to: Recipient::Status(push.clone()), event: NoticeEvent::Started }]
    );
    assert_eq!(begins(&open, None), []);
    assert_eq!(begins(&over, Some(&push)), [], "an ended run receives no pending status");
    // The commit of a push receives a final status, even of a cancelled run.
    assert_eq!(of(&summary_of(9, 'c', 9.0), Some(&push))[0].event, NoticeEvent::Ended(RunOutcome::Cancelled));
}

/// The last run's news for a channel. The channel received a notice of each run marked `*`, and none of the runs marked
/// `-`, although these were decided.
fn news_to(entries: &str, on: &[News], apart: f64) -> Option<(News, String)> {
    let (mut lines, mut history) = (Vec::new(), ChannelHistory::new());
    for how in entries.chars() {
        let known = lines.last().map(|summary: &RunSummary| summary.run.clone());
        match how {
            '*' => drop(history.insert(known.unwrap(), ["slack-ops".to_owned()].into())),
            '-' => drop(history.insert(known.unwrap(), BTreeSet::new())),
            how => lines.push(summary_of(lines.len(), how, lines.len() as f64 * apart)),
        }
    }
    let notify = slack(on);
    let subject = NoticeSubject { summary: lines.last()?, cluster: Some("c1"), push: None, targets: &notify };
    match notifier::decide::notices_of_end(&subject, &lines, &history).pop()?.event {
        NoticeEvent::Changed(new) => Some((new.news, new.first.to_string())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn news_depends_on_the_notices_that_the_channel_received() {
    use News::{Broken, Failed, Recovered, StillFailing};
    let all = &News::ALL[..];
    let cases = [
        // The system failed before the channel existed: the next failed run is news, with the time of the first one.
        ("ff", all, 1.0, Some((Failed, "w-000"))),
        ("f*f", all, 1.0, None),
        ("pff", all, 1.0, Some((Failed, "w-001"))),
        // The channel was added later, or never received a notice.
        ("f-f", all, 1.0, Some((Failed, "w-000"))),
        ("f-f*f", all, 1.0, None),
        ("f*b", all, 1.0, Some((Broken, "w-001"))),
        // A pass without a decision ends the failure, and the next failure is news.
        ("f*pf", all, 1.0, Some((Failed, "w-002"))),
        // The channel received no failure, so it receives no recovery.
        ("fp", all, 1.0, None),
        ("f-p", all, 1.0, None),
        ("f*p", all, 1.0, Some((Recovered, "w-000"))),
        ("ff*p", all, 1.0, Some((Recovered, "w-001"))),
        // The channel received the failure, but not the pass after it.
        ("f*pp", all, 1.0, Some((Recovered, "w-000"))),
        ("f*p*p", all, 1.0, None),
        ("f*p-p", all, 1.0, None),
        // A reminder is due a day after the notice, not a day after the failure began.
        ("fff*f", all, 12.0, None),
        ("fff*fff", all, 12.0, Some((StillFailing, "w-000"))),
        ("f*ff", &[StillFailing], 12.0, Some((StillFailing, "w-000"))),
    ];
    for (entries, on, apart, expected) in cases {
        let expected = expected.map(|(news, first)| (news, first.to_owned()));
        assert_eq!(news_to(entries, on, apart), expected, "{entries}");
    }
}
