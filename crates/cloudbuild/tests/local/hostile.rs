//! A step receives every value byte for byte.

use cloudbuild::{BuildStatus, config::BuildConfig, plan};
use proptest::prelude::*;
use serde_json::json;

use crate::bed::BuildHost;

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("'"),
        Just("\""),
        Just("\n"),
        Just("$(id)"),
        Just("`id`"),
        Just(";"),
        Just("-"),
        Just("--"),
        Just(" "),
        Just("\\"),
        Just("$"),
        Just("$$"),
        Just("${_V}"),
        Just("$_V"),
        Just("*"),
        Just("&&"),
        Just("|"),
        Just(">x"),
        Just("="),
        Just("\t"),
        Just("\r"),
        Just("#"),
        Just("~"),
        Just("!"),
        Just("é"),
        Just("a"),
        Just("%s"),
    ];
    let pieces = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    prop_oneof![pieces, any::<String>().prop_map(|text| text.replace('\0', ""))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_value_is_passed_as_one_argument_and_one_variable(value in hostile()) {
        let mut bed = BuildHost::new();
        bed.inputs.substitutions.insert("_V".to_owned(), value.clone());
        let config = json!({
            "options": {"automapSubstitutions": true},
            "steps": [
                {"name": "bash", "waitFor": ["-"], "script": "printf %s \"$_V\" > mapped"},
                {"name": "bash", "waitFor": ["-"], "env": ["GIVEN=${_V}"], "script": "printf %s \"$GIVEN\" > given"},
                {"name": "ubuntu", "waitFor": ["-"],
                 "args": ["bash", "-c", "printf %s $# > count; printf %s \"$1\" > first", "-", "$_V"]},
                {"name": "ubuntu", "waitFor": ["-"],
                 "args": ["bash", "-c", "printf %s \"$1\" > inside", "-", "a${_V}b"]},
            ],
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(bed.run(config));
        prop_assert_eq!(outcome.status, BuildStatus::Success, "{}", bed.log());
        prop_assert_eq!(bed.read("mapped"), value.as_bytes());
        prop_assert_eq!(bed.read("given"), value.as_bytes());
        prop_assert_eq!(bed.read("count"), b"1");
        prop_assert_eq!(bed.read("first"), value.as_bytes());
        prop_assert_eq!(bed.read("inside"), format!("a{value}b").into_bytes());
    }
}

#[test]
fn a_nul_character_is_rejected() {
    let mut bed = BuildHost::new();
    bed.inputs.substitutions.insert("_V".to_owned(), "a\0b".to_owned());
    let config: BuildConfig =
        serde_json::from_value(json!({"steps": [{"name": "echo", "args": ["$_V"]}]})).unwrap();
    let problems = plan::check(&config, &bed.inputs).unwrap_err();
    assert!(problems.iter().all(|problem| problem.message.contains("NUL")), "{problems:?}");
}
