//! JSON Schemas of all payloads, generated from the types.

use model::{Body, Fact};
use serde_json::{Map, Value, json};

use crate::{CLUSTER_OFFERED, ClusterOffer, RUN_ANSWERED, RUN_REQUEST, RunAnswer, RunRequest};

/// Every event type with the JSON Schema of its `data`, sorted by type.
pub fn event_schemas() -> Vec<(&'static str, Value)> {
    let facts = Fact::schemas().into_iter().map(|(event_type, schema)| (event_type, schema.to_value()));
    let mut schemas: Vec<_> = facts
        .chain(commands())
        .chain([
            (CLUSTER_OFFERED, schemars::schema_for!(ClusterOffer).to_value()),
            (RUN_REQUEST, schemars::schema_for!(RunRequest).to_value()),
            (RUN_ANSWERED, schemars::schema_for!(RunAnswer).to_value()),
        ])
        .map(|(event_type, schema)| (event_type, titled(event_type, schema)))
        .collect();
    schemas.sort_by_key(|(event_type, _)| *event_type);
    schemas
}

/// One schema per variant: the enum's own schema names each variant's `type`, and its `data` is the payload.
fn commands() -> impl Iterator<Item = (&'static str, Value)> {
    let whole = schemars::schema_for!(Body).to_value();
    let definitions = whole.get("$defs").cloned();
    let variants = whole["oneOf"].as_array().cloned().unwrap_or_default();
    Body::TYPES.iter().filter_map(move |event_type| {
        let variant =
            variants.iter().find(|variant| variant["properties"]["type"]["const"] == **event_type)?;
        let mut data = variant["properties"]["data"].clone();
        data["description"] = variant["description"].clone();
        let used = reachable(&data, definitions.as_ref().unwrap_or(&Value::Null));
        if !used.is_empty() {
            data["$defs"] = used.into();
        }
        Some((*event_type, data))
    })
}

/// The definitions that `schema` references, directly or through other definitions.
fn reachable(schema: &Value, definitions: &Value) -> Map<String, Value> {
    let mut used = Map::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                let name =
                    fields.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
                if let Some((name, definition)) = name.and_then(|name| Some((name, definitions.get(name)?)))
                    && used.insert(name.to_owned(), definition.clone()).is_none()
                {
                    open.push(definition);
                }
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    used
}

fn titled(event_type: &str, mut schema: Value) -> Value {
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(event_type);
    schema
}
