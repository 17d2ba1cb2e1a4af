//! Rate limits per caller.

use std::{num::NonZeroU32, str::FromStr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use governor::{DefaultKeyedRateLimiter, Quota};

use super::{extract::caller, problem::ApiProblem};
use crate::Gateway;

/// Maximum rates per caller, per second; a burst may be ten times as large.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Maximum rate of all requests, reads included.
    pub requests: NonZeroU32,
    /// Maximum rate of requests that change state, such as the start or the cancel of a run.
    pub changes: NonZeroU32,
}

impl FromStr for Rates {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (requests, changes) = text.split_once(',')?;
            Some(Self { requests: requests.trim().parse().ok()?, changes: changes.trim().parse().ok()? })
        };
        read().ok_or("expected requests per second and changes per second, such as 50,5")
    }
}

impl Rates {
    /// Default rates for people and their scripts.
    pub const USUAL: Self =
        Self { requests: NonZeroU32::new(50).unwrap(), changes: NonZeroU32::new(5).unwrap() };
}

pub(crate) struct Limiter {
    requests: DefaultKeyedRateLimiter<String>,
    changes: DefaultKeyedRateLimiter<String>,
}

impl Limiter {
    pub(crate) fn new(rates: Rates) -> Self {
        let limiter = |rate: NonZeroU32| {
            let burst = NonZeroU32::new(rate.get().saturating_mul(10)).unwrap_or(rate);
            DefaultKeyedRateLimiter::keyed(Quota::per_second(rate).allow_burst(burst))
        };
        Self { requests: limiter(rates.requests), changes: limiter(rates.changes) }
    }

    /// Counts a request. Returns whether it is within the rate.
    pub(crate) fn allows(&self, caller: &String, method: &Method) -> bool {
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        self.requests.check_key(caller).is_ok() && (!changes || self.changes.check_key(caller).is_ok())
    }
}

pub(crate) async fn limited(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    if gateway.rates.allows(&caller(request.extensions()), request.method()) {
        return next.run(request).await;
    }
    ApiProblem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "requests exceed the maximum rate; wait for the time in Retry-After",
    )
    .into_response()
}
