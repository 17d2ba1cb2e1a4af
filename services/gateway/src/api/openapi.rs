//! OpenAPI description, generated from the types and the table of the API.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    operations::{self, Operation, OperationResponse},
    problem::ApiProblem,
};

/// Schemas referenced by operations.
pub struct Schemas(SchemaGenerator);

impl Schemas {
    fn new() -> Self {
        // OpenAPI 3.1 is JSON Schema 2020-12, except for the path of definitions.
        let settings = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| settings.definitions_path = "/components/schemas".into());
        Self(settings.into_generator())
    }

    /// A schema, by reference if it is named.
    pub fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }
}

/// Schema of a request body: optional fields differ from those of responses.
pub fn sent<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    schema
}

/// Response of `GET /api/v1/openapi.json`.
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let problem = schemas.of::<ApiProblem>();
    for operation in operations::all() {
        for told in operation.told {
            let path = operation.path.replace("{*", "{");
            let method = told.method.as_str().to_ascii_lowercase();
            let described = describe(&told, &problem, &mut schemas);
            paths.entry(path).or_insert_with(|| json!({}))[method] = described;
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Burnin",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Proves that GPU clusters are good: runs of NCCL benchmarks, their verdicts and their logs.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas.0.take_definitions(true)},
    })
}

fn describe(told: &Operation, problem: &Value, schemas: &mut Schemas) -> Value {
    let mut answers = Map::new();
    for OperationResponse { status, what, media, schema } in &told.answers {
        let mut answer = json!({"description": what});
        if !media.is_empty() {
            let schema = schema.map(|schema| schema(schemas)).unwrap_or_else(|| json!({"type": "string"}));
            let content = media.iter().map(|media| ((*media).to_owned(), json!({"schema": schema})));
            answer["content"] = Value::Object(content.collect());
        }
        answers.insert(status.to_string(), answer);
    }
    answers.insert(
        "default".to_owned(),
        json!({"description": "Error.", "content": {"application/problem+json": {"schema": problem}}}),
    );
    let mut described = json!({
        "operationId": told.id,
        "summary": told.what,
        "parameters": told.parameters,
        "responses": answers,
    });
    if let Some(body) = told.body {
        let content = json!({"application/json": {"schema": body()}});
        described["requestBody"] = json!({"required": true, "content": content});
    }
    described
}
