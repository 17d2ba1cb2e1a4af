use std::ffi::{OsStr, OsString};

use crate::plan::Step;

/// What a step sees of the caller's environment by default: enough to find tools, a home and certificates, and
/// none of the tokens that a caller may carry.
pub const INHERITED: [&str; 9] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SSL_CERT_FILE",
];

/// The variables of these names that this process has.
pub fn inherit(names: &[&str]) -> Vec<(OsString, OsString)> {
    names.iter().filter_map(|&name| Some((name.into(), std::env::var_os(name)?))).collect()
}

/// The whole environment of a step; a later entry wins.
pub(super) fn of_step(inherited: &[(OsString, OsString)], step: &Step) -> Vec<(OsString, OsString)> {
    let own = step.env.iter().map(|(key, value)| (key.into(), value.into()));
    let secret = step.secret_env.iter().map(|(key, value)| (key.into(), value.expose().into()));
    inherited.iter().cloned().chain(own).chain(secret).collect()
}

/// The value that a later entry has given to a name.
pub(super) fn lookup<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
}
