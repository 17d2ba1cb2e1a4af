//! The services as separate processes, as deployed, over real HTTP pushes from Pub/Sub's emulator. About once a second one of them is
//! killed with -9 and restarted during runs; afterwards no result may be missing or duplicated, and no process or hint may remain.

mod emulator;
mod fleet;
mod runs;

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use bigquery_standin::BigQueryStandIn;
use clap::Parser;
use gcp::storage::CloudStorage;
use kill::{
    checks::{self, LoadedRows},
    receiver::{self, Receiver},
};
use ledger::{FolderStore, Ledger, Store};
use model::{RunId, Span, Verdict};
use storage_standin::{Options, StandIn};
use warehouse::Sqlite;

use crate::{
    emulator::PubsubEmulator,
    fleet::{ServiceFleet, StoreLocations},
    runs::{MEASUREMENTS, RunRequests},
};

#[derive(Parser)]
#[command(about = "Kills services at random during runs, and counts the results")]
struct Arguments {
    /// Duration of the phase in which processes are killed.
    #[arg(long = "for", default_value = "3m")]
    lasting: Span,
    /// Number of concurrent runs.
    #[arg(long, default_value_t = 50)]
    runs: usize,
    /// Mean interval between kills; each interval is 50 to 150 % of it.
    #[arg(long, default_value = "1s")]
    every: Span,
    /// Seed of the choice of services and times.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of the services' programs.
    #[arg(long, default_value = "target/debug")]
    programs: PathBuf,
    /// Maximum time after the last kill until all runs have ended.
    #[arg(long, default_value = "5m")]
    rest: Span,
    /// Let the agent pull its commands, as on a real cluster; the agent is not killed.
    #[arg(long)]
    pull: bool,
    /// Use the stand-ins for Cloud Storage and BigQuery instead of folders and SQLite.
    #[arg(long)]
    bucket: bool,
    /// Data folder; it must be empty.
    folder: PathBuf,
}

/// Exit code of a gate whose programs are missing.
const SKIPPED: u8 = 77;

