//! The main program of a service.

use std::{error::Error, net::Ipv4Addr, process::ExitCode, sync::Arc, time::Duration};

use ledger::{FolderStore, Store};
use service::{
    Bus, Clock, DeadLetters, Handler, StoredDeadLetters, SystemClock, Worker, WorkerHandler,
    auth::Authenticator,
    config::VariableReader,
    push::EventReceiver,
    serve::{PeriodicTask, Routes, Service, serve, with_routes},
    shutdown,
};
use tokio::net::TcpListener;
use tracing::info;

use crate::{
    Platform, StorageLocation,
    auth::Verifier,
    environment::Auth,
    keys::{GOOGLE, Keys, PublishedKeys},
    otlp,
    platform_callers::PlatformCallers,
    pubsub::PubSub,
    storage::{CloudStorage, Emulator},
};

/// Exit code for invalid usage or input, as in all Burnin programs.
const USAGE: u8 = 64;

/// Dependencies of a service other than its own configuration.
pub struct ServiceContext {
    pub bus: Arc<dyn Bus>,
    pub clock: Arc<dyn Clock>,
    pub storage_emulator: Option<Emulator>,
    pub bigquery_emulator: Option<Emulator>,
}

/// Service-specific parts of the program that all services share.
pub struct ServiceParts {
    /// Event types that the service handles.
    pub handled_events: Vec<&'static str>,
    pub handler: Arc<dyn Handler>,
    /// Store for unreadable events.
    pub dead_letter_store: Arc<dyn Store>,
    /// Tasks that a scheduler starts at `/chores/{name}`.
    pub periodic_tasks: Vec<Arc<dyn PeriodicTask>>,
}

/// Reason why a service cannot start.
pub type StartupError = Box<dyn Error + Send + Sync>;

impl ServiceContext {
    /// Opens the store at a location.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created. A bucket is not accessed yet.
    pub fn store(&self, location: &StorageLocation) -> Result<Arc<dyn Store>, StartupError> {
        match location {
            StorageLocation::Folder(folder) => {
                let opened = FolderStore::open(folder);
                Ok(Arc::new(opened.map_err(|error| format!("{}: {error}", folder.display()))?))
            }
            StorageLocation::Bucket(name) => {
                Ok(Arc::new(CloudStorage::new(name, self.storage_emulator.clone())))
            }
        }
    }

    /// The parts of a service that consists of one worker.
    pub fn worker(
        &self,
        worker: impl Worker,
        handled_events: &[&'static str],
        dead_letter_store: Arc<dyn Store>,
    ) -> ServiceParts {
        let handler = WorkerHandler::new(worker, Arc::clone(&self.bus), Arc::clone(&self.clock));
        ServiceParts {
            handled_events: handled_events.to_vec(),
            handler: Arc::new(handler),
            dead_letter_store,
            periodic_tasks: Vec::new(),
        }
    }
}

/// Runs a service until a stop signal: `read` reads its configuration, `build` creates it. Exits with 64 if
/// the environment is invalid, reporting all problems together.
pub fn run<C>(
    name: &'static str,
    version: &'static str,
    read: impl FnOnce(&mut VariableReader) -> Option<C>,
    build: impl FnOnce(C, &ServiceContext) -> Result<ServiceParts, StartupError>,
) -> ExitCode {
    run_with_routes(name, version, read, |config, context| Ok((build(config, context)?, Routes::default())))
}

/// Runs a service with further routes until a stop signal.
pub fn run_with_routes<C>(
    name: &'static str,
    version: &'static str,
    read: impl FnOnce(&mut VariableReader) -> Option<C>,
    build: impl FnOnce(C, &ServiceContext) -> Result<(ServiceParts, Routes), StartupError>,
) -> ExitCode {
    let mut env = VariableReader::from_env();
    let (platform, config) = (Platform::read(&mut env), read(&mut env));
    let (platform, config) = match env.finish(|| platform.zip(config)) {
        Ok(read) => read,
        Err(problems) => {
            print_error(format_args!("{name}: {problems}"));
            return USAGE.into();
        }
    };
    // Google's clients and Burnin's HTTP client have different TLS providers; the first installed one is used.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let served = runtime.map_err(StartupError::from).and_then(|runtime| {
        runtime.block_on(live(name, version, platform, |context| build(config, context)))
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(format_args!("{name}: {}", service::worker::chain(&*error)));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to standard error. `eprintln!` panics if it is closed, which would lose the exit code.
fn print_error(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// Exit code of a process that ended, with its error logged.
pub fn exit_code(name: &'static str, end: std::io::Result<()>) -> ExitCode {
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(format_args!("{name}: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn live(
    name: &'static str,
    version: &'static str,
    platform: Platform,
    build: impl FnOnce(&ServiceContext) -> Result<(ServiceParts, Routes), StartupError>,
) -> Result<(), StartupError> {
    let telemetry = Arc::new(otlp::start(name, version, &platform)?);
    let bus =
        PubSub::connect(&platform.project, &platform.topics, platform.pubsub_emulator.as_deref()).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let context = ServiceContext {
        bus: Arc::new(bus),
        clock: Arc::clone(&clock),
        storage_emulator: platform.storage_emulator,
        bigquery_emulator: platform.bigquery_emulator,
    };
    let (ServiceParts { handled_events, handler, dead_letter_store, periodic_tasks }, routes) =
        build(&context)?;
    let dead_letters: Arc<dyn DeadLetters> = Arc::new(StoredDeadLetters::new(dead_letter_store, clock));
    let (address, authenticator): (_, Arc<dyn Authenticator>) = match platform.auth {
        Auth::Platform => {
            // Outside Cloud Run only local callers are accepted.
            let address = if platform.on_cloud_run { Ipv4Addr::UNSPECIFIED } else { Ipv4Addr::LOCALHOST };
            let are_tokens_verified = platform.are_tokens_verified;
            (address, Arc::new(PlatformCallers { are_tokens_verified }))
        }
        Auth::Oidc { audience, callers } => {
            let keys = Keys::new(PublishedKeys::at(GOOGLE), Arc::clone(&context.clock));
            (Ipv4Addr::UNSPECIFIED, Arc::new(Verifier::new(&audience, callers, keys)))
        }
    };
    let listener = TcpListener::bind((address, platform.port)).await?;
    let stop = shutdown::on_signal()?;
    info!(address = %listener.local_addr()?, version, "serving");
    let revision = platform.revision;
    let exported = platform.otlp.is_some().then(|| Arc::clone(&telemetry));
    let pulling = platform.pull.map(|pull| {
        let receiver =
            EventReceiver { handler: Arc::clone(&handler), dead_letters: Arc::clone(&dead_letters) };
        tokio::spawn(pull.run(platform.pubsub_emulator, receiver, stop.clone()))
    });
    let authenticator = Some(authenticator);
    let service = Service {
        name,
        version,
        revision,
        handled_events,
        handler,
        dead_letters,
        periodic_tasks,
        authenticator,
        telemetry: exported,
    };
    serve(listener, with_routes(service, routes), stop).await?;
    if let Some(pulling) = pulling {
        pulling.await??;
    }
    // The flush blocks, and the process must end within 10 s of the stop signal.
    drop(
        tokio::time::timeout(Duration::from_secs(2), tokio::task::spawn_blocking(move || telemetry.flush()))
            .await,
    );
    Ok(())
}
