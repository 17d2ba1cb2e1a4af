//! `burnin sweep`: the independent sweeper, started manually.

use std::sync::Arc;

use model::{Failure, Span};
use provisioner::{SweepResult, SweptCluster, sweep as through};
use service::{Clock, PortError, SystemClock};

use crate::{
    commands::{parse, print_plain},
    exit::{CliError, Exit},
    local::DataFolder,
};

/// Deletes every cluster of the data folder whose lease has expired, without reading any ledger.
pub async fn sweep(data: DataFolder, grace: Span, dry_run: bool) -> Result<Exit, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let provider = crate::local::clusters(&data, crate::local::program()?, &clock, 0);
    let swept = through(&provider, grace, !dry_run).await.map_err(unlisted)?;
    Ok(printed(&swept, dry_run))
}

/// Deletes the kept parts of a cluster before their lease ends.
pub async fn release(data: DataFolder, name: &str) -> Result<Exit, CliError> {
    if !name.ends_with("-kept") {
        let why = format!(
            "--release {name}: expected the name of kept parts, such as NAME-kept; `burnin cancel RUN` releases the cluster of a run"
        );
        return Err(CliError::usage(why));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let provider = crate::local::clusters(&data, crate::local::program()?, &clock, 0);
    let released = provisioner::release(&provider, name).await.map_err(unlisted)?;
    let unknown = || {
        CliError::usage(format!(
            "--release {name}: no such cluster; `burnin sweep --dry-run` lists the clusters and kept parts"
        ))
    };
    Ok(printed(&[released.ok_or_else(unknown)?], false))
}

fn unlisted(error: PortError) -> CliError {
    let (PortError::Transient(why) | PortError::Permanent(Failure { message: why, .. })) = error;
    CliError::infrastructure(std::io::Error::other(format!("clusters could not be listed: {why}")))
}

fn printed(swept: &[SweptCluster], dry_run: bool) -> Exit {
    print_plain(&swept_text(swept, dry_run));
    let remaining = swept.iter().any(|swept| matches!(swept.outcome, SweepResult::DeletionFailed(_)));
    if remaining { Exit::Infrastructure } else { Exit::Pass }
}

fn swept_text(swept: &[SweptCluster], dry_run: bool) -> String {
    if swept.is_empty() {
        return "no cluster\n".to_owned();
    }
    let mut text = String::new();
    for SweptCluster { cluster, outcome } in swept {
        let what = match outcome {
            SweepResult::Kept { until } => format!("kept: its lease and grace period end at {until}"),
            SweepResult::Unlabelled => {
                "kept: no expiry label; check and delete the cluster manually".to_owned()
            }
            SweepResult::Due => "lease expired; would be deleted".to_owned(),
            SweepResult::Deleted(deleted) => format!("gone: {}", deleted.evidence),
            SweepResult::DeletionFailed(why) => format!("NOT DELETED: {why}"),
        };
        text += &format!("  {}  {}\n", parse::shown(&cluster.name), parse::shown(&what));
    }
    if dry_run && swept.iter().any(|swept| swept.outcome == SweepResult::Due) {
        text += "dry run, nothing deleted; run without --dry-run to delete clusters with an expired lease\n";
    }
    text
}
