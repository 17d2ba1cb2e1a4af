//! The embedded default: every service in one process, with the same events and handlers as in the cloud. Only the
//! adapters differ: folders for buckets, SQLite for the warehouse, processes for builds and clusters.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use agent::Agent;
use build_service::LocalBuilds;
use builder::Builder;
use cluster_deployed::DeployedClusters;
use cluster_local::LocalClusters;
use clusters::Schedulers;
use conductor::{Conductor, Observer, WakeOutcome, WakeSettings};
use judge::Judge;
use ledger::{Artefacts, FolderStore, Ledger, ObservedStore, Store, StoreRequest};
use lifecycle::{Input, RunState};
use loader::Loader;
use model::{CheckIndex, Fact, Limits, RunId, Span};
use provisioner::{Providers, Provisioner};
use run_index::{ExternalAddresses, RefreshIntervals, RunIndex, RunReport};
use service::{Bus, Clock, Handler, MemoryBus, StoredDeadLetters, SystemClock, Worker, WorkerHandler};
use supervisor::OwnProgram;
use tokio::sync::watch;
use warehouse::Sqlite;

use crate::{
    exit::{CliError, Exit},
    outage::{self, Outages, WatchedConductor},
    output::note,
};

/// Poll interval of local builds and clusters, which send no notifications.
const BACKEND_POLL_INTERVAL: Span = Span::from_millis(25);
/// Interval between unconditional wake-ups of a run.
pub const TICK: Span = Span::from_millis(250);
/// Interval between listings of a ledger without new facts: the maximum delay of another process's cancel. Other processes append only
/// cancels, because this process holds the run's lock.
const REFRESH: Span = Span::from_secs(1);
/// Maximum time for the subscribers to record the end of a run. A cancelled soak loads the measurements of its rounds at its end.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before an owed command is sent again.
const RESEND: Span = Span::from_secs(5);

/// A data folder, opened by this process.
#[derive(Clone)]
pub struct DataFolder {
    root: PathBuf,
    /// Ledger, hints and dead letters.
    pub ledger: Ledger,
    /// Artefacts and source archives.
    pub store: Arc<dyn Store>,
}

