//! Triggers of a run: pushes and schedules.

use model::{Span, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use triggers::{OnBuild, OnPush, OnSchedule, PushEvent, Triggers};

fn on_push(branches: &[&str], tags: &[&str], paths: &[&str]) -> OnPush {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    OnPush {
        repository: "Acme/images".to_owned(),
        url: None,
        branches: list(branches),
        tags: list(tags),
        paths: list(paths),
        bots: false,
    }
}

fn push(reference: &str, paths: Option<&[&str]>) -> PushEvent {
    PushEvent {
        repository: "acme/Images".to_owned(),
        reference: reference.to_owned(),
        paths: paths.map(|paths| paths.iter().map(|path| (*path).to_owned()).collect()),
        bot: false,
    }
}

#[test]
fn pushes_match_by_branch_tag_and_path() {
    let cases = [
        (on_push(&[], &[], &[]), "refs/heads/any/thing", None, true),
        (on_push(&[], &[], &[]), "refs/tags/v1", None, false),
        (on_push(&[], &[], &[]), "refs/notes/commits", None, false),
        (on_push(&["main", "release/*"], &[], &[]), "refs/heads/main", None, true),
        (on_push(&["main", "release/*"], &[], &[]), "refs/heads/release/1.2", None, true),
        (on_push(&["main", "release/*"], &[], &[]), "refs/heads/release/1/2", None, false),
        (on_push(&["main"], &[], &[]), "refs/heads/maintenance", None, false),
        (on_push(&["**"], &[], &[]), "refs/heads/a/b/c", None, true),
        (on_push(&[], &["v*"], &[]), "refs/tags/v1.0", None, true),
        (on_push(&[], &["v*"], &[]), "refs/heads/v1.0", None, false),
        (on_push(&["main"], &[], &["images/**"]), "refs/heads/main", Some(&["docs/a.md"][..]), false),
        (
            on_push(&["main"], &[], &["images/**"]),
            "refs/heads/main",
            Some(&["a", "images/x/Dockerfile"]),
            true,
        ),
        (on_push(&["main"], &[], &["images/**"]), "refs/heads/main", Some(&[]), false),
        (on_push(&["main"], &[], &["images/**"]), "refs/heads/main", None, true),
        (on_push(&["main"], &["v*"], &["images/**"]), "refs/tags/v1", Some(&["docs/a.md"]), true),
        (on_push(&["a$(id)"], &[], &[]), "refs/heads/a$(id)", None, true),
    ];
    for (on, reference, paths, expected) in cases {
        assert_eq!(
            on.wants(&push(reference, paths)),
            expected,
            "{on:?} decides wrongly for {reference} with {paths:?}"
        );
    }
    let mut other = push("refs/heads/main", None);
    other.repository = "acme/other".to_owned();
    assert!(!on_push(&[], &[], &[]).wants(&other));
    let bot = PushEvent { bot: true, ..push("refs/heads/main", None) };
    assert!(!on_push(&[], &[], &[]).wants(&bot));
    assert!(OnPush { bots: true, ..on_push(&[], &[], &[]) }.wants(&bot));
}

#[test]
fn problems_are_reported_with_their_field() {
    let schedule = |cron: &str, zone: &str| OnSchedule {
        cron: cron.to_owned(),
        zone: zone.to_owned(),
        window: Span::from_secs(60),
    };
    let on = Triggers {
        push: vec![
            OnPush {
                repository: "acme".into(),
                url: Some("ext::sh -c id".into()),
                ..on_push(&["a**"], &[], &[])
            },
            on_push(&[], &["["], &["x"]),
        ],
        schedule: vec![
            schedule("0 25 * * *", "UTC"),
            schedule("@daily", "UTC"),
            schedule("0 2 * * *", "Europe/Zürich"),
            schedule("0 0 30 2 *", "UTC"),
            schedule("0 0 2 * * *", "UTC"),
            schedule("0 2 * * *", "UTC"),
            schedule("0 2 * * *", "UTC"),
        ],
        build: vec![OnBuild { trigger: String::new(), image: Some("a@sha256:0".into()) }],
        cluster: vec![],
        validated_every: Some(Span::from_secs(1)),
    };
    let fields: Vec<_> = on.problems().into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        [
            "push[0].repository",
            "push[0].url",
            "push[0].branches",
            "push[1].tags",
            "schedule[0].cron",
            "schedule[1].cron",
            "schedule[2].zone",
            "schedule[3].cron",
            "schedule[4].cron",
            "schedule[6]",
            "build[0].trigger",
            "build[0].image",
            "validated_every",
        ]
    );
    assert!(Triggers::default().problems().is_empty());
}

