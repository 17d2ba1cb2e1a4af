//! Shell scripts of the pods. Pure: settings are passed as environment and quoted words.
//!
//! A pod that fails before the benchmark writes one line, beginning with the reason code, as its termination message, which
//! is available after the pod's log is deleted.

use cluster_api::{JobSpec, pairs, program, rank_environment, shell::quote};

use crate::{Kubernetes, Launch, names};

/// Mount path of the ssh keys.
pub const KEYS: &str = "/etc/burnin-keys";
/// ssh port in the pods, also on the host network.
const SSH_PORT: u16 = 2222;

/// Exit code of the script before the benchmark starts: a pod has no DNS name yet, or refuses ssh.
pub const NOT_REACHED: i32 = 80;
/// Exit code of the script before the benchmark starts: the image or the pod does not meet a requirement of
/// the job.
pub const NOT_FIT: i32 = 85;

const HEAD: &str = r#"set -u
say() { printf '%s\n' "$*"; }
# Arguments: status, code, text. The text is the pod's termination message, which outlives its log.
fail() { local status=$1; shift; say "$*" >&2; { printf '%s\n' "$*" >"${BURNIN_LAST_WORD:-/dev/termination-log}"; } 2>/dev/null; finish "$status"; }
# Ends the pod. After a failure it is kept for inspection first, until a file is created, the time has passed, or the pod is deleted.
finish() {
  local status=$1 kept=${BURNIN_KEEP_SECONDS:-0} until
  if ((status != 0 && kept > 0)); then
    say "exit status $status: kept for inspection for $kept s at most; touch $run/release ends it"
    trap 'exit "$status"' TERM
    until=$((SECONDS + kept))
    while ((SECONDS < until)) && [[ ! -e $run/release ]]; do sleep 1 & wait $!; done
  fi
  exit "$status"
}
index=${BURNIN_INDEX:-${JOB_COMPLETION_INDEX:?}}
# Pod addresses separated by commas, if DNS must not be used.
IFS=, read -ra hosts <<<"${BURNIN_HOSTS:-}"
host() { if [[ -n ${hosts[$1]:-} ]]; then printf %s "${hosts[$1]}"; else printf "$BURNIN_POD.%s" "$1" "$BURNIN_DOMAIN"; fi; }
run=${BURNIN_RUN_FOLDER:-/tmp/burnin}
mkdir -p "$run" || fail 85 UNFIT "cannot create $run"
say "pod $index of $BURNIN_NODES is $(hostname)"
"#;

/// Starts the pod's own ranks, which find each other by pod name.
const RANKS: &str = r#"port=${BURNIN_PORT:?}
export BURNIN_RANKS=$((BURNIN_NODES * BURNIN_RANKS_PER_NODE)) BURNIN_RENDEZVOUS=$run/rendezvous BURNIN_HOST=0.0.0.0 BURNIN_PORT=$port
rm -rf "$BURNIN_RENDEZVOUS" && mkdir -p "$BURNIN_RENDEZVOUS" || fail 85 UNFIT "cannot create $BURNIN_RENDEZVOUS"
# DNS may not resolve the names of new pods at first.
until=$((SECONDS + ${BURNIN_REACH_SECONDS:-300}))
for ((node = 0; node < BURNIN_NODES; node++)); do
  name=$(host "$node")
  until getent hosts "$name" >/dev/null; do
    ((SECONDS < until)) || fail 80 DNS_NOT_READY "DNS does not resolve $name"
    sleep 1
  done
  for ((slot = 0; slot < BURNIN_RANKS_PER_NODE; slot++)); do
    rank=$((node * BURNIN_RANKS_PER_NODE + slot))
    [[ $node == "$index" ]] || printf '%s:%d' "$name" $((port + rank)) >"$BURNIN_RENDEZVOUS/rank-$rank"
  done
done
say "DNS resolves every pod name"
ranks=()
stop() { trap - TERM; kill -TERM "${ranks[@]}" 2>/dev/null; wait; exit 143; }
trap stop TERM
for ((slot = 0; slot < BURNIN_RANKS_PER_NODE; slot++)); do
  BURNIN_RANK=$((index * BURNIN_RANKS_PER_NODE + slot)) BURNIN_LOCAL_RANK=$slot bash "$run/rank.sh" "$@" &
  ranks+=($!)
done
status=0
for rank in "${ranks[@]}"; do
  wait "$rank"; code=$?
  ((code > status)) && status=$code
done
finish "$status"
"#;

