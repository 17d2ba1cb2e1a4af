//! JSON Schemas of all payloads, generated from the types.

use model::{Body, Fact};
use serde_json::{Value, json};

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
        data["$defs"] = definitions.clone().unwrap_or_else(|| json!({}));
        Some((*event_type, data))
    })
}

fn titled(event_type: &str, mut schema: Value) -> Value {
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(event_type);
    schema
}