fn moments(cron: &str, zone: &str, after: &str, until: &str) -> Vec<String> {
    let on = OnSchedule { cron: cron.to_owned(), zone: zone.to_owned(), window: Span::from_secs(60) };
    let moments = on.read().unwrap().between(after.parse().unwrap(), until.parse().unwrap(), 100);
    moments.iter().map(|moment| moment.to_string().replace(":00.000Z", "Z")).collect()
}

#[test]
fn skipped_and_repeated_times_occur_once() {
    // Zurich: 02:00 becomes 03:00 on 2026-03-29, and 03:00 becomes 02:00 on 2026-10-25.
    let zurich = |after, until| moments("30 2 * * *", "Europe/Zurich", after, until);
    assert_eq!(
        zurich("2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z"),
        ["2026-03-28T01:30Z", "2026-03-29T01:00Z", "2026-03-30T00:30Z"]
    );
    assert_eq!(
        zurich("2026-10-23T12:00:00Z", "2026-10-26T12:00:00Z"),
        ["2026-10-24T00:30Z", "2026-10-25T00:30Z", "2026-10-26T01:30Z"]
    );
    // New York: 02:00 becomes 03:00 on 2026-03-08, and 02:00 becomes 01:00 on 2026-11-01.
    let newyork = |after, until| moments("15 1 * * *", "America/New_York", after, until);
    assert_eq!(
        newyork("2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z"),
        ["2026-11-01T05:15Z", "2026-11-02T06:15Z"]
    );
    // Daylight saving on Lord Howe Island is half an hour: 02:00 becomes 02:30 on 2026-10-04.
    let howe = moments("10 2 * * *", "Australia/Lord_Howe", "2026-10-02T00:00:00Z", "2026-10-05T00:00:00Z");
    assert_eq!(howe, ["2026-10-02T15:40Z", "2026-10-03T15:30Z", "2026-10-04T15:10Z"]);
    // An hourly schedule has one time in each existing hour.
    let hourly = moments("0 * * * *", "Europe/Zurich", "2026-10-24T22:30:00Z", "2026-10-25T03:00:00Z");
    assert_eq!(hourly.len(), 5, "{hourly:?}");
}

#[test]
fn a_time_in_a_repeated_hour_occurs_once() {
    let on = OnSchedule { cron: "30 2 * * *".into(), zone: "Europe/Zurich".into(), window: Span::default() };
    let zoned = on.read().unwrap();
    for minute in 0..180 {
        let after: Timestamp = "2026-10-25T00:30:00Z".parse().unwrap();
        let after = after + Span::from_secs(minute * 60);
        assert_eq!(zoned.next(after).unwrap().to_string(), "2026-10-26T01:30:00.000Z", "{after}");
    }
}

