//! A hundred concurrent triggers: pushes, messages and schedules, each sent twice.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use model::Verdict;

use crate::{
    deployment::{Failed, Rehearsal},
    fixtures::{FixtureCluster, FixtureFiles, FixtureImage, ON_PUSH},
    outcomes::{self, Requested},
    requests::{message, push},
    scenario::wait_for,
};

const PUSHES: usize = 40;
const MESSAGES: usize = 40;
const SCHEDULES: usize = 20;
/// Maximum time until all runs are closed.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Delay of the redelivery of a refused push.
const PAUSE: Duration = Duration::from_millis(500);

/// Sends all triggers, and checks the results.
///
/// # Errors
/// Returns an error at the first denied request, at a timeout, or with all wrong results.
pub async fn rehearse(rehearsal: &mut Rehearsal) -> Result<String, Failed> {
    let files = FixtureFiles::write(rehearsal)?;
    files.workflow(rehearsal, "by-message", FixtureImage::None, FixtureCluster::Correct, "");
    files.workflow(rehearsal, "by-push", FixtureImage::FromCommit, FixtureCluster::Correct, ON_PUSH);
    let mut requested =
        Requested { messages: MESSAGES, pushes: PUSHES, builds: PUSHES, ..Requested::default() };
    requested.workflows.insert("by-message".to_owned(), (MESSAGES, Verdict::Pass));
    requested.workflows.insert("by-push".to_owned(), (PUSHES, Verdict::Pass));
    rehearsal.start().await?;
    for number in 0..SCHEDULES {
        let name = format!("by-schedule-{number}");
        files.scheduled(rehearsal, &name);
        requested.workflows.insert(name, (1, Verdict::Fail));
    }
    let ledger = outcomes::ledger(rehearsal)?;
    let started = Instant::now();
    for number in 0..MESSAGES {
        for _ in 0..2 {
            message(rehearsal, "by-message", &number.to_string())?;
        }
    }
    let here: &Rehearsal = rehearsal;
    let pushes = (0..2 * PUSHES).map(|delivery| async move {
        let mut refused = 0;
        while let Err(why) = push(here, delivery / 2, &delivery.to_string()).await {
            if started.elapsed() > TIMEOUT {
                return Err(why);
            }
            refused += 1;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(refused)
    });
    let pushes: Vec<Result<usize, Failed>> =
        stream::iter(pushes).buffer_unordered(2 * PUSHES).collect().await;
    let refused: usize = pushes.into_iter().sum::<Result<usize, Failed>>()?;
    let accepted = started.elapsed().as_secs_f64();
    let closed = wait_for(rehearsal, "all runs are closed", TIMEOUT, async || {
        outcomes::closed(rehearsal, &ledger, requested.count()).await
    })
    .await;
    let states = match closed {
        Ok(states) => states,
        Err(why) => return Err(format!("{why}: {}", outcomes::progress(rehearsal, &ledger).await)),
    };
    let took = started.elapsed().as_secs_f64();
    let checked = outcomes::check(rehearsal, &ledger, &requested, &states, TIMEOUT).await?;
    Ok(format!(
        "{} concurrent pushes, messages and schedules, most of them twice: pushes accepted after {accepted:.1} s, {refused} redelivered; \
         {checked}, closed after {took:.1} s, {} requests allowed and none denied",
        requested.count(),
        rehearsal.iam.allowed()
    ))
}
