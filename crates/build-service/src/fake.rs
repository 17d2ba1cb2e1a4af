//! Simulated builds, for tests of services without a real build executor.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use model::{BuildSpec, Class, Failure, Image, Span};
use service::PortError;

use crate::{BuildKey, BuildPhase, Builds};

/// Each build ends at the second poll with the result in its config: `{"fails": "FAILURE"}` fails with that status.
#[derive(Default)]
pub struct FakeBuilds {
    builds: Mutex<BTreeMap<String, Planned>>,
}

struct Planned {
    polls: u32,
    end: BuildPhase,
}

fn cancelled() -> BuildPhase {
    BuildPhase::Failed(Failure::new(Class::Cancelled, "CANCELLED", "the build was cancelled"))
}

fn planned(name: &str, build: &BuildSpec) -> BuildPhase {
    match build.config["fails"].as_str() {
        Some(status @ ("INTERNAL_ERROR" | "EXPIRED")) => {
            BuildPhase::Failed(Failure::new(Class::Infrastructure, status, "as planned"))
        }
        Some(status) => BuildPhase::Failed(Failure::new(Class::Workload, status, "as planned")),
        None => BuildPhase::Built(Image {
            reference: format!("registry/{name}"),
            digest: format!("sha256:{:0>64}", name.len()),
            files: vec![],
            manifest_sha256: None,
        }),
    }
}

#[async_trait::async_trait]
impl Builds for FakeBuilds {
    async fn start(&self, key: &BuildKey, build: &BuildSpec, _: Span) -> Result<String, PortError> {
        let name = key.resource_name();
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        builds.entry(name.clone()).or_insert_with(|| Planned { polls: 0, end: planned(&name, build) });
        Ok(name)
    }

    async fn poll(&self, key: &BuildKey) -> Result<Option<BuildPhase>, PortError> {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(builds.get_mut(&key.resource_name()).map(|build| {
            build.polls += 1;
            if build.polls > 1 { build.end.clone() } else { BuildPhase::Running }
        }))
    }

    async fn cancel(&self, key: &BuildKey) -> Result<(), PortError> {
        let mut builds = self.builds.lock().unwrap_or_else(PoisonError::into_inner);
        let build = builds.entry(key.resource_name()).or_insert(Planned { polls: 1, end: cancelled() });
        if build.polls <= 1 {
            build.end = cancelled();
        }
        Ok(())
    }
}
