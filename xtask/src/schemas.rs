//! JSON Schemas, generated from the types.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::{JsonSchema, SchemaGenerator, schema_for};
use serde_json::{Value, json};

/// Every schema file with its content.
pub fn all() -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut add = |path: String, schema: Value| {
        let text = serde_json::to_string_pretty(&with_kinds(schema)).unwrap_or_default() + "\n";
        files.insert(PathBuf::from("schemas").join(path), text);
    };
    for (event_type, schema) in events::event_schemas() {
        add(format!("events/{event_type}.json"), schema);
    }
    add("workflow.json".to_owned(), schema::<workflow::WorkflowFile>());
    add("suite.json".to_owned(), schema::<workflow::SuiteFile>());
    add("criteria.json".to_owned(), schema::<model::Criteria>());
    add("deployed/cluster.json".to_owned(), schema::<cluster_deployed::DeployedCluster>());
    add("deployed/gone.json".to_owned(), schema::<cluster_deployed::Destroyed>());
    add("build.json".to_owned(), cloudbuild::config::schema());
    add("ledger-record.json".to_owned(), schema::<model::Record>());
    add("baseline.json".to_owned(), schema::<verdict::Baseline>());
    add("bundle.json".to_owned(), schema::<bundle::Contents>());
    add("measurements.json".to_owned(), schema::<measurements::Measurements>());
    add("stored-verdict.json".to_owned(), schema::<verdict::Stored>());
    for table in &warehouse::TABLES {
        add(format!("bigquery/{}.json", table.name), table.bigquery());
    }
    add("notice.v1.json".to_owned(), schema::<channels::Posted>());
    add("cli/audit.v1.json".to_owned(), schema::<verdict::audit::Audit>());
    add("cli/compare.v1.json".to_owned(), schema::<verdict::compare::Comparison>());
    add("cli/locate.v1.json".to_owned(), schema::<verdict::locate::Located>());
    add("cli/nodes.v1.json".to_owned(), schema::<run_index::Nodes>());
    add("cli/parse.v1.json".to_owned(), schema::<burnin::documents::ParseDocument>());
    add("cli/baselines.v1.json".to_owned(), schema::<burnin::documents::PinsDocument>());
    add("cli/run.v1.json".to_owned(), schema::<burnin::documents::RunDocument>());
    add("cli/runs.v1.json".to_owned(), schema::<burnin::documents::RunsDocument>());
    add("cli/show.v1.json".to_owned(), schema::<run_index::RunDetail>());
    add("cli/verdict.v1.json".to_owned(), schema::<burnin::documents::VerdictDocument<'_>>());
    files
}

fn schema<T: JsonSchema>() -> Value {
    schema_for!(T).to_value()
}

/// Replaces the definition of `System`, whose settings the domain types do not define, by the settings of all
/// kinds of clusters.
fn with_kinds(mut schema: Value) -> Value {
    let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return schema };
    let Some(open) = definitions.get("System") else { return schema };
    let mut generator = SchemaGenerator::default();
    let mut kinds = clusters::schema(&mut generator, |_| true);
    let deployed = generator.subschema_for::<cluster_deployed::Deployed>();
    if let Some(one_of) = kinds.get_mut("oneOf").and_then(Value::as_array_mut) {
        one_of.push(json!({
            "description": "A cluster that build steps provision and release.",
            "type": "object",
            "properties": {model::DEPLOYED: deployed},
            "additionalProperties": false,
            "required": [model::DEPLOYED],
        }));
    }
    kinds.insert("description".to_owned(), open["description"].clone());
    definitions.insert("System".to_owned(), kinds.to_value());
    for (name, definition) in generator.take_definitions(true) {
        definitions.entry(name).or_insert(definition);
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references(value: &Value) -> BTreeSet<String> {
        match value {
            Value::Object(fields) => {
                let own =
                    fields.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
                own.map(str::to_owned).into_iter().chain(fields.values().flat_map(references)).collect()
            }
            Value::Array(items) => items.iter().flat_map(references).collect(),
            _ => BTreeSet::new(),
        }
    }

    #[test]
    fn schemas_define_exactly_the_types_that_they_reference() {
        for (path, text) in all() {
            let mut schema: Value = serde_json::from_str(&text).unwrap();
            let mut definitions = match schema.as_object_mut().and_then(|schema| schema.remove("$defs")) {
                Some(Value::Object(definitions)) => definitions,
                _ => serde_json::Map::new(),
            };
            let mut open = references(&schema);
            while let Some(name) = open.pop_first() {
                // The references of a removed definition have been followed already.
                let Some(definition) = definitions.remove(&name) else {
                    assert!(text.contains(&format!("\"{name}\": {{")), "{path:?} lacks {name}");
                    continue;
                };
                open.extend(references(&definition));
            }
            let unused: Vec<_> = definitions.keys().collect();
            assert!(unused.is_empty(), "{path:?}: unreferenced definitions: {unused:?}");
        }
    }
}
