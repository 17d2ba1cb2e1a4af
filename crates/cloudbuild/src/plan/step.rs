use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::config::{self, BuildConfig};
use crate::{BuildProblem, Inputs, Secret, image};

use super::secrets::{self, DeclaredSecrets};
use super::template::Templates;
use super::{Action, FailureTolerance, PlannedStep, check_timeout, label, shell};

/// Shared inputs of all steps of a build.
pub(super) struct StepContext<'a> {
    pub(super) config: &'a BuildConfig,
    pub(super) inputs: &'a Inputs,
    pub(super) secrets: &'a DeclaredSecrets,
    pub(super) build_timeout: Duration,
}

impl StepContext<'_> {
    pub(super) fn plan(
        &self,
        index: usize,
        step: &config::BuildStep,
        wait_for: Vec<usize>,
        templates: &mut Templates,
        problems: &mut Vec<BuildProblem>,
    ) -> PlannedStep {
        let at = format!("steps[{index}]");
        if step.name.is_empty() {
            problems
                .push(BuildProblem::new(format!("{at}.name"), "is empty; write the name of a builder image"));
        }
        if !step.volumes.is_empty() || self.options().is_some_and(|options| !options.volumes.is_empty()) {
            problems.push(BuildProblem::new(
                format!("{at}.volumes"),
                "the local runner cannot mount volumes; share files in the workspace",
            ));
        }
        let timeout = step.timeout.map(config::Duration::get);
        if let Some(timeout) = timeout {
            let path = format!("{at}.timeout");
            check_timeout(&path, timeout, problems);
            if timeout > self.build_timeout {
                let (limit, found) = (self.build_timeout.as_secs_f64(), timeout.as_secs_f64());
                problems.push(BuildProblem::new(
                    path,
                    format!(
                        "expected at most {limit}s, the timeout of the build, found {found}s; raise `timeout` of the build"
                    ),
                ));
            }
        }
        let image = templates.expand(&format!("{at}.name"), &step.name, problems);
        let action = self.action(&at, index, step, &image, templates, problems);
        let env = self.env(&at, step, templates, problems);
        let secret_env = self.secret_env(&at, index, step, &env, problems);
        let dir = step.dir.as_deref().map_or_else(PathBuf::new, |dir| {
            let path = format!("{at}.dir");
            let dir = templates.expand(&path, dir, problems);
            inside(&dir).unwrap_or_else(|| {
                problems.push(BuildProblem::new(
                    path,
                    format!("{dir:?} is outside the workspace; use a path relative to it"),
                ));
                PathBuf::new()
            })
        });
        let tolerance = match (step.allow_exit_codes.as_slice(), step.allow_failure) {
            ([], Some(true)) => FailureTolerance::Everything,
            ([], _) => FailureTolerance::Nothing,
            (codes, _) => FailureTolerance::ExitCodes(codes.to_vec()),
        };
        PlannedStep {
            index,
            id: step.id.clone(),
            image,
            action,
            env,
            secret_env,
            dir,
            wait_for,
            timeout,
            tolerance,
        }
    }

    fn options(&self) -> Option<&config::ConfigOptions> {
        self.config.options.as_ref()
    }

    fn action(
        &self,
        at: &str,
        index: usize,
        step: &config::BuildStep,
        image: &str,
        templates: &mut Templates,
        problems: &mut Vec<BuildProblem>,
    ) -> Action {
        if let Some(script) = &step.script {
            if step.entrypoint.is_some() || !step.args.is_empty() {
                problems.push(BuildProblem::new(
                    format!("{at}.script"),
                    "expected either `script`, or `entrypoint` and `args`, not both; remove one",
                ));
            }
            if script.contains('\0') {
                problems
                    .push(BuildProblem::new(format!("{at}.script"), "contains a NUL character; remove it"));
            }
            return Action::Script(script.clone());
        }
        // Check the templates: after substitution, values are indistinguishable from the surrounding text.
        let entrypoint = step.entrypoint.as_deref();
        let template = image::command(image, entrypoint, &step.args, &self.inputs.tools);
        let line = [vec![template.tool], template.args].concat();
        if let Some(position) = shell::pasted_script(&line) {
            // The tool is the first argument itself if the image has no entrypoint.
            let arg = position + step.args.len() - line.len();
            problems.push(BuildProblem::new(
                format!("{at}.args[{arg}]"),
                format!(
                    "step {} would insert the value of a substitution into a shell script, which would execute it; \
                     use `script`, and `env` or `automapSubstitutions` to pass the value",
                    label(index, step.id.as_deref())
                ),
            ));
        }
        let entrypoint = entrypoint.map(|text| templates.expand(&format!("{at}.entrypoint"), text, problems));
        let args: Vec<String> = step
            .args
            .iter()
            .enumerate()
            .map(|(arg, text)| templates.expand(&format!("{at}.args[{arg}]"), text, problems))
            .collect();
        Action::Command(image::command(image, entrypoint.as_deref(), &args, &self.inputs.tools))
    }

    fn env(
        &self,
        at: &str,
        step: &config::BuildStep,
        templates: &mut Templates,
        problems: &mut Vec<BuildProblem>,
    ) -> Vec<(String, String)> {
        let options = self.options();
        let automap =
            step.automap_substitutions.or(options.and_then(|options| options.automap_substitutions));
        let mut env = if automap == Some(true) { templates.automap() } else { Vec::new() };
        let shared = options.into_iter().flat_map(|options| options.env.iter().enumerate());
        let shared = shared.map(|(entry, text)| (format!("options.env[{entry}]"), text));
        let own = step.env.iter().enumerate().map(|(entry, text)| (format!("{at}.env[{entry}]"), text));
        for (path, text) in shared.chain(own) {
            let text = templates.expand(&path, text, problems);
            match text.split_once('=') {
                Some((key, value)) if !key.is_empty() => env.push((key.to_owned(), value.to_owned())),
                _ => problems.push(BuildProblem::new(path, format!("expected KEY=VALUE, found {text:?}"))),
            }
        }
        env
    }

    fn secret_env(
        &self,
        at: &str,
        index: usize,
        step: &config::BuildStep,
        env: &[(String, String)],
        problems: &mut Vec<BuildProblem>,
    ) -> Vec<(String, Secret)> {
        let shared = self.options().map_or(&[][..], |options| &options.secret_env);
        let mut found: Vec<(String, Secret)> = Vec::new();
        for variable in shared.iter().chain(&step.secret_env) {
            let result = if env.iter().any(|(key, _)| key == variable) {
                Err(format!("{variable} is both an `env` and a `secretEnv`; remove one"))
            } else if found.iter().any(|(key, _)| key == variable) {
                Err(format!("{variable} is listed twice; remove one"))
            } else {
                secrets::find(variable, self.secrets, self.inputs)
            };
            match result {
                Ok(secret) => found.push((variable.clone(), secret)),
                Err(why) => problems.push(BuildProblem::new(
                    format!("{at}.secretEnv"),
                    format!("step {}: {why}", label(index, step.id.as_deref())),
                )),
            }
        }
        found
    }
}

/// A directory as a path below the workspace; `None` if it is outside.
fn inside(dir: &str) -> Option<PathBuf> {
    let path = Path::new(dir);
    let relative = path.strip_prefix("/workspace").unwrap_or(path);
    let mut result = PathBuf::new();
    for component in relative.components() {
        match component {
            Component::Normal(part) => result.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                if !result.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_stay_in_the_workspace() {
        for (dir, expected) in [
            ("", Some("")),
            (".", Some("")),
            ("a/b", Some("a/b")),
            ("a/../b/.", Some("b")),
            ("/workspace", Some("")),
            ("/workspace/a", Some("a")),
            ("..", None),
            ("a/../..", None),
            ("/tmp", None),
            ("/workspace2", None),
            ("/workspace/../etc", None),
        ] {
            assert_eq!(inside(dir), expected.map(PathBuf::from), "{dir:?}");
        }
    }
}
