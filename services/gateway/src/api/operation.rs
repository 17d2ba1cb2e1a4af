//! Description of one operation: method, parameters, body and success responses.

use std::sync::Arc;

use axum::{http::Method, routing::MethodRouter};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::schemas::{Schemas, request_schema};
use crate::Gateway;

/// A path with its handlers and their operations.
pub struct Route {
    pub path: &'static str,
    pub handler: MethodRouter<Arc<Gateway>>,
    pub operations: Vec<Operation>,
}

/// One method of a path.
pub struct Operation {
    pub method: Method,
    pub id: &'static str,
    pub summary: &'static str,
    pub parameters: Vec<Value>,
    pub body: Option<fn() -> Value>,
    pub responses: Vec<OperationResponse>,
}

pub struct OperationResponse {
    pub status: u16,
    pub description: &'static str,
    pub media: &'static [&'static str],
    pub schema: ResponseSchema,
}

/// Schema of a response's content.
#[derive(Clone, Copy)]
pub enum ResponseSchema {
    /// A type of the API.
    Typed(fn(&mut Schemas) -> Value),
    /// Any JSON value, or a format that JSON Schema cannot describe.
    Any,
    /// The bytes of a file.
    Text,
}

impl Operation {
    pub const fn new(method: Method, id: &'static str, summary: &'static str) -> Self {
        Self { method, id, summary, parameters: Vec::new(), body: None, responses: Vec::new() }
    }

    pub fn parameters(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// Requires a JSON body of this type.
    pub fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(request_schema::<T>);
        self
    }

    /// Returns a JSON body of this type.
    pub fn returns<T: JsonSchema>(self, status: u16, description: &'static str) -> Self {
        self.responds(status, description, &["application/json"], ResponseSchema::Typed(Schemas::of::<T>))
    }

    pub fn responds(
        mut self,
        status: u16,
        description: &'static str,
        media: &'static [&'static str],
        schema: ResponseSchema,
    ) -> Self {
        self.responses.push(OperationResponse { status, description, media, schema });
        self
    }
}

#[derive(Clone, Copy)]
pub enum ParameterLocation {
    Path,
    Query,
    Header,
}

/// A parameter. Path parameters are required; all others are optional.
pub fn parameter(location: ParameterLocation, name: &str, schema: Value, description: &str) -> Value {
    let (location, required) = match location {
        ParameterLocation::Path => ("path", true),
        ParameterLocation::Query => ("query", false),
        ParameterLocation::Header => ("header", false),
    };
    json!({"name": name, "in": location, "required": required, "schema": schema, "description": description})
}
