//! `burnin-provisioner`: creates and deletes clusters. `POST /chores/sweep` runs the independent sweeper.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use build_service::{
    Builds, LocalBuilds,
    cloud_build::LogBucket,
    location::{BuildAccount, BuildLocation, CloudBuildSettings, NEEDS_A_BUCKET, cloud_build},
};
use cluster_deployed::DeployedClusters;
use cluster_local::{LocalClusters, gpus};
use gcp::{ServiceContext, ServiceParts, StartupError};
use model::Span;
use provisioner::{Providers, Provisioner, Sweeper, notification::NotificationHandler};
use service::{Publisher, serve::PeriodicTask};
use supervisor::OwnProgram;

struct Config {
    artefacts: gcp::StorageLocation,
    clusters: BuildLocation,
    cloud_build: CloudBuildSettings,
    secrets: Option<PathBuf>,
    account: Option<BuildAccount>,
    logs: Option<gcp::StorageLocation>,
    grace: Span,
    poll_interval: Span,
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if let Some(played) = supervisor::role(&arguments) {
        return gcp::exit_code("provisioner", played);
    }
    gcp::run(
        "provisioner",
        env!("CARGO_PKG_VERSION"),
        |env| {
            let (artefacts, clusters) = (env.required("BURNIN_ARTEFACTS"), env.required("BURNIN_CLUSTERS"));
            let (secrets, cloud_build) = (env.optional("BURNIN_SECRETS"), CloudBuildSettings::read(env));
            let grace = env.or("BURNIN_SWEEP_GRACE", Span::from_secs(120));
            let (account, logs) = (env.optional("BURNIN_BUILD_ACCOUNT"), env.optional("BURNIN_BUILD_LOGS"));
            let poll_interval = env.or("BURNIN_LOOK", Span::from_secs(10));
            Some(Config {
                artefacts: artefacts?,
                clusters: clusters?,
                cloud_build: cloud_build?,
                secrets: secrets?,
                account: account?,
                logs: logs?,
                grace: grace?,
                poll_interval: poll_interval?,
            })
        },
        parts,
    )
}

fn parts(config: Config, context: &ServiceContext) -> Result<ServiceParts, StartupError> {
    let open = || context.store(&config.artefacts);
    let clock = || Arc::clone(&context.clock);
    let mut on_cloud_build = None;
    let (store, builds, processes): (_, Arc<dyn Builds>, _) = match config.clusters {
        BuildLocation::Here(folder) => {
            let (store, program) = (open()?, OwnProgram::this()?);
            let builds = supervisor::BuildFolder::new(folder.join("builds"), program.clone());
            let builds = LocalBuilds::new(builds, Arc::clone(&store), config.secrets);
            let clusters = supervisor::ClusterFolder::new(folder.join("clusters"), program);
            (store, Arc::new(builds), Some(LocalClusters::new(clusters, clock(), gpus())))
        }
        BuildLocation::CloudBuild { .. } if config.secrets.is_some() => {
            return Err(
                "BURNIN_SECRETS: only for steps on this host; with Cloud Build use Secret Manager".into()
            );
        }
        BuildLocation::CloudBuild { project, location } => {
            let bucket = config.artefacts.bucket().ok_or(NEEDS_A_BUCKET)?;
            let (place, store) = ((project.as_str(), location.as_str()), open()?);
            let builds = cloud_build(place, config.cloud_build, bucket, Arc::clone(&store), clock());
            let account = config.account.map(|BuildAccount(name)| name);
            let builds = Arc::new(builds.running_as(account, log_bucket(config.logs, context)?));
            on_cloud_build = Some(Arc::clone(&builds));
            (store, builds, None)
        }
    };
    let deployed = DeployedClusters::new(&clusters::KINDS, builds, Arc::clone(&store), clock());
    let clusters = Arc::new(Providers { deployed, local: processes });
    let sweeper: Arc<dyn PeriodicTask> = Arc::new(Sweeper::new(Arc::clone(&clusters) as _, config.grace));
    let worker = Provisioner::new(Arc::clone(&clusters) as _, config.poll_interval);
    let mut parts = context.worker(worker, &Provisioner::HANDLED_EVENTS, store);
    if let Some(builds) = on_cloud_build {
        let publisher = Publisher::new("provisioner", Arc::clone(&context.bus), Arc::clone(&context.clock));
        parts.handled_events.push(NotificationHandler::HANDLED_EVENT);
        parts.handler = Arc::new(NotificationHandler::new(builds, clusters, publisher, parts.handler));
    }
    parts.periodic_tasks.push(sweeper);
    Ok(parts)
}

/// `None` without `BURNIN_BUILD_LOGS`.
fn log_bucket(
    location: Option<gcp::StorageLocation>,
    context: &ServiceContext,
) -> Result<Option<LogBucket>, StartupError> {
    let Some(location) = location else { return Ok(None) };
    let name = location.bucket().ok_or("BURNIN_BUILD_LOGS: expected gs://NAME, found a folder")?.to_owned();
    Ok(Some(LogBucket { name, store: context.store(&location)? }))
}