impl DataFolder {
    /// Opens a data folder; creates it if absent.
    pub fn open(root: &Path) -> Result<Self, CliError> {
        let cannot = |error: io::Error| {
            CliError::usage(format!(
                "data folder {}: {error}; correct it, or name another with --data",
                root.display()
            ))
        };
        fs::create_dir_all(root).map_err(cannot)?;
        // Processes that continue after this process need an absolute path.
        let root = root.canonicalize().map_err(cannot)?;
        // Nodes run programs from this folder: no other user may write to it.
        let host = fs::DirBuilder::new().recursive(true).mode(0o700).create(root.join("host"));
        host.map_err(cannot)?;
        let found = fs::metadata(root.join("host")).map_err(cannot)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
            let folder = root.join("host").display().to_string();
            return Err(CliError::usage(format!(
                "{folder} belongs to another user, or others can write to it; nodes would run programs of other users. Name \
                 another data folder with --data"
            )));
        }
        let store = observed(FolderStore::open(&root).map_err(cannot)?);
        let ledger = Ledger::new(Arc::clone(&store), Arc::new(service::ids::unique));
        Ok(Self { root, ledger, store })
    }

    /// Opens an existing data folder for reading. Creates nothing: the folder may be on a read-only medium.
    pub fn open_existing(root: &Path) -> Result<Self, CliError> {
        let cannot = |error: io::Error| {
            CliError::usage(format!(
                "data folder {}: {error}; correct it, or name another with --data",
                root.display()
            ))
        };
        let root = root.canonicalize().map_err(cannot)?;
        let store: Arc<dyn Store> = Arc::new(FolderStore::existing(&root));
        let ledger = Ledger::new(Arc::clone(&store), Arc::new(service::ids::unique));
        Ok(Self { root, ledger, store })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn report(&self, run: &RunId) -> PathBuf {
        self.path("reports").join(format!("{run}.html"))
    }

    /// The lock that allows driving a run, held while the file is open; `None` while another process holds it.
    pub fn claim(&self, run: &RunId) -> Result<Option<File>, CliError> {
        let folder = self.path("locks");
        let locked = fs::create_dir_all(&folder)
            .and_then(|()| {
                File::options().create(true).truncate(false).write(true).open(folder.join(run.as_str()))
            })
            .map_err(|error| {
                CliError::new(
                    format!("{}: {error}", folder.join(run.as_str()).display()),
                    Exit::Infrastructure,
                )
            })?;
        match locked.try_lock() {
            Ok(()) => Ok(Some(locked)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(CliError::infrastructure(error)),
        }
    }

    pub fn run_index(&self) -> RunIndex {
        RunIndex::new(
            self.ledger.clone(),
            Arc::clone(&self.store),
            Arc::new(SystemClock),
            RefreshIntervals::LOCAL,
        )
    }

    /// A run with all data that its report needs.
    pub async fn run_report(&self, run: &RunId, check: Option<CheckIndex>) -> Result<RunReport, CliError> {
        let addresses = ExternalAddresses {
            warehouse: table(self),
            report: Some(self.report(run).display().to_string()),
        };
        let report =
            self.run_index().report_of(run, check, addresses).await.map_err(CliError::infrastructure)?;
        report.ok_or_else(|| self.unknown(run))
    }

    /// Usage error for a run that this folder does not contain.
    pub fn unknown(&self, run: &RunId) -> CliError {
        CliError::usage(format!("no run {run} in {}; see `burnin runs`", self.root.display()))
    }

    /// The id of the run that `name` identifies; `name` is a run id, a prefix of a run id, or `latest`. An unknown name is
    /// returned unchanged: the command reports it.
    pub async fn resolve(&self, name: RunId) -> Result<RunId, CliError> {
        let known = self.ledger.load(&name).await.map_or(true, |loaded| !loaded.records().is_empty());
        if known {
            return Ok(name);
        }
        let runs = self.run_index().all().await.map_err(CliError::infrastructure)?;
        selected(name, runs.iter().map(|run| &run.run))
    }

    /// The run replayed from its ledger.
    pub async fn state(&self, run: &RunId) -> Result<(Vec<model::Record>, RunState), CliError> {
        let loaded = self.ledger.load(run).await.map_err(CliError::infrastructure)?;
        if loaded.records().is_empty() {
            return Err(self.unknown(run));
        }
        let state = lifecycle::fold(loaded.records()).map_err(CliError::infrastructure)?;
        Ok((loaded.records().to_vec(), state))
    }
}

/// Selects a run of a list, newest first, by a prefix of the run's id or by `latest`.
pub fn selected<'r>(name: RunId, runs: impl Iterator<Item = &'r RunId>) -> Result<RunId, CliError> {
    let mut matching =
        runs.filter(|run| name.as_str() == "latest" || run.as_str().starts_with(name.as_str()));
    let Some(first) = matching.next() else { return Ok(name) };
    let others: Vec<_> = matching.take(4).map(ToString::to_string).collect();
    if others.is_empty() || name.as_str() == "latest" {
        return Ok(first.clone());
    }
    Err(CliError::usage(format!(
        "{name} is a prefix of several run ids: {first}, {}; write a longer prefix, or `latest`",
        others.join(", ")
    )))
}

/// The store, with a trace line for each request.
fn observed(store: FolderStore) -> Arc<dyn Store> {
    let on = |request: StoreRequest<'_>| {
        let StoreRequest { kind, name, found } = request;
        tracing::trace!(target: "burnin::store", ?kind, name, found, "store request");
    };
    Arc::new(ObservedStore::new(Arc::new(store), Arc::new(on)))
}

/// The services, wired together. Facts reach the conductor through the handler given to [`Services::subscribe`].
pub struct Services {
    pub conductor: Arc<Conductor>,
    pub bus: Arc<MemoryBus>,
    pub clock: Arc<dyn Clock>,
    /// Name of the warehouse, shown to users.
    warehouse: String,
}

