//! Corrections: the nearest known name, and a corrected value.

use serde_json::{Value, json};

/// Maximum number of known names in a message.
const MOST_NAMES: usize = 24;

/// The known name that is most similar to a misspelled name.
pub(crate) fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let wrong = plain(wrong);
    if wrong.is_empty() || wrong.len() > 128 {
        return None;
    }
    let distance = |name: &str| strsim::damerau_levenshtein(&plain(name), &wrong);
    let nearest = known.into_iter().map(|name| (distance(name), name)).min()?;
    // One letter in three may differ, and a transposition is one difference.
    (nearest.0 <= (wrong.len().max(3)) / 3).then_some(nearest.1)
}

/// `did you mean ...`, or all known names.
pub(crate) fn suggest<'n>(
    wrong: &str,
    known: impl IntoIterator<Item = &'n str>,
    label: &str,
) -> Option<String> {
    let known: Vec<_> = known.into_iter().collect();
    match nearest(wrong, known.iter().copied()) {
        Some(name) => Some(format!("did you mean `{name}`?")),
        None if known.is_empty() => None,
        None if known.len() > MOST_NAMES => {
            Some(format!("known {label}: {}, ...", known[..MOST_NAMES].join(", ")))
        }
        None => Some(format!("known {label}: {}", known.join(", "))),
    }
}

/// A value that the schema accepts and that the user probably meant.
pub(crate) fn corrected(found: &Value, schema: &Value) -> Option<String> {
    let text = match found {
        Value::String(text) if text.len() <= 200 => text.trim().to_owned(),
        Value::Number(_) | Value::Bool(_) => found.to_string(),
        _ => return None,
    };
    let rules = json!({"type": schema["type"], "pattern": schema["pattern"], "minimum": schema["minimum"], "maximum": schema["maximum"]});
    let Value::Object(mut rules) = rules else { return None };
    rules.retain(|_, rule| !rule.is_null());
    let validator = jsonschema::validator_for(&Value::Object(rules)).ok()?;
    let is_number = text.parse::<f64>().is_ok();
    if is_number && schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("mins")) {
        let accepted = |unit: &str| validator.is_valid(&json!(format!("{text}{unit}")));
        return accepted("m")
            .then(|| format!("write {text}m for minutes, {text}s for seconds or {text}h for hours"));
    }
    if !found.is_string() && validator.is_valid(&json!(text)) {
        return Some(format!("quote it: \"{text}\""));
    }
    if found.is_string() {
        let parsed = text.parse::<i64>().map(Value::from);
        if let Ok(number) = parsed.or_else(|_| text.parse::<f64>().map(Value::from))
            && validator.is_valid(&number)
        {
            return Some(format!("remove the quotes: {number}"));
        }
    }
    if validator.is_valid(&json!(true)) {
        let word = text.to_lowercase();
        let meant = match word.as_str() {
            "yes" | "on" | "1" | "y" => "true",
            "no" | "off" | "0" | "n" => "false",
            _ => return None,
        };
        return Some(format!("write {meant}"));
    }
    let candidates = [units(&text), text.to_lowercase(), as_name(&text)];
    let fits =
        candidates.into_iter().find(|it| !it.is_empty() && it != &text && validator.is_valid(&json!(it)))?;
    Some(format!("write {fits}"))
}

/// Converts usual spellings of sizes and times, such as `16 MiB`, `8gb`, `90 seconds` and `10 minutes`.
fn units(text: &str) -> String {
    let compact = text.replace(' ', "");
    let digits = compact.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = compact.split_at(digits);
    let unit = match unit.to_lowercase().as_str() {
        "kb" | "kib" => "K",
        "mb" | "mib" => "M",
        "gb" | "gib" => "G",
        "minute" | "minutes" => "m",
        "second" | "seconds" => "s",
        "week" | "weeks" => {
            return number
                .parse::<u64>()
                .ok()
                .and_then(|weeks| weeks.checked_mul(7))
                .map_or_else(String::new, |days| format!("{days}d"));
        }
        _ => return String::new(),
    };
    format!("{number}{unit}")
}

/// Converts a text to a name: lower-case letters, digits and `-`, beginning with a letter.
fn as_name(text: &str) -> String {
    let name: String =
        text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = name
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
    name.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-").chars().take(30).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_similar_names_are_suggested() {
        let known = ["collective", "min_bytes", "iterations"];
        assert_eq!(nearest("colective", known), Some("collective"));
        assert_eq!(nearest("minBytes", known), Some("min_bytes"));
        assert_eq!(nearest("iteratoins", known), Some("iterations"));
        for other in ["", "x", "colour", &"c".repeat(10_000)] {
            assert_eq!(nearest(other, known), None, "{other:.10}");
        }
    }

    #[test]
    fn values_are_corrected_only_to_valid_ones() {
        let name = json!({"type": "string", "pattern": "^[a-z][a-z0-9-]{0,30}$"});
        let bytes = json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+[KkMmGg]?$"});
        for (found, schema, expected) in [
            (json!("Lab_H100"), &name, Some("write lab-h100")),
            (json!("8xH100 (new)"), &name, Some("write xh100-new")),
            (json!("___"), &name, None),
            (json!("16 MiB"), &bytes, Some("write 16M")),
            (json!("16X"), &bytes, None),
            (json!(106), &json!({"type": "string"}), Some("quote it: \"106\"")),
            (json!("4"), &json!({"type": "integer"}), Some("remove the quotes: 4")),
            (json!("yes"), &json!({"type": "boolean"}), Some("write true")),
            (json!("perhaps"), &json!({"type": "boolean"}), None),
        ] {
            assert_eq!(corrected(&found, schema).as_deref(), expected, "{found}");
        }
    }
}
