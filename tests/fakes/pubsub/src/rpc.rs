//! The gRPC surface, over HTTP/2 without TLS.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use futures::{SinkExt, channel::mpsc};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::{
    HeaderMap, Request, Response,
    body::Incoming,
    header::{HeaderName, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    broker::Broker,
    wire::{
        AcknowledgeRequest, ModifyAckDeadlineRequest, PublishRequest, PublishResponse, PubsubMessage,
        ReceivedMessage, StreamingPullRequest, StreamingPullResponse, frame, next,
    },
};

type RpcBody = BoxBody<Bytes, Infallible>;

const INVALID_ARGUMENT: u8 = 3;
const NOT_FOUND: u8 = 5;
const PERMISSION_DENIED: u8 = 7;
const UNIMPLEMENTED: u8 = 12;
const INTERNAL: u8 = 13;

/// A gRPC status other than OK.
struct Refusal(u8, String);

pub(crate) async fn serve(listener: TcpListener, broker: Arc<Broker>, caller: String) {
    let caller: Arc<str> = caller.into();
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let (broker, caller) = (Arc::clone(&broker), Arc::clone(&caller));
        connections.spawn(async move {
            let handle = service_fn(move |request| {
                let (broker, caller) = (Arc::clone(&broker), Arc::clone(&caller));
                async move { Ok::<_, Infallible>(answer(broker, &caller, request).await) }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(server.serve_connection(TokioIo::new(stream), handle).await);
        });
        while connections.try_join_next().is_some() {}
    }
}

fn status(code: u8, message: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from(u16::from(code)));
    if let Ok(text) = HeaderValue::from_str(message) {
        headers.insert(HeaderName::from_static("grpc-message"), text);
    }
    headers
}