impl Services {
    /// Connects the services to the stores and the bus of a data folder.
    pub fn new(data: &DataFolder, observer: Option<Observer>) -> Result<Self, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let dead_letters = Arc::new(StoredDeadLetters::new(Arc::clone(&data.store), Arc::clone(&clock)));
        let memory = MemoryBus::new(Arc::clone(&clock), dead_letters).on_retry(Arc::new(outage::report));
        let memory = Arc::new(memory);
        let bus: Arc<dyn Bus> = Arc::clone(&memory) as Arc<dyn Bus>;
        let artefacts = Artefacts::new(Arc::clone(&data.store));
        let program = program()?;
        let builds = builds(data, &program);
        let clusters = Arc::new(clusters(data, program, &clock, cluster_local::gpus()));
        let scheduler = Arc::new(Schedulers::new(&data.store));
        let warehouse = warehouse(data)?;

        let serve = Serve { memory: &memory, clock: &clock };
        serve.worker(Builder::new(builds, BACKEND_POLL_INTERVAL), &Builder::HANDLED_EVENTS);
        serve.worker(Provisioner::new(clusters, BACKEND_POLL_INTERVAL), &Provisioner::HANDLED_EVENTS);
        let agent = Agent::new(scheduler, artefacts.clone(), BACKEND_POLL_INTERVAL);
        let rules = redact::Rules::of_this_process(Some(&data.path("secrets")));
        let rules = rules.map_err(|error| {
            CliError::usage(format!("{error}; make this secret readable: its value must be redacted in logs"))
        })?;
        let agent = agent.collecting(rules, agent::CollectLimits::default());
        serve.worker(agent, &Agent::HANDLED_EVENTS);
        serve.worker(Judge::new(artefacts.clone(), Arc::new(warehouse.clone())), &Judge::HANDLED_EVENTS);
        serve.worker(Loader::new(artefacts, Arc::new(warehouse)), &Loader::HANDLED_EVENTS);

        let settings = WakeSettings { resend: RESEND, refresh: REFRESH };
        let conductor = Conductor::new(data.ledger.clone(), bus, Arc::clone(&clock), settings, observer);
        Ok(Self { conductor: Arc::new(conductor), bus: memory, clock, warehouse: table(data) })
    }

    /// A handle with which a subscriber publishes on the bus.
    pub fn upstream(&self) -> Arc<dyn Bus> {
        Arc::new(Upstream(Arc::downgrade(&self.bus)))
    }

    /// Subscribes `handler` to every fact that the conductor accepts.
    pub fn subscribe(&self, handler: &Arc<dyn Handler>) {
        self.bus.subscribe(&conductor::handled_events(), handler);
    }
}

/// The services, driving one run.
pub struct LocalServices {
    services: Services,
    publisher: service::Publisher,
    run: RunId,
    states: watch::Receiver<Option<RunState>>,
    outages: Arc<Outages>,
    _claim: File,
}

impl LocalServices {
    /// Wires every service for a run that this process has claimed.
    pub fn new(data: &DataFolder, run: RunId, claim: File) -> Result<Self, CliError> {
        let (sender, states) = watch::channel(None);
        let observer = Arc::new(move |state: &RunState| drop(sender.send(Some(state.clone()))));
        let services = Services::new(data, Some(observer))?;
        let outages = Arc::new(Outages::default());
        let handler =
            WatchedConductor { handler: Arc::clone(&services.conductor) as _, outages: Arc::clone(&outages) };
        services.subscribe(&(Arc::new(handler) as Arc<dyn Handler>));
        let bus = Arc::clone(&services.bus) as Arc<dyn Bus>;
        let publisher = service::Publisher::new("cli", bus, Arc::clone(&services.clock));
        Ok(Self { services, publisher, run, states, outages, _claim: claim })
    }

    pub async fn publish_fact(&self, fact: Fact) -> Result<(), CliError> {
        let published = self.publisher.publish_run_fact(self.run.clone(), model::Attempt::FIRST, fact).await;
        published.map_err(CliError::infrastructure)
    }

    pub fn states(&self) -> watch::Receiver<Option<RunState>> {
        self.states.clone()
    }

    /// Wakes the run at every interval; never returns. A failed wake-up is retried.
    pub async fn tick(&self) {
        loop {
            let why = match self.services.conductor.wake(&self.run, Input::Tick).await {
                // The ledger is absent until the first record of the run.
                Ok(WakeOutcome::Unknown) if self.states.borrow().is_some() => {
                    Some(format!("the ledger of {} is absent", self.run))
                }
                Ok(_) => None,
                Err(error) => Some(service::worker::chain(&error)),
            };
            if let Some((since, why)) = self.outages.note("ledger", why) {
                outage::report("ledger", since, &why);
            }
            self.publisher.clock().sleep(TICK).await;
        }
    }

