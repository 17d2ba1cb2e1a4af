//! Conformance suite for every [`Builds`]. An adapter's tests call [`builds`] with their own configs.

use std::time::Duration;

use model::{Attempt, BuildSpec, Class, CommandId, Span, Stage, Verb};

use crate::{BuildKey, BuildPhase, Builds};

/// Configs for the cases of the suite.
pub struct Configs {
    /// Config of a build that succeeds.
    pub succeeds: BuildSpec,
    /// Config of a build that fails with a workload failure.
    pub fails: BuildSpec,
    /// Config of a build that runs longer than the suite waits.
    pub lasts: BuildSpec,
}

/// Checks the contract of the port.
///
/// # Panics
/// Panics at the first violation.
pub async fn builds(builds: &dyn Builds, configs: &Configs) {
    let command = |attempt| CommandId {
        run: "conformance".parse().expect("a valid run id"),
        stage: Stage::Image,
        attempt: Attempt::new(attempt),
        verb: Verb::Start,
    };
    let id = |attempt| BuildKey::of(&command(attempt));
    let limit = Span::from_secs(60);

    assert_eq!(
        builds.poll(&id(1)).await.expect("an answer"),
        None,
        "a build that was not started is unknown"
    );

    let handle = builds.start(&id(1), &configs.succeeds, limit).await.expect("a handle");
    let again = builds.start(&id(1), &configs.succeeds, limit).await.expect("a handle");
    assert_eq!(handle, again, "a second start returns the first build");
    let BuildPhase::Built(image) = end(builds, &id(1)).await else { panic!("the build succeeds") };
    assert!(image.digest.starts_with("sha256:") && image.digest.len() == 71, "{image:?}");
    assert_eq!(
        end(builds, &BuildKey::of(&command(1).with_verb(Verb::Observe))).await,
        BuildPhase::Built(image.clone()),
        "a repeated poll returns the same result"
    );
    builds.cancel(&id(1)).await.expect("an answer");
    assert_eq!(end(builds, &id(1)).await, BuildPhase::Built(image), "a completed build is not cancelled");

    builds.start(&id(2), &configs.fails, limit).await.expect("a handle");
    let BuildPhase::Failed(failure) = end(builds, &id(2)).await else { panic!("the build fails") };
    assert_eq!((failure.class, failure.code.as_str()), (Class::Workload, "FAILURE"));

    builds.start(&id(3), &configs.lasts, limit).await.expect("a handle");
    assert_eq!(builds.poll(&id(3)).await.expect("an answer"), Some(BuildPhase::Running));
    builds.cancel(&id(3)).await.expect("an answer");
    let BuildPhase::Failed(failure) = end(builds, &id(3)).await else { panic!("the build is cancelled") };
    assert_eq!(failure.class, Class::Cancelled);

    builds.cancel(&id(4)).await.expect("an answer");
    builds.start(&id(4), &configs.succeeds, limit).await.expect("a handle");
    let BuildPhase::Failed(failure) = end(builds, &id(4)).await else {
        panic!("cancelled before it started")
    };
    assert_eq!(failure.class, Class::Cancelled);

    // Several builds of one command are as independent as builds of several commands.
    let part = |number| BuildKey::numbered(&command(1), "again", number);
    builds.start(&part(1), &configs.fails, limit).await.expect("a handle");
    builds.start(&part(2), &configs.succeeds, limit).await.expect("a handle");
    assert!(matches!(end(builds, &part(1)).await, BuildPhase::Failed(_)));
    let BuildPhase::Built(second) = end(builds, &part(2)).await else { panic!("the second build succeeds") };
    let BuildPhase::Built(whole) = end(builds, &id(1)).await else {
        panic!("a completed build keeps its result")
    };
    assert_ne!(second.reference, whole.reference, "each build has its own location");
}

async fn end(builds: &dyn Builds, key: &BuildKey) -> BuildPhase {
    for _ in 0..1500 {
        match builds.poll(key).await.expect("an answer") {
            Some(BuildPhase::Running) => tokio::time::sleep(Duration::from_millis(20)).await,
            Some(ended) => return ended,
            None => panic!("{key} was started, but is absent"),
        }
    }
    panic!("timeout: {key} has not ended");
}
