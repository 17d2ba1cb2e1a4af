//! The table of the API: every path with its handlers and their description.

use axum::{
    http::Method,
    routing::{get, post},
};
use serde_json::{Value, json};

use super::{
    baselines, files,
    operation::{Operation, ParameterLocation, ResponseSchema, Route, parameter},
    runs, workflows,
};

/// All paths, in the order of the OpenAPI document.
pub fn all() -> Vec<Route> {
    [workflow_routes(), baseline_routes(), run_routes(), file_routes()].into_iter().flatten().collect()
}

fn workflow_routes() -> Vec<Route> {
    vec![Route {
        path: "/api/v1/workflows",
        handler: get(workflows::list),
        operations: vec![
            Operation::new(
                Method::GET,
                "listWorkflows",
                "Lists the workflows and the time of their last validation.",
            )
            .returns::<workflows::WorkflowList>(200, "The workflows."),
        ],
    }]
}

fn baseline_routes() -> Vec<Route> {
    let show = Operation::new(
        Method::GET,
        "showBaseline",
        "Shows the pinned reference run of the workflow, with all pins and releases.",
    )
    .parameters([baselines::workflow()])
    .returns::<pins::PinHistory>(200, "The history.");
    let pin = Operation::new(
        Method::PUT,
        "pinBaseline",
        "Pins a run as the reference of the workflow's later runs. Idempotent.",
    )
    .parameters([baselines::workflow()])
    .body::<baselines::PinRequest>()
    .returns::<pins::PinHistory>(200, "The history.");
    let release = Operation::new(
        Method::DELETE,
        "releaseBaseline",
        "Releases the pin: later runs are judged by the learned baseline. Idempotent.",
    )
    .parameters([baselines::workflow(), baselines::reason()])
    .returns::<pins::PinHistory>(200, "The history.");
    vec![
        Route {
            path: "/api/v1/baselines",
            handler: get(baselines::list),
            operations: vec![
                Operation::new(
                    Method::GET,
                    "listBaselines",
                    "Lists the pinned reference run of each workflow, with all pins and releases.",
                )
                .returns::<baselines::Baselines>(200, "The workflows."),
            ],
        },
        Route {
            path: "/api/v1/baselines/{workflow}",
            handler: get(baselines::show).put(baselines::pin).delete(baselines::release),
            operations: vec![show, pin, release],
        },
    ]
}

fn run_routes() -> Vec<Route> {
    let list = Operation::new(Method::GET, "listRuns", "Lists runs, newest first, in pages.")
        .parameters(runs::filters())
        .returns::<run_index::RunPage>(200, "A page.");
    let begin = Operation::new(
        Method::POST,
        "beginRun",
        "Requests a run. Repeated requests with the same key return the same run.",
    )
    .parameters([idempotency_key()])
    .body::<runs::Begin>()
    .returns::<runs::StartedRun>(202, "The run.");
    let show = Operation::new(Method::GET, "showRun", "Shows one run with its stages.")
        .parameters([run(), with_metrics(), shown_check()])
        .returns::<runs::RunResource>(200, "The run.");
    let records =
        Operation::new(Method::GET, "listRecords", "Lists the records of a run's ledger, oldest first.")
            .parameters([run()])
            .returns::<runs::RunRecords>(200, "The records.");
    let cancel = Operation::new(
        Method::POST,
        "cancelRun",
        "Cancels a run and releases its resources. A run that has ended stays unchanged.",
    )
    .parameters([run()])
    .body::<runs::Cancel>()
    .returns::<runs::RunResource>(202, "State of the run before the cancel request.");
    let follow = Operation::new(
        Method::GET,
        "followRun",
        "Streams the records of a run as server-sent events: `id` is the record's number, `data` the record and \
         the run. `end` is the last event. The server may end the stream at any time; reconnect with \
         `Last-Event-ID`.",
    )
    .parameters([run(), last_known_record()])
    .responds(200, "Records.", &["text/event-stream"], ResponseSchema::Any);
    vec![
        Route {
            path: "/api/v1/runs",
            handler: get(runs::list).post(runs::begin),
            operations: vec![list, begin],
        },
        Route { path: "/api/v1/runs/{run}", handler: get(runs::show), operations: vec![show] },
        Route { path: "/api/v1/runs/{run}/records", handler: get(runs::records), operations: vec![records] },
        Route { path: "/api/v1/runs/{run}/cancel", handler: post(runs::cancel), operations: vec![cancel] },
        Route { path: "/api/v1/runs/{run}/events", handler: get(runs::follow), operations: vec![follow] },
    ]
}

fn file_routes() -> Vec<Route> {
    let list =
        Operation::new(Method::GET, "listLogs", "Lists the benchmark's logs after they are committed.")
            .parameters([run()])
            .returns::<files::FileList>(200, "The files.");
    let fetch = Operation::new(Method::GET, "fetchLog", "Returns one file, or a range of its bytes.")
        .parameters([run(), file_name(), byte_range()])
        .responds(200, "The complete file.", &["text/plain"], ResponseSchema::Text)
        .responds(206, "The range.", &["text/plain"], ResponseSchema::Text);
    let report = Operation::new(Method::GET, "reportRun", "Returns the report of a run.")
        .parameters([run(), report_format(), shown_check()])
        .responds(
            200,
            "The report in the requested format; `json`: the judgement.",
            &["text/html", "text/plain", "text/markdown", "text/csv", "application/xml", "application/json"],
            ResponseSchema::Any,
        );
    vec![
        Route { path: "/api/v1/runs/{run}/logs", handler: get(files::list), operations: vec![list] },
        Route {
            path: "/api/v1/runs/{run}/logs/{*name}",
            handler: get(files::fetch),
            operations: vec![fetch],
        },
        Route { path: "/api/v1/runs/{run}/report", handler: get(files::report), operations: vec![report] },
    ]
}

fn run() -> Value {
    let schema = json!({"type": "string", "pattern": "^[a-z][a-z0-9-]{0,49}$"});
    parameter(ParameterLocation::Path, "run", schema, "Run id.")
}

fn idempotency_key() -> Value {
    let schema = json!({"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,200}$"});
    parameter(
        ParameterLocation::Header,
        "Idempotency-Key",
        schema,
        "Key chosen by the caller, unique for this request.",
    )
}

fn last_known_record() -> Value {
    let schema = json!({"type": "integer", "minimum": 0, "maximum": u64::MAX});
    parameter(ParameterLocation::Query, "after", schema, "Number of the last known record.")
}

fn file_name() -> Value {
    let schema = json!({"type": "string", "minLength": 1});
    parameter(ParameterLocation::Path, "name", schema, "File name from the list.")
}

fn byte_range() -> Value {
    parameter(
        ParameterLocation::Header,
        "Range",
        json!({"type": "string"}),
        "`bytes=FIRST-LAST`, see RFC 9110.",
    )
}

fn shown_check() -> Value {
    parameter(
        ParameterLocation::Query,
        "check",
        json!({"type": "string"}),
        "Name of a check. Default: the check with the most severe verdict.",
    )
}

fn with_metrics() -> Value {
    let schema = json!({"type": "boolean", "default": false});
    parameter(
        ParameterLocation::Query,
        "metrics",
        schema,
        "Whether to include the metrics and suspects of a check, which are read from its logs.",
    )
}

fn report_format() -> Value {
    let formats = ["html", "text", "markdown", "json", "csv", "junit"];
    let schema = json!({"type": "string", "enum": formats, "default": "html"});
    parameter(ParameterLocation::Query, "form", schema, "Format.")
}
