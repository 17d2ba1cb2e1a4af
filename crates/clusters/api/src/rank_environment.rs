//! The environment in which a rank runs the benchmark. Pure.

use std::collections::BTreeMap;

use crate::shell::{LOCAL_RANK, quote};

/// Shell text that exports the workflow's variables. `LD_LIBRARY_PATH` is extended, because the image's own libraries
/// remain necessary.
pub fn exports(environment: &BTreeMap<String, String>) -> String {
    let export = |(name, value): (&String, &String)| {
        let value = quote(value);
        match name.as_str() {
            "LD_LIBRARY_PATH" => format!(
                "case ${{LD_LIBRARY_PATH:-}}: in {value}:*) ;; *) export LD_LIBRARY_PATH={value}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}} ;; esac\n"
            ),
            _ => format!("export {name}={value}\n"),
        }
    };
    environment.iter().map(export).collect()
}

/// Shell text (bash) that a rank executes directly before the benchmark. It sets the workflow's variables, which override
/// those of profile and image; then the first rank of each node reports them for the verdict.
pub fn applied_last(environment: &BTreeMap<String, String>) -> String {
    let requested: Vec<_> =
        environment.keys().filter(|name| name.starts_with("NCCL_")).map(String::as_str).collect();
    let mut requests = String::new();
    if !requested.is_empty() {
        requests = format!(
            "  for name in {}; do printf 'burnin environment: requested %s=%q\\n' \"$name\" \"${{!name}}\"; done\n",
            requested.join(" ")
        );
    }
    format!(
        "{}if [[ {LOCAL_RANK} == 0 ]]; then\n{requests}  \
         for name in ${{!NCCL_*}}; do printf 'burnin environment: %s has %s=%q\\n' \"$(hostname)\" \"$name\" \"${{!name}}\"; done\nfi\n",
        exports(environment)
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn run(text: &str, own: &[(&str, &str)]) -> String {
        let mut bash = Command::new("bash");
        bash.env_clear().env("PATH", std::env::var("PATH").unwrap()).envs(own.iter().copied());
        let output = bash.args(["-uc", text]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn requested_variables_override_profile_and_image_and_are_reported_once_for_each_node() {
        let requested = [("NCCL_NET", "gIB"), ("NCCL_X", "it's \"$(x)\""), ("OTHER", "1")];
        let requested = requested.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let text = applied_last(&requested) + "echo \"$NCCL_NET $OTHER\"";
        let image = [("NCCL_NET", "Socket"), ("NCCL_IMAGE", "1")];
        let host = run("hostname", &[]);
        let host = host.trim();
        let report = run(&text, &image);
        let expected = format!(
            "burnin environment: requested NCCL_NET=gIB\n\
             burnin environment: requested NCCL_X=it\\'s\\ \\\"\\$\\(x\\)\\\"\n\
             burnin environment: {host} has NCCL_IMAGE=1\n\
             burnin environment: {host} has NCCL_NET=gIB\n\
             burnin environment: {host} has NCCL_X=it\\'s\\ \\\"\\$\\(x\\)\\\"\n\
             gIB 1\n"
        );
        assert_eq!(report, expected);
        for local in ["SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "BURNIN_LOCAL_RANK"] {
            assert_eq!(
                run(&text, &[(local, "1")]),
                "gIB 1\n",
                "the second rank of a node reports no variables"
            );
        }
    }

    #[test]
    fn library_folders_of_the_image_remain_in_the_search_path() {
        let requested = BTreeMap::from([("LD_LIBRARY_PATH".to_owned(), "/ours".to_owned())]);
        let print = "echo \"$LD_LIBRARY_PATH\"";
        let once = exports(&requested);
        assert_eq!(run(&format!("{once}{print}"), &[("LD_LIBRARY_PATH", "/image")]), "/ours:/image\n");
        assert_eq!(run(&format!("{once}{once}{print}"), &[("LD_LIBRARY_PATH", "/image")]), "/ours:/image\n");
        assert_eq!(run(&format!("{once}{print}"), &[]), "/ours\n");
    }
}
