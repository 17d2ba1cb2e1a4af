//! Settings that Kubernetes would reject or misread. Names follow the API's own rules: "Object Names and IDs", "Labels and
//! Selectors" of the Kubernetes documentation.

use cluster_api::{
    SettingsProblems,
    settings::{ProblemList, not_a_debug_level, not_a_path, not_a_variable, not_in_range, shown},
};

use super::{ApiAccess, Kubernetes, Launch, Topology};

/// Maximum length of an object name, bytes.
const LONGEST: usize = 253;
/// Maximum number of entries per map or list.
const MAX_ENTRIES: usize = 256;
/// Maximum number of named nodes.
pub(crate) const MAX_NAMED: usize = 8;

/// All problems, by field.
pub fn problems(settings: &Kubernetes) -> SettingsProblems {
    let mut found = ProblemList::default();
    access(&settings.access, &mut found);
    queue(settings, &mut found);
    size(settings, &mut found);
    image(settings, &mut found);
    nodes(settings, &mut found);
    pods(settings, &mut found);
    ranks(settings, &mut found);
    found.into_problems()
}

/// Suffix of the names of GKE's DNS-based endpoints.
const DNS_ENDPOINT: &str = ".gke.goog";

fn access(access: &ApiAccess, found: &mut ProblemList) {
    match access {
        ApiAccess::Kubeconfig { path, context } => {
            found.add_if_set("access.kubeconfig.path", path, not_a_path);
            let bad = |context: &str| context.is_empty() || context.len() > 1024;
            let rule = |context: &str| {
                bad(context).then(|| format!("expected 1 to 1024 bytes, found {}", context.len()))
            };
            found.add_if_set("access.kubeconfig.context", context, rule);
        }
        ApiAccess::InCluster => {}
        ApiAccess::Gke { server, certificate_authority } => {
            let bad = !server.starts_with("https://") || server.chars().any(char::is_whitespace);
            let problem = bad.then(|| format!("expected https://..., found `{}`", shown(server)));
            found.add("access.gke.server", problem);
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
            // An IP address has no certificate of a public authority.
            let missing = certificate_authority.is_empty() && !server.ends_with(DNS_ENDPOINT);
            let problem = match certificate_authority.bytes().all(letter) {
                true if missing => {
                    Some(format!("is missing; only a server that ends in {DNS_ENDPOINT} has none"))
                }
                true => None,
                false => Some("expected base64, as `gcloud` prints it".to_owned()),
            };
            found.add("access.gke.certificate_authority", problem);
        }
    }
}

fn queue(settings: &Kubernetes, found: &mut ProblemList) {
    found.add("namespace", not_a_label_name(&settings.namespace));
    found.add_if_set("queue", &settings.queue, not_a_name);
    found.add_if_set("priority_class", &settings.priority_class, not_a_name);
    found.add_if_set("pod_priority_class", &settings.pod_priority_class, not_a_name);
    let without_class = settings.yields && settings.pod_priority_class.is_none();
    found.add("pod_priority_class", without_class.then(|| "is missing; `yields` requires it".to_owned()));
    let grows = settings.yields && settings.autoscaled;
    found.add(
        "yields",
        grows.then(|| {
            "cannot be combined with `autoscaled`: pending pods would add nodes; remove `yields` or `autoscaled`".to_owned()
        }),
    );
    if let Some(Topology::Required(level) | Topology::Preferred(level)) = &settings.topology {
        found.add("topology", not_a_key(level));
    }
    let useless = settings.topology.is_some() && settings.queue.is_none();
    found.add("topology", useless.then(|| "is evaluated only by Kueue; set `queue`".to_owned()));
}

fn size(settings: &Kubernetes, found: &mut ProblemList) {
    found.add("nodes", not_in_range(settings.nodes, 4096));
    found.add("ranks_per_node", not_in_range(settings.ranks_per_node, 64));
    found.add("gpus_per_node", settings.gpus_per_node.and_then(|gpus| not_in_range(gpus, 64)));
    let ranks = u64::from(settings.nodes) * u64::from(settings.ranks_per_node);
    let beyond = settings.launch == Launch::Ranks && u64::from(settings.rank_port) + ranks > 65_536;
    let bad = settings.rank_port < 1024 || beyond;
    let expected = "expected 1024 or more, with a port up to 65535 for each rank";
    found.add("rank_port", bad.then(|| format!("{expected}, found {}", settings.rank_port)));
    found.add("cpu_millis", settings.cpu_millis.and_then(|cpus| not_in_range(cpus, 1_024_000)));
    found.add("memory_mib", settings.memory_mib.and_then(|memory| not_in_range(memory, 64 << 20)));
}

fn image(settings: &Kubernetes, found: &mut ProblemList) {
    found.add_if_set("image", &settings.image, not_an_image);
    found.add_if_set("image_pull_secret", &settings.image_pull_secret, not_a_name);
    found.add_if_set("service_account", &settings.service_account, not_a_name);
}

