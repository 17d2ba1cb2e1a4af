//! Paths in JSON documents: `$.a[*].b`, `$.a.*.b`, `$[0]["key with space"]`.

use crate::json::JsonValue;

/// Maximum number of steps.
const STEPS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Key(String),
    Index(usize),
    /// All items of an array or all values of an object.
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<PathStep>);

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.strip_prefix('$').ok_or("must begin with `$`, as in `$.results[*].value`")?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() == STEPS {
                return Err(format!("has more than {STEPS} steps"));
            }
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, after) = after.split_at(end);
                match key {
                    "" => return Err("has an empty key; write a key or `*` after each `.`".to_owned()),
                    "*" => steps.push(PathStep::All),
                    key => steps.push(PathStep::Key(key.to_owned())),
                }
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (inside, after) =
                    after.split_once(']').ok_or("has a `[` without `]`; add the bracket")?;
                let quoted = |mark| inside.strip_prefix(mark).and_then(|key: &str| key.strip_suffix(mark));
                steps.push(match inside {
                    "*" => PathStep::All,
                    _ => match quoted('"').or_else(|| quoted('\'')) {
                        Some(key) => PathStep::Key(key.to_owned()),
                        None => PathStep::Index(crate::number::count(inside).ok_or(
                            "has an index that is not a number; write a number, `*` or a quoted key",
                        )?),
                    },
                });
                rest = after;
            } else {
                return Err(format!("has {rest:?} where `.` or `[` is expected"));
            }
        }
        Ok(Self(steps))
    }

    /// Calls `found` with each value of the path and the object that contains it.
    pub(crate) fn each<'d>(
        &self,
        root: JsonValue<'d>,
        found: &mut dyn FnMut(JsonValue<'d>, Option<JsonValue<'d>>),
    ) {
        walk(&self.0, root, None, found);
    }
}

fn walk<'d>(
    steps: &[PathStep],
    value: JsonValue<'d>,
    parent: Option<JsonValue<'d>>,
    found: &mut dyn FnMut(JsonValue<'d>, Option<JsonValue<'d>>),
) {
    let Some((step, rest)) = steps.split_first() else { return found(value, parent) };
    match step {
        PathStep::Key(key) => {
            if let Some(inner) = value.get(key) {
                walk(rest, inner, Some(value), found);
            }
        }
        PathStep::Index(index) => {
            if let Some(inner) = value.items().nth(*index) {
                walk(rest, inner, parent, found);
            }
        }
        PathStep::All => {
            for inner in value.items().chain(value.members().map(|(_, inner)| inner)) {
                walk(rest, inner, Some(value), found);
            }
        }
    }
}
