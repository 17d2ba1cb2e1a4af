//! Sanitizes external text for display.

use serde_json::Value;

/// Maximum length of the name of a host, play or task, characters.
const LONGEST_NAME: usize = 120;
/// Maximum length of a message, characters.
const LONGEST_MESSAGE: usize = 600;
/// Replacement for a hidden message.
const HIDDEN: &str = "the task hides its output (no_log)";
/// Generic messages; the program's output is more useful.
const EMPTY_WORDS: [&str; 3] = ["non-zero return code", "MODULE FAILURE", "The command failed"];

/// A shortened single-line name.
pub(crate) fn name(text: &str) -> String {
    shown(text, LONGEST_NAME)
}

/// The most specific failure message in a task's result: the module's own message; if that is generic, also the exit
/// code and the end of the output.
pub(crate) fn message(result: &Value) -> String {
    if hides(result) {
        return HIDDEN.to_owned();
    }
    let own = item(result).or_else(|| message_text(&result["msg"])).unwrap_or_default();
    if !own.is_empty() && !EMPTY_WORDS.iter().any(|word| own.starts_with(word)) {
        return shown(&own, LONGEST_MESSAGE);
    }
    let code = result["rc"].as_i64().map(|code| format!("exit code {code}"));
    let last = ["module_stderr", "stderr", "module_stdout", "stdout"]
        .iter()
        .find_map(|&field| result[field].as_str().and_then(last_line));
    let parts: Vec<_> =
        [Some(own), code, last].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    shown(&parts.join(": "), LONGEST_MESSAGE)
}

/// Whether a task hides its result. Ansible removes the result itself; this check is an additional safeguard.
fn hides(result: &Value) -> bool {
    result["_ansible_no_log"] == true || !result["censored"].is_null()
}

/// A message is usually a string; `debug` and some modules return lists or maps.
fn message_text(message: &Value) -> Option<String> {
    match message {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) if lines.iter().all(Value::is_string) => {
            Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        other => Some(other.to_string()),
    }
}

/// Reason why the first item of a loop failed; the loop itself only reports that an item failed.
fn item(result: &Value) -> Option<String> {
    let items = result["results"].as_array()?;
    items.iter().find(|item| item["failed"] == true).map(message)
}

fn last_line(text: &str) -> Option<String> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// A single line without control characters, at most `most` characters.
fn shown(text: &str, most: usize) -> String {
    let mut short = String::new();
    let mut letters = 0;
    for word in text.split(|letter: char| letter.is_whitespace() || letter.is_control()) {
        if word.is_empty() {
            continue;
        }
        if letters > 0 {
            short.push(' ');
            letters += 1;
        }
        for letter in word.chars() {
            if letters >= most {
                short.push('…');
                return short;
            }
            short.push(letter);
            letters += 1;
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_most_specific_message_is_used() {
        for (result, expected) in [
            (json!({"msg": "No space left"}), "No space left"),
            (
                json!({"msg": "non-zero return code", "rc": 3, "stderr": "a\nno key \n"}),
                "non-zero return code: exit code 3: no key",
            ),
            (json!({"msg": "", "rc": 1, "stdout": "last\n"}), "exit code 1: last"),
            (json!({"msg": ["two", "lines"]}), "two lines"),
            (json!({"msg": {"a": 1}}), r#"{"a":1}"#),
            (json!({"msg": "One or more items failed", "results": []}), "One or more items failed"),
            (
                json!({"msg": "One or more items failed", "results": [{"failed": false}, {"failed": true, "msg": "second"}]}),
                "second",
            ),
            (json!({"msg": "a\u{1b}[31m\r\nb"}), "a [31m b"),
            (json!(null), ""),
        ] {
            assert_eq!(message(&result), expected, "{result}");
        }
    }

    #[test]
    fn hidden_output_is_not_quoted() {
        for result in [
            json!({"_ansible_no_log": true, "msg": "hunter2"}),
            json!({"censored": "the output has been hidden", "msg": "hunter2"}),
        ] {
            assert_eq!(message(&result), HIDDEN);
        }
        let items = json!({"results": [{"failed": true, "_ansible_no_log": true, "msg": "hunter2"}]});
        assert!(!message(&items).contains("hunter2"));
    }

    #[test]
    fn long_texts_are_truncated() {
        assert_eq!(name(&"x".repeat(500)).chars().count(), LONGEST_NAME + 1);
        assert!(message(&json!({"msg": "é ".repeat(5000)})).chars().count() <= LONGEST_MESSAGE + 1);
    }
}
