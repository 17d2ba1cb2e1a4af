//! The rule MUST_MATCH: each substitution of a build must be used, and each used substitution must be defined (`CheckSubstitutionTemplate`
//! in validate/validate.go of GoogleCloudPlatform/cloud-build-local, ee604808; its fields and its texts).

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;
use serde_json::{Map, Value};

/// Substitutions that control this stand-in.
pub(crate) const CONTROLS: [&str; 3] = ["_ENDS", "_LEAVES", "_LEAVES_CLUSTER"];

static PARAMETER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\$(?:\$|\{([A-Z_][A-Z0-9_]*)\}|([A-Z_][A-Z0-9_]*))").expect("a valid pattern")
});

/// Reason to reject the substitutions of a build. It is not documented whether `automapSubstitutions` uses a substitution: the stand-in does not
/// treat it as used, which is stricter.
pub(crate) fn refused(build: &Value) -> Option<String> {
    // The option is given by its name or by the API's number.
    let option = &build["options"]["substitutionOption"];
    if option == "ALLOW_LOOSE" || *option == 1 {
        return None;
    }
    let given: BTreeSet<_> = build["substitutions"].as_object().into_iter().flat_map(Map::keys).collect();
    let mut used = BTreeSet::new();
    for text in fields(build) {
        used.extend(
            PARAMETER.captures_iter(text).filter_map(|found| {
                found.get(1).or_else(|| found.get(2)).map(|name| name.as_str().to_owned())
            }),
        );
    }
    if let Some(name) = used.iter().find(|name| name.starts_with('_') && !given.contains(name)) {
        return Some(format!("key in the template \"{name}\" is not matched in the substitution data"));
    }
    let unused = given.iter().find(|name| !used.contains(**name) && !CONTROLS.contains(&name.as_str()));
    unused.map(|name| format!("key \"{name}\" in the substitution data is not matched in the template"))
}

/// Texts in which Cloud Build replaces substitutions.
fn fields(build: &Value) -> impl Iterator<Item = &str> {
    let steps = build["steps"].as_array().into_iter().flatten();
    let steps = steps.flat_map(|step| {
        let lists = ["args", "env"].into_iter().flat_map(|name| step[name].as_array().into_iter().flatten());
        ["name", "dir", "entrypoint"].into_iter().map(|name| &step[name]).chain(lists)
    });
    let objects = &build["artifacts"]["objects"];
    let lists = [&build["images"], &build["tags"], &objects["paths"]];
    let lists = lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten());
    steps.chain(lists).chain([&objects["location"]]).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn build(args: &[&str], substitutions: Value, options: Value) -> Value {
        json!({"steps": [{"name": "bash", "args": args}], "substitutions": substitutions, "options": options})
    }

    #[test]
    fn unused_and_missing_substitutions_are_refused() {
        let of = |args: &[&str], substitutions| refused(&build(args, substitutions, Value::Null));
        assert_eq!(of(&["$_A ${_B} $$_C $PROJECT_ID"], json!({"_A": "1", "_B": "2"})), None);
        let unused = of(&["$_A"], json!({"_A": "1", "_B": "2"})).unwrap();
        assert_eq!(unused, "key \"_B\" in the substitution data is not matched in the template");
        let missing = of(&["$_A"], json!({})).unwrap();
        assert_eq!(missing, "key in the template \"_A\" is not matched in the substitution data");
    }

    #[test]
    fn a_substitution_used_only_as_a_variable_of_a_script_is_refused_unless_the_build_is_loose() {
        let mut build = build(&[], json!({"_A": "1"}), json!({"automapSubstitutions": true}));
        build["steps"][0]["script"] = "echo $_A".into();
        assert!(refused(&build).is_some());
        build["options"]["substitutionOption"] = "ALLOW_LOOSE".into();
        assert_eq!(refused(&build), None);
    }
}
