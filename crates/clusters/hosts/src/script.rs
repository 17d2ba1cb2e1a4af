//! The script that runs a job on the agent's machine, and the scripts that it starts on the hosts. Pure.
//!
//! Only the execution of the script that creates the link `claim` runs the benchmark. The script checks every host, copies the image,
//! starts `mpirun`, or the program on each host by ssh, connects to every host periodically, and ends the job's remaining processes on
//! every host before it writes the result. All processes of a job have the variable `BURNIN_JOB`, by which they are found.

use cluster_api::{JobSpec, pairs, program, rank_environment, shell::quote};

use model::Every;

use crate::settings::Hosts;

/// Kills all processes of this job on a host, and reports an error if processes are left. `$1`: the variable with its
/// value, `$2`: the job's folder on the host, which is removed; empty on the agent's machine, whose folder is kept.
pub const SWEEP: &str = r#"for try in {1..40}; do
  left=
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    [[ $pid == "$$" || $pid == "${BURNIN_KEEP:-}" ]] && continue
    { tr '\0' '\n' <"$process/environ"; } 2>/dev/null | grep -qxF -- "$1" || continue
    [[ $(sed 's/.*) //; s/ .*//' "$process/stat" 2>/dev/null) == Z ]] && continue
    left="$left $pid"
    kill -KILL "$pid" 2>/dev/null
  done
  [[ -z $left ]] && break
  sleep 0.25
done
[[ -z ${2:-} ]] || { rm -rf -- "$2/rendezvous" && rmdir -- "$2" 2>/dev/null; }
[[ -z $left ]] || { echo "processes$left cannot be ended" >&2; exit 1; }
"#;

/// Shell function that creates the work folder on a host, and refuses a folder that another user may write to, because its files are
/// executed.
const OWN: &str = r#"own() {
  umask 077
  mkdir -p -- "$1" 2>/dev/null
  [[ -O $1 && ! -L $1 && -z $(find "$1" -maxdepth 0 -perm /022) ]] && return
  echo "$1 must be a folder that only this user can write to; correct work_folder" >&2
  exit 1
}
"#;

/// Receives the image from standard input, atomically. `$1`: work folder, `$2`: the image's folder.
const RECEIVE: &str = r#"own "$1"
[[ ! -d $2 ]] || { cat >/dev/null; exit 0; }
mkdir -p -- "${2%/*}" && draft=$(mktemp -d -- "${2%/*}/draft-XXXXXX") && tar -C "$draft" -xf - || exit 1
mv -T -- "$draft" "$2" 2>/dev/null || rm -rf -- "$draft"
[[ -d $2 ]]
"#;

/// Checks a host before the start. `$1`: program, `$2`: Open MPI's folder or empty, `$3`: profile or empty, `$4`: work
/// folder, `$5`: folder with programs or empty, `$6`: 1 if the job does not need Open MPI.
const CHECK: &str = r#"own "$4"
fail() { echo "$*" >&2; exit 1; }
[[ -z $5 ]] || PATH=$5:$PATH
if [[ $6 == 1 ]]; then :
elif [[ -n $2 ]]; then [[ -x $2/bin/orted || -x $2/bin/prted ]] || fail "Open MPI is not in $2; install it, or correct mpi.folder"
else type -P orted >/dev/null || type -P prted >/dev/null || fail "Open MPI (orted) is not on the PATH of ssh commands; install it, or set mpi.folder"; fi
[[ -z $1 ]] || type -P -- "$1" >/dev/null || fail "the program $1 is missing"
[[ -z $3 || -r $3 ]] || fail "the profile $3 cannot be read"
"#;

