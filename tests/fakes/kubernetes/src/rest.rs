//! The API over HTTP.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Query, Request},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::{
    Fault, ServerState,
    store::{Key, Refused},
};

/// Kinds of resources that the stand-in serves.
const KINDS: [(&str, &str, &str); 12] = [
    ("jobset.x-k8s.io/jobsets", "JobSet", "jobset.x-k8s.io/v1alpha2"),
    ("kueue.x-k8s.io/localqueues", "LocalQueue", "kueue.x-k8s.io/v1beta1"),
    ("kueue.x-k8s.io/workloads", "Workload", "kueue.x-k8s.io/v1beta1"),
    ("batch/jobs", "Job", "batch/v1"),
    ("/pods", "Pod", "v1"),
    ("/services", "Service", "v1"),
    ("/secrets", "Secret", "v1"),
    ("/events", "Event", "v1"),
    ("/persistentvolumeclaims", "PersistentVolumeClaim", "v1"),
    ("/nodes", "Node", "v1"),
    ("/configmaps", "ConfigMap", "v1"),
    ("scheduling.k8s.io/priorityclasses", "PriorityClass", "scheduling.k8s.io/v1"),
];

pub fn router(state: ServerState) -> Router {
    Router::new().fallback(move |Query(query): Query<HashMap<String, String>>, request: Request| {
        let state = state.clone();
        async move { serve(state, query, request).await }
    })
}

/// Kinds of one version; those of Kueue are served in every version that the test names, and converted by changing their
/// `apiVersion`: kubernetes-sigs/kueue v0.15.0, `config/components/crd/bases`, has no other change in the fields that Burnin reads.
fn versions(state: &ServerState, group: &str, version: &str) -> Vec<String> {
    match group {
        KUEUE => state.kueue().iter().map(|version| format!("{KUEUE}/{version}")).collect(),
        _ => vec![version.to_owned()],
    }
}

const KUEUE: &str = "kueue.x-k8s.io";

/// Target of a request.
struct ResourcePath {
    key: Key,
    /// Group and version, as in `apiVersion`.
    version: String,
    namespace: Option<String>,
    below: Option<String>,
}

fn target(path: &str) -> Option<ResourcePath> {
    let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version) = match *parts.first()? {
        "api" if parts.len() > 2 => {
            let version = parts[1].to_owned();
            parts.drain(..2);
            (String::new(), version)
        }
        "apis" if parts.len() > 3 => {
            let (group, version) = (parts[1].to_owned(), format!("{}/{}", parts[1], parts[2]));
            parts.drain(..3);
            (group, version)
        }
        _ => return None,
    };
    let namespace = (parts.first() == Some(&"namespaces") && parts.len() > 2).then(|| parts[1].to_owned());
    if namespace.is_some() {
        parts.drain(..2);
    }
    let mut parts = parts.into_iter().map(str::to_owned);
    let kind = format!("{group}/{}", parts.next()?);
    let name = parts.next().unwrap_or_default();
    let key = (kind, namespace.clone().unwrap_or_default(), name);
    Some(ResourcePath { key, version, namespace, below: parts.next() })
}