    /// Limits from the workflow; `None` until the first record of the run.
    pub fn limits(&self) -> Option<Limits> {
        self.states.borrow().as_ref().map(|state| state.workflow.limits)
    }

    /// Reason of an outage that has prevented wake-ups of the run, or the recording of a fact, for at least `patience`.
    pub fn stuck_for(&self, patience: Duration) -> Option<String> {
        self.outages.lasting(patience)
    }

    /// Stops the services of a closed run. Publishes the end again, because an earlier publication may have been interrupted, and waits at
    /// most 30 s for the subscribers to record it. `burnin run --resume` completes the remaining loads.
    pub async fn end(self) -> Result<(), CliError> {
        let Self { services, run, .. } = &self;
        let end = Instant::now() + END_TIMEOUT;
        let mut result = services.conductor.wake(run, Input::Tick).await;
        while result.is_ok() && services.conductor.is_loading(run) && Instant::now() < end {
            services.clock.sleep(BACKEND_POLL_INTERVAL).await;
            result = services.conductor.wake(run, Input::Tick).await;
        }
        services.bus.finish(end.saturating_duration_since(Instant::now())).await;
        if services.conductor.is_loading(run) {
            note(format_args!(
                "  {run}: not all measurements are in {} yet; `burnin run --resume {run}` loads the rest",
                services.warehouse
            ));
        }
        result.map(drop).map_err(CliError::infrastructure)
    }
}

struct Serve<'a> {
    memory: &'a Arc<MemoryBus>,
    clock: &'a Arc<dyn Clock>,
}

impl Serve<'_> {
    fn worker(&self, worker: impl Worker, event_types: &[&'static str]) {
        let bus = Arc::new(Upstream(Arc::downgrade(self.memory)));
        let handler: Arc<dyn Handler> = Arc::new(WorkerHandler::new(worker, bus, Arc::clone(self.clock)));
        self.memory.subscribe(event_types, &handler);
    }
}

/// The handle of a subscriber: a weak reference, so that subscribers do not extend the lifetime of the bus.
struct Upstream(Weak<MemoryBus>);

#[service::async_trait]
impl Bus for Upstream {
    async fn publish(&self, event: service::Event) -> Result<(), service::BusError> {
        match self.0.upgrade() {
            Some(bus) => bus.publish(event).await,
            None => Ok(()), // the process is ending; the next process publishes the end again
        }
    }
}

fn builds(data: &DataFolder, program: &OwnProgram) -> Arc<LocalBuilds> {
    let builds = supervisor::BuildFolder::new(data.path("host").join("builds"), program.clone());
    Arc::new(LocalBuilds::new(builds, Arc::clone(&data.store), Some(data.path("secrets"))))
}

/// Clusters of a data folder, on a host with `gpus` GPUs.
pub fn clusters(data: &DataFolder, program: OwnProgram, clock: &Arc<dyn Clock>, gpus: u32) -> Providers {
    let builds = builds(data, &program);
    let deployed =
        DeployedClusters::new(&clusters::KINDS, builds, Arc::clone(&data.store), Arc::clone(clock));
    let clusters = supervisor::ClusterFolder::new(data.path("host").join("clusters"), program);
    Providers { deployed, local: Some(LocalClusters::new(clusters, Arc::clone(clock), gpus)) }
}

/// This program, for starting nodes and build supervisors.
pub fn program() -> Result<OwnProgram, CliError> {
    OwnProgram::this().map_err(CliError::infrastructure)
}

/// Name of the warehouse file in a data folder.
const WAREHOUSE: &str = "warehouse.sqlite";

fn warehouse(data: &DataFolder) -> Result<Sqlite, CliError> {
    let path = data.path(WAREHOUSE);
    Sqlite::open(&path).map_err(|error| CliError::usage(format!("warehouse {}: {error}", path.display())))
}

/// Name of the warehouse of a data folder, as reports show it to users.
pub fn table(data: &DataFolder) -> String {
    Sqlite::display_name(&data.path(WAREHOUSE))
}
