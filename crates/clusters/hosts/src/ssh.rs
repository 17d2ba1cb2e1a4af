//! ssh to the hosts: its configuration for one cluster, and commands on hosts. ssh never prompts for a password.

use std::{fmt::Write, path::Path, time::Duration};

use cluster_api::shell::quote;
use supervisor::run_program;

use crate::settings::Hosts;

/// Timeout of a command on a host, including the connection.
const LIMIT: Duration = Duration::from_secs(40);

/// An ssh_config that identifies every host by its name. ssh uses the first value of an option, so the user's own configuration is included
/// last.
pub fn config(settings: &Hosts) -> String {
    let mut text = String::from("# Written by Burnin.\n");
    for host in &settings.hosts {
        // mpirun uses the address, because DNS may not resolve the name.
        _ = writeln!(
            text,
            "Host {}",
            if host.name == host.address() {
                host.name.clone()
            } else {
                format!("{} {}", host.name, host.address())
            }
        );
        _ = writeln!(text, "  HostName {}", host.address());
        if let Some(user) = host.user.as_ref().or(settings.user.as_ref()) {
            _ = writeln!(text, "  User {user}");
        }
        if let Some(port) = host.port.or(settings.port) {
            _ = writeln!(text, "  Port {port}");
        }
        if let Some(key) = host.identity_file.as_ref().or(settings.identity_file.as_ref()) {
            _ = writeln!(text, "  IdentityFile \"{key}\"\n  IdentitiesOnly yes");
        }
    }
    text += "Host *\n";
    for option in &settings.ssh_options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        _ = writeln!(text, "  {name} {value}");
    }
    text += "  BatchMode yes\n  ConnectTimeout 10\n  ServerAliveInterval 10\n  ServerAliveCountMax 3\n  LogLevel ERROR\n";
    text += "Include ~/.ssh/config\nInclude /etc/ssh/ssh_config\n";
    text
}

/// Runs a bash script on a host. Returns its standard output.
///
/// # Errors
/// Returns an error if the host does not respond, or with the last line of standard error if the script fails.
pub async fn run(config: &Path, host: &str, script: &str) -> Result<String, String> {
    let command = format!("exec bash -c {}", quote(script));
    let argv = ["ssh", "-F", &config.display().to_string(), "-T", host, &command].map(str::to_owned);
    // In addition to the usual variables, ssh needs only the ssh agent's socket.
    let socket = std::env::var_os("SSH_AUTH_SOCK");
    let env: Vec<_> = socket.into_iter().map(|socket| ("SSH_AUTH_SOCK", socket)).collect();
    match run_program(&argv, &env, LIMIT).await {
        Ok(output) if output.good => Ok(output.stdout),
        Ok(output) => Err(output.stderr.lines().last().unwrap_or("no error message").trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_host_come_before_the_common_ones_and_the_users_own() {
        let settings: Hosts = serde_json::from_value(serde_json::json!({
            "hosts": [{"name": "n1"}, {"name": "n2", "address": "10.0.0.2", "user": "root", "port": 2222, "identity_file": "/k 2"}],
            "user": "me", "identity_file": "/key", "ssh_options": ["UserKnownHostsFile=/known"],
        }))
        .unwrap();
        insta::assert_snapshot!(config(&settings));
    }
}