/// A local port without a listener. Another process may take the port before its use.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let jar = match emulator::jar() {
        Ok(jar) => jar,
        Err(why) => {
            println!("skipped: {why}");
            return SKIPPED.into();
        }
    };
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run_test(&arguments, &jar)) {
        Ok(wrong) if wrong.is_empty() => {
            println!("zero violations");
            ExitCode::SUCCESS
        }
        Ok(wrong) => {
            println!("{} violation(s):", wrong.len());
            wrong.iter().take(40).for_each(|what| println!("  {what}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run_test(arguments: &Arguments, jar: &std::path::Path) -> Result<Vec<String>, String> {
    let message = |error: std::io::Error| format!("{}: {error}", arguments.folder.display());
    fs::create_dir_all(arguments.folder.join("logs")).map_err(message)?;
    let folder = arguments.folder.canonicalize().map_err(message)?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}, {} runs at a time, for {}", arguments.runs, arguments.lasting);
    let mut dice = fastrand::Rng::with_seed(seed);

    let emulator = PubsubEmulator::start(jar, &folder.join("logs/emulator.log"))?;
    for topic in events::topics() {
        emulator.topic(&format!("burnin-{topic}")).await?;
    }
    let cloud = if arguments.bucket {
        Some(StandIn::start(Options::default()).await.map_err(message)?)
    } else {
        None
    };
    let bigquery = match &cloud {
        Some(standin) => Some(dataset(standin).await?),
        None => None,
    };
    let (store, place): (Arc<dyn Store>, StoreLocations) = match &cloud {
        Some(standin) => {
            let emulator = standin.url().parse().map_err(str::to_owned)?;
            let emulators =
                bigquery.as_ref().map(|bigquery| (standin.url().to_owned(), bigquery.endpoint.clone()));
            let place = StoreLocations { name: "gs://bucket".into(), warehouse: DATASET.into(), emulators };
            (Arc::new(CloudStorage::new("bucket", Some(emulator))), place)
        }
        None => {
            let path = folder.join("bucket");
            let store = FolderStore::open(&path).map_err(message)?;
            let warehouse = folder.join("warehouse.sqlite").into();
            (Arc::new(store), StoreLocations { name: path.into(), warehouse, emulators: None })
        }
    };
    let ledger = Ledger::new(Arc::clone(&store), Arc::new(service::ids::unique));
    let requests = RunRequests::new(&folder.join("runs"))?;
    let receiver = Receiver::start(true).await.map_err(|error| error.to_string())?;
    let url = receiver.url.clone();
    let mut fleet =
        ServiceFleet::start(&arguments.programs, &folder, place, &emulator, arguments.pull, url).await?;
    let gateways = fleet.gateways();
    let clock = tokio::spawn(periodic_tasks(fleet.periodic_tasks()));

    let started = Instant::now();
    let (mut open, mut requested, mut ended): (BTreeSet<RunId>, usize, Vec<checks::Ended>) =
        Default::default();
    let mut wrong = Vec::new();
    let mut next_kill = Instant::now();
    let mut quiet_since = None;
    loop {
        let killing = started.elapsed() < arguments.lasting.0;
        while killing && open.len() < arguments.runs {
            receiver::failed_before(
                &*store,
                &runs::name(requested),
                service::Clock::now(&service::SystemClock),
            )
            .await?;
            open.insert(requests.ask(requested, &gateways).await?);
            requested += 1;
        }
        if killing && Instant::now() >= next_kill {
            wrong.extend(fleet.ended());
            fleet.kill(dice.usize(..))?;
            next_kill = Instant::now() + arguments.every.0.mul_f64(0.5 + dice.f64());
        }
        for run in open.clone() {
            let Some((state, records)) = checks::state(&ledger, &run).await? else { continue };
            if state.closed.is_some() {
                open.remove(&run);
                requests.check(&state, &mut wrong);
                ended.push(checks::ended(&state, records, Verdict::Pass, &mut wrong));
            }
        }
        if !killing {
            let since = *quiet_since.get_or_insert_with(Instant::now);
            if open.is_empty() {
                break;
            }
            if since.elapsed() > arguments.rest.0 {
                wrong.extend(open.iter().map(|run| format!("timeout: {run} has not ended")));
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let rest = quiet_since.map_or(Duration::ZERO, |since| since.elapsed());
    wrong.extend(fleet.ended());
    // The gateways check once a second whether their requests were recorded.
    let until = Instant::now() + Duration::from_secs(120);
    let hints = async || store.list("requests/open/").await.map_err(|error| service::worker::chain(&error));
    while !hints().await?.is_empty() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // A notifier that was killed during a delivery records no result; another notifier retries a minute later.
    let until = Instant::now() + Duration::from_secs(450);
    let untold = async || store.list("notices/open/").await.map_err(|error| service::worker::chain(&error));
    let decided = async || {
        let marks = store.list("notices/").await.map_err(|error| service::worker::chain(&error))?;
        // Notices of the earlier failures existed before the kills.
        let ended = marks.iter().filter(|name| name.ends_with("/ended.json") && !name.contains("-before/"));
        Ok::<_, String>(ended.count())
    };
    while (decided().await? < ended.len() || !untold().await?.is_empty()) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    receiver.check(ended.iter().map(|ended| (&ended.run, "recovered")), &mut wrong);
    clock.abort();
    let kills = fleet.kills();
    // Processes of the runs have two minutes to end; remaining processes are reported.
    let mut left = checks::left_running(&folder.join("host"));
    let until = Instant::now() + Duration::from_secs(120);
    while !left.is_empty() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100)).await;
        left = checks::left_running(&folder.join("host"));
    }
    wrong.extend(left.into_iter().map(|process| format!("a process is still running: {process}")));
    let names = store.list("").await.map_err(|error| service::worker::chain(&error))?;
    wrong.extend(
        checks::left_in_store(names)
            .into_iter()
            .map(|name| format!("an object is still in the bucket: {name}")),
    );
    let warehouse = match &bigquery {
        Some(bigquery) => LoadedRows::of(bigquery, "kill.burnin")?,
        None => LoadedRows::File(
            Sqlite::open(&folder.join("warehouse.sqlite")).map_err(|error| error.to_string())?,
        ),
    };
    for ended in &ended {
        warehouse.check(&ended.run, MEASUREMENTS, &mut wrong).await?;
    }
    if let Some(bigquery) = &bigquery {
        let load = |job: &&serde_json::Value| job["configuration"]["load"].is_object();
        println!("{} load jobs for {} runs", bigquery.jobs().values().filter(load).count(), ended.len());
    }
    let records: usize = ended.iter().map(|run| run.records).sum();
    println!(
        "{} runs ended, {kills} kills in {:.0} s; idle {:.0} s later; {:.1} records per run, {} retried",
        ended.len(),
        started.elapsed().as_secs_f64() - rest.as_secs_f64(),
        rest.as_secs_f64(),
        records as f64 / ended.len().max(1) as f64,
        ended.iter().filter(|run| run.attempts > 0).count(),
    );
    Ok(wrong)
}

const DATASET: &str = "bigquery:kill.burnin";

/// A stand-in for BigQuery with the tables, which loads from this bucket.
async fn dataset(bucket: &StandIn) -> Result<BigQueryStandIn, String> {
    let bigquery = BigQueryStandIn::serve(bucket.url()).await.map_err(|error| error.to_string())?;
    for table in warehouse::TABLES {
        bigquery.table("kill", "burnin", table.name, &table.bigquery())?;
    }
    bigquery.jobs_take(Duration::from_millis(300));
    Ok(bigquery)
}

/// Starts the periodic tasks every second.
async fn periodic_tasks(urls: Vec<String>) {
    let http = reqwest::Client::new();
    loop {
        for url in &urls {
            // A process that is down receives the next call a second later.
            drop(http.post(url).timeout(Duration::from_secs(10)).send().await);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
