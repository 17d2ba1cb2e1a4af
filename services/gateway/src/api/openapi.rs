//! OpenAPI description, generated from the types and the table of the API.

use serde_json::{Map, Value, json};

use super::{
    operation::{Operation, OperationResponse, ResponseSchema},
    operations,
    problem::ApiProblem,
    schemas::Schemas,
};

/// Response of `GET /api/v1/openapi.json`.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let problem = schemas.of::<ApiProblem>();
    for route in operations::all() {
        for operation in &route.operations {
            let path = route.path.replace("{*", "{");
            let method = operation.method.as_str().to_ascii_lowercase();
            let described = describe(operation, &problem, &mut schemas);
            paths.entry(path).or_insert_with(|| json!({}))[method] = described;
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Burnin",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Validates GPU clusters: runs of NCCL benchmarks, their verdicts and their logs.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas.definitions()},
    })
}

fn describe(operation: &Operation, problem: &Value, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    for OperationResponse { status, description, media, schema } in &operation.responses {
        let schema = match schema {
            ResponseSchema::Typed(schema) => schema(schemas),
            ResponseSchema::Any => json!({}),
            ResponseSchema::Text => json!({"type": "string"}),
        };
        let content = media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema})));
        let content = Value::Object(content.collect());
        responses.insert(status.to_string(), json!({"description": description, "content": content}));
    }
    responses.insert(
        "default".to_owned(),
        json!({"description": "Error.", "content": {"application/problem+json": {"schema": problem}}}),
    );
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": operation.parameters,
        "responses": responses,
    });
    if let Some(body) = operation.body {
        let content = json!({"application/json": {"schema": body()}});
        described["requestBody"] = json!({"required": true, "content": content});
    }
    described
}
