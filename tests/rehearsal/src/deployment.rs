//! A rehearsal: the stand-ins, the services of the plan as processes, and the simulated parts of Google Cloud between them: deliveries,
//! schedules, builds.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bigquery_standin::BigQueryStandIn;
use cloudbuild_standin::CloudBuild;
use kill::receiver::Receiver;
use pubsub_standin::{Access, Address, Broker, PubsubMessage, PushEndpoint, Subscription};
use serde_json::Value;
use storage_standin::{Options, StandIn};

use crate::{
    build_rights::AccountRights,
    cloud_run::{CloudRun, Invocation, PushDelivery, RequestOrigin},
    grants::Resource,
    iam::{AGENTS, Iam, PUBSUB, member},
    methods::{GoogleApi, permission},
    plan::{PROJECT, TerraformPlan},
    proxy::Proxy,
    tokens::GOOGLE,
};

/// Secret of GitHub's webhook.
pub const WEBHOOK_SECRET: &str = "rehearsal-of-a-push";
/// Settings in which rehearsals differ.
#[derive(Clone, Copy)]
pub struct RehearsalSettings {
    /// Whether the stand-ins use the stricter behavior where Google's pages permit two. Strict: Cloud Storage checks the permission to
    /// overwrite before the precondition, and answers 403 instead of 412; it answers 403 for absent objects to accounts that may not list
    /// the whole bucket; Cloud Build reads the bucket of its logs, and rewrites them. Otherwise: 412, 404, and one write. If strict,
    /// builder and provisioner also get no CPU between requests, so they do not poll in the background.
    pub strict: bool,
    /// Maximum number of deliveries before a message becomes a dead letter. `None`: the plan's maximum, whose retries take an hour or
    /// more.
    pub deliveries: Option<u32>,
    /// Whether delivery is unreliable: every third message is delivered twice, every fifth one again while its first delivery is in
    /// progress, a new grant takes effect only after 3 s, and the receiver rejects some notices.
    pub unreliable: bool,
    /// Resend interval of commands without a result.
    pub resend: &'static str,
    /// Poll interval of builds, clusters and jobs.
    pub poll: &'static str,
    /// Interval of periodic tasks, instead of minutes.
    pub tasks: Duration,
}

impl Default for RehearsalSettings {
    fn default() -> Self {
        Self {
            strict: false,
            deliveries: Some(5),
            unreliable: false,
            resend: "2s",
            poll: "200ms",
            tasks: Duration::from_secs(1),
        }
    }
}

/// With unreliable delivery, every third message is delivered twice.
const REPEATED: u64 = 3;
/// With unreliable delivery, every fifth message is delivered again before most requests end.
const SHORTENED: (u64, Duration) = (5, Duration::from_millis(10));
/// Delay of the effect of a new grant in an unreliable deployment; Google states minutes.
const PROPAGATION: Duration = Duration::from_secs(3);

impl Access for Iam {
    fn admits(&self, caller: &str, permission: &'static str, resource: &str) -> Result<(), String> {
        let of = if resource.contains("/topics/") {
            Resource::topic(resource)
        } else {
            Resource::subscription(resource)
        };
        self.check(caller, permission, &of).map_err(|denial| denial.to_string())
    }
}

/// The stand-ins' addresses for one account.
struct Addresses {
    storage: Proxy,
    builds: Proxy,
    bigquery: Option<Proxy>,
    pubsub: Address,
}

/// A process; it is killed on drop.
struct ServiceProcess {
    name: String,
    program: PathBuf,
    environment: BTreeMap<String, String>,
    log: PathBuf,
    process: Child,
}

impl ServiceProcess {
    fn launch(
        name: &str,
        program: PathBuf,
        environment: BTreeMap<String, String>,
        log: PathBuf,
    ) -> Result<Self, String> {
        let process = Self::spawn(&program, &environment, &log)?;
        Ok(Self { name: name.to_owned(), program, environment, log, process })
    }

    fn spawn(program: &Path, environment: &BTreeMap<String, String>, log: &Path) -> Result<Child, String> {
        let log_file = File::options().create(true).append(true).open(log);
        let log_file = log_file.map_err(context(&log.display().to_string()))?;
        let error = log_file.try_clone().map_err(context("a log"))?;
        let mut command = Command::new(program);
        command.env_clear().envs(environment).stdin(Stdio::null()).stdout(log_file).stderr(error);
        command.spawn().map_err(context(&program.display().to_string()))
    }

