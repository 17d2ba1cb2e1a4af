//! Who may call. Either the platform has decided already, or a [`Doorkeeper`] does, before a request's body is read.

use std::fmt;

/// A caller that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its address.
    pub email: String,
    /// The one subscription it may deliver for, as `projects/P/subscriptions/S`; none when any.
    pub subscription: Option<String>,
}

impl Caller {
    /// Whether it may deliver for this subscription. What names none was not delivered by Pub/Sub.
    pub fn may_deliver_for(&self, subscription: Option<&str>) -> bool {
        self.subscription.is_none() || self.subscription.as_deref() == subscription
    }
}

/// Why a caller was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It does not say who it is, or what it says is not to be believed: 401.
    Unproven(String),
    /// It is believed, and may not: 403.
    Forbidden(String),
    /// It cannot be told at the moment: 503, so that an honest caller tries again.
    Unknown(String),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unproven(why) | Self::Forbidden(why) | Self::Unknown(why)) = self;
        f.write_str(why)
    }
}

/// Decides who may call.
#[async_trait::async_trait]
pub trait Doorkeeper: Send + Sync + 'static {
    /// Who calls, by the request's `Authorization` header.
    ///
    /// # Errors
    /// Why it is not let in.
    async fn admit(&self, authorization: Option<&str>) -> Result<Caller, Denied>;
}
