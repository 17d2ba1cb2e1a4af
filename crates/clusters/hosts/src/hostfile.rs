//! Open MPI's hostfile: one host per line with `slots=N`; `#` starts a comment.
//!
//! Source: mpirun(1) of Open MPI 4.1, "Specifying Host Nodes", and detail-hostfiles.rst of Open MPI 5. There a host without
//! `slots` gets one for each of its CPUs; here it gets `ranks_per_node`. Other keys, such as `max_slots`, are refused rather
//! than ignored.

use serde_json::{Value, json};

/// Hosts of a hostfile, in the format of the setting `hosts`.
///
/// # Errors
/// Returns an error that names the first invalid line.
pub fn parse(text: &str) -> Result<Vec<Value>, String> {
    let mut hosts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut host = json!({"name": name});
        for word in words {
            let slots = word.strip_prefix("slots=").and_then(|slots| slots.parse::<u32>().ok());
            let slots = slots.ok_or_else(|| {
                format!(
                    "line {}: expected `HOST slots=N`, found `{}`",
                    number + 1,
                    cluster_api::settings::shown(word)
                )
            })?;
            host["ranks"] = json!(slots);
        }
        hosts.push(host);
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_slots_and_comments_are_read() {
        let hosts = parse("# two hosts\nn1 slots=8\n\nn2   slots=4 # the small one\nn3\n").unwrap();
        let expected =
            [json!({"name": "n1", "ranks": 8}), json!({"name": "n2", "ranks": 4}), json!({"name": "n3"})];
        assert_eq!(hosts, expected);
        assert_eq!(
            parse("n1 max_slots=4").unwrap_err(),
            "line 1: expected `HOST slots=N`, found `max_slots=4`"
        );
        assert!(parse("n1 slots=-1").is_err());
    }
}