#[test]
fn only_the_last_missed_times_are_returned() {
    let on = OnSchedule { cron: "0 * * * *".into(), zone: "UTC".into(), window: Span::default() };
    let between = |most| {
        let (after, until) =
            ("2026-01-01T00:00:00Z".parse().unwrap(), "2026-01-02T00:00:00Z".parse().unwrap());
        on.read().unwrap().between(after, until, most)
    };
    assert_eq!((between(100).len(), between(3).len()), (24, 3));
    assert_eq!(between(3), between(100)[21..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any sequence of polls returns the same times, each once.
    #[test]
    fn each_time_is_returned_once_for_any_poll_intervals(
        cron in prop::sample::select(vec!["30 2 * * *", "0 3 * * 1", "*/20 * * * *", "59 1 * * *", "0 2 1 * *"]),
        zone in prop::sample::select(vec!["Europe/Zurich", "America/New_York", "UTC", "Asia/Kolkata"]),
        start in 1_770_000_000i64..1_800_000_000,
        windows in prop::collection::vec(1i64..200_000, 1..12),
    ) {
        let on = OnSchedule { cron: cron.into(), zone: zone.into(), window: Span::default() };
        let zoned = on.read().unwrap();
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
        let mut seen = Vec::new();
        let mut from = start;
        for window in windows {
            seen.extend(zoned.between(at(from), at(from + window), 100_000));
            from += window;
        }
        prop_assert_eq!(&seen, &zoned.between(at(start), at(from), 100_000));
        prop_assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

#[test]
fn an_offered_cluster_matches_by_source_kind_and_name() {
    let on = |source: &str, system, name: &str| triggers::OnCluster {
        source: source.to_owned(),
        system,
        name: name.to_owned(),
        allow: Default::default(),
    };
    let any = on("s", triggers::OfferedKind::Kubernetes, "*");
    let on = on("//acme/rack", triggers::OfferedKind::Slurm, "gpu-*");
    let offer = |source, system, name| triggers::OfferedCluster { source, system, name };
    assert!(on.wants(offer("//acme/rack", "slurm", "gpu-a")));
    for other in [
        offer("//acme/rack/", "slurm", "gpu-a"),
        offer("//acme/rack", "kubernetes", "gpu-a"),
        offer("//acme/rack", "slurm", "cpu-a"),
    ] {
        assert!(!on.wants(other), "{other:?}");
    }
    assert!(any.wants(offer("s", "kubernetes", "whatever/it.is")));
}

#[test]
fn an_offer_chooses_only_size_queue_and_allowed_settings() {
    let on = |system: &str, allow: Value| -> triggers::OnCluster {
        serde_json::from_value(json!({"source": "s", "system": system, "allow": allow})).unwrap()
    };
    let slurm = on(
        "slurm",
        json!({"shared_folder": ["/shared/*"], "profile": ["/opt/nccl/*.sh"], "environment": ["NCCL_*"]}),
    );
    let own = json!({"shared_folder": "/home/ops/burnin", "programs": "/opt/tests", "environment": {"LD_PRELOAD": "/opt/ours.so"}});
    let kubernetes = on("kubernetes", json!({"namespace": ["bench-*"], "access": ["{\"gke\":*"]}));
    let usual = json!({"namespace": "default", "access": {"kubeconfig": {}}});
    let cases = [
        (
            &slurm,
            json!({"nodes": 4096, "partition": "p", "account": "a", "qos": "q", "node_list": "n", "mpi": "pmix"}),
            "",
        ),
        (&slurm, json!({"shared_folder": "/shared/burnin"}), ""),
        (&slurm, json!({"shared_folder": "/home/ops/burnin", "programs": "/opt/tests"}), ""),
        (&slurm, json!({"shared_folder": "/home/mallory"}), "shared_folder"),
        (&slurm, json!({"shared_folder": "/shared/a/b"}), "shared_folder"),
        (&slurm, json!({"shared_folder": "/shared/.."}), "shared_folder"),
        (&slurm, json!({"profile": "/opt/nccl/tcpx.sh"}), ""),
        (&slurm, json!({"profile": "/opt/nccl/../x.sh"}), "profile"),
        (&slurm, json!({"programs": "/tmp/m", "profile": "/tmp/m"}), "profile programs"),
        (&slurm, json!({"environment": {"NCCL_ALGO": "Ring", "LD_PRELOAD": "/opt/ours.so"}}), ""),
        (
            &slurm,
            json!({"environment": {"NCCL_ALGO": "Ring", "LD_PRELOAD": "/tmp/m.so"}}),
            "environment.LD_PRELOAD",
        ),
        // Settings of later versions are rejected, because this version does not know them.
        (&slurm, json!({"prolog": "/tmp/m"}), "prolog"),
        (
            &kubernetes,
            json!({"nodes": 2, "queue": "q", "namespace": "default", "access": {"kubeconfig": {}}}),
            "",
        ),
        (&kubernetes, json!({"namespace": "bench-1", "access": {"gke": {"server": "https:x"}}}), ""),
        (&kubernetes, json!({"namespace": "kube-system"}), "namespace"),
        (&kubernetes, json!({"access": {"kubeconfig": {"path": "/tmp/m"}}}), "access"),
        (
            &kubernetes,
            json!({"privileged": true, "host_network": true, "image": "evil@sha256:1"}),
            "host_network image privileged",
        ),
        (
            &kubernetes,
            json!({"plugin": {"image": "i", "command": [], "folder": "/"}, "service_account": "root"}),
            "plugin service_account",
        ),
        (
            &kubernetes,
            json!({"annotations": {"a": "b"}, "image_pull_secret": "s"}),
            "annotations.a image_pull_secret",
        ),
    ];
    for (on, offered, expected) in cases {
        let mut refused: Vec<_> =
            on.refuses(&offered, Some(&own), &usual).into_iter().map(|(field, _)| field).collect();
        refused.sort();
        assert_eq!(refused.join(" "), expected, "{offered}");
    }
    let refused = slurm.refuses(&json!({"shared_folder": "/tmp"}), Some(&own), &usual);
    let why = "the workflow does not allow `/tmp`; it allows: /home/ops/burnin, /shared/*; name more in its `on.cluster` under `allow.shared_folder`";
    assert_eq!(refused, [("shared_folder".to_owned(), why.to_owned())]);
}

#[test]
fn an_invalid_permission_is_reported() {
    let on = |on: Value| {
        serde_json::from_value::<triggers::Triggers>(json!({"cluster": [on]})).unwrap().problems()
    };
    let problems =
        on(json!({"source": "s", "system": "slurm", "allow": {"profile": ["/a", "["], "nodes": ["4"]}}));
    let fields: Vec<_> = problems.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["cluster[0].allow.profile[1]", "cluster[0].allow.nodes"]);
}
