//! `burnin-builder`: builds images.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use build_service::{
    LocalBuilds,
    cloud_build::LogBucket,
    location::{BuildAccount, BuildLocation, CloudBuildSettings, NEEDS_A_BUCKET, cloud_build},
};
use builder::{Builder, notification::NotificationHandler};
use gcp::{ServiceContext, ServiceParts, StartupError};
use model::Span;
use service::Publisher;
use supervisor::OwnProgram;

struct Config {
    artefacts: gcp::StorageLocation,
    builds: BuildLocation,
    cloud_build: CloudBuildSettings,
    secrets: Option<PathBuf>,
    account: Option<BuildAccount>,
    logs: Option<gcp::StorageLocation>,
    poll_interval: Span,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(played) = supervisor::role(&arguments) {
        return gcp::exit_code("builder", played);
    }
    gcp::run(
        "builder",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, builds) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_BUILDS"));
            let (secrets, cloud_build) = (env.optional("BURNIN_SECRETS"), CloudBuildSettings::read(env));
            let (account, logs) = (env.optional("BURNIN_BUILD_ACCOUNT"), env.optional("BURNIN_BUILD_LOGS"));
            let poll_interval = env.or("BURNIN_LOOK", Span::from_secs(10));
            Some(Config {
                artefacts: artefacts?,
                builds: builds?,
                cloud_build: cloud_build?,
                secrets: secrets?,
                account: account?,
                logs: logs?,
                poll_interval: poll_interval?,
            })
        },
        parts,
    )
}

fn parts(config: Config, context: &ServiceContext) -> Result<ServiceParts, StartupError> {
    let store = || context.store(&config.artefacts);
    let (project, location) = match config.builds {
        BuildLocation::Here(folder) => {
            let (store, builds) = (store()?, supervisor::BuildFolder::new(folder, OwnProgram::this()?));
            let builds = LocalBuilds::new(builds, Arc::clone(&store), config.secrets);
            return Ok(context.worker(
                Builder::new(Arc::new(builds), config.poll_interval),
                &Builder::HANDLED_EVENTS,
                store,
            ));
        }
        BuildLocation::CloudBuild { project, location } => (project, location),
    };
    if config.secrets.is_some() {
        return Err(
            "BURNIN_SECRETS: only for builds on this host; with Cloud Build use Secret Manager".into()
        );
    }
    let bucket = config.artefacts.bucket().ok_or(NEEDS_A_BUCKET)?;
    let (store, clock) = (store()?, Arc::clone(&context.clock));
    let builds = cloud_build((&project, &location), config.cloud_build, bucket, Arc::clone(&store), clock);
    let builds = Arc::new(
        builds.running_as(config.account.map(|BuildAccount(name)| name), log_bucket(config.logs, context)?),
    );
    let worker = Builder::new(Arc::clone(&builds) as _, config.poll_interval);
    let mut parts = context.worker(worker, &Builder::HANDLED_EVENTS, store);
    let publisher = Publisher::new("builder", Arc::clone(&context.bus), Arc::clone(&context.clock));
    parts.handled_events.push(NotificationHandler::HANDLED_EVENT);
    parts.handler = Arc::new(NotificationHandler::new(builds, publisher, parts.handler));
    Ok(parts)
}

fn log_bucket(
    location: Option<gcp::StorageLocation>,
    context: &ServiceContext,
) -> Result<Option<LogBucket>, StartupError> {
    let Some(location) = location else { return Ok(None) };
    let name = location.bucket().ok_or("BURNIN_BUILD_LOGS: expected gs://NAME, found a folder")?.to_owned();
    Ok(Some(LogBucket { name, store: context.store(&location)? }))
}
