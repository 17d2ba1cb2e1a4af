//! All problems of an environment are reported.

use service::config::VariableReader;

#[test]
fn all_problems_are_reported_together() {
    let mut env = VariableReader::new([("PORT", "eighty"), ("LEDGER_BUCKET", "b")]);
    let port = env.or("PORT", 8080u16);
    let bucket = env.required::<String>("LEDGER_BUCKET");
    let project = env.required::<String>("PROJECT");
    let region = env.optional::<String>("REGION");
    let problems = env.finish(|| Some((port?, bucket?, project?, region?))).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "2 problems in the environment:\n  PORT: `eighty` is invalid: invalid digit found in string\n  \
         PROJECT: is not set and has no default"
    );
}

#[test]
fn defaults_and_absent_options_are_valid() {
    let mut env = VariableReader::new([("NAME", "x")]);
    let (name, port, region) =
        (env.required::<String>("NAME"), env.or("PORT", 8080u16), env.optional::<u8>("REGION"));
    let read = env.finish(|| Some((name?, port?, region?))).unwrap();
    assert_eq!(read, ("x".to_owned(), 8080, None));
}
