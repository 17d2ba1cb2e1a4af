//! Runs whose services are killed: while they progress, random processes of the deployment are killed with -9 and restarted.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ledger::Ledger;
use lifecycle::RunState;
use model::Verdict;
use serde_json::json;

use crate::{
    deployment::{Failed, Rehearsal},
    fixtures::{FixtureCluster, FixtureFiles, FixtureImage, ON_PUSH},
    outcomes::{self, Requested},
    requests::{api, message, push},
    scenario::install_agents,
};

const KILL_PERIOD: Duration = Duration::from_secs(20);
/// Mean interval of the kills; each interval is 50 to 150 % of it.
const INTERVAL: Duration = Duration::from_millis(300);
/// Maximum time after the last kill until all runs are closed.
const TIMEOUT: Duration = Duration::from_secs(400);
/// Interval of the requests, so that each is sent and progresses during kills.
const PACE: Duration = Duration::from_millis(1500);
const PAUSE: Duration = Duration::from_millis(100);

/// Number of API requests, of messages, and of schedules; each starts one run.
const EACH: usize = 4;
const PUSHES: usize = 2;

enum Request {
    Api(usize),
    Message(usize),
    Push(usize),
}

impl Request {
    async fn send(&self, rehearsal: &Rehearsal) -> Result<(), Failed> {
        match self {
            Self::Api(number) => {
                let (key, body) = (number.to_string(), json!({"workflow": "by-api"}));
                api(rehearsal, "POST", "/api/v1/runs", &key, &body).await.map(drop)
            }
            Self::Message(number) => message(rehearsal, "by-message", &number.to_string()),
            Self::Push(number) => push(rehearsal, *number, &number.to_string()).await,
        }
    }
}

/// Kills processes at random. Returns their number.
async fn kill(rehearsal: &Rehearsal, seed: u64) -> Result<u32, Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (began, mut kills) = (Instant::now(), 0);
    while began.elapsed() < KILL_PERIOD {
        rehearsal.kill(random.usize(..))?;
        kills += 1;
        tokio::time::sleep(INTERVAL.mul_f64(0.5 + random.f64())).await;
    }
    Ok(kills)
}

/// Sends each request until it is accepted, and every second request again, as after a lost response. GitHub's administrator
/// redelivers a push. Returns the number of refused requests.
async fn send(rehearsal: &Rehearsal) -> Result<usize, Failed> {
    // Sends the pushes first, because their runs take longest.
    let mut requests: Vec<_> = (0..PUSHES).map(Request::Push).collect();
    requests.extend((0..EACH).flat_map(|number| [Request::Api(number), Request::Message(number)]));
    let (began, mut refused) = (Instant::now(), 0);
    for (number, request) in requests.iter().enumerate() {
        tokio::time::sleep_until((began + PACE * number as u32).into()).await;
        for _ in 0..1 + number % 2 {
            while let Err(why) = request.send(rehearsal).await {
                refused += 1;
                if began.elapsed() > KILL_PERIOD + TIMEOUT {
                    return Err(format!("a request was never accepted: {why}"));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    Ok(refused)
}

/// Waits until all runs are closed, and installs agents on their clusters.
async fn watch(
    rehearsal: &Rehearsal,
    ledger: &Ledger,
    count: usize,
) -> Result<Vec<(RunState, usize)>, Failed> {
    let (began, mut agents) = (Instant::now(), BTreeSet::new());
    loop {
        rehearsal.check()?;
        install_agents(rehearsal, &mut agents).await?;
        if began.elapsed() > KILL_PERIOD
            && let Some(states) = outcomes::closed(rehearsal, ledger, count).await?
        {
            return Ok(states);
        }
        if began.elapsed() > KILL_PERIOD + TIMEOUT {
            return Err(format!("timeout: {}", outcomes::progress(rehearsal, ledger).await));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Kills services during runs, and checks the results.
///
/// # Errors
/// Returns an error at the first denied request, at a timeout, or with all wrong results.
pub async fn rehearse(rehearsal: &mut Rehearsal, seed: u64) -> Result<String, Failed> {
    let files = FixtureFiles::write(rehearsal)?;
    files.notifying(rehearsal, "by-api", FixtureImage::Pushed, FixtureCluster::Correct, "");
    files.notifying(rehearsal, "by-message", FixtureImage::None, FixtureCluster::Correct, "");
    files.notifying(rehearsal, "by-push", FixtureImage::FromCommit, FixtureCluster::Deployed, ON_PUSH);
    let named = |name: &str, count| (name.to_owned(), (count, Verdict::Pass));
    let mut requested = Requested {
        workflows: [named("by-api", EACH), named("by-message", EACH), named("by-push", PUSHES)].into(),
        messages: EACH,
        pushes: PUSHES,
        // A run requested by the API has one build, for its image. A push has three: for image, deployment and teardown.
        builds: EACH + 3 * PUSHES,
    };
    for number in 0..EACH {
        let name = format!("by-schedule-{number}");
        files.scheduled(rehearsal, &name);
        requested.workflows.insert(name, (1, Verdict::Fail));
    }
    rehearsal.start().await?;

    let ledger = outcomes::ledger(rehearsal)?;
    let here: &Rehearsal = rehearsal;
    let started = Instant::now();
    let (kills, refused, states) =
        tokio::try_join!(kill(here, seed), send(here), watch(here, &ledger, requested.count()))?;
    let took = started.elapsed().as_secs_f64();
    let checked = outcomes::check(rehearsal, &ledger, &requested, &states, TIMEOUT).await?;
    Ok(format!(
        "{kills} kills in {:.0} s, {refused} requests repeated, {checked}, closed after {took:.1} s, {} requests allowed and none denied",
        KILL_PERIOD.as_secs_f64(),
        rehearsal.iam.allowed()
    ))
}
