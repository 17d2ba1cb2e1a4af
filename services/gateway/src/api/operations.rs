//! Every operation: route and description.

use std::sync::Arc;

use axum::{
    http::Method,
    routing::{MethodRouter, get, post},
};
use serde_json::{Value, json};

use super::{
    baselines, files,
    openapi::{Schemas, sent},
    runs, workflows,
};
use crate::Gateway;

type SchemaOf = fn(&mut Schemas) -> Value;

/// A path with its handlers and operations.
pub struct Route {
    pub path: &'static str,
    pub handler: MethodRouter<Arc<Gateway>>,
    pub told: Vec<Operation>,
}

/// One method of a path.
pub struct Operation {
    pub method: Method,
    pub id: &'static str,
    pub what: &'static str,
    pub parameters: Vec<Value>,
    pub body: Option<fn() -> Value>,
    pub answers: Vec<OperationResponse>,
}

/// A success response.
pub struct OperationResponse {
    pub status: u16,
    pub what: &'static str,
    pub media: &'static [&'static str],
    pub schema: Option<SchemaOf>,
}

const JSON: &[&str] = &["application/json"];

fn answers(status: u16, what: &'static str, schema: SchemaOf) -> Vec<OperationResponse> {
    vec![OperationResponse { status, what, media: JSON, schema: Some(schema) }]
}

fn named(place: &str, name: &str, schema: Value, what: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": schema, "description": what})
}

fn run() -> Value {
    let schema = json!({"type": "string", "pattern": "^[a-z][a-z0-9-]{0,49}$"});
    named("path", "run", schema, "Run id.")
}

