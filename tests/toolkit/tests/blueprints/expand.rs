//! Expands a blueprint as the toolkit does: variables of the deployment, linked outputs, explicit settings.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::conditions::holds;

/// Matches an optional attribute of an object type: its name, and its default if it has one.
static OPTIONAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(\w+) = optional\((?:[^(),]|\([^()]*\))*(?:, ([^()]*))?\)").expect("the pattern is valid")
});

#[derive(Debug, Default)]
pub struct Expanded {
    /// Problems, each with module and setting.
    pub problems: Vec<String>,
    /// Conditions that cannot be decided without the provider.
    pub undecided: BTreeSet<String>,
    /// Settings by module: explicit settings, and variables of the deployment with the same name.
    pub settings: BTreeMap<String, Map<String, Value>>,
}

pub fn modules(blueprint: &Value) -> Vec<&Value> {
    let groups = blueprint["deployment_groups"].as_array().into_iter().flatten();
    groups.flat_map(|group| group["modules"].as_array().into_iter().flatten()).collect()
}

/// Expands `modules` with the variables `vars` of a deployment. `known`: the toolkit's module declarations.
pub fn expand(modules: &[&Value], vars: &Map<String, Value>, known: &Value) -> Expanded {
    let mut expanded = Expanded::default();
    // Applies the rule of `validateVars` in pkg/config/validate.go of cluster-toolkit v1.39.0.
    let null = vars.iter().filter(|(_, value)| value.is_null());
    expanded.problems.extend(null.map(|(name, _)| format!("vars: {name} was not set")));
    expanded.problems.extend(labels(vars));
    // Applies the rule of `testDeploymentVariableNotUsed` in pkg/validators/validators.go. The toolkit itself uses the deployment's name
    // and labels.
    let text = modules.iter().map(ToString::to_string).collect::<String>();
    let is_used = |name: &str| {
        let reference = Regex::new(&format!(r"\bvars\.{name}\b")).expect("a name is a pattern");
        let by_name =
            |module: &&Value| known[module["source"].as_str().unwrap_or("")]["variables"].get(name).is_some();
        ["deployment_name", "labels"].contains(&name)
            || reference.is_match(&text)
            || modules.iter().any(by_name)
    };
    let unused = vars.keys().filter(|name| !is_used(name));
    expanded.problems.extend(unused.map(|name| format!("vars: {name} is not used in the blueprint")));
    let by_id: BTreeMap<_, _> =
        modules.iter().map(|module| (module["id"].as_str().unwrap(), *module)).collect();
    for module in modules {
        let id = module["id"].as_str().unwrap();
        let source = module["source"].as_str().unwrap();
        let Some(declared) = known.get(source) else {
            expanded.problems.push(format!("{id}: {source} is not a module"));
            continue;
        };
        let variables = declared["variables"].as_object().unwrap();
        let explicit = module["settings"].as_object().cloned().unwrap_or_default();
        for name in explicit.keys().filter(|name| !variables.contains_key(*name)) {
            expanded.problems.push(format!("{id}: {name} is not a setting of {source}"));
        }
        let mut linked = BTreeSet::new();
        for used in module["use"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let outputs =
                by_id.get(used).and_then(|of| known[of["source"].as_str().unwrap()]["outputs"].as_array());
            let names = outputs.into_iter().flatten().filter_map(Value::as_str);
            let links: Vec<_> =
                names.filter(|name| variables.contains_key(*name) && !explicit.contains_key(*name)).collect();
            // A list is linked to outputs of several modules, other types to the first module only.
            let new: Vec<_> = links
                .into_iter()
                .filter(|name| {
                    !linked.contains(*name) || variables[*name]["type"].as_str().unwrap().contains("list")
                })
                .map(str::to_owned)
                .collect();
            if new.is_empty() {
                expanded.problems.push(format!("{id}: `use` of {used} sets no variable of {id}; remove it"));
            }
            linked.extend(new);
        }
        for (name, variable) in variables {
            let given = explicit.contains_key(name) || linked.contains(name) || vars.contains_key(name);
            // The toolkit passes a module's own id (`inject_module_id` in its metadata).
            let injected = name == "internal_ghpc_module_id";
            if variable["required"] == true && !given && !injected {
                expanded.problems.push(format!("{id}: {name} is required by {source}"));
            }
        }
        // Values that are unknown until the deployment are omitted.
        let mut values = Map::new();
        for (name, variable) in variables {
            let value = match explicit.get(name) {
                Some(value) => resolved(value, vars),
                None if linked.contains(name) => None,
                None => vars.get(name).or(variable.get("default")).cloned(),
            };
            if let Some(value) =
                value.as_ref().filter(|value| !fits(variable["type"].as_str().unwrap(), value))
            {
                let kind = variable["type"].as_str().unwrap();
                expanded.problems.push(format!("{id}: {name} is {value}, expected {kind}"));
            }
            values.extend(value.map(|value| (name.clone(), complete(value, &variable["type"]))));
        }
        for one in declared["conditions"].as_array().unwrap() {
            let condition = one["condition"].as_str().unwrap();
            // Every machine's image has the disk size of the blueprint's image.
            let image = json!({"disk_size_gb": vars.get("disk_gb"), "self_link": "a"});
            let scope = [("var", Value::Object(values.clone())), ("self", image)];
            match holds(condition, &scope) {
                Some(true) => {}
                Some(false) => expanded.problems.push(format!("{id}: {}", one["message"].as_str().unwrap())),
                None => _ = expanded.undecided.insert(format!("{source}: {condition}")),
            }
        }
        expanded.problems.extend(threads(id, &values));
        let mut settings: Map<_, _> = vars
            .iter()
            .filter(|(name, _)| variables.contains_key(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        settings.extend(
            explicit
                .iter()
                .map(|(name, value)| (name.clone(), resolved(value, vars).unwrap_or_else(|| value.clone()))),
        );
        expanded.settings.insert(id.to_owned(), settings);
    }
    expanded
}

/// Whether Terraform converts a value to a type. Expressions have the type of their value, which is unknown here.
fn fits(kind: &str, value: &Value) -> bool {
    let expression = |text: &String| text.contains("$(") || text.contains("((");
    match value {
        Value::Null => true,
        Value::String(text) if expression(text) => true,
        Value::String(text) if kind == "number" => text.parse::<f64>().is_ok(),
        Value::String(text) if kind == "bool" => ["true", "false"].contains(&text.as_str()),
        Value::Bool(_) => ["bool", "string", "any"].contains(&kind),
        Value::Number(_) => ["number", "string", "any"].contains(&kind),
        Value::String(_) => ["string", "any"].contains(&kind),
        Value::Array(_) => ["list", "set", "tuple", "any"].iter().any(|of| kind.starts_with(of)),
        Value::Object(_) => ["map", "object", "any"].iter().any(|of| kind.starts_with(of)),
    }
}

/// Rules for the values of labels (pkg/config/validate.go, `isValidLabelValue`).
fn labels(vars: &Map<String, Value>) -> Vec<String> {
    let labels = vars.get("labels").and_then(Value::as_object).into_iter().flatten();
    let legal = |text: &str| {
        text.len() <= 63
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
    };
    let wrong = labels.filter(|(_, value)| !value.as_str().is_some_and(legal));
    wrong.map(|(name, value)| format!("vars: label {name} is {value}")).collect()
}

/// Adds missing optional attributes of an object's type, with their default or null.
fn complete(mut value: Value, kind: &Value) -> Value {
    if let (Value::Object(fields), Some(kind)) = (&mut value, kind.as_str()) {
        for found in OPTIONAL.captures_iter(kind) {
            let default = found.get(2).and_then(|default| serde_json::from_str(default.as_str()).ok());
            fields.entry(&found[1]).or_insert(default.unwrap_or(Value::Null));
        }
        // An image has a name or a family; their types are maps.
        if fields.contains_key("project") {
            for name in ["name", "family"] {
                fields.entry(name).or_insert(Value::Null);
            }
        }
    }
    value
}

/// Slurm-GCP starts machines with one thread per core unless `enable_smt` is set (nodeset `variables.tf`), and Slurm rejects a node
/// with fewer processors than `node_conf` states (INVALID_REG).
fn threads(id: &str, values: &Map<String, Value>) -> Option<String> {
    let stated = values.get("node_conf")?["ThreadsPerCore"].as_u64().unwrap_or(1);
    let smt = values.get("enable_smt") == Some(&Value::Bool(true));
    (stated > 1 && !smt)
        .then(|| format!("{id}: node_conf has ThreadsPerCore {stated}, but enable_smt is not set"))
}

/// A setting with the deployment's variables in place of `$(vars.name)`; `None` if it refers to another module.
fn resolved(value: &Value, vars: &Map<String, Value>) -> Option<Value> {
    match value {
        Value::String(text) => match text.strip_prefix("$(vars.").and_then(|rest| rest.strip_suffix(')')) {
            Some(name) if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => {
                vars.get(name).cloned()
            }
            _ if text.contains("$(vars.") || !text.contains("$(") => Some(value.clone()),
            _ => None,
        },
        Value::Array(items) => {
            items.iter().map(|item| resolved(item, vars).or_else(|| Some(item.clone()))).collect()
        }
        Value::Object(fields) => Some(Value::Object(
            fields
                .iter()
                .map(|(name, field)| (name.clone(), resolved(field, vars).unwrap_or_else(|| field.clone())))
                .collect(),
        )),
        other => Some(other.clone()),
    }
}
