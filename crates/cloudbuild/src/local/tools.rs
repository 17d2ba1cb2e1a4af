use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::BuildProblem;
use crate::plan::{Action, Plan, PlannedStep};

use super::{PlanRequest, environment};

/// The shebang line of a script: an interpreter and at most one argument, parsed as the kernel parses it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shebang<'a> {
    pub(super) interpreter: &'a str,
    pub(super) argument: Option<&'a str>,
}

/// The interpreter of a script; `/bin/sh` without a shebang.
pub(super) fn shebang(script: &str) -> Shebang<'_> {
    let default = Shebang { interpreter: "/bin/sh", argument: None };
    let Some(line) = script.strip_prefix("#!").and_then(|rest| rest.lines().next()) else { return default };
    let line = line.trim();
    let (interpreter, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    if interpreter.is_empty() {
        return default;
    }
    Shebang { interpreter, argument: Some(argument.trim()).filter(|argument| !argument.is_empty()) }
}

/// The executable file of this name on this `PATH`.
pub(super) fn find(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Tools required by the steps of a plan that are missing on this host.
///
/// A path inside the workspace may be created by an earlier step, so only names and other absolute paths are
/// checked.
pub(super) fn missing(plan: &Plan, request: &PlanRequest) -> Vec<BuildProblem> {
    plan.steps.iter().filter_map(|step| missing_for(step, request)).collect()
}

fn missing_for(step: &PlannedStep, request: &PlanRequest) -> Option<BuildProblem> {
    let environment = environment::of_step(&request.environment, step);
    let path = environment::lookup(&environment, "PATH");
    let at = format!("steps[{}]", step.index);
    let label = step.label();
    match &step.action {
        Action::Command(command) if !present(&command.tool, path, &request.workspace) => {
            let (image, tool) = (&step.image, &command.tool);
            Some(BuildProblem::new(
                format!("{at}.name"),
                format!(
                    "step {label}: image {image} would have to be pulled, which the local runner cannot do; the tool \
                     `{tool}` is not on the PATH; install it or map the builder with `tools`: {{\"{image}\": TOOL}}"
                ),
            ))
        }
        Action::Command(_) => None,
        Action::Script(script) => {
            let shebang = shebang(script);
            let by_name = shebang.argument.filter(|_| shebang.interpreter.ends_with("/env"));
            let by_name =
                by_name.and_then(|argument| argument.split_whitespace().find(|word| !word.starts_with('-')));
            [Some(shebang.interpreter), by_name]
                .into_iter()
                .flatten()
                .find(|tool| !present(tool, path, &request.workspace))
                .map(|tool| {
                    BuildProblem::new(
                        format!("{at}.script"),
                        format!(
                            "step {label}: the script needs `{tool}`, which image {} contains, but the local runner cannot pull images; install it on this host",
                            step.image
                        ),
                    )
                })
        }
    }
}

fn present(tool: &str, path: Option<&OsStr>, workspace: &Path) -> bool {
    if !tool.contains('/') {
        return find(tool, path).is_some();
    }
    let file = Path::new(tool);
    file.is_relative() || file.starts_with(workspace) || is_executable(file)
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_interpreter() {
        for (script, interpreter, argument) in [
            ("echo", "/bin/sh", None),
            ("", "/bin/sh", None),
            ("#!", "/bin/sh", None),
            ("#!/bin/bash\necho", "/bin/bash", None),
            ("#! /usr/bin/env bash \r\necho", "/usr/bin/env", Some("bash")),
            ("#!/bin/sh -e -u\n", "/bin/sh", Some("-e -u")),
            (" #!/bin/bash", "/bin/sh", None),
        ] {
            assert_eq!(shebang(script), Shebang { interpreter, argument }, "{script:?}");
        }
    }
}
