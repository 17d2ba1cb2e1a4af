//! Timeouts of builds: a config may set a shorter timeout than its caller, never a longer one.

use model::Span;
use serde_json::Value;

/// Limits the timeouts of the config and its steps; seconds, at least one. Executors reject a step timeout that exceeds the timeout of the
/// build, and the remaining time may be known only at the start.
pub(crate) fn with_limit(limit: Span, config: &Value) -> Value {
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
    fn timeouts_are_limited_to_the_remaining_time() {
        let config =
            json!({"steps": [{"timeout": "3600s"}, {"timeout": "1.5s"}, {"id": "free"}], "timeout": "7200s"});
        let limited = with_limit(Span::from_secs(600), &config);
        assert_eq!(
            limited,
            json!({"steps": [{"timeout": "600s"}, {"timeout": "1.5s"}, {"id": "free"}], "timeout": "600s"})
        );
        assert_eq!(with_limit(Span::from_secs(86_400), &config), config, "the remaining time suffices");
        assert_eq!(with_limit(Span::from_millis(3), &json!({}))["timeout"], "1s");
    }
}
