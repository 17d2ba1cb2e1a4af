//! How long a build may take: a config may ask for less than whoever waits for it has, never for more.

use model::Span;
use serde_json::Value;

/// The config with its own timeout, and those of its steps, within this limit; seconds, at least one. A step that could
/// outlast its build is refused by those who execute it, and how long is left may be known only when it begins.
pub(crate) fn within(limit: Span, config: &Value) -> Value {
    let own = |of: &Value| of["timeout"].as_str().and_then(|text| text.parse::<Span>().ok());
    let mut config = config.clone();
    let whole = own(&config).map_or(limit, |own| own.min(limit)).0.as_secs().max(1);
    let written = || Value::from(format!("{whole}s"));
    for step in config["steps"].as_array_mut().into_iter().flatten() {
        if own(step).is_some_and(|own| own.0.as_secs() > whole) {
            step["timeout"] = written();
        }
    }
    config["timeout"] = written();
    config
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_may_take_longer_than_is_left() {
        let config =
            json!({"steps": [{"timeout": "3600s"}, {"timeout": "1.5s"}, {"id": "free"}], "timeout": "7200s"});
        let left = within(Span::from_secs(600), &config);
        assert_eq!(
            left,
            json!({"steps": [{"timeout": "600s"}, {"timeout": "1.5s"}, {"id": "free"}], "timeout": "600s"})
        );
        assert_eq!(within(Span::from_secs(86_400), &config), config, "what is left is enough");
        assert_eq!(within(Span::from_millis(3), &json!({}))["timeout"], "1s");
    }
}
