//! Conditions of grants: the part of CEL that `infra/` uses. Any other expression is an error, because with a wrongly evaluated condition
//! a missing permission would not be detected.

/// Attributes of a checked request.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// `resource.name`; `None` for services without this attribute.
    pub name: Option<String>,
    /// Value of `storage.googleapis.com/objectListPrefix`; `None` for requests other than lists.
    pub list_prefix: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantCondition {
    /// At least one of these conditions holds.
    Any(Vec<GrantCondition>),
    /// The attribute's value starts with this prefix.
    StartsWith(Attribute, String),
    /// `resource.name` has this text, then at least one character, then this text: `extract` with one variable.
    Contains(String, String),
}

/// A text attribute of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// `resource.name`.
    Name,
    /// `api.getAttribute("storage.googleapis.com/objectListPrefix", "")`.
    ListPrefix,
}

const ATTRIBUTES: [(&str, Attribute); 2] = [
    ("resource.name", Attribute::Name),
    ("api.getAttribute(\"storage.googleapis.com/objectListPrefix\", \"\")", Attribute::ListPrefix),
];

impl GrantCondition {
    /// Parses an expression.
    ///
    /// # Errors
    /// Returns an error if the expression has a part that is not supported.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split("||").map(|part| Self::term(part.trim()));
        Ok(Self::Any(parts.collect::<Result<_, _>>()?))
    }

    fn term(text: &str) -> Result<Self, String> {
        let unsupported = || {
            format!(
                "condition `{text}`: expected ATTRIBUTE.startsWith(\"TEXT\") or resource.name.extract(\"TEXT{{NAME}}TEXT\") != \"\"; extend tests/rehearsal/src/condition.rs"
            )
        };
        if let Some(rest) = text.strip_prefix("resource.name.extract(\"") {
            let template = rest.strip_suffix("\") != \"\"").ok_or_else(unsupported)?;
            let (before, rest) = template.split_once('{').ok_or_else(unsupported)?;
            let (_, after) = rest.split_once('}').ok_or_else(unsupported)?;
            // `extract` returns the rest of the name if no text follows the variable.
            if after.is_empty() || template.contains(['"', '\\']) || after.contains('{') {
                return Err(unsupported());
            }
            return Ok(Self::Contains(before.to_owned(), after.to_owned()));
        }
        for (name, attribute) in ATTRIBUTES {
            let Some(rest) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(".startsWith(\""))
            else {
                continue;
            };
            let literal = rest.strip_suffix("\")").ok_or_else(unsupported)?;
            if literal.contains(['"', '\\']) {
                return Err(unsupported());
            }
            return Ok(Self::StartsWith(attribute, literal.to_owned()));
        }
        Err(unsupported())
    }

    /// Whether a request fulfils the condition. A missing attribute is false.
    pub fn holds(&self, of: &Attributes) -> bool {
        match self {
            Self::Any(parts) => parts.iter().any(|part| part.holds(of)),
            Self::StartsWith(Attribute::Name, text) => {
                of.name.as_ref().is_some_and(|name| name.starts_with(text))
            }
            // The expression's default is the empty text.
            Self::StartsWith(Attribute::ListPrefix, text) => {
                of.list_prefix.as_deref().unwrap_or("").starts_with(text)
            }
            Self::Contains(before, after) => of.name.as_ref().is_some_and(|name| {
                let rest = name.split_once(before.as_str()).map(|(_, rest)| rest);
                rest.and_then(|rest| rest.split_once(after.as_str()))
                    .is_some_and(|(found, _)| !found.is_empty())
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_forms_of_infra_are_evaluated_and_all_others_are_errors() {
        let both = "resource.name.startsWith(\"projects/_/buckets/b/objects/open/\") || \
                    api.getAttribute(\"storage.googleapis.com/objectListPrefix\", \"\").startsWith(\"open/\")";
        let condition = GrantCondition::parse(both).unwrap();
        let name = |name: &str| Attributes { name: Some(name.to_owned()), list_prefix: None };
        assert!(condition.holds(&name("projects/_/buckets/b/objects/open/run")));
        assert!(!condition.holds(&name("projects/_/buckets/b/objects/other")));
        let list = |prefix: &str| Attributes {
            list_prefix: Some(prefix.to_owned()),
            ..name("projects/_/buckets/b")
        };
        assert!(condition.holds(&list("open/")) && condition.holds(&list("open/x")));
        assert!(!condition.holds(&list("")) && !condition.holds(&list("op")));
        assert!(!condition.holds(&Attributes::default()));
        let stage = "resource.name.extract(\"projects/_/buckets/b/objects/artefacts/{run}/logs/\") != \"\"";
        let stage = GrantCondition::parse(stage).unwrap();
        assert!(stage.holds(&name("projects/_/buckets/b/objects/artefacts/r-1/logs/1/a.log")));
        for other in ["artefacts/r-1/verdict/1/verdict.json", "artefacts//logs/1", "workflows/r/logs/1"] {
            assert!(!stage.holds(&name(&format!("projects/_/buckets/b/objects/{other}"))), "{other}");
        }
        for wrong in [
            "resource.name.extract(\"a/{b}\") != \"\"",
            "resource.name.extract(\"a/{b}/c\") == \"x\"",
            "true",
            "resource.type == \"x\"",
            "!resource.name.startsWith(\"x\")",
            "resource.name.startsWith(\"x\") && true",
            "",
        ] {
            assert!(GrantCondition::parse(wrong).is_err(), "{wrong}");
        }
    }
}
