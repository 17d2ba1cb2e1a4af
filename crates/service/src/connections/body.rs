//! Bodies of requests with a deadline, and bodies of responses that report their end.

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::Connection;

/// The body of a request; reading fails after the deadline. The deadline is for the whole body: a limit for
/// each part would let a client send one byte at a time for hours.
pub struct DeadlineBody {
    body: Incoming,
    limit: Duration,
    /// Deadline; set when the body is first read.
    deadline: Option<Pin<Box<Sleep>>>,
    late: DeadlineFlag,
}

/// Whether a body missed its deadline.
#[derive(Clone, Default)]
pub struct DeadlineFlag(Arc<AtomicBool>);

impl DeadlineFlag {
    pub fn is_late(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The body missed its deadline.
#[derive(Debug)]
pub struct BodyTimeout(Duration);

impl std::error::Error for BodyTimeout {}

impl fmt::Display for BodyTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request's body was not complete within {:?}", self.0)
    }
}

impl DeadlineBody {
    pub fn new(body: Incoming, limit: Duration) -> (Self, DeadlineFlag) {
        let late = DeadlineFlag::default();
        (Self { body, limit, deadline: None, late: late.clone() }, late)
    }
}

impl http_body::Body for DeadlineBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let limit = self.limit;
        let ends = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match ends.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.late.0.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(Box::new(BodyTimeout(limit)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request in progress: its connection becomes idle when this is dropped.
pub struct RequestInProgress(Arc<Connection>);

impl RequestInProgress {
    pub fn new(connection: Arc<Connection>) -> Self {
        Self(connection)
    }

    /// A response's body, which keeps the request in progress until it is sent or dropped.
    pub fn of(self, body: Body) -> TrackedBody {
        TrackedBody { body, _finishing: self }
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.set_idle(true);
    }
}

pub struct TrackedBody {
    body: Body,
    _finishing: RequestInProgress,
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
