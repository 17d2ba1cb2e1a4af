use std::ffi::{OsStr, OsString};

use crate::plan::PlannedStep;

/// Variables inherited by default: they locate tools, the home folder and certificates, and exclude the caller's
/// tokens.
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

/// The values of these variables in this process.
pub fn inherit(names: &[&str]) -> Vec<(OsString, OsString)> {
    names.iter().filter_map(|&name| Some((name.into(), std::env::var_os(name)?))).collect()
}

/// The whole environment of a step; later entries override earlier ones.
pub(super) fn of_step(inherited: &[(OsString, OsString)], step: &PlannedStep) -> Vec<(OsString, OsString)> {
    let own = step.env.iter().map(|(key, value)| (key.into(), value.into()));
    let secret = step.secret_env.iter().map(|(key, value)| (key.into(), value.expose().into()));
    inherited.iter().cloned().chain(own).chain(secret).collect()
}

/// Value of a variable: the last one applies.
pub(super) fn lookup<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
}
