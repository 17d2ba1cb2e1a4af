//! The services as processes.

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::emulator::{PROJECT, PubsubEmulator};

/// A service, with the number of its instance.
struct ServiceInstance {
    name: &'static str,
    topic: &'static str,
    port: u16,
    process: Child,
    starts: u32,
}

/// All services: two conductors, two gateways, one of each worker.
pub struct ServiceFleet {
    services: Vec<ServiceInstance>,
    programs: PathBuf,
    folder: PathBuf,
    place: StoreLocations,
    emulator: String,
    pull: bool,
    channel_url: String,
}

/// Locations of the stores, as values of the services' environment variables.
pub struct StoreLocations {
    /// Folder or bucket of the objects.
    pub name: OsString,
    pub warehouse: OsString,
    /// The stand-ins for Cloud Storage and for BigQuery.
    pub emulators: Option<(String, String)>,
}

const SERVICES: [(&str, &str); 10] = [
    ("gateway", "gateway"),
    ("gateway", "gateway"),
    ("conductor", "facts"),
    ("conductor", "facts"),
    ("builder", "builder"),
    ("provisioner", "provisioner"),
    ("agent", "agent"),
    ("judge", "judge"),
    ("loader", "loader"),
    ("notifier", "closed"),
];

const AGENT: &str = "agent";
const AGENT_SUBSCRIPTION: &str = "agent-pulls";

impl ServiceFleet {
    /// Starts every service, from the folder of the programs, with its data in another folder.
    ///
    /// With `pull` the agent pulls and is not killed: the emulator keeps sending events to the stream of a killed
    /// subscriber.
    pub async fn start(
        programs: &Path,
        folder: &Path,
        place: StoreLocations,
        emulator: &PubsubEmulator,
        pull: bool,
        channel_url: String,
    ) -> Result<Self, String> {
        let mut fleet = Self {
            services: Vec::new(),
            programs: programs.to_owned(),
            folder: folder.to_owned(),
            place,
            emulator: emulator.host.clone(),
            pull,
            channel_url,
        };
        for (number, (name, topic)) in SERVICES.into_iter().enumerate() {
            let port = crate::free_port()?;
            let (topic_name, subscription) = (format!("burnin-{topic}"), format!("{name}-{number}"));
            if pull && name == AGENT {
                emulator.create_pull_subscription(&topic_name, AGENT_SUBSCRIPTION).await?;
            } else {
                emulator.push(&topic_name, &subscription, port, "/").await?;
            }
            if name == "conductor" {
                let subscription = format!("{subscription}-of-agents");
                emulator.push("burnin-agent-facts", &subscription, port, "/agent-facts").await?;
            }
            let process = fleet.spawn(name, port)?;
            fleet.services.push(ServiceInstance { name, topic, port, process, starts: 0 });
        }
        Ok(fleet)
    }

    fn spawn(&self, name: &str, port: u16) -> Result<Child, String> {
        let program = self.programs.join(format!("burnin-{name}"));
        let message = |error: std::io::Error| format!("{}: {error}", program.display());
        let log = self.folder.join("logs").join(format!("{name}-{port}.log"));
        let log = File::options().create(true).append(true).open(log).map_err(message)?;
        let at = |place: &str| self.folder.join(place);
        let mut command = Command::new(&program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("PORT", port.to_string())
            .env("PUBSUB_EMULATOR_HOST", &self.emulator)
            .env("BURNIN_AUTH", "platform")
            .env("BURNIN_PROJECT", PROJECT)
            .env("BURNIN_LEDGER", &self.place.name)
            .env("BURNIN_ARTEFACTS", &self.place.name)
            .env("BURNIN_BUILDS", at("host/builds"))
            .env("BURNIN_CLUSTERS", at("host/clusters"))
            .env("BURNIN_WAREHOUSE", &self.place.warehouse)
            .env("BURNIN_BATCH_EVERY", "1s")
            .env("BURNIN_RESEND", "5s")
            .env("BURNIN_LOOK", "100ms")
            .env("BURNIN_WORKFLOWS", at("runs"))
            .env("BURNIN_RATES", "10000,10000")
            .env("BURNIN_LOG", "warn");
        if let Some((storage, bigquery)) = &self.place.emulators {
            command.env("STORAGE_EMULATOR_HOST", storage).env("BIGQUERY_EMULATOR_HOST", bigquery);
        }
        if name == "notifier" {
            command.env("BURNIN_CHANNEL_KILL_URL", &self.channel_url).env("BURNIN_CHANNEL_KILL_KEY", "kill");
        }
        if self.pull && name == AGENT {
            command.env("BURNIN_PULL", format!("projects/{PROJECT}/subscriptions/{AGENT_SUBSCRIPTION}"));
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(message)?).stderr(log);
        command.spawn().map_err(message)
    }

    /// Kills a service with -9, and starts it again immediately, as the platform does.
    pub fn kill(&mut self, number: usize) -> Result<&'static str, String> {
        let mut number = number % self.services.len();
        if self.pull && self.services[number].name == AGENT {
            number = 0;
        }
        let service = &mut self.services[number];
        drop(service.process.kill());
        drop(service.process.wait());
        service.starts += 1;
        let (name, port) = (service.name, service.port);
        self.services[number].process = self.spawn(name, port)?;
        Ok(name)
    }

    /// Number of restarts.
    pub fn kills(&self) -> u32 {
        self.services.iter().map(|service| service.starts).sum()
    }

    /// Services that ended without a kill.
    pub fn ended(&mut self) -> Vec<String> {
        let ended = |service: &mut ServiceInstance| {
            let status = service.process.try_wait().ok().flatten()?;
            Some(format!("{} on port {} ended without a kill: {status}", service.name, service.port))
        };
        self.services.iter_mut().filter_map(ended).collect()
    }

    /// URL of a periodic task.
    pub fn periodic_tasks(&self) -> Vec<String> {
        let periodic_task = |service: &ServiceInstance| match service.topic {
            "facts" => Some(format!("http://127.0.0.1:{}/chores/tick", service.port)),
            "provisioner" => Some(format!("http://127.0.0.1:{}/chores/sweep", service.port)),
            "gateway" => Some(format!("http://127.0.0.1:{}/chores/requests", service.port)),
            "closed" => Some(format!("http://127.0.0.1:{}/chores/notices", service.port)),
            _ => None,
        };
        self.services.iter().filter_map(periodic_task).collect()
    }

    pub fn gateways(&self) -> Vec<String> {
        let gateways = self.services.iter().filter(|service| service.name == "gateway");
        gateways.map(|service| format!("http://127.0.0.1:{}/api/v1/runs", service.port)).collect()
    }
}

impl Drop for ServiceFleet {
    fn drop(&mut self) {
        for service in &mut self.services {
            drop(service.process.kill());
            drop(service.process.wait());
        }
    }
}
