//! Tasks that a scheduler starts at `/chores/{name}`.

use std::sync::Arc;

use service::serve::PeriodicTask;

use crate::{Gateway, StartError};

/// `schedule`: starts scheduled runs that are due.
struct Schedule(Arc<Gateway>);

/// `refs`: finds missed pushes.
struct RefPolling(Arc<Gateway>);

/// `requests`: publishes unrecorded requests again.
struct Recover(Arc<Gateway>);

pub fn all(gateway: &Arc<Gateway>) -> Vec<Arc<dyn PeriodicTask>> {
    vec![
        Arc::new(Schedule(Arc::clone(gateway))),
        Arc::new(RefPolling(Arc::clone(gateway))),
        Arc::new(Recover(Arc::clone(gateway))),
    ]
}

fn task_result(done: Result<(), StartError>) -> Result<(), String> {
    done.map_err(|refused| refused.to_string())
}

#[async_trait::async_trait]
impl PeriodicTask for Schedule {
    fn name(&self) -> &'static str {
        "schedule"
    }

    async fn run(&self) -> Result<(), String> {
        task_result(self.0.start_due_runs().await)
    }
}

#[async_trait::async_trait]
impl PeriodicTask for RefPolling {
    fn name(&self) -> &'static str {
        "refs"
    }

    async fn run(&self) -> Result<(), String> {
        task_result(self.0.poll_refs().await)
    }
}

#[async_trait::async_trait]
impl PeriodicTask for Recover {
    fn name(&self) -> &'static str {
        "requests"
    }

    async fn run(&self) -> Result<(), String> {
        task_result(self.0.starter.recover().await)
    }
}