async fn serve(state: ServerState, query: HashMap<String, String>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if let Some(answer) = discovery(&state, &head.method, head.uri.path()) {
        let document = if head.method == Method::GET { Value::Null } else { json_of(body).await };
        return answer(&state, &document);
    }
    let Some(target) = target(head.uri.path()) else {
        return refused(&(404, "NotFound", "no such path".to_owned()));
    };
    let group = target.key.0.split('/').next().unwrap_or_default();
    let known = KINDS.iter().find(|(path, ..)| *path == target.key.0);
    // The simulated controllers use one version, independent of the versions served to Burnin.
    let served = |version: &str| {
        controllers(&head.headers) || versions(&state, group, version).contains(&target.version)
    };
    let Some((_, kind, version)) = known.filter(|(.., version)| served(version)) else {
        return refused(&(404, "NotFound", "the server could not find the requested resource".to_owned()));
    };
    let version = if group == KUEUE { &target.version } else { &(*version).to_owned() };
    let plural = target.key.0.rsplit('/').next().unwrap_or_default().to_owned();
    let operation = format!(
        "{} {plural}{}",
        head.method,
        target.below.as_ref().map(|below| format!("/{below}")).unwrap_or_default()
    );
    *state
        .requests
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .entry(operation)
        .or_default() += 1;
    // Faults apply only to Burnin's requests: the simulated controllers send another user agent.
    let fault = if controllers(&head.headers) { None } else { fault(&state, &head.method, head.uri.path()) };
    if let Some(Fault::Refused(code)) = fault {
        return refused(&(code, "InternalError", "injected fault".to_owned()));
    }
    if fault == Some(Fault::CutBefore) {
        return broken();
    }
    let body = to_bytes(body, 16 << 20).await.unwrap_or_default();
    if head.method == Method::GET {
        return read(&state, &target, kind, version, &query);
    }
    let patch =
        head.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    if fault == Some(Fault::Late) {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(150)).await;
            drop(write(&state, &head.method, target, &patch, &body));
        });
        return broken();
    }
    let (kind, version) = ((*kind).to_owned(), version.clone());
    let written = write(&state, &head.method, target, &patch, &body);
    match (fault, written) {
        (Some(Fault::CutAfter), _) => broken(),
        (Some(Fault::LandsAndAnswers(code)), _) => {
            refused(&(code, "InternalError", "injected fault".to_owned()))
        }
        (_, Ok(mut object)) => {
            (object["kind"], object["apiVersion"]) = (json!(kind), json!(version));
            let status = if head.method == Method::POST { StatusCode::CREATED } else { StatusCode::OK };
            (status, axum::Json(object)).into_response()
        }
        (_, Err(refusal)) => refused(&refusal),
    }
}

async fn json_of(body: Body) -> Value {
    serde_json::from_slice(&to_bytes(body, 1 << 20).await.unwrap_or_default()).unwrap_or_default()
}

type DiscoveryHandler = Box<dyn FnOnce(&ServerState, &Value) -> Response + Send>;

