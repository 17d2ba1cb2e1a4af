//! Every operation: its route and its description.

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

/// A path, who answers there, and what can be said of it.
pub struct Place {
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
    pub answers: Vec<Answer>,
}

/// What is answered when it goes well.
pub struct Answer {
    pub status: u16,
    pub what: &'static str,
    pub media: &'static [&'static str],
    pub schema: Option<SchemaOf>,
}

const JSON: &[&str] = &["application/json"];

fn answers(status: u16, what: &'static str, schema: SchemaOf) -> Vec<Answer> {
    vec![Answer { status, what, media: JSON, schema: Some(schema) }]
}

fn named(place: &str, name: &str, schema: Value, what: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": schema, "description": what})
}

fn run() -> Value {
    let schema = json!({"type": "string", "pattern": "^[a-z][a-z0-9-]{0,49}$"});
    named("path", "run", schema, "The run.")
}

/// The whole table.
pub fn all() -> Vec<Place> {
    vec![
        Place {
            path: "/api/v1/workflows",
            handler: get(workflows::list),
            told: vec![Operation {
                method: Method::GET,
                id: "listWorkflows",
                what: "What may be asked for, and when it was last validated.",
                parameters: vec![],
                body: None,
                answers: answers(200, "The workflows.", Schemas::of::<workflows::Workflows>),
            }],
        },
        Place {
            path: "/api/v1/baselines",
            handler: get(baselines::list),
            told: vec![Operation {
                method: Method::GET,
                id: "listBaselines",
                what: "Which run is which workflow's reference, and everything that was decided about it.",
                parameters: vec![],
                body: None,
                answers: answers(200, "The workflows.", Schemas::of::<baselines::Baselines>),
            }],
        },
        Place {
            path: "/api/v1/baselines/{workflow}",
            handler: get(baselines::show).put(baselines::pin).delete(baselines::release),
            told: vec![
                Operation {
                    method: Method::GET,
                    id: "showBaseline",
                    what: "Which run is the workflow's reference, and everything that was decided about it.",
                    parameters: vec![baselines::workflow()],
                    body: None,
                    answers: answers(200, "The history.", Schemas::of::<pins::History>),
                },
                Operation {
                    method: Method::PUT,
                    id: "pinBaseline",
                    what: "From now on the workflow's runs are held against this one. The same pin again changes nothing.",
                    parameters: vec![baselines::workflow()],
                    body: Some(sent::<baselines::Wanted>),
                    answers: answers(200, "The history.", Schemas::of::<pins::History>),
                },
                Operation {
                    method: Method::DELETE,
                    id: "releaseBaseline",
                    what: "From now on the workflow's runs are held against what is learned of them. Again changes nothing.",
                    parameters: vec![baselines::workflow(), baselines::why()],
                    body: None,
                    answers: answers(200, "The history.", Schemas::of::<pins::History>),
                },
            ],
        },
        Place {
            path: "/api/v1/runs",
            handler: get(runs::list).post(runs::begin),
            told: vec![
                Operation {
                    method: Method::GET,
                    id: "listRuns",
                    what: "Runs, newest first, page by page.",
                    parameters: runs::filters(),
                    body: None,
                    answers: answers(200, "A page.", Schemas::of::<run_index::Page>),
                },
                Operation {
                    method: Method::POST,
                    id: "beginRun",
                    what: "Asks for a run. With a key the same request is the same run, for ever.",
                    parameters: vec![named(
                        "header",
                        "Idempotency-Key",
                        json!({"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,200}$"}),
                        "Any text of the caller's that it uses for this request only.",
                    )],
                    body: Some(sent::<runs::Begin>),
                    answers: answers(202, "The run.", Schemas::of::<runs::Begun>),
                },
            ],
        },
        Place {
            path: "/api/v1/runs/{run}",
            handler: get(runs::show),
            told: vec![Operation {
                method: Method::GET,
                id: "showRun",
                what: "One run with its stages.",
                parameters: vec![run()],
                body: None,
                answers: answers(200, "The run.", Schemas::of::<runs::Shown>),
            }],
        },
        Place {
            path: "/api/v1/runs/{run}/cancel",
            handler: post(runs::cancel),
            told: vec![Operation {
                method: Method::POST,
                id: "cancelRun",
                what: "Ends a run and gives back everything it holds. One that is settled stays as it is.",
                parameters: vec![run()],
                body: Some(sent::<runs::Cancel>),
                answers: answers(202, "The run as it was.", Schemas::of::<runs::Shown>),
            }],
        },
        Place {
            path: "/api/v1/runs/{run}/events",
            handler: get(runs::follow),
            told: vec![Operation {
                method: Method::GET,
                id: "followRun",
                what: "What is recorded of a run as it happens, as server-sent events: `id` is the record's number, `data` \
                       the record and the run. `end` comes when nothing follows. The stream ends by itself now and then; \
                       `Last-Event-ID` goes on.",
                parameters: vec![
                    run(),
                    named(
                        "query",
                        "after",
                        json!({"type": "integer", "minimum": 0}),
                        "The last record that is known.",
                    ),
                ],
                body: None,
                answers: vec![Answer {
                    status: 200,
                    what: "Records.",
                    media: &["text/event-stream"],
                    schema: Some(|_| json!({})),
                }],
            }],
        },
        Place {
            path: "/api/v1/runs/{run}/logs",
            handler: get(files::list),
            told: vec![Operation {
                method: Method::GET,
                id: "listLogs",
                what: "The benchmark's output, once it is safe.",
                parameters: vec![run()],
                body: None,
                answers: answers(200, "The files.", Schemas::of::<files::Files>),
            }],
        },
        Place {
            path: "/api/v1/runs/{run}/logs/{*name}",
            handler: get(files::fetch),
            told: vec![Operation {
                method: Method::GET,
                id: "fetchLog",
                what: "One file, or a range of its bytes.",
                parameters: vec![
                    run(),
                    named("path", "name", json!({"type": "string", "minLength": 1}), "Its name in the list."),
                    named(
                        "header",
                        "Range",
                        json!({"type": "string"}),
                        "`bytes=FIRST-LAST`, as RFC 9110 has it.",
                    ),
                ],
                body: None,
                answers: vec![
                    Answer { status: 200, what: "All of it.", media: &["text/plain"], schema: None },
                    Answer { status: 206, what: "The range.", media: &["text/plain"], schema: None },
                ],
            }],
        },
        Place {
            path: "/api/v1/runs/{run}/report",
            handler: get(files::report),
            told: vec![Operation {
                method: Method::GET,
                id: "reportRun",
                what: "The report of a run.",
                parameters: vec![
                    run(),
                    named(
                        "query",
                        "form",
                        json!({"type": "string", "enum": ["html", "markdown", "json", "csv", "junit"], "default": "html"}),
                        "What it is written as.",
                    ),
                ],
                body: None,
                answers: vec![Answer {
                    status: 200,
                    what: "The report; as JSON the judgement itself.",
                    media: &["text/html", "text/markdown", "text/csv", "application/xml", "application/json"],
                    schema: Some(|_| json!({})),
                }],
            }],
        },
    ]
}
