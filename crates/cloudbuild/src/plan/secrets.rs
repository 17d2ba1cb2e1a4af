use std::collections::BTreeMap;

use crate::config::BuildConfig;
use crate::{BuildProblem, Inputs, Secret};

use super::template::Templates;

/// Source of a secret variable's value.
pub(super) enum SecretSource {
    /// A version in Secret Manager.
    Version(String),
    /// Encrypted in the config itself.
    Inline,
}

/// Declared secrets by variable.
pub(super) type DeclaredSecrets = BTreeMap<String, SecretSource>;

pub(super) fn declared(
    config: &BuildConfig,
    templates: &mut Templates,
    problems: &mut Vec<BuildProblem>,
) -> DeclaredSecrets {
    let mut declared = DeclaredSecrets::new();
    let Some(available) = &config.available_secrets else { return declared };
    for (index, secret) in available.secret_manager.iter().enumerate() {
        let path = format!("availableSecrets.secretManager[{index}]");
        let version = templates.expand(&format!("{path}.versionName"), &secret.version_name, problems);
        if declared.insert(secret.env.clone(), SecretSource::Version(version)).is_some() {
            problems.push(BuildProblem::new(
                format!("{path}.env"),
                format!("{} is declared twice; remove one", secret.env),
            ));
        }
    }
    for (index, inline) in available.inline.iter().enumerate() {
        for env in inline.env_map.keys() {
            if declared.insert(env.clone(), SecretSource::Inline).is_some() {
                let path = format!("availableSecrets.inline[{index}].envMap.{env}");
                problems.push(BuildProblem::new(path, format!("{env} is declared twice; remove one")));
            }
        }
    }
    declared
}

/// The value of a secret variable on this host, or the reason why no value exists.
pub(super) fn find(variable: &str, declared: &DeclaredSecrets, inputs: &Inputs) -> Result<Secret, String> {
    let version = match declared.get(variable) {
        None => {
            return Err(format!(
                "the secret variable {variable} is not declared under `availableSecrets`; declare it there"
            ));
        }
        Some(SecretSource::Inline) => {
            return Err(format!(
                "the secret variable {variable} is encrypted with Cloud KMS, which the local runner cannot decrypt; \
                 declare it under `availableSecrets.secretManager`"
            ));
        }
        Some(SecretSource::Version(version)) => version,
    };
    let secret = inputs.secrets.get(version).or_else(|| inputs.secrets.get(secret_name(version)?));
    match secret {
        None => Err(format!(
            "the secret variable {variable} needs {version}, which is missing in the local secret source; add it \
             there under that name or as {:?}",
            secret_name(version).unwrap_or(version)
        )),
        Some(secret) if secret.expose().contains('\0') => Err(format!(
            "the secret variable {variable} contains a NUL character, which cannot be passed to a program; remove it"
        )),
        Some(secret) => Ok(secret.clone()),
    }
}

/// `NAME` in `projects/PROJECT/secrets/NAME/versions/VERSION`.
fn secret_name(version: &str) -> Option<&str> {
    version.split('/').skip_while(|part| *part != "secrets").nth(1)
}
