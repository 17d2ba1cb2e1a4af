//! IAM members of the test plan's options; tests/terraform/check.py sets the same values.

/// Member that may use the gateway's API.
pub const OPERATOR: &str = "group:infra@example.com";
/// Member that may open the dashboard.
pub const PERSON: &str = "user:a@example.com";
/// Member that may request runs by messages.
pub const REQUESTER: &str = "serviceAccount:x@other.iam.gserviceaccount.com";
/// Member that may read replies to requests.
pub const LISTENER: &str = "group:team@example.com";
/// Member of the agents of deployed clusters: the account of their machines.
pub const AGENT: &str = "serviceAccount:nodes@my-project.iam.gserviceaccount.com";
/// Callers without an account, such as GitHub.
pub const EVERYONE: &str = "allUsers";
/// A user in the operators' group.
pub const OPERATOR_EMAIL: &str = "operator@example.com";
/// The user who may open the dashboard.
pub const PERSON_EMAIL: &str = "a@example.com";