/// Discovery: the kinds of a group's version, and permissions of the caller.
fn discovery(state: &ServerState, method: &Method, path: &str) -> Option<DiscoveryHandler> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (method, &parts[..]) {
        (&Method::GET, ["apis"]) => {
            let mut groups: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
            for (path, _, version) in KINDS {
                let group = path.split('/').next().unwrap_or_default();
                if !group.is_empty() && !state.denied().contains(group) {
                    groups.entry(group).or_default().extend(versions(state, group, version));
                }
            }
            let groups: Vec<_> = groups
                .into_iter()
                .map(|(name, all)| {
                    let of = |version: &String| json!({"groupVersion": version, "version": version.rsplit('/').next()});
                    json!({"name": name, "versions": all.iter().map(of).collect::<Vec<_>>(), "preferredVersion": all.last().map(of)})
                })
                .collect();
            Some(Box::new(move |_, _| {
                axum::Json(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
                    .into_response()
            }))
        }
        (&Method::GET, ["apis", group, version]) => {
            let version = format!("{group}/{version}");
            let gone = state.denied().contains(*group);
            let kinds: Vec<_> = KINDS
                .iter()
                .filter(|(path, _, of)| {
                    path.starts_with(&format!("{group}/"))
                        && versions(state, group, of).contains(&version)
                        && !gone
                })
                .collect();
            let kinds: Vec<_> = kinds
                .iter()
                .map(|(path, kind, _)| json!({"name": path.rsplit('/').next(), "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]}))
                .collect();
            Some(Box::new(move |_, _| {
                if kinds.is_empty() {
                    return refused(&(
                        404,
                        "NotFound",
                        "the server could not find the requested resource".to_owned(),
                    ));
                }
                axum::Json(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": kinds})).into_response()
            }))
        }
        (&Method::POST, ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]) => {
            Some(Box::new(|state, review| {
                let attributes = &review["spec"]["resourceAttributes"];
                let below =
                    attributes["subresource"].as_str().map(|below| format!("/{below}")).unwrap_or_default();
                let text = |field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
                let allowed =
                    !state.denied().contains(&format!("{} {}{below}", text("verb"), text("resource")));
                let mut response = review.clone();
                response["status"] = json!({"allowed": allowed});
                (StatusCode::CREATED, axum::Json(response)).into_response()
            }))
        }
        _ => None,
    }
}

fn controllers(headers: &HeaderMap) -> bool {
    headers.get("user-agent").is_some_and(|agent| agent == "world")
}

fn fault(state: &ServerState, method: &Method, path: &str) -> Option<Fault> {
    let mut faults = state.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let ours = faults.iter().position(|(verb, part, _)| *verb == method.as_str() && path.contains(part))?;
    faults.remove(ours).map(|(.., fault)| fault)
}

fn write(
    state: &ServerState,
    method: &Method,
    target: ResourcePath,
    patch: &str,
    body: &Bytes,
) -> Result<Value, Refused> {
    let wrong = |why: &str| (400, "BadRequest", why.to_owned());
    let object: Value = if body.is_empty() {
        json!({})
    } else {
        serde_json::from_slice(body).map_err(|_| wrong("no JSON"))?
    };
    let mut key = target.key;
    let mut objects = state.objects();
    let done = match *method {
        Method::POST => {
            let given = object["metadata"]["name"].as_str().map(str::to_owned);
            let made = || {
                let prefix = object["metadata"]["generateName"].as_str()?;
                Some(format!("{prefix}{}", &uuid::Uuid::new_v4().simple().to_string()[..5]))
            };
            key.2 = given.or_else(made).ok_or_else(|| wrong("name or generateName is required"))?;
            objects.create(&key, object)
        }
        Method::PUT => objects.replace(&key, object),
        Method::PATCH if patch.contains("apply-patch") && objects.get(&key).is_none() => {
            objects.create(&key, object)
        }
        Method::PATCH if patch.contains("apply-patch") || patch.contains("merge-patch") => {
            objects.merge(&key, &object)
        }
        Method::DELETE => objects.delete(&key, &object),
        _ => Err((405, "MethodNotAllowed", format!("{method} {patch} is not served"))),
    };
    drop(objects);
    state.notify_watchers();
    done
}

fn read(
    state: &ServerState,
    target: &ResourcePath,
    kind: &str,
    version: &str,
    query: &HashMap<String, String>,
) -> Response {
    let ResourcePath { key, namespace, below, .. } = target;
    let parameter = |name: &str| query.get(name).map(String::as_str);
    match below.as_deref() {
        Some("log") => {
            let since = parameter("sinceTime").and_then(|since| since.parse().ok());
            let follow = parameter("follow") == Some("true");
            let container = parameter("container").unwrap_or_default();
            if state.objects().get(key).is_none() {
                return refused(&(404, "NotFound", format!("pods \"{}\" not found", key.2)));
            }
            return match state.logs.read(&key.2, container, since, follow) {
                Some(body) => Body::from_stream(until_cut(state, body)).into_response(),
                None => {
                    refused(&(400, "BadRequest", format!("container \"{container}\" is waiting to start")))
                }
            };
        }
        Some(_) => return refused(&(404, "NotFound", "no such subresource".to_owned())),
        None => {}
    }
    let shown = |mut object: Value| {
        (object["kind"], object["apiVersion"]) = (json!(kind), json!(version));
        object
    };
    if !key.2.is_empty() {
        return match state.objects().get(key).cloned() {
            Some(object) => axum::Json(shown(object)).into_response(),
            None => refused(&(
                404,
                "NotFound",
                format!("{} \"{}\" not found", key.0.trim_start_matches('/'), key.2),
            )),
        };
    }
    let (labels, fields) = (
        parameter("labelSelector").unwrap_or_default().to_owned(),
        parameter("fieldSelector").unwrap_or_default().to_owned(),
    );
    if parameter("watch") == Some("true") {
        let from = parameter("resourceVersion").and_then(|from| from.parse().ok()).unwrap_or(0);
        let watched = watch(state.clone(), key.0.clone(), namespace.clone(), labels, from);
        let shown = (kind.to_owned(), version.to_owned());
        let lines = watched.map(move |mut event| {
            if event["object"]["kind"].is_null() {
                (event["object"]["kind"], event["object"]["apiVersion"]) = (json!(shown.0), json!(shown.1));
            }
            Ok::<_, std::io::Error>(Bytes::from(format!("{event}\n")))
        });
        return Body::from_stream(until_cut(state, lines)).into_response();
    }
    if state.denied().contains(&format!("list {}", key.0.trim_start_matches('/'))) {
        return refused(&(403, "Forbidden", format!("{} is forbidden", key.0)));
    }
    let objects = state.objects();
    let items: Vec<_> = objects
        .list(&key.0, namespace.as_deref())
        .into_iter()
        .filter(|object| selected(object, &labels) && fielded(object, &fields))
        .map(shown)
        .collect();
    // Returns at most the requested number of objects, and a token for the next page.
    let from: usize = parameter("continue").and_then(|from| from.parse().ok()).unwrap_or(0);
    let limit: usize = parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let more = items.len().saturating_sub(from) > limit;
    let items: Vec<_> = items.into_iter().skip(from).take(limit).collect();
    let mut meta = json!({"resourceVersion": objects.version().to_string()});
    if more {
        meta["continue"] = json!((from + limit).to_string());
    }
    axum::Json(
        json!({"kind": format!("{kind}List"), "apiVersion": version, "metadata": meta, "items": items}),
    )
    .into_response()
}

/// Changes after a version, with bookmarks, until the watch is disconnected. A compacted version is reported as expired.
fn watch(
    state: ServerState,
    kind: String,
    namespace: Option<String>,
    labels: String,
    from: u64,
) -> impl futures::Stream<Item = Value> {
    let changed = state.changed.subscribe();
    futures::stream::unfold((state, changed, from, false), move |(state, mut changed, from, over)| {
        let (kind, namespace, labels) = (kind.clone(), namespace.clone(), labels.clone());
        async move {
            if over {
                return None;
            }
            loop {
                changed.mark_unchanged();
                let (new, now) = {
                    let objects = state.objects();
                    (objects.after(from), objects.version())
                };
                let Some(new) = new else {
                    let gone = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 410,
                        "reason": "Expired", "message": format!("too old resource version: {from} ({now})")});
                    return Some((vec![json!({"type": "ERROR", "object": gone})], (state, changed, from, true)));
                };
                let events: Vec<_> = new
                    .iter()
                    .filter(|change| change.key.0 == kind && namespace.as_ref().is_none_or(|namespace| change.key.1 == *namespace))
                    .filter(|change| selected(&change.object, &labels))
                    .map(|change| json!({"type": change.kind, "object": change.object}))
                    .collect();
                if !events.is_empty() {
                    return Some((events, (state, changed, now, false)));
                }
                if tokio::time::timeout(Duration::from_millis(300), changed.changed()).await.is_err() {
                    let mark = json!({"metadata": {"resourceVersion": now.to_string(), "creationTimestamp": null}});
                    return Some((vec![json!({"type": "BOOKMARK", "object": mark})], (state, changed, now, false)));
                }
            }
        }
    })
    .flat_map(futures::stream::iter)
}

fn until_cut<T, B: futures::Stream<Item = Result<T, std::io::Error>>>(
    state: &ServerState,
    body: B,
) -> impl futures::Stream<Item = Result<T, std::io::Error>> + use<T, B> {
    let mut cut = state.cut.subscribe();
    cut.mark_unchanged();
    let broken = futures::stream::once(async move {
        _ = cut.changed().await;
        Err(std::io::Error::other("cut"))
    });
    // The response ends after the first error, or when the body ends.
    let ended = futures::stream::once(async { Ok(None) });
    let body = body.map(|item| item.map(Some)).chain(ended);
    let all = futures::stream::select(body, broken.map(|cut: Result<Infallible, _>| cut.map(|_| None)));
    all.scan((), |(), item| async move { item.transpose() })
}

fn selected(object: &Value, labels: &str) -> bool {
    labels.split(',').filter(|label| !label.is_empty()).all(|label| match label.split_once('=') {
        Some((key, value)) => object["metadata"]["labels"][key] == *value.trim_start_matches('='),
        None => object["metadata"]["labels"][label].is_string(),
    })
}

fn fielded(object: &Value, fields: &str) -> bool {
    fields.split(',').filter(|field| !field.is_empty()).all(|field| {
        let Some((path, value)) = field.split_once('=') else { return false };
        path.split('.').fold(object, |object, part| &object[part]) == value
    })
}

fn refused((code, reason, message): &Refused) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "reason": reason, "message": message});
    (StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), axum::Json(status))
        .into_response()
}

/// A response that is truncated before its first complete JSON value.
fn broken() -> Response {
    let body = futures::stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("cut"))]);
    Body::from_stream(body).into_response()
}