/// Starts the program once in the pod.
const ONCE: &str = r#"stop() { trap - TERM; kill -TERM "$started" 2>/dev/null; wait; exit 143; }
trap stop TERM
bash "$run/rank.sh" "$@" &
started=$!
wait "$started"
finish $?
"#;

/// Starts sshd in every pod; the first pod connects to all others. The job ends when the first pod ends.
const SSH: &str = r#"port=${BURNIN_SSH_PORT:?}
for program in ssh ssh-keygen "${needs[@]}"; do
  [[ $program == mpirun && $index != 0 ]] || type -P "$program" >/dev/null || fail 85 UNFIT "the image has no $program"
done
sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin type -P sshd) || fail 85 UNFIT "the image has no sshd; install openssh-server in it"
mkdir -p /run/sshd
install -m 600 "$BURNIN_KEYS/user" "$run/user_key" && install -m 600 "$BURNIN_KEYS/host" "$run/host_key" || fail 85 UNFIT "the job's ssh keys cannot be read"
ssh-keygen -y -f "$run/user_key" >"$run/authorized_keys" && { printf 'burnin '; ssh-keygen -y -f "$run/host_key"; } >"$run/known_hosts" || fail 85 UNFIT "the job's ssh keys are invalid"
# Every pod of the job has the same host key: another key means that the peer is not part of the job.
printf '%s\n' "Port $port" "HostKey $run/host_key" "AuthorizedKeysFile $run/authorized_keys" "PidFile $run/sshd.pid" \
  'AuthenticationMethods publickey' 'PermitRootLogin prohibit-password' 'PasswordAuthentication no' 'UsePAM no' \
  'StrictModes no' 'MaxStartups 1024' 'MaxSessions 1024' >"$run/sshd_config"
# A session does not inherit sshd's environment: the image's programs and libraries would not be found there.
printf 'SetEnv "PATH=%s" "LD_LIBRARY_PATH=%s" "BURNIN_NODE_NAME=%s"\n' "$PATH" "${LD_LIBRARY_PATH:-}" "${BURNIN_NODE_NAME:-}" >>"$run/sshd_config"
printf '%s\n' 'Host *' "Port $port" "IdentityFile $run/user_key" 'IdentitiesOnly yes' 'HostKeyAlias burnin' \
  "UserKnownHostsFile $run/known_hosts" 'StrictHostKeyChecking yes' 'BatchMode yes' 'ConnectTimeout 5' \
  'ServerAliveInterval 15' 'ServerAliveCountMax 4' 'LogLevel ERROR' >"$run/ssh_config"
if [[ $index != 0 ]]; then
  say "waiting for the first pod"
  exec "$sshd" -D -e -f "$run/sshd_config"
fi
"$sshd" -e -f "$run/sshd_config" || fail 85 UNFIT "sshd does not start"
: >"$run/hostfile"
until=$((SECONDS + ${BURNIN_REACH_SECONDS:-900}))
for ((node = 0; node < BURNIN_NODES; node++)); do
  name=$(host "$node")
  until said=$(ssh -F "$run/ssh_config" "$name" hostname 2>&1); do
    if ((SECONDS >= until)); then
      case $said in
        *'not resolve'*|*'not known'*) fail 80 DNS_NOT_READY "$name: ${said##*$'\n'}" ;;
        *) fail 80 SSH_REFUSED "$name: ${said##*$'\n'}" ;;
      esac
    fi
    sleep 2
  done
  say "pod $node answers: $said"
  printf '%s slots=%d\n' "$name" "$BURNIN_RANKS_PER_NODE" >>"$run/hostfile"
done
"#;

/// Starts the ranks with mpirun.
const MPIRUN: &str = r#"interface=()
[[ -z ${BURNIN_INTERFACE:-} ]] || interface=(--mca btl_tcp_if_include "$BURNIN_INTERFACE" --mca oob_tcp_if_include "$BURNIN_INTERFACE")
# Ranks get the script as an argument: the other pods do not have the file.
mpirun --allow-run-as-root --hostfile "$run/hostfile" -np $((BURNIN_NODES * BURNIN_RANKS_PER_NODE)) \
  --map-by "ppr:$BURNIN_RANKS_PER_NODE:node" --bind-to none --mca orte_keep_fqdn_hostnames 1 --mca plm_rsh_no_tree_spawn 1 \
  --mca plm_rsh_agent "ssh -F $run/ssh_config" --mca pml ob1 --mca coll ^hcoll --mca btl self,tcp "${interface[@]}" \
  bash -c "$(cat "$run/rank.sh")" rank "$@"
finish $?
"#;

