use std::collections::{BTreeMap, BTreeSet};

use crate::config::{BuildConfig, SubstitutionOption};
use crate::substitution::{self, BUILT_INS, Piece};
use crate::{BuildProblem, Inputs};

const MOST_SUBSTITUTIONS: usize = 200;
const LONGEST_NAME: usize = 100;
const LONGEST_VALUE: usize = 4000;

/// Values of a build's substitutions, and the names of the used substitutions.
pub(super) struct Templates {
    values: BTreeMap<String, String>,
    used: BTreeSet<String>,
    loose: bool,
}

impl Templates {
    pub(super) fn new(config: &BuildConfig, inputs: &Inputs, problems: &mut Vec<BuildProblem>) -> Self {
        let options = config.options.clone().unwrap_or_default();
        let mut values: BTreeMap<String, String> =
            BUILT_INS.iter().map(|&name| (name.to_owned(), String::new())).collect();
        for (name, value) in &inputs.built_ins {
            check_value(&format!("built_ins.{name}"), value, problems);
            if !substitution::is_built_in(name) && !substitution::is_user_name(name) {
                problems.push(BuildProblem::new(
                    format!("built_ins.{name}"),
                    "not a substitution that Cloud Build defines",
                ));
            }
            values.insert(name.clone(), value.clone());
        }
        let given = config.substitutions.iter().chain(&inputs.substitutions);
        for (name, value) in given {
            let path = format!("substitutions.{name}");
            check_name(&path, name, problems);
            check_value(&path, value, problems);
            values.insert(name.clone(), value.clone());
        }
        if config.substitutions.len() > MOST_SUBSTITUTIONS {
            problems.push(BuildProblem::new(
                "substitutions",
                format!(
                    "expected at most {MOST_SUBSTITUTIONS} substitutions, found {}",
                    config.substitutions.len()
                ),
            ));
        }
        let loose = options.substitution_option == Some(SubstitutionOption::AllowLoose);
        let mut templates = Self { values, used: BTreeSet::new(), loose };
        if options.dynamic_substitutions == Some(true) {
            templates.resolve_defaults(config, inputs, problems);
        }
        templates
    }

    /// Applies the substitutions to one field.
    pub(super) fn expand(&mut self, path: &str, template: &str, problems: &mut Vec<BuildProblem>) -> String {
        for piece in substitution::pieces(template) {
            match piece {
                Piece::Text(_) => {}
                Piece::Reference(name) => {
                    self.check_reference(path, name, problems);
                    self.used.insert(name.to_owned());
                }
                Piece::Expansion(text) => problems.push(BuildProblem::new(
                    path,
                    format!(
                        "the shell expansion {text} of a substitution is not supported; add a default for the \
                         substitution under `substitutions`, or write ${text} to pass it to a shell"
                    ),
                )),
            }
        }
        let expanded = substitution::expand(template, &self.values);
        if expanded.contains('\0') {
            problems.push(BuildProblem::new(
                path,
                "contains a NUL character, which cannot be passed to a program; remove it",
            ));
        }
        expanded
    }

    /// All substitutions, as environment variables of a step.
    pub(super) fn automap(&mut self) -> Vec<(String, String)> {
        self.used.extend(self.values.keys().cloned());
        self.values.clone().into_iter().collect()
    }

    /// Reports unused substitutions.
    pub(super) fn finish(self, config: &BuildConfig, problems: &mut Vec<BuildProblem>) {
        if self.loose {
            return;
        }
        let unused =
            self.values.keys().filter(|name| !substitution::is_built_in(name) && !self.used.contains(*name));
        for name in unused {
            let wherefrom = if config.substitutions.contains_key(name) { "declared" } else { "given" };
            problems.push(BuildProblem::new(
                format!("substitutions.{name}"),
                format!(
                    "{wherefrom} but not used by any step; remove it, use it, or set options.substitutionOption \
                     to ALLOW_LOOSE"
                ),
            ));
        }
    }

    fn check_reference(&self, path: &str, name: &str, problems: &mut Vec<BuildProblem>) {
        if self.values.contains_key(name) {
            return;
        }
        if substitution::is_user_name(name) {
            if !self.loose {
                problems.push(BuildProblem::new(
                    path,
                    format!(
                        "${name} has no value; add {name} under `substitutions` or set it in the request"
                    ),
                ));
            }
        } else {
            problems.push(BuildProblem::new(
                path,
                format!(
                    "${name} is not a substitution that Cloud Build defines; the name of a user's substitution begins with an \
                     underscore, and a variable for the shell is written $${name}"
                ),
            ));
        }
    }

    /// Resolves references between the default values of a config, in any order.
    fn resolve_defaults(&mut self, config: &BuildConfig, inputs: &Inputs, problems: &mut Vec<BuildProblem>) {
        let own: Vec<&String> =
            config.substitutions.keys().filter(|name| !inputs.substitutions.contains_key(*name)).collect();
        let mut open: BTreeSet<&String> = own.into_iter().collect();
        while !open.is_empty() {
            let ready: Vec<&String> = open
                .iter()
                .copied()
                .filter(|name| {
                    let pieces = substitution::pieces(&config.substitutions[*name]);
                    !pieces.iter().any(|piece| matches!(piece, Piece::Reference(other) if open.contains(&(*other).to_owned())))
                })
                .collect();
            if ready.is_empty() {
                for name in &open {
                    problems.push(BuildProblem::new(
                        format!("substitutions.{name}"),
                        "refers to itself, directly or through others; remove one of the references",
                    ));
                }
                return;
            }
            for name in ready {
                let value =
                    self.expand(&format!("substitutions.{name}"), &config.substitutions[name], problems);
                self.values.insert(name.clone(), value);
                open.remove(name);
            }
        }
    }
}

fn check_name(path: &str, name: &str, problems: &mut Vec<BuildProblem>) {
    // A request may set the built-in substitutions that a trigger sets, except the names of this list.
    let fixed = ["BUILD_ID", "LOCATION", "PROJECT_ID", "PROJECT_NUMBER"].contains(&name);
    if fixed
        || name.len() > LONGEST_NAME
        || !(substitution::is_user_name(name) || substitution::is_built_in(name))
    {
        problems.push(BuildProblem::new(
            path,
            format!(
                "expected an underscore, then capitals, digits and underscores, at most {LONGEST_NAME} characters"
            ),
        ));
    }
}

fn check_value(path: &str, value: &str, problems: &mut Vec<BuildProblem>) {
    if value.len() > LONGEST_VALUE {
        problems.push(BuildProblem::new(
            path,
            format!("expected at most {LONGEST_VALUE} bytes, found {}", value.len()),
        ));
    }
    if value.contains('\0') {
        problems.push(BuildProblem::new(
            path,
            "contains a NUL character, which cannot be passed to a program; remove it",
        ));
    }
}
