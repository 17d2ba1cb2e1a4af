//! Lost requests and responses: one build exists in every case.

use std::sync::Arc;

use build_service::{BuildKey, BuildPhase, Builds};
use cloudbuild_standin::Fault;
use ledger::Store;
use model::{Attempt, Class, CommandId, Failure, Span, Stage, Verb};
use service::PortError;

use serde_json::json;
use test_support::cloud_build::{CloudBuildBed, LIMIT, SETTLE, id, spec, with};

fn passes(result: &Result<String, PortError>) -> bool {
    matches!(result, Err(PortError::Transient(_)))
}

fn refused(result: Result<String, PortError>) -> Failure {
    match result {
        Err(PortError::Permanent(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_with_a_lost_response_is_found() {
    for fault in [
        Fault::LandsAndAnswers(503),
        Fault::LandsAndAnswers(504),
        Fault::LandsAndAnswers(500),
        Fault::LandsAndAnswers(409),
        Fault::LandsAndTears,
    ] {
        let bed = CloudBuildBed::new().await;
        bed.cloud.next_create(fault);
        let handle = bed.start(&spec("SUCCESS")).await.unwrap();
        assert_eq!(bed.start(&spec("SUCCESS")).await.unwrap(), handle, "{fault:?}");
        bed.image().await;
        assert_eq!(bed.statuses(), ["SUCCESS"], "{fault:?}");
        assert_eq!(bed.cloud.request_counts().0, 1, "{fault:?}: created once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_second_build_is_created_while_the_outcome_is_unknown() {
    let bed = CloudBuildBed::new().await;
    bed.cloud.next_create(Fault::LandsAndAnswers(503));
    bed.cloud.stale_lists(100);
    assert!(passes(&bed.start(&spec("SUCCESS")).await));
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running), "the build may exist");
    assert!(passes(&bed.start(&spec("SUCCESS")).await));
    let another = bed.another();
    assert!(
        passes(&another.start(&id(), &spec("SUCCESS"), LIMIT).await),
        "another builder creates no build either"
    );
    bed.cloud.stale_lists(0);
    bed.start(&spec("SUCCESS")).await.unwrap();
    bed.image().await;
    assert_eq!(bed.statuses(), ["SUCCESS"]);
    assert_eq!(bed.cloud.request_counts().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_is_resubmitted_only_after_its_absence_is_confirmed() {
    let bed = CloudBuildBed::new().await;
    bed.cloud.next_create(Fault::Refused(503)); // no build was created, but no response reports this
    assert!(passes(&bed.start(&spec("SUCCESS")).await));
    assert!(passes(&bed.start(&spec("SUCCESS")).await));
    assert_eq!(bed.cloud.request_counts().0, 1);
    bed.clock.advance(SETTLE);
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), None, "the build is absent");
    bed.start(&spec("SUCCESS")).await.unwrap();
    bed.image().await;
    assert_eq!(bed.statuses(), ["SUCCESS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_of_two_builds_is_kept() {
    let bed = CloudBuildBed::new().await;
    bed.cloud.next_create(Fault::LandsAndTears);
    bed.cloud.stale_lists(1000);
    bed.cloud.pause_builds(true);
    assert!(passes(&bed.start(&spec("SUCCESS")).await));
    bed.clock.advance(SETTLE); // longer than any observed delay of a list
    bed.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(bed.statuses(), ["QUEUED", "QUEUED"]);
    bed.cloud.stale_lists(0);
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running));
    assert_eq!(bed.statuses(), ["QUEUED", "CANCELLED"], "only the older build continues");
    bed.cloud.pause_builds(false);
    bed.image().await;
    let oldest = bed.cloud.builds()[0]["id"].as_str().unwrap().to_owned();
    assert!(bed.start(&spec("SUCCESS")).await.unwrap().ends_with(&oldest));
    assert_eq!(bed.statuses(), ["SUCCESS", "CANCELLED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_deliveries_create_one_build() {
    for round in 0..10 {
        let bed = CloudBuildBed::new().await;
        let mut builders = Vec::new();
        for _ in 0..4 {
            builders.push(Arc::new(bed.another()));
        }
        bed.cloud.stale_lists(5);
        let starts = (0..16).map(|number| {
            let builds = Arc::clone(&builders[number % 4]);
            tokio::spawn(async move { builds.start(&id(), &spec("SUCCESS"), LIMIT).await })
        });
        let mut handles = std::collections::BTreeSet::new();
        for start in starts.collect::<Vec<_>>() {
            match start.await.unwrap() {
                Ok(handle) => drop(handles.insert(handle)),
                result => assert!(passes(&result), "{result:?}"),
            }
        }
        assert_eq!((handles.len(), bed.cloud.builds().len()), (1, 1), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_does_not_block_the_next_attempt() {
    let bed = CloudBuildBed::new().await;
    for (status, class, code) in [
        (400, Class::Input, "INVALID_ARGUMENT"),
        (404, Class::Input, "NOT_FOUND"),
        (403, Class::Infrastructure, "PERMISSION_DENIED"),
    ] {
        for _ in 0..2 {
            bed.cloud.next_create(Fault::Refused(status));
            let failure = refused(bed.start(&spec("SUCCESS")).await);
            assert_eq!((failure.class, failure.code.as_str()), (class, code));
            assert!(failure.message.contains("injected fault"), "{failure:?}");
        }
    }
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), None, "no build was started");
    bed.cloud.next_create(Fault::Refused(429));
    assert!(passes(&bed.start(&spec("SUCCESS")).await), "status 429 is transient");
    bed.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(bed.cloud.builds().len(), 1, "a definite rejection does not block the next attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_is_queued_for_processors_and_a_machine_above_the_quota_is_an_infrastructure_failure() {
    let bed = CloudBuildBed::new().await;
    bed.cloud.limit_processors(8);
    let large = |machine: &str| {
        let options = json!({"substitutionOption": "ALLOW_LOOSE", "machineType": machine});
        with(json!({ "options": options }), "SUCCESS")
    };
    let failure = refused(bed.start(&large("E2_HIGHCPU_32")).await);
    assert_eq!((failure.class, failure.code.as_str()), (Class::Infrastructure, "FAILED_PRECONDITION"));
    assert!(failure.message.contains("quota restrictions"), "{failure:?}");

    let command = CommandId {
        run: "a-run".parse().unwrap(),
        stage: Stage::Image,
        attempt: Attempt::FIRST.next(),
        verb: Verb::Start,
    };
    let (first, second) = (id(), BuildKey::of(&command));
    bed.builds.start(&first, &large("E2_HIGHCPU_8"), LIMIT).await.unwrap();
    bed.builds.start(&second, &spec("SUCCESS"), LIMIT).await.unwrap();
    let statuses = async || {
        for key in [&first, &second] {
            drop(bed.builds.poll(key).await.unwrap());
        }
        bed.statuses()
    };
    assert_eq!(statuses().await, ["WORKING", "QUEUED"]);
    assert_eq!(
        bed.builds.poll(&second).await.unwrap(),
        Some(BuildPhase::Running),
        "a queued build is in progress"
    );
    assert_eq!(statuses().await, ["SUCCESS", "WORKING"]);
    assert_eq!(statuses().await, ["SUCCESS", "SUCCESS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsent_request_does_not_block_the_next_attempt() {
    let bed = CloudBuildBed::new().await;
    // An unused port: its listener is closed immediately.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = bed.at(&format!("http://{gone}"));
    assert!(passes(&unreachable.start(&id(), &spec("SUCCESS"), LIMIT).await));
    let noted = bed.store.list("builds/a-run-image-1/journal/released-1").await.unwrap();
    assert_eq!(noted.len(), 1, "the claim certainly created no build");
    bed.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(bed.cloud.builds().len(), 1, "the next claim starts without a delay");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untranslatable_config_is_refused_before_a_build_is_created() {
    let bed = CloudBuildBed::new().await;
    let mut broken = spec("SUCCESS");
    broken.config["options"]["logging"] = "LOUD".into();
    let failure = refused(bed.start(&broken).await);
    assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "CONFIG"));
    assert!(failure.message.contains("options.logging: "), "{failure:?}");
    assert_eq!(bed.cloud.request_counts().0, 0);
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_created_after_its_cancel_is_cancelled() {
    let bed = CloudBuildBed::new().await;
    bed.cloud.pause_builds(true);
    bed.cloud.next_create(Fault::LandsAndTears);
    bed.cloud.stale_lists(1000);
    assert!(passes(&bed.start(&spec("never")).await));
    bed.builds.cancel(&id()).await.unwrap();
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running), "a build may have started");
    bed.cloud.stale_lists(0);
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running));
    let BuildPhase::Failed(failure) = bed.end().await else { panic!("the build was cancelled") };
    assert_eq!(failure.class, Class::Cancelled);
    assert_eq!(bed.statuses(), ["CANCELLED"]);
    bed.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(bed.cloud.request_counts().0, 1, "no build starts after the cancel");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_between_claim_and_create_is_effective() {
    // The claiming process ended before it created the build; the cancel mark was written after the claim.
    let bed = CloudBuildBed::new().await;
    bed.store
        .create("builds/a-run-image-1/journal/claim-1", "\"2027-01-15T08:00:00Z\"".into())
        .await
        .unwrap();
    bed.builds.cancel(&id()).await.unwrap();
    assert_eq!(bed.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running));
    bed.clock.advance(SETTLE);
    bed.clock.advance(Span::from_secs(1));
    let BuildPhase::Failed(failure) = bed.end().await else { panic!("the build was cancelled") };
    assert_eq!(failure.class, Class::Cancelled);
    bed.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(bed.cloud.builds().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_is_found_among_many_pages_of_others() {
    let bed = CloudBuildBed::new().await;
    bed.cloud.pages_of(1);
    bed.cloud.next_create(Fault::LandsAndTears);
    let handle = bed.start(&spec("SUCCESS")).await.unwrap();
    for attempt in 2..5 {
        let other = BuildKey::of(&model::CommandId {
            attempt: model::Attempt::new(attempt),
            ..id().command().clone()
        });
        bed.builds.start(&other, &spec("SUCCESS"), LIMIT).await.unwrap();
    }
    assert_eq!(bed.start(&spec("SUCCESS")).await.unwrap(), handle);
    assert_eq!(bed.cloud.builds().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_journal_entry_is_found_by_its_tag() {
    // The builder ended between the response and its record.
    let bed = CloudBuildBed::new().await;
    let handle = bed.start(&spec("SUCCESS")).await.unwrap();
    let noted = bed.store.list("builds/a-run-image-1/journal/build-").await.unwrap();
    assert_eq!(noted.len(), 1);
    bed.store.remove(&noted[0]).await.unwrap();
    assert_eq!(bed.another().start(&id(), &spec("SUCCESS"), LIMIT).await.unwrap(), handle);
    assert_eq!(bed.store.list("builds/a-run-image-1/journal/build-").await.unwrap(), noted, "noted again");
}

/// Random faults in any order. After the last fault, one build exists and no other build runs.
#[tokio::test(flavor = "multi_thread")]
async fn one_build_remains_despite_failures() {
    let mut several = 0;
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let bed = CloudBuildBed::new().await;
        let builders = [bed.another(), bed.another(), bed.another()];
        bed.cloud.pages_of(random.usize(1..4));
        let mut cancelled = false;
        // Begin most seeds with a lost response: once a build is recorded in the journal, no second build can be
        // created.
        if random.u32(0..4) > 0 {
            bed.cloud.next_create(Fault::LandsAndTears);
            bed.cloud.stale_lists(random.u32(20..200));
        }
        for _ in 0..random.usize(10..40) {
            let builds = &builders[random.usize(0..3)];
            match random.u32(0..14) {
                0 | 10 => bed.cloud.next_create(Fault::LandsAndTears),
                1 => bed.cloud.next_create(Fault::LandsAndAnswers(503)),
                2 => bed.cloud.next_create(Fault::Refused(503)),
                3 => bed.cloud.next_create(Fault::Refused(429)),
                4 => bed.cloud.stale_lists(random.u32(1..20)),
                5 => {
                    bed.cloud.next_create(Fault::LandsAndTears);
                    bed.cloud.stale_lists(random.u32(1..100));
                }
                6 | 11 => bed.clock.advance(Span::from_secs(random.u64(1..400))),
                7 => bed.cloud.pause_builds(random.bool()),
                8 if random.bool() => {
                    cancelled = true;
                    builds.cancel(&id()).await.unwrap();
                }
                9 => drop(builds.poll(&id()).await.unwrap()),
                _ => drop(builds.start(&id(), &spec("SUCCESS"), LIMIT).await),
            }
        }
        bed.cloud.clear_faults();
        for _ in 0..4 {
            bed.clock.advance(SETTLE);
            drop(bed.start(&spec("SUCCESS")).await);
        }
        bed.end().await;
        let statuses = bed.statuses();
        let kept = statuses.iter().filter(|status| *status != "CANCELLED").count();
        assert!(
            kept <= 1 && (cancelled || kept == 1),
            "seed {seed}: expected one remaining build, found {statuses:?}"
        );
        let going = statuses.iter().any(|status| !matches!(status.as_str(), "SUCCESS" | "CANCELLED"));
        assert!(!going, "seed {seed}: a build is still running: {statuses:?}");
        several += u32::from(statuses.len() > 1);
    }
    assert!(several > 0, "no seed created two builds, so the cancellation of a second build is untested");
}
