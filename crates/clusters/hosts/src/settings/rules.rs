//! Settings that ssh or Open MPI would reject or misread.

use std::collections::BTreeSet;

use cluster_api::{
    SettingsProblems,
    settings::{ProblemList, not_a_debug_level, not_a_path, not_a_variable, not_in_range, shown},
};

use super::{Host, Hosts};

const MOST_HOSTS: u32 = 4096;
/// Maximum length of a host name or variable name, bytes.
const LONGEST: usize = 253;

/// All problems, by field.
pub fn problems(settings: &Hosts) -> SettingsProblems {
    let mut found = ProblemList::default();
    list(settings, &mut found);
    // Host names are case-insensitive (RFC 4343).
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (at, host) in settings.hosts.iter().enumerate() {
        let mut own = ProblemList::default();
        one(settings, host, &mut own);
        let twice = |text: &str| format!("`{}` is in the list twice; remove one entry", shown(text));
        let same_name = !names.insert(host.name.to_ascii_lowercase());
        own.add("name", same_name.then(|| twice(&host.name)));
        // Without `address` the name is the address, so the list could contain one host twice: by name and by address.
        let same_address = !addresses.insert(host.address().to_ascii_lowercase()) && !same_name;
        let field = if host.address.is_some() { "address" } else { "name" };
        own.add(field, same_address.then(|| twice(host.address())));
        for (field, problem) in own.into_problems() {
            found.add(&format!("hosts[{at}].{field}"), Some(problem));
        }
    }
    ssh(settings, &mut found);
    ranks(settings, &mut found);
    found.into_problems()
}

fn list(settings: &Hosts, found: &mut ProblemList) {
    if settings.hostfile.is_some() {
        found.add("hostfile", Some("is read only from a workflow file; write `hosts` here".to_owned()));
    } else if settings.hosts.is_empty() {
        found.add("hosts", Some("is empty; name at least one host".to_owned()));
    }
    let count = u32::try_from(settings.hosts.len()).unwrap_or(u32::MAX);
    let stated = settings.nodes.filter(|nodes| *nodes != count);
    found.add("nodes", stated.map(|nodes| format!("{nodes}, but `hosts` has {count}; remove `nodes`")));
    let many = count > MOST_HOSTS;
    found.add("hosts", many.then(|| format!("expected at most {MOST_HOSTS}, found {count}")));
}

fn one(settings: &Hosts, host: &Host, found: &mut ProblemList) {
    found.add("name", not_a_host(&host.name, false));
    found.add_if_set("address", &host.address, |address| not_a_host(address, true));
    found.add_if_set("user", &host.user, not_a_user);
    found.add("port", host.port.and_then(not_a_port));
    found.add_if_set("identity_file", &host.identity_file, not_a_key_file);
    found.add("ranks", host.ranks.and_then(|ranks| not_in_range(ranks, 64)));
    found.add("gpus", host.gpus.and_then(|gpus| not_in_range(gpus, 64)));
    let (ranks, gpus) = (settings.ranks(host), host.gpus.or(settings.gpus_per_node));
    let few = gpus.filter(|gpus| *gpus > 0 && ranks > *gpus);
    found.add("ranks", few.map(|gpus| format!("{ranks} ranks on {gpus} GPUs; each rank needs a GPU")));
}

fn ssh(settings: &Hosts, found: &mut ProblemList) {
    found.add_if_set("user", &settings.user, not_a_user);
    found.add("port", settings.port.and_then(not_a_port));
    found.add_if_set("identity_file", &settings.identity_file, not_a_key_file);
    for option in &settings.ssh_options {
        found.add("ssh_options", not_an_option(option));
    }
}

fn ranks(settings: &Hosts, found: &mut ProblemList) {
    found.add("ranks_per_node", not_in_range(settings.ranks_per_node, 64));
    found.add("gpus_per_node", settings.gpus_per_node.and_then(|gpus| not_in_range(gpus, 64)));
    found.add("work_folder", not_a_path(&settings.work_folder));
    found.add_if_set("programs", &settings.programs, not_a_path);
    found.add_if_set("profile", &settings.profile, not_a_path);
    for (name, value) in &settings.environment {
        found.add(&format!("environment.{}", shown(name)), not_a_variable(name, value, LONGEST));
    }
    found.add("nccl_debug", not_a_debug_level(&settings.nccl_debug));
    found.add_if_set("mpi.folder", &settings.mpi.folder, not_a_path);
    let bad =
        |option: &&String| option.is_empty() || option.len() > 4096 || option.chars().any(char::is_control);
    let bad = settings.mpi.options.iter().find(bad);
    let problem = |option: &String| {
        format!("expected words of 1 to 4096 bytes without control characters, found `{}`", shown(option))
    };
    found.add("mpi.options", bad.map(problem));
    let ranks = settings.hosts.iter().map(|host| settings.ranks(host)).fold(0, u32::saturating_add);
    let bad = settings.rank_port < 1024 || u32::from(settings.rank_port).saturating_add(ranks) > 65_536;
    let expected = "expected 1024 or more, with a port up to 65535 for each rank";
    found.add("rank_port", bad.then(|| format!("{expected}, found {}", settings.rank_port)));
    let bad = !(5..=3600).contains(&settings.silent_after.0.as_secs());
    found.add("silent_after", bad.then(|| format!("expected 5 s to 1 h, found {}", settings.silent_after)));
}

fn not_a_port(port: u16) -> Option<String> {
    (port == 0).then(|| "expected 1 to 65535, found 0".to_owned())
}

/// A host name; an address may also be IPv6. ssh would read a leading `-` as an option.
fn not_a_host(name: &str, address: bool) -> Option<String> {
    let letter =
        |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter) || (address && letter == ':');
    let starts = name.starts_with(|first: char| first.is_ascii_alphanumeric() || (address && first == ':'));
    let bad = !starts || name.len() > LONGEST || !name.chars().all(letter);
    let beside = if address { " and :" } else { "" };
    bad.then(|| {
        format!(
            "expected at most {LONGEST} letters, digits and any of -._{beside}, beginning with a letter or a digit, found `{}`",
            shown(name)
        )
    })
}

fn not_a_user(name: &str) -> Option<String> {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "-._@".contains(letter);
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    (!starts || name.len() > 64 || !name.chars().all(letter))
        .then(|| format!("expected a user name, found `{}`", shown(name)))
}

/// ssh_config expands `%` and `$`, and a quote would end the value.
fn not_a_key_file(path: &str) -> Option<String> {
    not_a_path(path).or_else(|| {
        path.contains(['%', '"', '$', '\\'])
            .then(|| format!("expected a path without %, $, \" and \\, found `{}`", shown(path)))
    })
}

fn not_an_option(option: &str) -> Option<String> {
    let good = option.split_once('=').is_some_and(|(name, value)| {
        !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric())
            && !value.is_empty()
            && option.len() <= 1024
            && !value.chars().any(char::is_control)
    });
    (!good).then(|| format!("expected Name=value as in ssh_config, found `{}`", shown(option)))
}
