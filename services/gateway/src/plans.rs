//! The workflows of the gateway, for the pages.

use pages::{Plans, WorkflowPlan};

use crate::{BrokenFile, CatalogueListing, Gateway, WorkflowOffer};

#[async_trait::async_trait]
impl Plans for Gateway {
    async fn plans(&self) -> Result<Vec<WorkflowPlan>, String> {
        let CatalogueListing { workflows, broken, .. } =
            self.list_workflows().await.map_err(|problem| problem.detail)?;
        let plan = |offer: WorkflowOffer| WorkflowPlan {
            workflow: offer.name,
            description: offer.description,
            next: offer.next.into_iter().min().filter(|_| offer.startable),
            stale: offer.stale,
            broken: !offer.startable,
            problems: offer.problems,
        };
        let file = |BrokenFile { file, problems }| WorkflowPlan {
            workflow: file,
            broken: true,
            problems,
            ..WorkflowPlan::default()
        };
        Ok(workflows.into_iter().map(plan).chain(broken.into_iter().map(file)).collect())
    }

    async fn problems(&self) -> Vec<String> {
        let problems = self.workflows().await.map(|read| read.problems.0).unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }
}
