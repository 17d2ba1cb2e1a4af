//! JSON schemas of the API's types, in OpenAPI's dialect.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::Value;

/// Schemas of responses, collected under `components`.
pub struct Schemas(SchemaGenerator);

impl Schemas {
    pub fn new() -> Self {
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

    /// The referenced schemas, by name.
    pub fn definitions(mut self) -> Value {
        Value::Object(self.0.take_definitions(true))
    }
}

/// Schema of a request body: optional fields differ from those of responses.
pub fn request_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$schema");
    }
    schema
}
