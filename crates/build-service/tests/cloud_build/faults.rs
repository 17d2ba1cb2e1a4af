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
        let world = CloudBuildBed::new().await;
        world.cloud.next_create(fault);
        let handle = world.start(&spec("SUCCESS")).await.unwrap();
        assert_eq!(world.start(&spec("SUCCESS")).await.unwrap(), handle, "{fault:?}");
        world.image().await;
        assert_eq!(world.statuses(), ["SUCCESS"], "{fault:?}");
        assert_eq!(world.cloud.asked().0, 1, "{fault:?}: created once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_second_build_is_created_while_the_outcome_is_unknown() {
    let world = CloudBuildBed::new().await;
    world.cloud.next_create(Fault::LandsAndAnswers(503));
    world.cloud.stale_lists(100);
    assert!(passes(&world.start(&spec("SUCCESS")).await));
    assert_eq!(world.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running), "the build may exist");
    assert!(passes(&world.start(&spec("SUCCESS")).await));
    let another = world.another();
    assert!(
        passes(&another.start(&id(), &spec("SUCCESS"), LIMIT).await),
        "another builder creates no build either"
    );
    world.cloud.stale_lists(0);
    world.start(&spec("SUCCESS")).await.unwrap();
    world.image().await;
    assert_eq!(world.statuses(), ["SUCCESS"]);
    assert_eq!(world.cloud.asked().0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_is_submitted_again_only_after_it_certainly_was_not_created() {
    let world = CloudBuildBed::new().await;
    world.cloud.next_create(Fault::Refused(503)); // no build was created, but no response reports this
    assert!(passes(&world.start(&spec("SUCCESS")).await));
    assert!(passes(&world.start(&spec("SUCCESS")).await));
    assert_eq!(world.cloud.asked().0, 1);
    world.clock.advance(SETTLE);
    assert_eq!(world.builds.poll(&id()).await.unwrap(), None, "the build is absent");
    world.start(&spec("SUCCESS")).await.unwrap();
    world.image().await;
    assert_eq!(world.statuses(), ["SUCCESS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_of_two_builds_is_kept() {
    let world = CloudBuildBed::new().await;
    world.cloud.next_create(Fault::LandsAndTears);
    world.cloud.stale_lists(1000);
    world.cloud.freeze(true);
    assert!(passes(&world.start(&spec("SUCCESS")).await));
    world.clock.advance(SETTLE); // longer than any observed delay of a list
    world.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(world.statuses(), ["QUEUED", "QUEUED"]);
    world.cloud.stale_lists(0);
    assert_eq!(world.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running));
    assert_eq!(world.statuses(), ["QUEUED", "CANCELLED"], "only the older build continues");
    world.cloud.freeze(false);
    world.image().await;
    let oldest = world.cloud.builds()[0]["id"].as_str().unwrap().to_owned();
    assert!(world.start(&spec("SUCCESS")).await.unwrap().ends_with(&oldest));
    assert_eq!(world.statuses(), ["SUCCESS", "CANCELLED"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_deliveries_create_one_build() {
    for round in 0..10 {
        let world = CloudBuildBed::new().await;
        let mut builders = Vec::new();
        for _ in 0..4 {
            builders.push(Arc::new(world.another()));
        }
        world.cloud.stale_lists(5);
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
        assert_eq!((handles.len(), world.cloud.builds().len()), (1, 1), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_does_not_block_the_next_attempt() {
    let world = CloudBuildBed::new().await;
    for (status, class, code) in [
        (400, Class::Input, "INVALID_ARGUMENT"),
        (404, Class::Input, "NOT_FOUND"),
        (403, Class::Infrastructure, "PERMISSION_DENIED"),
    ] {
        for _ in 0..2 {
            world.cloud.next_create(Fault::Refused(status));
            let failure = refused(world.start(&spec("SUCCESS")).await);
            assert_eq!((failure.class, failure.code.as_str()), (class, code));
            assert!(failure.message.contains("injected fault"), "{failure:?}");
        }
    }
    assert_eq!(world.builds.poll(&id()).await.unwrap(), None, "no build was started");
    world.cloud.next_create(Fault::Refused(429));
    assert!(passes(&world.start(&spec("SUCCESS")).await), "status 429 is transient");
    world.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(world.cloud.builds().len(), 1, "a definite rejection does not block the next attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_is_queued_for_processors_and_a_machine_above_the_quota_is_an_infrastructure_failure() {
    let world = CloudBuildBed::new().await;
    world.cloud.limit_processors(8);
    let large = |machine: &str| {
        let options = json!({"substitutionOption": "ALLOW_LOOSE", "machineType": machine});
        with(json!({ "options": options }), "SUCCESS")
    };
    let failure = refused(world.start(&large("E2_HIGHCPU_32")).await);
    assert_eq!((failure.class, failure.code.as_str()), (Class::Infrastructure, "FAILED_PRECONDITION"));
    assert!(failure.message.contains("quota restrictions"), "{failure:?}");

    let command = CommandId {
        run: "a-run".parse().unwrap(),
        stage: Stage::Image,
        attempt: Attempt::FIRST.next(),
        verb: Verb::Start,
    };
    let (first, second) = (id(), BuildKey::of(&command));
    world.builds.start(&first, &large("E2_HIGHCPU_8"), LIMIT).await.unwrap();
    world.builds.start(&second, &spec("SUCCESS"), LIMIT).await.unwrap();
    let statuses = async || {
        for key in [&first, &second] {
            drop(world.builds.poll(key).await.unwrap());
        }
        world.statuses()
    };
    assert_eq!(statuses().await, ["WORKING", "QUEUED"]);
    assert_eq!(
        world.builds.poll(&second).await.unwrap(),
        Some(BuildPhase::Running),
        "a queued build is in progress"
    );
    assert_eq!(statuses().await, ["SUCCESS", "WORKING"]);
    assert_eq!(statuses().await, ["SUCCESS", "SUCCESS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsent_request_does_not_block_the_next_attempt() {
    let world = CloudBuildBed::new().await;
    // An unused port: its listener is closed immediately.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = world.at(&format!("http://{gone}"));
    assert!(passes(&unreachable.start(&id(), &spec("SUCCESS"), LIMIT).await));
    let noted = world.store.list("builds/a-run-image-1/journal/released-1").await.unwrap();
    assert_eq!(noted.len(), 1, "the claim certainly created no build");
    world.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(world.cloud.builds().len(), 1, "the next claim starts without a delay");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untranslatable_config_is_refused_before_a_build_is_created() {
    let world = CloudBuildBed::new().await;
    let mut broken = spec("SUCCESS");
    broken.config["options"]["logging"] = "LOUD".into();
    let failure = refused(world.start(&broken).await);
    assert_eq!((failure.class, failure.code.as_str()), (Class::Input, "CONFIG"));
    assert!(failure.message.contains("options.logging: "), "{failure:?}");
    assert_eq!(world.cloud.asked().0, 0);
    assert_eq!(world.builds.poll(&id()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_created_after_its_cancel_is_cancelled() {
    let world = CloudBuildBed::new().await;
    world.cloud.freeze(true);
    world.cloud.next_create(Fault::LandsAndTears);
    world.cloud.stale_lists(1000);
    assert!(passes(&world.start(&spec("never")).await));
    world.builds.cancel(&id()).await.unwrap();
    assert_eq!(
        world.builds.poll(&id()).await.unwrap(),
        Some(BuildPhase::Running),
        "a build may have started"
    );
    world.cloud.stale_lists(0);
    assert_eq!(world.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running));
    let BuildPhase::Failed(failure) = world.end().await else { panic!("the build was cancelled") };
    assert_eq!(failure.class, Class::Cancelled);
    assert_eq!(world.statuses(), ["CANCELLED"]);
    world.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(world.cloud.asked().0, 1, "no build starts after the cancel");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_between_claim_and_create_is_effective() {
    // The claiming process ended before it created the build; the mark of the cancel was written after the claim.
    let world = CloudBuildBed::new().await;
    world
        .store
        .create("builds/a-run-image-1/journal/claim-1", "\"2027-01-15T08:00:00Z\"".into())
        .await
        .unwrap();
    world.builds.cancel(&id()).await.unwrap();
    assert_eq!(world.builds.poll(&id()).await.unwrap(), Some(BuildPhase::Running));
    world.clock.advance(SETTLE);
    world.clock.advance(Span::from_secs(1));
    let BuildPhase::Failed(failure) = world.end().await else { panic!("the build was cancelled") };
    assert_eq!(failure.class, Class::Cancelled);
    world.start(&spec("SUCCESS")).await.unwrap();
    assert_eq!(world.cloud.builds().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_is_found_among_many_pages_of_others() {
    let world = CloudBuildBed::new().await;
    world.cloud.pages_of(1);
    world.cloud.next_create(Fault::LandsAndTears);
    let handle = world.start(&spec("SUCCESS")).await.unwrap();
    for attempt in 2..5 {
        let other = BuildKey::of(&model::CommandId {
            attempt: model::Attempt::new(attempt),
            ..id().command().clone()
        });
        world.builds.start(&other, &spec("SUCCESS"), LIMIT).await.unwrap();
    }
    assert_eq!(world.start(&spec("SUCCESS")).await.unwrap(), handle);
    assert_eq!(world.cloud.builds().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_journal_entry_is_found_by_its_tag() {
    // The builder ended between the response and its record.
    let world = CloudBuildBed::new().await;
    let handle = world.start(&spec("SUCCESS")).await.unwrap();
    let noted = world.store.list("builds/a-run-image-1/journal/build-").await.unwrap();
    assert_eq!(noted.len(), 1);
    world.store.remove(&noted[0]).await.unwrap();
    assert_eq!(world.another().start(&id(), &spec("SUCCESS"), LIMIT).await.unwrap(), handle);
    assert_eq!(world.store.list("builds/a-run-image-1/journal/build-").await.unwrap(), noted, "noted again");
}

/// Random faults in any order. After the last fault, one build exists and no other build runs.
#[tokio::test(flavor = "multi_thread")]
async fn one_build_remains_despite_failures() {
    let mut several = 0;
    for seed in 0..50 {
        let mut random = fastrand::Rng::with_seed(seed);
        let world = CloudBuildBed::new().await;
        let builders = [world.another(), world.another(), world.another()];
        world.cloud.pages_of(random.usize(1..4));
        let mut cancelled = false;
        // Begin most seeds with a lost response: once a build is recorded in the journal, no second build can be
        // created.
        if random.u32(0..4) > 0 {
            world.cloud.next_create(Fault::LandsAndTears);
            world.cloud.stale_lists(random.u32(20..200));
        }
        for _ in 0..random.usize(10..40) {
            let builds = &builders[random.usize(0..3)];
            match random.u32(0..14) {
                0 | 10 => world.cloud.next_create(Fault::LandsAndTears),
                1 => world.cloud.next_create(Fault::LandsAndAnswers(503)),
                2 => world.cloud.next_create(Fault::Refused(503)),
                3 => world.cloud.next_create(Fault::Refused(429)),
                4 => world.cloud.stale_lists(random.u32(1..20)),
                5 => {
                    world.cloud.next_create(Fault::LandsAndTears);
                    world.cloud.stale_lists(random.u32(1..100));
                }
                6 | 11 => world.clock.advance(Span::from_secs(random.u64(1..400))),
                7 => world.cloud.freeze(random.bool()),
                8 if random.bool() => {
                    cancelled = true;
                    builds.cancel(&id()).await.unwrap();
                }
                9 => drop(builds.poll(&id()).await.unwrap()),
                _ => drop(builds.start(&id(), &spec("SUCCESS"), LIMIT).await),
            }
        }
        world.cloud.heal();
        for _ in 0..4 {
            world.clock.advance(SETTLE);
            drop(world.start(&spec("SUCCESS")).await);
        }
        world.end().await;
        let statuses = world.statuses();
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
