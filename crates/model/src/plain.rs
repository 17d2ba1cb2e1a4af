//! Checks shared by the settings of all kinds of clusters: paths, variables, and the display of invalid
//! values.

pub(crate) fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

pub(crate) fn not_a_path(path: &str) -> Option<String> {
    let bad = !path.starts_with('/') || path.len() > 1024 || path.chars().any(char::is_control);
    bad.then(|| {
        format!(
            "expected an absolute path of at most 1024 bytes without control characters, found `{}`",
            shown(path)
        )
    })
}

pub(crate) fn not_a_variable(name: &str, value: &str, longest: usize) -> Option<String> {
    let first = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let letters = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
    if !first || !letters || name.len() > longest {
        return Some(format!("expected a name of letters, digits and _, found `{}`", shown(name)));
    }
    (value.contains('\0') || value.len() > 16 << 10)
        .then(|| "expected a value of at most 16 KiB without a zero byte".to_owned())
}
