//! The description of a metric.

use model::metric::{Better, Scope};

/// A metric of a format.
#[derive(Clone, Copy, Debug)]
pub struct MetricDefinition {
    /// Name; a part in angle brackets matches any text, such as the name of a test.
    pub name: &'static str,
    /// Unit; `printed` if the program prints it or its scale varies.
    pub unit: &'static str,
    /// Direction of improvement.
    pub better: Better,
    /// Kind of subject.
    pub scope: Scope,
    /// Meaning, in one sentence.
    pub meaning: &'static str,
}

impl MetricDefinition {
    pub(crate) const fn new(
        name: &'static str,
        unit: &'static str,
        better: Better,
        scope: Scope,
        meaning: &'static str,
    ) -> Self {
        Self { name, unit, better, scope, meaning }
    }

    /// Whether this entry describes a metric of this name.
    #[must_use]
    pub fn describes(&self, name: &str) -> bool {
        fn matches(pattern: &str, name: &str) -> bool {
            let Some((before, rest)) = pattern.split_once('<') else { return pattern == name };
            let after = rest.split_once('>').map_or("", |(_, after)| after);
            let Some(name) = name.strip_prefix(before) else { return false };
            // A placeholder represents at least one character.
            name.char_indices()
                .skip(1)
                .map(|(at, _)| at)
                .chain([name.len()])
                .any(|at| at > 0 && matches(after, &name[at..]))
        }
        matches(self.name, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_matches_any_text() {
        let definition = MetricDefinition::new("a.<x>.b.<y>", "1", Better::None, Scope::World, "M");
        for (name, described) in
            [("a.1.b.2", true), ("a.1.2.b.3", true), ("a..b.2", false), ("a.1.b.", false), ("b.1.b.2", false)]
        {
            assert_eq!(definition.describes(name), described, "{name}");
        }
    }
}
