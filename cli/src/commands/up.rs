//! `burnin up`: every service in one process.

use std::{
    collections::BTreeMap,
    fs::File,
    io::IsTerminal,
    net::Ipv4Addr,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use clusters::Schedulers;
use events::{Content, Message};
use gateway::{
    Catalogue, Gateway, GatewaySetup, GitRefs, HANDLED_EVENTS, LocalAccess, Rates, WebhookSecrets,
};
use lifecycle::Input;
use model::{Fact, RunId, Span};
use notifier::{
    Notifier,
    senders::{GithubApi, HttpSender},
};
use pages::Dashboard;
use run_index::RunIndex;
use service::{
    Bus, Clock, Disposition, Event, Handler, StoredDeadLetters,
    serve::{PeriodicTask, Service, serve, with_routes},
    shutdown,
};
use tokio::{net::TcpListener, task::JoinSet};

mod access;
mod job_output;
mod workflows;

use access::AccessFiles;
use job_output::RunningOutput;
use workflows::ServedWorkflows;

use crate::{
    commands::{note, print},
    exit::{CliError, Exit},
    local::{self, DataFolder, Services, TICK},
};

/// Check interval of schedules, which have minute precision.
const SCHEDULE: Span = Span::from_secs(5);
/// Interval of publishing unrecorded requests again.
const REQUESTS: Span = Span::from_secs(2);
/// Interval of searching for missed endings and of retrying notices.
const NOTICES: Span = Span::from_secs(2);

pub struct UpOptions {
    /// Folder of the workflow files.
    pub workflows: PathBuf,
    /// Port on 127.0.0.1 to listen on.
    pub port: u16,
    /// Poll interval of refs.
    pub poll_interval: Span,
    /// Maximum request rates per caller.
    pub rates: Rates,
    /// Signature secrets of GitHub webhooks.
    pub secrets: WebhookSecrets,
    /// URL template of a run in messages; `None`: this server.
    pub link: Option<notifier::RunLink>,
    /// Base URL of GitHub's REST API.
    pub github: GithubApi,
}

/// Secrets come from the environment: other users can read a command line.
pub fn secrets() -> Result<WebhookSecrets, CliError> {
    const VARIABLE: &str = "BURNIN_GITHUB_SECRETS";
    let text = std::env::var(VARIABLE).unwrap_or_default();
    text.parse().map_err(|why| CliError::usage(format!("{VARIABLE}: {why}")))
}

/// Serves until SIGTERM or Ctrl-C.
pub async fn up(data: DataFolder, options: UpOptions) -> Result<Exit, CliError> {
    if !options.workflows.is_dir() {
        let folder = options.workflows.display();
        return Err(CliError::usage(format!(
            "--workflows: folder {folder} does not exist; create it, or name another folder"
        )));
    }
    let stop = shutdown::on_signal().map_err(CliError::infrastructure)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await;
    let port = options.port;
    let listener = listener.map_err(|error| {
        CliError::usage(format!("--port {port}: cannot listen on 127.0.0.1: {error}; name another port"))
    })?;
    let address = listener.local_addr().map_err(CliError::infrastructure)?;

    let run_index = Arc::new(data.run_index());
    for (run, why) in run_index.damaged().await.map_err(CliError::infrastructure)? {
        note(format_args!("burnin up: run {run} is damaged and not listed: {why}"));
    }
    resume(&data, &run_index).await?;
    let services = Services::new(&data, None)?;
    let pages = Arc::clone(&run_index);
    let (bus, clock) = (Arc::clone(&services.bus) as Arc<dyn Bus>, Arc::clone(&services.clock));
    let here = || format!("http://{address}/runs/{{run}}").parse().map_err(CliError::usage);
    let link = options.link.map_or_else(here, Ok)?;
    let notifier = notifier(&data, &services, options.github, link);
    let handler: Arc<dyn Handler> = Arc::clone(&notifier) as Arc<dyn Handler>;
    services.bus.subscribe(&notifier::HANDLED_EVENTS, &handler);
    let driver = Arc::new(RunDriver { services, data: data.clone(), claims: Mutex::default() });
    driver.services.subscribe(&(Arc::clone(&driver) as Arc<dyn Handler>));
    let gateway = Gateway::new(GatewaySetup {
        ledger: data.ledger.clone(),
        store: Arc::clone(&data.store),
        run_index,
        catalogue: Catalogue::folder(&options.workflows),
        bus,
        clock: Arc::clone(&clock),
        rates: options.rates,
        secrets: options.secrets,
        refs: Arc::new(GitRefs),
        warehouse: local::table(&data),
    });
    let channels = notifier::secrets::Secrets::of_process(data.path("channels"));
    let workflows = Arc::new(ServedWorkflows::new(Arc::clone(&gateway), channels, Arc::clone(&clock)));
    let summary = workflows.summary().await;
    let rules = redact::Rules::of_this_process(Some(&data.path("secrets")));
    let rules = rules.map_err(|error| {
        CliError::usage(format!("{error}; make this secret readable: its value must be redacted in logs"))
    })?;
    let dashboard = Dashboard {
        output: Some(Arc::new(RunningOutput::new(Arc::new(Schedulers::new(&data.store)), rules))),
        run_index: pages,
        store: Arc::clone(&data.store),
        plans: workflows,
        clock: Arc::clone(&clock),
        warehouse: local::table(&data),
        beside_gateway: true,
    };
    let periodic_tasks = [gateway.periodic_tasks(), notifier.periodic_tasks()].concat();
    let service = Service {
        name: "up",
        version: env!("CARGO_PKG_VERSION"),
        revision: None,
        handled_events: HANDLED_EVENTS.to_vec(),
        handler: Arc::clone(&gateway) as Arc<dyn Handler>,
        dead_letters: Arc::new(StoredDeadLetters::new(Arc::clone(&data.store), Arc::clone(&clock))),
        periodic_tasks: periodic_tasks.clone(),
        authenticator: None,
        telemetry: None,
    };
    let mut beside = JoinSet::new();
    for task in periodic_tasks {
        let every = match task.name() {
            "schedule" => SCHEDULE,
            "refs" => options.poll_interval,
            "notices" => NOTICES,
            _ => REQUESTS,
        };
        beside.spawn(run_periodically(task, every, Arc::clone(&clock)));
    }
    beside.spawn({
        let driver = Arc::clone(&driver);
        async move { driver.tick().await }
    });
    let files = AccessFiles::new(&data.path("host"), address.port())?;
    let access = Arc::new(access(&address.to_string(), &files)?);
    print(&format!("{}\n", access.link()));
    let header = files.header.display();
    let folder = options.workflows.display();
    note(format_args!(
        "burnin up: serving {folder} on http://{address}/; Ctrl-C ends it\n{summary}burnin up: the link above signs in one \
         browser; programs send the header in this file:\n    curl -H @{header} http://{address}/api/v1/workflows"
    ));
    let routes = gateway.routes_beside(dashboard.routes());
    let router = gateway::local_only(with_routes(service, routes), access, &gateway);
    serve(listener, router, stop).await.map_err(CliError::infrastructure)?;
    beside.shutdown().await;
    driver.services.bus.stop().await;
    note("burnin up: stopped; running jobs continue, and the next `burnin up` resumes their runs");
    Ok(Exit::Pass)
}

/// Access secrets of this process, written to files for programs and browsers of the same user.
fn access(address: &str, files: &AccessFiles) -> Result<LocalAccess, CliError> {
    let user = super::user();
    let link_file = files.link.clone();
    let first = AtomicBool::new(true);
    let access = LocalAccess::new(&user, address, move |link| {
        if let Err(error) = AccessFiles::write(&link_file, link) {
            tracing::error!("{}: cannot write the new sign-in link: {error}", link_file.display());
        }
        if !first.swap(false, Ordering::Relaxed) {
            // A log file may be readable by other users.
            let next = if std::io::stderr().is_terminal() {
                format!(": {link}")
            } else {
                format!(" is in {}", link_file.display())
            };
            note(format_args!("burnin up: a browser signed in; the link for the next browser{next}"));
        }
    });
    let cannot = |error| CliError::usage(format!("{}: {error}", files.header.display()));
    AccessFiles::write(&files.header, &access.header()).map_err(cannot)?;
    Ok(access)
}

/// Sends notices. Addresses and keys are in `channels/` of the data folder, or in the environment.
fn notifier(
    data: &DataFolder,
    services: &Services,
    github: GithubApi,
    link: notifier::RunLink,
) -> Arc<Notifier> {
    let secrets = notifier::secrets::Secrets::of_process(data.path("channels"));
    let sender = HttpSender::new(secrets, github, Arc::clone(&services.clock));
    Notifier::new(notifier::NotifierSetup {
        ledger: data.ledger.clone(),
        store: Arc::clone(&data.store),
        sender: Arc::new(sender),
        bus: services.upstream(),
        clock: Arc::clone(&services.clock),
        link: Some(link),
    })
}

/// Restores the hint of every unfinished run: a crash may have lost it.
async fn resume(data: &DataFolder, run_index: &RunIndex) -> Result<(), CliError> {
    let unfinished = run_index.unfinished().await.map_err(CliError::infrastructure)?;
    for run in &unfinished {
        data.ledger.mark_open(run).await.map_err(CliError::infrastructure)?;
    }
    if !unfinished.is_empty() {
        let names: Vec<_> = unfinished.iter().map(ToString::to_string).collect();
        note(format_args!("burnin up: resuming {}", names.join(", ")));
    }
    Ok(())
}

/// Runs a task at every interval; never returns. A failure is logged once until the task succeeds again.
async fn run_periodically(task: Arc<dyn PeriodicTask>, every: Span, clock: Arc<dyn Clock>) {
    let mut reported = None;
    loop {
        let why = task.run().await.err();
        if let Some(why) = why.as_ref().filter(|why| reported.as_ref() != Some(*why)) {
            tracing::error!(chore = task.name(), "task failed: {why}");
        }
        reported = why;
        clock.sleep(every).await;
    }
}

/// Drives every run that no other process drives.
struct RunDriver {
    services: Services,
    data: DataFolder,
    claims: Mutex<BTreeMap<RunId, File>>,
}

impl RunDriver {
    /// Whether this process holds the run's lock.
    fn holds(&self, run: &RunId) -> Result<bool, CliError> {
        let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.contains_key(run) {
            return Ok(true);
        }
        let claim = self.data.claim(run)?;
        let ours = claim.is_some();
        claims.extend(claim.map(|claim| (run.clone(), claim)));
        Ok(ours)
    }

    /// Wakes every open run at every interval; never returns.
    async fn tick(&self) {
        loop {
            match self.data.ledger.open_runs().await {
                Err(error) => tracing::warn!("{}", service::worker::chain(&error)),
                Ok(open) => {
                    for run in &open {
                        self.wake(run).await;
                    }
                    let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
                    claims.retain(|run, _| open.binary_search(run).is_ok());
                }
            }
            self.services.clock.sleep(TICK).await;
        }
    }

    async fn wake(&self, run: &RunId) {
        match self.holds(run) {
            Ok(false) => {} // another process drives it
            Ok(true) => {
                if let Err(error) = self.services.conductor.wake(run, Input::Tick).await {
                    tracing::warn!(run.id = %run, "{}", service::worker::chain(&error));
                }
            }
            Err(error) => tracing::warn!(run.id = %run, "{}", error.message),
        }
    }
}

#[service::async_trait]
impl Handler for RunDriver {
    async fn handle(&self, event: &Event) -> Disposition {
        // Lock before the first record, so that no other process resumes the run in between.
        if let Ok(Message { run, content: Content::Fact(fact), .. }) = Message::from_event(event) {
            match self.holds(&run) {
                Ok(true) => {}
                Ok(false) if matches!(fact, Fact::RunRequested(_)) => return Disposition::Done,
                Ok(false) => {} // a cancel: the driving process reads it from the ledger
                Err(error) => return Disposition::Retry(error.message),
            }
        }
        self.services.conductor.handle(event).await
    }
}