/// Claims the job, and defines how the script reaches hosts, ends processes and writes the result.
const HEAD: &str = r#"#!/bin/bash
# Written by Burnin. Of all starts of this job only the one that creates the link `claim` runs the benchmark.
set -u
umask 077
cd -- "$(dirname -- "$0")" || exit 78
read -r stat <"/proc/$$/stat"
stat=(${stat##*)})
ln -sT -- "$$.${stat[19]}" claim 2>/dev/null || exit 0
stamp() { date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }
began=$(stamp)
say() { printf '%s %s\n' "$(stamp)" "$*" >>output/launch.log; }
# Arguments: state, exit code, reason of a loss. The first result is final.
finish() {
  printf '%s\n' "$1" "$2" "$began" "$(stamp)" "${3//[[:cntrl:]]/ }" >end.draft && ln -T end.draft end
  exit 0
}
remote() { local host=$1; shift; timeout 40 ssh -F "$config" -T "$host" "exec bash -c $(printf '%q ' "$@")" </dev/null; }
# Runs a function for every host at once. Leaves `NAME: last line` of those that fail in $bad.
every_host() {
  local host pids=() at=0
  rm -rf answers && mkdir answers
  for host in "${hosts[@]}"; do "$1" "$host" >"answers/$host" 2>&1 & pids+=($!); done
  bad=
  for host in "${hosts[@]}"; do
    wait "${pids[at++]}" && continue
    bad+="${bad:+; }$host: $(tail -n 1 "answers/$host")"
  done
}
sweep_host() { remote "$1" "$sweep" sweep "BURNIN_JOB=$BURNIN_JOB" "$PWD"; }
# Ends all remaining processes of the job. Hosts that do not answer end their ranks themselves when the connection is lost.
sweep_all() {
  kill -KILL "${beats[@]}" 2>/dev/null
  BURNIN_KEEP=$$ bash -c "$sweep" sweep "BURNIN_JOB=$BURNIN_JOB" 2>>output/launch.log
  every_host sweep_host
  [[ -z $bad ]] || say "processes of the job may still run: $bad"
}
# An empty `beats` needs a value for `kill`.
beats=(0x)
"#;

/// Checks the hosts, runs the benchmark and writes the result.
const BODY: &str = r#"check_host() { remote "$1" "$check" check "$program" "$mpi_folder" "$profile" "$work" "$programs" "$per_node"; }
reach_host() { remote "$1" 'exit 0' x; }
copy_image() {
  tar -C "$image" -cf - . |
    timeout 600 ssh -F "$config" -T "$1" "exec bash -c $(printf '%q ' "$receive" receive "$work" "$image")"
}
# Starts the program on one host, without MPI, with these variables. They are exported first: a cancelled job is found by them.
on_host() {
  local host=$1 marks
  shift
  printf -v marks ' %q' "BURNIN_JOB=$BURNIN_JOB" "BURNIN_NODE_NAME=$host" "$@"
  ssh -F "$config" -T "$host" "export$marks; exec bash -c $(printf '%q ' "$(<rank.sh)" rank "${command[@]}")"
}
# Starts the program on all hosts at once. The exit code is the highest one.
on_all_hosts() {
  local host pids=() at=0 code=0 status
  for host in "${hosts[@]}"; do on_host "$host" >"output/node-$host.log" 2>&1 </dev/null & pids+=($!); done
  for host in "${hosts[@]}"; do
    wait "${pids[at++]}"; status=$?
    ((status == 0)) || say "$host: the program ended with exit code $status"
    ((status > code)) && code=$status
  done
  exit "$code"
}
on_pairs() {
  nodes=("${hosts[@]}") pairs=$PWD/pairs
  mkdir -p -- "$pairs"
  run_end() { on_host "${nodes[$1]}" "BURNIN_PAIR_INDEX=$BURNIN_PAIR_INDEX" "BURNIN_PEER=$BURNIN_PEER"; }
  run_pairs "$rounds" "$evidence" >output/benchmark.log 2>&1
}
stop() {
  say "stopping: $1"
  kill -TERM "$launcher" 2>/dev/null
  for _ in {1..40}; do kill -0 "$launcher" 2>/dev/null || break; sleep 0.25; done
  kill -KILL "$launcher" 2>/dev/null
  sweep_all
}
[[ ! -e cancel ]] || finish CANCELLED "" ""
root=()
((EUID != 0)) || root=(--allow-run-as-root)
mpirun=${mpi_folder:+$mpi_folder/bin/}mpirun
((per_node)) || type -P -- "$mpirun" >/dev/null || finish LAUNCH_FAILED "" "this machine has no $mpirun; install Open MPI, or set mpi.folder"
if [[ -n $image ]]; then
  every_host copy_image
  [[ -z $bad ]] || finish LAUNCH_FAILED "" "the image cannot be copied: $bad"
fi
every_host check_host
[[ -z $bad ]] || finish LAUNCH_FAILED "" "$bad"
say "every host responds"
beat() { while :; do remote "$1" 'exit 0' x >/dev/null 2>&1 && : >"alive/$1"; sleep "$pace"; done; }
mkdir -p alive
beats=()
for host in "${hosts[@]}"; do : >"alive/$host"; beat "$host" & beats+=($!); done
[[ ! -e cancel ]] || { sweep_all; finish CANCELLED "" ""; }
# The daemons of mpirun check that they have the agent too, so its name is `ssh`; only here the PATH has the script of this job first.
with_mpirun() {
  PATH=$PWD/bin:$PATH exec "$mpirun" "${root[@]}" ${mpi_folder:+--prefix "$mpi_folder"} --hostfile hostfile -np "$ranks" --bind-to none \
  --mca plm_rsh_agent ssh --mca plm_rsh_no_tree_spawn 1 --mca orte_keep_fqdn_hostnames 1 "${options[@]}" \
  bash -c "$(<rank.sh)" rank "${command[@]}" >output/benchmark.log 2>output/mpirun.log </dev/null
}
if [[ -n $rounds ]]; then on_pairs & elif ((per_node)); then on_all_hosts & else with_mpirun & fi
launcher=$!
say "the launcher is process $launcher"
deadline=$((SECONDS + limit))
while kill -0 "$launcher" 2>/dev/null; do
  [[ ! -e cancel ]] || { stop cancelled; finish CANCELLED "" ""; }
  ((SECONDS < deadline)) || { stop "the limit of $limit s"; finish TIMEOUT "" ""; }
  now=$(date +%s) lost=
  for host in "${hosts[@]}"; do
    seen=$(stat -c %Y "alive/$host")
    ((now - seen <= silent)) || lost+="${lost:+, }$host"
  done
  if [[ -n $lost ]]; then
    stop "lost $lost"
    finish NODE_LOST "" "$lost did not respond for $silent s"
  fi
  sleep 0.5
done
wait "$launcher"; code=$?
say "the launcher ended with exit code $code"
bad=
((code == 0)) || every_host reach_host
lost=$bad
sweep_all
[[ ! -e cancel || $code == 0 ]] || finish CANCELLED "" ""
[[ -z $lost ]] || finish NODE_LOST "" "$lost"
((code == 0)) && finish COMPLETED 0 ""
finish FAILED "$code" ""
"#;

/// Starts one rank. Programs without MPI find each other by addresses in the folder `BURNIN_RENDEZVOUS`.
const RANK_HEAD: &str = r#"export BURNIN_RANK=$OMPI_COMM_WORLD_RANK BURNIN_RANKS=$OMPI_COMM_WORLD_SIZE BURNIN_HOST=0.0.0.0
export BURNIN_RENDEZVOUS=$work/jobs/$BURNIN_JOB_NAME/rendezvous
mkdir -p -- "$BURNIN_RENDEZVOUS" || exit 78
first=0 here=
for entry in "${entries[@]}"; do
  read -r count address <<<"$entry"
  ((BURNIN_RANK >= first && BURNIN_RANK < first + count)) && here=$first
  first=$((first + count))
done
first=0
for entry in "${entries[@]}"; do
  read -r count address <<<"$entry"
  for ((rank = first; rank < first + count && first != here; rank++)); do
    printf '%s:%d' "$address" $((BURNIN_PORT + rank)) >"$BURNIN_RENDEZVOUS/.$BURNIN_RANK-$rank"
    mv -fT -- "$BURNIN_RENDEZVOUS/.$BURNIN_RANK-$rank" "$BURNIN_RENDEZVOUS/rank-$rank"
  done
  first=$((first + count))
done
"#;

/// The variable `BURNIN_JOB` of a job: its name, and a digest of the folder, which distinguishes equal names of two
/// installations.
pub fn mark(job: &str, folder: &str) -> String {
    format!("{job}@{}", &ledger::Digest::of(folder.as_bytes()).sha256[..12])
}

/// Files of a job's folder. `image`: staged image on this machine, at the same path on every host.
pub fn files(
    job: &JobSpec,
    hosts: &Hosts,
    folder: &str,
    config: &str,
    image: Option<&str>,
) -> Vec<(&'static str, String)> {
    let words = |words: &[String]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    let names: Vec<_> = hosts.hosts.iter().map(|host| host.name.clone()).collect();
    let addresses: Vec<_> = hosts.hosts.iter().map(|host| host.address().to_owned()).collect();
    let rounds = program::rounds_of_pairs(&job.program);
    let needs_mpi = needs_mpi(job);
    let total: u32 = hosts.hosts.iter().map(|host| hosts.ranks(host)).sum();
    let mark = mark(&job.name, folder);
    let programs = image.or(hosts.programs.as_deref());
    let command = program::words(&job.program, programs, 1); // each rank has one GPU
    let empty = String::new();
    let silent = hosts.silent_after.0.as_secs();
    let settings = format!(
        "config={} image={} limit={} silent={silent} pace={} ranks={total} per_node={} rounds={} evidence={}\nprograms={}\nmpi_folder={} profile={} program={}\n\
         hosts=({})\naddresses=({})\noptions=({})\ncommand=({})\nsweep={}\ncheck={}\nreceive={}\n\
         work={}\n",
        quote(config),
        quote(image.unwrap_or_default()),
        job.limit.0.as_secs().max(1),
        (silent / 3).clamp(1, 10), // two attempts may fail before the host counts as lost
        u8::from(!needs_mpi),
        rounds.map_or_else(String::new, |rounds| rounds.to_string()),
        u8::from(program::takes_evidence_of_pairs(job)),
        quote(programs.unwrap_or_default()),
        quote(hosts.mpi.folder.as_ref().unwrap_or(&empty)),
        quote(hosts.profile.as_ref().unwrap_or(&empty)),
        quote(command.first().unwrap_or(&empty)),
        words(&names),
        words(&addresses),
        words(&hosts.mpi.options),
        words(&command),
        quote(SWEEP),
        quote(&format!("{OWN}{CHECK}")),
        quote(&format!("{OWN}{RECEIVE}")),
        quote(&hosts.work_folder),
    );
    let (shebang, head) = HEAD.split_once('\n').unwrap_or_default();
    let hostfile =
        hosts.hosts.iter().map(|host| format!("{} slots={}\n", host.address(), hosts.ranks(host))).collect();
    let ssh = format!(
        "#!/bin/bash\n# mpirun starts its daemons with this script, which sets the variable that marks the job.\n\
         while [[ $1 == -* ]]; do shift; done\nhost=$1\nshift\nPATH=${{PATH#*:}}\n\
         exec ssh -F {} -T \"$host\" {}\"$*\"\n",
        quote(config),
        quote(&format!("export BURNIN_JOB={}; ", quote(&mark))),
    );
    vec![
        ("hostfile", hostfile),
        ("bin/ssh", ssh),
        ("rank.sh", rank(job, hosts, programs)),
        ("job.sh", format!("{shebang}\n{settings}{head}{}{BODY}", pairs::RUN_PAIRS)),
    ]
}

/// Whether mpirun starts the program.
fn needs_mpi(job: &JobSpec) -> bool {
    job.program.command().is_none_or(|command| command.every == Every::Rank)
}

fn rank(job: &JobSpec, hosts: &Hosts, programs: Option<&str>) -> String {
    let entry = |host: &crate::Host| {
        let address = host.address();
        let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        quote(&format!("{} {address}", hosts.ranks(host)))
    };
    let entries: Vec<_> = hosts.hosts.iter().map(entry).collect();
    let variables = job.environment_over(&hosts.environment);
    let environment = rank_environment::exports(&variables);
    let profile = hosts
        .profile
        .as_ref()
        .map_or_else(String::new, |profile| format!("set +u\n. {} || exit 88\nset -u\n", quote(profile)));
    let head = if needs_mpi(job) { RANK_HEAD } else { "" };
    format!(
        "set -u\nwork={} BURNIN_JOB_NAME={} entries=({})\nexport BURNIN_PORT={}\n{head}{environment}{profile}\
         export NCCL_DEBUG={}\nunset NCCL_DEBUG_FILE\n{}{}",
        quote(&hosts.work_folder),
        quote(&job.name),
        entries.join(" "),
        hosts.rank_port,
        quote(&hosts.nccl_debug),
        rank_environment::applied_last(&variables),
        program::start(job, programs),
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use model::{Cluster, Collective, Program, Span, Workload};

    use super::*;

    #[test]
    fn hostile_settings_stay_single_words_of_valid_scripts() {
        let hosts: Hosts = serde_json::from_value(serde_json::json!({
            "hosts": [{"name": "n1", "ranks": 2}, {"name": "n2", "address": "fd00::2"}],
            "programs": "/it's a $(touch x)/bin", "profile": "/p\"`x`", "environment": {"A": "'; touch x; '"},
            "mpi": {"options": ["--mca", "a b'c"]},
        }))
        .unwrap();
        let job = JobSpec {
            name: "j".into(),
            cluster: Cluster {
                name: "c".into(),
                nodes: vec![],
                access: model::ClusterAccess::new("hosts", ()),
            },
            image: None,
            program: Program::NcclTests(Workload {
                collective: Collective::AllReduce,
                min_bytes: 8,
                max_bytes: 8,
                step_factor: 2,
                iterations: 1,
                warmup_iterations: 0,
                check: true,
                datatype: None,
                extra_args: Default::default(),
            }),
            limit: Span::from_secs(60),
            environment: Default::default(),
            evidence: false,
            labels: Default::default(),
        };
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files(&job, &hosts, "/work/jobs/j", "/work/ssh/c", None) {
            if name == "hostfile" {
                assert_eq!(text, "n1 slots=2\nfd00::2 slots=1\n");
                continue;
            }
            let file = folder.path().join("script");
            std::fs::write(&file, &text).unwrap();
            let checked = Command::new("bash").arg("-n").arg(&file).output().unwrap();
            assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
        }
        // bash reads the exact value of each setting from the script.
        let script = files(&job, &hosts, "/work/jobs/j", "/work/ssh/c", None).pop().unwrap().1;
        let settings = script.split("# Written by Burnin").next().unwrap();
        let show =
            format!("{settings}\nprintf '%s\\n' \"$program\" \"$profile\" \"${{options[1]}}\" \"$ranks\"");
        let read = Command::new("bash").args(["-c", &show]).current_dir(folder.path()).output().unwrap();
        let read = String::from_utf8(read.stdout).unwrap();
        let expected = "/it's a $(touch x)/bin/all_reduce_perf\n/p\"`x`\na b'c\n3\n";
        assert_eq!(read, expected);
        assert!(!folder.path().join("x").exists());
    }
}
