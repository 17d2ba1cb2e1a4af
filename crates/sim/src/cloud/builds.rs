//! A simulated build service.

use std::sync::Arc;

use build_service::{BuildKey, BuildPhase, Builds};
use model::{BuildSpec, Class, Failure, Image, Span, failpoint_is_active};
use service::PortError;

use super::{
    answer::{answered, transient},
    state::PlannedBuild,
};
use crate::{
    ExternalEvent, Fault,
    effect::{EffectKind, Effects},
    process::SimService,
    world::{SimWorld, WorldState},
};

/// Client of the build service in one process.
pub struct SimBuilds(pub Effects);

fn cancelled() -> BuildPhase {
    BuildPhase::Failed(Failure::new(Class::Cancelled, "CANCELLED", "the build was cancelled"))
}

impl WorldState {
    fn begin_build(&mut self, world: Arc<SimWorld>, name: &str, timeout: Span) {
        if self.clouds.builds.contains_key(name) {
            return;
        }
        if self.clouds.stopped_builds.contains(name) {
            self.clouds.builds.insert(name.to_owned(), PlannedBuild { over: true, end: cancelled() });
            return;
        }
        let limit = i64::try_from(timeout.0.as_millis()).unwrap_or(i64::MAX);
        let failed = |class, code: &str| BuildPhase::Failed(Failure::new(class, code, "as planned"));
        let mut takes = self.random.between(10_000, 120_000).min(limit);
        let end = if self.occurs(Fault::BuildFlake) {
            failed(Class::Infrastructure, "INTERNAL_ERROR")
        } else if self.occurs(Fault::BuildFails) {
            failed(Class::Workload, "FAILURE")
        } else if self.occurs(Fault::BuildHangs) {
            takes = limit;
            failed(Class::Workload, "TIMEOUT")
        } else {
            let digest = format!("sha256:{:0>64}", name.len());
            BuildPhase::Built(Image {
                reference: format!("registry/{name}"),
                digest,
                files: vec![],
                manifest_sha256: None,
            })
        };
        self.clouds.builds.insert(name.to_owned(), PlannedBuild { over: false, end });
        self.note(SimService::Outside, ExternalEvent::BuildBegan { name: name.to_owned() });
        let name = name.to_owned();
        self.spawn(SimService::Outside, async move {
            world.sleep(takes).await;
            world.inner().end_build(&name);
        });
    }

    fn end_build(&mut self, name: &str) {
        let Some(build) = self.clouds.builds.get_mut(name).filter(|build| build.is_active()) else { return };
        build.over = true;
        self.note(SimService::Outside, ExternalEvent::BuildEnded { name: name.to_owned() });
    }
}

#[async_trait::async_trait]
impl Builds for SimBuilds {
    async fn start(&self, key: &BuildKey, _: &BuildSpec, timeout: Span) -> Result<String, PortError> {
        let name = key.resource_name();
        let world = Arc::clone(&self.0.world);
        let effect = |inner: &mut WorldState| {
            if inner.occurs(Fault::LandsLate) {
                let (name, after) = (name.clone(), inner.random.between(1_000, 900_000));
                inner.clouds.landing += 1;
                inner.spawn(SimService::Outside, async move {
                    world.sleep(after).await;
                    let inner = &mut *world.inner();
                    inner.clouds.landing -= 1;
                    inner.begin_build(Arc::clone(&world), &name, timeout);
                });
                return transient("deadline exceeded");
            }
            inner.begin_build(world, &name, timeout);
            Ok(name.clone())
        };
        answered(self.0.call(EffectKind::Provider, || format!("start build {name}"), effect).await)
    }

    async fn poll(&self, key: &BuildKey) -> Result<Option<BuildPhase>, PortError> {
        let name = key.resource_name();
        let effect = |inner: &mut WorldState| Ok(inner.clouds.builds.get(&name).map(PlannedBuild::state));
        answered(self.0.call(EffectKind::Provider, || format!("poll build {name}"), effect).await)
    }

    async fn cancel(&self, key: &BuildKey) -> Result<(), PortError> {
        let name = key.resource_name();
        let effect = |inner: &mut WorldState| {
            if failpoint_is_active("cancelled_build_may_begin") && !inner.clouds.builds.contains_key(&name) {
                return Ok(());
            }
            inner.clouds.stopped_builds.insert(name.clone());
            let known = inner.clouds.builds.entry(name.clone());
            let build = known.or_insert_with(|| PlannedBuild { over: true, end: cancelled() });
            if build.is_active() {
                build.end = cancelled();
                inner.end_build(&name);
            }
            Ok(())
        };
        answered(self.0.call(EffectKind::Provider, || format!("cancel build {name}"), effect).await)
    }
}