    /// Kills the process with -9, and starts it again at the same port with the same environment, as Cloud Run does.
    fn restart(&mut self) -> Result<(), String> {
        drop(self.process.kill());
        drop(self.process.wait());
        self.process = Self::spawn(&self.program, &self.environment, &self.log)?;
        Ok(())
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The reason why a rehearsal failed.
pub type Failed = String;

/// The stand-ins, the processes and the files of one rehearsal.
pub struct Rehearsal {
    /// Checks each request against the grants of the plan.
    pub iam: Arc<Iam>,
    /// Receives the requests for services, as Cloud Run does.
    pub cloud_run: Arc<CloudRun>,
    /// Delivers messages, as Pub/Sub does.
    pub broker: Arc<Broker>,
    /// Stores the objects of all buckets.
    pub storage: Arc<StandIn>,
    pub bigquery: BigQueryStandIn,
    pub receiver: Receiver,
    pub plan: TerraformPlan,
    folder: PathBuf,
    programs: PathBuf,
    settings: RehearsalSettings,
    builds: CloudBuild,
    addresses: tokio::sync::Mutex<BTreeMap<String, Addresses>>,
    processes: Mutex<Vec<ServiceProcess>>,
    tasks: tokio::task::JoinSet<()>,
}

fn context(what: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// A free port for a service. It is below the kernel's range of assigned ports, because the many sockets of a rehearsal could
/// otherwise take it before the service binds it.
fn free_port() -> Result<u16, String> {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let offset = (std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset).map_err(|error| error.to_string())?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(format!("no port from {FIRST} to {} is free", FIRST + COUNT))
}

impl Rehearsal {
    /// Creates the stand-ins from the plan. No service runs yet.
    ///
    /// # Errors
    /// Returns an error if a stand-in cannot start.
    pub async fn new(
        plan: TerraformPlan,
        programs: &Path,
        folder: &Path,
        settings: RehearsalSettings,
    ) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(context(&folder.display().to_string()))?;
        let iam = Arc::new(Iam::new(plan.grants.clone()));
        let options = Options { buckets: plan.buckets.clone(), pause: Duration::ZERO, ..Options::default() };
        let storage = Arc::new(StandIn::start(options).await.map_err(context("storage"))?);
        for (bucket, period) in &plan.retention {
            storage.retain(bucket, *period);
        }
        let loader =
            plan.services.get("burnin-loader").map(|service| member(&service.account)).unwrap_or_default();
        // BigQuery reads the sources of a load with the rights of its caller.
        let sources =
            Proxy::open(GoogleApi::Storage, &loader, storage.url(), Arc::clone(&iam), settings.strict)
                .await
                .map_err(context("storage"))?;
        let bigquery = BigQueryStandIn::serve(&sources.url).await.map_err(context("bigquery"))?;
        for table in warehouse::TABLES {
            bigquery.table(PROJECT, "burnin", table.name, &table.bigquery())?;
        }
        let broker = Broker::new(Arc::clone(&iam) as _, PUBSUB, Duration::from_millis(30));
        plan.topics.iter().for_each(|topic| broker.topic(topic));
        if settings.unreliable {
            broker.repeat(REPEATED);
            broker.shorten_deadlines(SHORTENED.0, SHORTENED.1);
            iam.delay_grants(PROPAGATION);
        }
        let unused: Arc<dyn ledger::Store> = Arc::new(ledger::MemoryStore::default());
        let builds = CloudBuild::serve(unused, "none").await.map_err(context("builds"))?;
        builds.check(Arc::new(AccountRights {
            iam: Arc::clone(&iam),
            storage: Arc::clone(&storage),
            strict: settings.strict,
        }));
        let cloud_run = Arc::new(CloudRun::new(Arc::clone(&iam), plan.services.values()));
        let receiver = Receiver::start(settings.unreliable).await.map_err(context("receiver"))?;
        let rehearsal = Self {
            iam,
            cloud_run,
            broker,
            storage,
            bigquery,
            receiver,
            plan,
            folder: folder.to_owned(),
            programs: programs.to_owned(),
            settings,
            builds,
            addresses: tokio::sync::Mutex::default(),
            processes: Mutex::default(),
            tasks: tokio::task::JoinSet::new(),
        };
        let loads = rehearsal.addresses_of(&loader, Some(sources)).await?;
        rehearsal.addresses.lock().await.insert("sources of loads".to_owned(), loads);
        rehearsal.subscriptions()?;
        Ok(rehearsal)
    }

    async fn addresses_of(&self, member: &str, known: Option<Proxy>) -> Result<Addresses, String> {
        let open = async |api, upstream: &str| {
            Proxy::open(api, member, upstream, Arc::clone(&self.iam), self.settings.strict)
                .await
                .map_err(context("an address"))
        };
        Ok(Addresses {
            storage: match known {
                Some(known) => known,
                None => open(GoogleApi::Storage, self.storage.url()).await?,
            },
            builds: open(GoogleApi::CloudBuild, &self.builds.endpoint).await?,
            bigquery: Some(open(GoogleApi::BigQuery, &self.bigquery.endpoint).await?),
            pubsub: Address::open(&self.broker, member).await.map_err(context("an address"))?,
        })
    }

    fn subscriptions(&self) -> Result<(), String> {
        for planned in &self.plan.subscriptions {
            let endpoint = match &planned.push {
                None => None,
                Some((url, account, audience)) => {
                    let service = self.plan.service_at(url);
                    let service =
                        service.ok_or_else(|| format!("{}: no service at {url}", planned.id))?.clone();
                    Some(Arc::new(PushDelivery {
                        cloud_run: Arc::clone(&self.cloud_run),
                        subscription: planned.id.clone(),
                        account: account.clone(),
                        audience: audience.clone(),
                        path: match url.strip_prefix(&service.uri) {
                            None | Some("") => "/".to_owned(),
                            Some(path) => path.to_owned(),
                        },
                        service,
                    }) as Arc<dyn PushEndpoint>)
                }
            };
            let dead_letters = planned.dead_letters.clone();
            let dead_letters =
                dead_letters.map(|(planned, topic)| (self.settings.deliveries.unwrap_or(planned), topic));
            self.broker.subscribe(Subscription {
                name: planned.id.clone(),
                topic: planned.topic.clone(),
                filter: planned.filter.clone(),
                endpoint,
                dead_letters,
                deadline: planned.deadline,
            });
        }
        Ok(())
    }

    /// Starts every service of the plan, an agent for each pulling account, Cloud Scheduler and Cloud Build's notifications.
    ///
    /// # Errors
    /// Returns an error if a program does not start or serve.
    pub async fn start(&mut self) -> Result<(), String> {
        for service in self.plan.services.clone().into_values() {
            let mut environment = service.environment.clone();
            for (variable, secret) in &service.secrets {
                let caller = member(&service.account);
                self.iam
                    .check(
                        &caller,
                        permission("secretmanager.projects.secrets.versions.access"),
                        &Resource::secret(secret),
                    )
                    .map_err(|denial| {
                        format!("{}: its revision does not become ready: {denial}", service.name)
                    })?;
                let value = match variable.as_str() {
                    "BURNIN_GITHUB_SECRETS" => WEBHOOK_SECRET.to_owned(),
                    name if name.ends_with("_URL") => self.receiver.url.clone(),
                    _ => "secret".to_owned(),
                };
                environment.insert(variable.clone(), value);
            }
            let port = self.spawn(&service.program, &service.name, &service.account, environment).await?;
            self.cloud_run.serves(&service.name, port);
        }
        let pulled: Vec<_> = self
            .plan
            .subscriptions
            .iter()
            .filter(|of| of.filter.is_some() && of.push.is_none())
            .cloned()
            .collect();
        for subscription in pulled {
            let cluster = subscription.filter.map(|(_, value)| value).unwrap_or_default();
            self.agent(
                &cluster,
                &subscription.id,
                &format!("burnin-agent-{cluster}@{PROJECT}.iam.gserviceaccount.com"),
            )
            .await?;
        }
        self.schedule();
        self.notifications().await
    }

    /// Starts an agent that pulls from a subscription with a service account.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub async fn agent(&self, cluster: &str, subscription: &str, account: &str) -> Result<(), String> {
        let bucket = format!("gs://{}", self.plan.bucket("artefacts"));
        let environment = [
            ("BURNIN_AUTH", "platform"),
            ("BURNIN_PROJECT", PROJECT),
            ("BURNIN_ARTEFACTS", &bucket),
            ("BURNIN_PULL", subscription),
            ("BURNIN_CLUSTER", cluster),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        self.spawn("agent", &format!("agent-{cluster}"), account, environment).await.map(drop)
    }

    async fn spawn(
        &self,
        program: &str,
        name: &str,
        account: &str,
        mut environment: BTreeMap<String, String>,
    ) -> Result<u16, String> {
        let mut known = self.addresses.lock().await;
        let addresses = match known.entry(account.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.addresses_of(&member(account), None).await?),
        };
        let port = free_port()?;
        // No collector listens at the plan's address.
        environment.remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        // A suspended container gets no CPU between requests: only notifications and the conductor's commands cause polls.
        let is_suspended = self.settings.strict && ["builder", "provisioner"].contains(&program);
        let look = if is_suspended { "1h" } else { self.settings.poll };
        let mut more = vec![
            ("PORT", port.to_string()),
            // The stand-in for Cloud Run verifies the tokens.
            ("BURNIN_TOKENS", "verified".to_owned()),
            // A killed process leaves its temporary files.
            ("TMPDIR", self.folder.display().to_string()),
            ("PUBSUB_EMULATOR_HOST", addresses.pubsub.host.clone()),
            ("STORAGE_EMULATOR_HOST", addresses.storage.url.clone()),
            ("BURNIN_LOG", "info".to_owned()),
            ("BURNIN_LOG_FORMAT", "compact".to_owned()),
            // These intervals are shorter than in the cloud, so that a run takes seconds.
            ("BURNIN_LOOK", look.to_owned()),
            ("BURNIN_RESEND", self.settings.resend.to_owned()),
            ("BURNIN_BATCH_EVERY", "300ms".to_owned()),
        ];
        if program == "notifier" {
            let github = self.receiver.url.trim_end_matches("/hook").to_owned();
            more.push(("BURNIN_GITHUB_API", github));
        }
        // Only the agents' hosts have Slurm's commands.
        let path = std::env::var("PATH").unwrap_or_default();
        let path = match program {
            "agent" => format!("{}:{path}", self.folder.join("bin").display()),
            _ => path,
        };
        more.push(("PATH", path));
        if environment.contains_key("BURNIN_WAREHOUSE") {
            more.push((
                "BIGQUERY_EMULATOR_HOST",
                addresses.bigquery.as_ref().map(|proxy| proxy.url.clone()).unwrap_or_default(),
            ));
        }
        if environment.contains_key("BURNIN_BUILD_ACCOUNT") {
            more.push(("BURNIN_CLOUD_BUILD_ENDPOINT", addresses.builds.url.clone()));
            // The stand-in lists a build immediately, so a short time is sufficient.
            more.push(("BURNIN_BUILD_SETTLE", "5s".to_owned()));
        }
        environment.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let path = self.programs.join(format!("burnin-{program}"));
        let log = self.folder.join(format!("{name}.log"));
        let process = ServiceProcess::launch(name, path, environment, log)?;
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        let http = reqwest::Client::new();
        for _ in 0..600 {
            if http
                .get(format!("http://127.0.0.1:{port}/healthz"))
                .send()
                .await
                .is_ok_and(|answer| answer.status() == 200)
            {
                return Ok(port);
            }
            if let Some(ended) = self.ended() {
                return Err(ended);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(format!("{name} is not ready; see {}", self.folder.display()))
    }

    /// Checks that no request was denied and that no service ended by itself.
    ///
    /// # Errors
    /// Returns an error with the first denial, or the ended service.
    pub fn check(&self) -> Result<(), String> {
        if let Some(denial) = self.iam.denials().first() {
            return Err(format!("403: {denial}"));
        }
        self.ended().map_or(Ok(()), Err)
    }

    /// Kills a process with -9 and restarts it: the one with this number, modulo the number of processes.
    ///
    /// # Errors
    /// Returns an error if the program does not start again.
    pub fn kill(&self, number: usize) -> Result<(), String> {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let number = number % processes.len().max(1);
        processes.get_mut(number).map_or(Ok(()), ServiceProcess::restart)
    }

    /// A service that exited unexpectedly.
    fn ended(&self) -> Option<String> {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter_mut().find_map(|process| {
            let status = process.process.try_wait().ok().flatten()?;
            Some(format!("{} ended: {status}; its log is in {}", process.name, self.folder.display()))
        })
    }

    /// Starts the plan's periodic tasks, at shorter intervals than in the plan.
    fn schedule(&mut self) {
        let interval = self.settings.tasks;
        for task in self.plan.tasks.clone() {
            let (cloud_run, iam) = (Arc::clone(&self.cloud_run), Arc::clone(&self.iam));
            let Some(service) = self.plan.service_at(&task.uri).cloned() else { continue };
            self.tasks.spawn(async move {
                let path = task.uri.strip_prefix(&service.uri).unwrap_or_default().to_owned();
                loop {
                    let token = iam.check(
                        AGENTS[0].0,
                        permission("iamcredentials.projects.serviceAccounts.generateIdToken"),
                        &Resource::account(&task.account),
                    );
                    if token.is_ok() {
                        let token = GOOGLE.token(&task.account, &task.audience);
                        let request =
                            Invocation { method: "POST", path: &path, headers: Vec::new(), body: Vec::new() };
                        cloud_run.invoke(RequestOrigin::Project, Some(&token), &service.name, request).await;
                    }
                    tokio::time::sleep(interval).await;
                }
            });
        }
    }

    /// Publishes Cloud Build's notifications on its topic, as Cloud Build's service agent.
    async fn notifications(&mut self) -> Result<(), String> {
        let listener =
            tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.map_err(context("notifications"))?;
        let address = listener.local_addr().map_err(context("notifications"))?;
        let (broker, iam) = (Arc::clone(&self.broker), Arc::clone(&self.iam));
        let router = axum::Router::new().fallback(move |body: String| {
            let (broker, iam) = (Arc::clone(&broker), Arc::clone(&iam));
            async move { publish_notification(&broker, &iam, &body) }
        });
        self.tasks.spawn(async move { drop(axum::serve(listener, router).await) });
        self.builds.push_to(&format!("http://{address}/"));
        Ok(())
    }

    /// All builds that the stand-in has created.
    pub fn builds(&self) -> Vec<Value> {
        self.builds.builds()
    }

    /// Removes an object without a check.
    ///
    /// # Errors
    /// Returns an error if the stand-in refuses.
    pub async fn remove(&self, purpose: &str, name: &str) -> Result<(), String> {
        let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        let url = format!("{}/storage/v1/b/{}/o/{name}", self.storage.url(), self.plan.bucket(purpose));
        let answer = reqwest::Client::new().delete(url).send().await.map_err(|error| error.to_string())?;
        answer.error_for_status().map(drop).map_err(|error| error.to_string())
    }

    /// Writes all objects below the rehearsal's folder, to find the cause of a failure.
    pub fn dump(&self) {
        for bucket in &self.plan.buckets {
            for name in self.storage.names(bucket) {
                let path = self.folder.join("buckets").join(bucket).join(&name);
                let made = path.parent().map(fs::create_dir_all);
                if let (Some(Ok(())), Some(object)) = (made, self.storage.object(bucket, &name)) {
                    drop(fs::write(path, object.body));
                }
            }
        }
    }

    /// The folder of the rehearsal's files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn publish_notification(broker: &Arc<Broker>, iam: &Iam, body: &str) {
    let pushed: Value = serde_json::from_str(body).unwrap_or_default();
    let topic = format!("projects/{PROJECT}/topics/cloud-builds");
    if iam.check(AGENTS[1].0, permission("pubsub.projects.topics.publish"), &Resource::topic(&topic)).is_err()
    {
        return;
    }
    let message = &pushed["message"];
    let attributes = message["attributes"].as_object().into_iter().flatten();
    let attributes = attributes.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let data = STANDARD.decode(message["data"].as_str().unwrap_or_default()).unwrap_or_default();
    broker.publish(
        &topic,
        PubsubMessage { data, attributes: attributes.collect(), ..PubsubMessage::default() },
    );
}
