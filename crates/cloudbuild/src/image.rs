//! Maps builder images to local tools.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCommand {
    /// A name to look up on the `PATH`, or a path.
    pub tool: String,
    /// Arguments, each passed unchanged.
    pub args: Vec<String>,
}

/// The last part of an image's name, without tag and digest: `gcr.io/cloud-builders/kubectl:1.30` is `kubectl`.
pub fn short_name(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or(image);
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split(':').next().unwrap_or(last)
}

/// The command of a step.
///
/// `entrypoint` has priority over the image. Otherwise `tools` is searched for the image as written and for
/// its short name. A well-known image without an entrypoint (`ubuntu`, `python`...) executes its first
/// argument, or its default command without arguments or with options only. Any other image is assumed to
/// contain the tool it is named after, as Cloud Build's own builders do.
pub fn command(
    image: &str,
    entrypoint: Option<&str>,
    args: &[String],
    tools: &BTreeMap<String, String>,
) -> ToolCommand {
    let with = |tool: &str| ToolCommand { tool: tool.to_owned(), args: args.to_vec() };
    let name = short_name(image);
    if let Some(entrypoint) = entrypoint {
        return with(entrypoint);
    }
    if let Some(tool) = tools.get(image).or_else(|| tools.get(name)) {
        return with(tool);
    }
    match (default_command(name), args.split_first()) {
        (Some(_), Some((first, rest))) if !first.starts_with('-') => {
            ToolCommand { tool: first.clone(), args: rest.to_vec() }
        }
        (Some(default), _) => with(default),
        (None, _) => with(name),
    }
}

/// Default command of an image without an entrypoint.
fn default_command(name: &str) -> Option<&'static str> {
    match name {
        "ubuntu" | "debian" | "bash" | "rust" | "golang" => Some("bash"),
        "alpine" | "busybox" => Some("sh"),
        "python" => Some("python3"),
        "node" => Some("node"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_short_names() {
        for (image, name) in [
            ("gcr.io/cloud-builders/kubectl", "kubectl"),
            ("hashicorp/terraform:1.5", "terraform"),
            ("ubuntu", "ubuntu"),
            ("ubuntu:24.04", "ubuntu"),
            ("localhost:5000/tools/helm", "helm"),
            ("us-docker.pkg.dev/p/r/gcluster@sha256:0123", "gcluster"),
            ("a/b:tag@sha256:0123", "b"),
        ] {
            assert_eq!(short_name(image), name, "{image}");
        }
    }

    #[test]
    fn images_are_mapped_to_tools() {
        let tools = BTreeMap::from([
            ("rust:1.91".to_owned(), "cargo".to_owned()),
            ("kubectl".to_owned(), "/opt/kubectl".to_owned()),
        ]);
        let table: [(&str, Option<&str>, &[&str], &str); 10] = [
            ("gcr.io/cloud-builders/gcloud", None, &["version"], "gcloud version"),
            ("gcr.io/cloud-builders/kubectl", None, &["get"], "/opt/kubectl get"),
            ("rust:1.91", None, &["build"], "cargo build"),
            ("rust:1.90", None, &["cargo", "build"], "cargo build"),
            ("ubuntu", None, &["echo", "-n"], "echo -n"),
            ("ubuntu", None, &["-c", "true"], "bash -c true"),
            ("ubuntu", None, &[], "bash"),
            ("bash", None, &["./x.sh"], "./x.sh"),
            ("alpine", None, &[], "sh"),
            ("kubectl", Some("sh"), &["-x"], "sh -x"),
        ];
        for (image, entrypoint, args, expected) in table {
            let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
            let command = command(image, entrypoint, &args, &tools);
            let line = [vec![command.tool], command.args].concat().join(" ");
            assert_eq!(line, expected, "{image} {entrypoint:?} {args:?}");
        }
    }
}
