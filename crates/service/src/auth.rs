//! Authentication of callers: by the platform, or by an [`Authenticator`] before a request's body is read.

use std::fmt;

pub use axum::http::{HeaderMap, Method};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Email address of the caller's account.
    pub email: String,
    /// The only subscription that the caller may deliver for, as `projects/P/subscriptions/S`; `None`: any.
    pub subscription: Option<String>,
}

impl Caller {
    /// Whether the caller may deliver for this subscription. A request without a subscription does not come
    /// from Pub/Sub.
    pub fn may_deliver_for(&self, subscription: Option<&str>) -> bool {
        self.subscription.is_none() || self.subscription.as_deref() == subscription
    }
}

/// Reason for a rejected caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Missing or invalid credentials: 401.
    Unproven(String),
    /// Valid credentials without permission: 403.
    Forbidden(String),
    /// A page of another site sent the request through a user's browser: 403 with this reason.
    CrossSite(&'static str),
    /// The check failed temporarily: 503, so that a legitimate caller retries.
    Unknown(String),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unproven(why) | Self::Forbidden(why) | Self::Unknown(why) => why,
            Self::CrossSite(why) => why,
        })
    }
}

#[async_trait::async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Identifies the caller by the method and headers of a request.
    ///
    /// # Errors
    /// Returns an error with the reason if the caller is rejected.
    async fn authenticate(&self, method: &Method, headers: &HeaderMap) -> Result<Caller, Denied>;
}