fn response(frames: mpsc::Receiver<Result<Frame<Bytes>, Infallible>>) -> Response<RpcBody> {
    let mut response = Response::new(StreamBody::new(frames).boxed());
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

async fn unary(answered: Result<Bytes, Refusal>) -> Response<RpcBody> {
    let (mut sender, receiver) = mpsc::channel(2);
    let trailers = match answered {
        Ok(bytes) => {
            drop(sender.send(Ok(Frame::data(bytes))).await);
            status(0, "")
        }
        Err(Refusal(code, message)) => status(code, &message),
    };
    drop(sender.send(Ok(Frame::trailers(trailers))).await);
    response(receiver)
}

async fn answer(broker: Arc<Broker>, caller: &str, request: Request<Incoming>) -> Response<RpcBody> {
    let path = request.uri().path().to_owned();
    let body = request.into_body();
    match path.as_str() {
        "/google.pubsub.v1.Publisher/Publish" => unary(publish(&broker, caller, body).await).await,
        "/google.pubsub.v1.Subscriber/Acknowledge" => {
            unary(acknowledge_or_extend::<AcknowledgeRequest>(&broker, caller, body).await).await
        }
        "/google.pubsub.v1.Subscriber/ModifyAckDeadline" => {
            unary(acknowledge_or_extend::<ModifyAckDeadlineRequest>(&broker, caller, body).await).await
        }
        "/google.pubsub.v1.Subscriber/StreamingPull" => match streaming_pull(&broker, caller, body).await {
            Ok(response) => response,
            Err(refusal) => unary(Err(refusal)).await,
        },
        _ => unary(Err(Refusal(UNIMPLEMENTED, format!("unsupported method {path}")))).await,
    }
}

async fn message<M: prost::Message + Default>(body: Incoming) -> Result<M, Refusal> {
    let broken = |why: String| Refusal(INTERNAL, why);
    let bytes = body.collect().await.map_err(|error| broken(error.to_string()))?.to_bytes();
    let mut received = BytesMut::from(&bytes[..]);
    next(&mut received)
        .ok_or_else(|| broken("the request has no complete message".to_owned()))?
        .map_err(broken)
}

async fn publish(broker: &Arc<Broker>, caller: &str, body: Incoming) -> Result<Bytes, Refusal> {
    let request: PublishRequest = message(body).await?;
    admitted(broker, caller, "pubsub.topics.publish", &request.topic)?;
    if !broker.has_topic(&request.topic) {
        return Err(Refusal(NOT_FOUND, format!("no topic {}", request.topic)));
    }
    if let Some(why) = request.messages.iter().find_map(beyond_limits) {
        return Err(Refusal(INVALID_ARGUMENT, why));
    }
    let message_ids = request.messages.into_iter().map(|message| broker.publish(&request.topic, message));
    Ok(frame(&PublishResponse { message_ids: message_ids.collect() }))
}

/// The limit that a message exceeds (Pub/Sub's page "Quotas and limits").
fn beyond_limits(message: &PubsubMessage) -> Option<String> {
    const MESSAGE: usize = 10_000_000;
    const ATTRIBUTES: usize = 100;
    const KEY: usize = 256;
    const VALUE: usize = 1024;
    let attributes = &message.attributes;
    let size =
        message.data.len() + attributes.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    if size == 0 {
        return Some("a message needs data or an attribute".to_owned());
    }
    if size > MESSAGE || attributes.len() > ATTRIBUTES {
        return Some(format!(
            "expected at most {MESSAGE} bytes and {ATTRIBUTES} attributes, found {size} bytes and {} attributes",
            attributes.len()
        ));
    }
    let (key, value) = attributes.iter().find(|(key, value)| key.len() > KEY || value.len() > VALUE)?;
    let shown: String = key.chars().take(KEY).collect();
    Some(format!(
        "attribute {shown}: expected at most {KEY} and {VALUE} bytes, found a key of {} bytes and a value of {} bytes",
        key.len(),
        value.len()
    ))
}

fn admitted(broker: &Broker, caller: &str, permission: &'static str, resource: &str) -> Result<(), Refusal> {
    broker.access.admits(caller, permission, resource).map_err(|why| Refusal(PERMISSION_DENIED, why))
}

/// A request that acknowledges or rejects messages.
trait AckRequest: prost::Message + Default {
    fn subscription(&self) -> &str;
    fn apply(&self, broker: &Arc<Broker>);
}

impl AckRequest for AcknowledgeRequest {
    fn subscription(&self) -> &str {
        &self.subscription
    }

    fn apply(&self, broker: &Arc<Broker>) {
        broker.acknowledge(&self.subscription, &self.ack_ids);
    }
}

impl AckRequest for ModifyAckDeadlineRequest {
    fn subscription(&self) -> &str {
        &self.subscription
    }

    fn apply(&self, broker: &Arc<Broker>) {
        self.ack_ids.iter().for_each(|id| broker.extend(&self.subscription, id, self.ack_deadline_seconds));
    }
}

async fn acknowledge_or_extend<M: AckRequest>(
    broker: &Arc<Broker>,
    caller: &str,
    body: Incoming,
) -> Result<Bytes, Refusal> {
    let request: M = message(body).await?;
    admitted(broker, caller, "pubsub.subscriptions.consume", request.subscription())?;
    request.apply(broker);
    Ok(Bytes::from_static(&[0; 5]))
}

async fn streaming_pull(
    broker: &Arc<Broker>,
    caller: &str,
    mut body: Incoming,
) -> Result<Response<RpcBody>, Refusal> {
    let mut received = BytesMut::new();
    let first: StreamingPullRequest = loop {
        if let Some(first) = next(&mut received) {
            break first.map_err(|why| Refusal(INTERNAL, why))?;
        }
        match body.frame().await {
            Some(Ok(frame)) => received.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
            _ => return Err(Refusal(INTERNAL, "the stream ended before its first request".to_owned())),
        }
    };
    let name = first.subscription.clone();
    admitted(broker, caller, "pubsub.subscriptions.consume", &name)?;
    let Some(wake) = broker.wake(&name) else {
        return Err(Refusal(NOT_FOUND, format!("no subscription {name}")));
    };
    let (mut sender, receiver) = mpsc::channel(16);
    let broker = Arc::clone(broker);
    tokio::spawn(async move {
        let mut check = tokio::time::interval(Duration::from_millis(50));
        'stream: loop {
            let pulled = broker.pull(&name).into_iter().map(|(ack_id, message, attempt)| ReceivedMessage {
                ack_id,
                message: Some(message),
                delivery_attempt: attempt.map_or(0, |attempt| i32::try_from(attempt).unwrap_or(i32::MAX)),
            });
            let response = StreamingPullResponse { received_messages: pulled.collect() };
            if !response.received_messages.is_empty()
                && sender.send(Ok(Frame::data(frame(&response)))).await.is_err()
            {
                break;
            }
            tokio::select! {
                () = wake.notified() => {}
                _ = check.tick() => {}
                arrived = body.frame() => match arrived {
                    Some(Ok(frame)) => {
                        received.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
                        while let Some(request) = next::<StreamingPullRequest>(&mut received) {
                            let Ok(request) = request else { break 'stream };
                            broker.acknowledge(&name, &request.ack_ids);
                            let extended = request.modify_deadline_ack_ids.iter().zip(&request.modify_deadline_seconds);
                            extended.for_each(|(id, seconds)| broker.extend(&name, id, *seconds));
                        }
                    }
                    _ => break,
                },
            }
        }
        // The client disconnected: its messages are delivered again.
        broker.reject_all(&name);
        drop(sender.send(Ok(Frame::trailers(status(0, "")))).await);
    });
    Ok(response(receiver))
}