/// The nodes of all pods, and the command that starts one end of a pair on a node.
const PAIRS: &str = r#"nodes=() addresses=() pairs=$run/pairs argv=("$@")
mkdir -p "$pairs"
for ((node = 0; node < BURNIN_NODES; node++)); do
  addresses+=("$(host "$node")")
  nodes+=("$(ssh -n -F "$run/ssh_config" "${addresses[node]}" 'printf %s "${BURNIN_NODE_NAME:-$(hostname)}"')")
done
run_end() {
  local marks
  printf -v marks ' %q' "BURNIN_PAIR_INDEX=$BURNIN_PAIR_INDEX" "BURNIN_PEER=$BURNIN_PEER"
  ssh -F "$run/ssh_config" "${addresses[$1]}" "export$marks; exec bash -c $(printf '%q ' "$(<"$run/rank.sh")" rank "${argv[@]}")"
}
"#;

/// Script of every pod of a job, called with the arguments of the benchmark.
pub fn script(job: &JobSpec, settings: &Kubernetes) -> String {
    let launch = match (program::rounds_of_pairs(&job.program), settings.launch) {
        (Some(rounds), _) => {
            let takes_evidence = u8::from(program::takes_evidence_of_pairs(job));
            format!(
                "needs=()\n{SSH}{}{PAIRS}run_pairs {rounds} {takes_evidence}\nfinish $?\n",
                pairs::RUN_PAIRS
            )
        }
        _ if program::is_per_node(&job.program) => ONCE.to_owned(),
        (None, Launch::Ranks) => RANKS.to_owned(),
        (None, Launch::Mpi) => format!("needs=(mpirun)\n{SSH}{MPIRUN}"),
    };
    format!("{HEAD}cat >\"$run/rank.sh\" <<'RANK'\n{}RANK\n{launch}", rank(job, settings))
}

/// Script that starts one rank: network profile, then settings, then the program.
fn rank(job: &JobSpec, settings: &Kubernetes) -> String {
    let variables = job.environment_over(&settings.environment);
    let environment = rank_environment::exports(&variables);
    let profile = settings.profile.as_ref().map_or_else(String::new, |profile| {
        let file = quote(profile);
        format!(
            "[ -r {file} ] || {{ echo \"$(hostname): \"{file}' cannot be read: the network plugin is not in the pod' >&2; exit 88; }}\n\
             . {file} || exit 88\n"
        )
    });
    let interface = settings
        .socket_interface
        .as_ref()
        .map_or_else(String::new, |name| format!("export NCCL_SOCKET_IFNAME={}\n", quote(name)));
    let debug = quote(&settings.nccl_debug);
    // `environment` overrides the profile, and is also visible to it.
    format!(
        "{environment}{profile}{interface}export NCCL_DEBUG={debug}\nunset NCCL_DEBUG_FILE\n{}{}",
        rank_environment::applied_last(&variables),
        program::start(job, settings.programs.as_deref()),
    )
}

pub fn environment<'a>(settings: &'a Kubernetes, jobset: &str) -> Vec<(&'a str, String)> {
    let replicated = names::REPLICATED;
    // Pattern of the pod names, with a placeholder for the pod's index.
    let pod = match settings.only_nodes.is_empty() {
        true => format!("{jobset}-{replicated}-0-%d"),
        false => format!("{jobset}-{replicated}%d-0-0"),
    };
    let ours = [
        ("BURNIN_NODES", settings.nodes.to_string()),
        ("BURNIN_RANKS_PER_NODE", settings.ranks_per_node.to_string()),
        ("BURNIN_POD", pod),
        ("BURNIN_DOMAIN", jobset.to_owned()),
        ("BURNIN_KEYS", KEYS.to_owned()),
        ("BURNIN_PORT", settings.rank_port.to_string()),
        ("BURNIN_SSH_PORT", SSH_PORT.to_string()),
        ("BURNIN_INTERFACE", settings.socket_interface.clone().unwrap_or_default()),
        ("BURNIN_KEEP_SECONDS", settings.keep_on_failure.map_or(0, |kept| kept.0.as_secs()).to_string()),
    ];
    // Variables for the ranks are only exported to them; the script itself reads variables with the prefix `BURNIN_`.
    let theirs = settings
        .environment
        .iter()
        .filter(|(name, _)| name.starts_with("BURNIN_") && *name != "BURNIN_INDEX")
        .filter(|(name, _)| ours.iter().all(|(taken, _)| taken != name));
    let theirs = theirs.map(|(name, value)| (name.as_str(), value.clone())).collect::<Vec<_>>();
    ours.into_iter().chain(theirs).collect()
}