/// All operations.
pub fn all() -> Vec<Route> {
    vec![
        Route {
            path: "/api/v1/workflows",
            handler: get(workflows::list),
            told: vec![Operation {
                method: Method::GET,
                id: "listWorkflows",
                what: "Lists the workflows and the time of their last validation.",
                parameters: vec![],
                body: None,
                answers: answers(200, "The workflows.", Schemas::of::<workflows::WorkflowList>),
            }],
        },
        Route {
            path: "/api/v1/baselines",
            handler: get(baselines::list),
            told: vec![Operation {
                method: Method::GET,
                id: "listBaselines",
                what: "Lists the pinned reference run of each workflow, with all pins and releases.",
                parameters: vec![],
                body: None,
                answers: answers(200, "The workflows.", Schemas::of::<baselines::Baselines>),
            }],
        },
        Route {
            path: "/api/v1/baselines/{workflow}",
            handler: get(baselines::show).put(baselines::pin).delete(baselines::release),
            told: vec![
                Operation {
                    method: Method::GET,
                    id: "showBaseline",
                    what: "Shows the pinned reference run of the workflow, with all pins and releases.",
                    parameters: vec![baselines::workflow()],
                    body: None,
                    answers: answers(200, "The history.", Schemas::of::<pins::PinHistory>),
                },
                Operation {
                    method: Method::PUT,
                    id: "pinBaseline",
                    what: "Pins a run as the reference of the workflow's later runs. Idempotent.",
                    parameters: vec![baselines::workflow()],
                    body: Some(sent::<baselines::PinRequest>),
                    answers: answers(200, "The history.", Schemas::of::<pins::PinHistory>),
                },
                Operation {
                    method: Method::DELETE,
                    id: "releaseBaseline",
                    what: "Releases the pin: later runs are judged by the learned baseline. Idempotent.",
                    parameters: vec![baselines::workflow(), baselines::why()],
                    body: None,
                    answers: answers(200, "The history.", Schemas::of::<pins::PinHistory>),
                },
            ],
        },
        Route {
            path: "/api/v1/runs",
            handler: get(runs::list).post(runs::begin),
            told: vec![
                Operation {
                    method: Method::GET,
                    id: "listRuns",
                    what: "Lists runs, newest first, in pages.",
                    parameters: runs::filters(),
                    body: None,
                    answers: answers(200, "A page.", Schemas::of::<run_index::RunPage>),
                },
                Operation {
                    method: Method::POST,
                    id: "beginRun",
                    what: "Requests a run. Repeated requests with the same key return the same run.",
                    parameters: vec![named(
                        "header",
                        "Idempotency-Key",
                        json!({"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,200}$"}),
                        "Key chosen by the caller, unique for this request.",
                    )],
                    body: Some(sent::<runs::Begin>),
                    answers: answers(202, "The run.", Schemas::of::<runs::StartedRun>),
                },
            ],
        },
        Route {
            path: "/api/v1/runs/{run}",
            handler: get(runs::show),
            told: vec![Operation {
                method: Method::GET,
                id: "showRun",
                what: "Shows one run with its stages.",
                parameters: vec![run()],
                body: None,
                answers: answers(200, "The run.", Schemas::of::<runs::RunResource>),
            }],
        },
        Route {
            path: "/api/v1/runs/{run}/cancel",
            handler: post(runs::cancel),
            told: vec![Operation {
                method: Method::POST,
                id: "cancelRun",
                what: "Cancels a run and releases its resources. A run that has ended stays unchanged.",
                parameters: vec![run()],
                body: Some(sent::<runs::Cancel>),
                answers: answers(202, "The run before the cancel.", Schemas::of::<runs::RunResource>),
            }],
        },
        Route {
            path: "/api/v1/runs/{run}/events",
            handler: get(runs::follow),
            told: vec![Operation {
                method: Method::GET,
                id: "followRun",
                what: "Streams the records of a run as server-sent events: `id` is the record's number, `data` the record and \
                       the run. `end` is the last event. The server may end the stream at any time; reconnect with \
                       `Last-Event-ID`.",
                parameters: vec![
                    run(),
                    named(
                        "query",
                        "after",
                        json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
                        "Number of the last known record.",
                    ),
                ],
                body: None,
                answers: vec![OperationResponse {
                    status: 200,
                    what: "Records.",
                    media: &["text/event-stream"],
                    schema: Some(|_| json!({})),
                }],
            }],
        },
        Route {
            path: "/api/v1/runs/{run}/logs",
            handler: get(files::list),
            told: vec![Operation {
                method: Method::GET,
                id: "listLogs",
                what: "Lists the benchmark's logs after they are committed.",
                parameters: vec![run()],
                body: None,
                answers: answers(200, "The files.", Schemas::of::<files::FileList>),
            }],
        },
        Route {
            path: "/api/v1/runs/{run}/logs/{*name}",
            handler: get(files::fetch),
            told: vec![Operation {
                method: Method::GET,
                id: "fetchLog",
                what: "Returns one file, or a range of its bytes.",
                parameters: vec![
                    run(),
                    named(
                        "path",
                        "name",
                        json!({"type": "string", "minLength": 1}),
                        "File name from the list.",
                    ),
                    named("header", "Range", json!({"type": "string"}), "`bytes=FIRST-LAST`, see RFC 9110."),
                ],
                body: None,
                answers: vec![
                    OperationResponse {
                        status: 200,
                        what: "The complete file.",
                        media: &["text/plain"],
                        schema: None,
                    },
                    OperationResponse {
                        status: 206,
                        what: "The range.",
                        media: &["text/plain"],
                        schema: None,
                    },
                ],
            }],
        },
        Route {
            path: "/api/v1/runs/{run}/report",
            handler: get(files::report),
            told: vec![Operation {
                method: Method::GET,
                id: "reportRun",
                what: "Returns the report of a run.",
                parameters: vec![
                    run(),
                    named(
                        "query",
                        "form",
                        json!({"type": "string", "enum": ["html", "markdown", "json", "csv", "junit"], "default": "html"}),
                        "Format.",
                    ),
                ],
                body: None,
                answers: vec![OperationResponse {
                    status: 200,
                    what: "The report; with `json` the judgement.",
                    media: &["text/html", "text/markdown", "text/csv", "application/xml", "application/json"],
                    schema: Some(|_| json!({})),
                }],
            }],
        },
    ]
}