fn nodes(settings: &Kubernetes, found: &mut ProblemList) {
    for (key, value) in &settings.node_selector {
        let problem = not_a_key(key).or_else(|| not_a_label(value));
        found.add(&format!("node_selector.{}", shown(key)), problem);
    }
    let (named, count) = (&settings.only_nodes, settings.nodes);
    found.add("only_nodes", named.iter().find_map(|node| not_a_name(node)));
    let twice = named.iter().enumerate().find(|(place, node)| named[..*place].contains(node));
    found.add("only_nodes", twice.map(|(_, node)| format!("names `{}` twice; remove one", shown(node))));
    let bad = !named.is_empty() && (named.len() > MAX_NAMED || named.len() != count as usize);
    let expected = format!("expected as many names as `nodes` ({count}), at most {MAX_NAMED}");
    found.add("only_nodes", bad.then(|| format!("{expected}, found {}", named.len())));
    for key in &settings.tolerate {
        found.add("tolerate", not_a_key(key));
    }
}

fn pods(settings: &Kubernetes, found: &mut ProblemList) {
    for (key, value) in &settings.annotations {
        let too_long =
            (value.len() > 16 << 10).then(|| format!("expected at most 16 KiB, found {} bytes", value.len()));
        found.add(&format!("annotations.{}", shown(key)), not_a_key(key).or(too_long));
    }
    if let Some(plugin) = &settings.plugin {
        found.add("plugin.image", not_an_image(&plugin.image));
        found.add("plugin.folder", not_a_path(&plugin.folder));
        let bad = plugin.command.is_empty() || plugin.command.iter().any(|word| word.contains('\0'));
        found.add(
            "plugin.command",
            bad.then(|| "expected a program and its arguments, without zero bytes".to_owned()),
        );
    }
}

fn ranks(settings: &Kubernetes, found: &mut ProblemList) {
    found.add_if_set("socket_interface", &settings.socket_interface, not_an_interface);
    found.add_if_set("profile", &settings.profile, not_a_path);
    found.add_if_set("programs", &settings.programs, not_a_path);
    found.add("nccl_debug", not_a_debug_level(&settings.nccl_debug));
    for (name, value) in &settings.environment {
        found.add(&format!("environment.{}", shown(name)), not_a_variable(name, value, LONGEST));
    }
    let seconds = settings.begin_within.0.as_secs();
    let bad = seconds == 0 || seconds > 7 * 86_400;
    found
        .add("begin_within", bad.then(|| format!("expected 1 s to 7 days, found {}", settings.begin_within)));
    let bad = settings.keep_on_failure.is_some_and(|kept| !(1..=86_400).contains(&kept.0.as_secs()));
    found.add("keep_on_failure", bad.then(|| "expected 1 s to 24 h".to_owned()));
    for (field, size) in [
        ("node_selector", settings.node_selector.len()),
        ("tolerate", settings.tolerate.len()),
        ("annotations", settings.annotations.len()),
        ("environment", settings.environment.len()),
    ] {
        found.add(
            field,
            (size > MAX_ENTRIES).then(|| format!("expected at most {MAX_ENTRIES}, found {size}")),
        );
    }
}

fn not_an_interface(name: &str) -> Option<String> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.,-".contains(&byte);
    let good = !name.is_empty() && name.len() <= 64 && name.bytes().all(letter);
    (!good).then(|| format!("expected an interface name, found `{}`", shown(name)))
}

/// The problem of a text that is not a DNS name with dots, the form of most object names.
fn not_a_name(name: &str) -> Option<String> {
    let part = |part: &str| not_a_label_name(part).is_none();
    (name.len() > LONGEST || !name.split('.').all(part)).then(|| {
        format!(
            "expected a DNS name of at most {LONGEST} characters (a-z, 0-9, - and .), found `{}`",
            shown(name)
        )
    })
}

fn not_a_label_name(name: &str) -> Option<String> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = |edge: Option<u8>| edge.is_some_and(|byte| byte != b'-');
    let good = ends(name.bytes().next())
        && ends(name.bytes().last())
        && name.len() <= 63
        && name.bytes().all(letter);
    (!good).then(|| format!("expected 1 to 63 of a-z, 0-9 and -, as in a DNS label, found `{}`", shown(name)))
}

/// Reason why the value is an invalid label; `None` for a valid label.
fn not_a_label(value: &str) -> Option<String> {
    let edge = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let good = edge(value.bytes().next())
        && edge(value.bytes().last())
        && value.len() <= 63
        && value.bytes().all(letter);
    (!good).then(|| format!("expected at most 63 letters, digits and any of _.-, found `{}`", shown(value)))
}

/// Key of a label or annotation, with or without a domain prefix.
fn not_a_key(key: &str) -> Option<String> {
    let (domain, name) = key.split_once('/').map_or((None, key), |(domain, name)| (Some(domain), name));
    let good = domain.is_none_or(|domain| not_a_name(domain).is_none())
        && !name.is_empty()
        && not_a_label(name).is_none();
    (!good).then(|| format!("expected a key such as example.com/name, found `{}`", shown(key)))
}

fn not_an_image(image: &str) -> Option<String> {
    let good = image.split_once("@sha256:").is_some_and(|(name, digest)| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-/:".contains(&byte);
        !name.is_empty()
            && name.len() <= 512
            && name.bytes().all(letter)
            && digest.len() == 64
            && digest.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    (!good).then(|| {
        format!(
            "expected HOST/NAME@sha256: and 64 hex digits, because a tag can be moved; found `{}`",
            shown(image)
        )
    })
}
