//! The script that Slurm runs, and its sbatch options. Pure.
//!
//! Only one script per job name ever runs the benchmark: the one that creates the link `claim`. Slurm may hold a second job of the name
//! after a submission whose response was lost, or requeue the first; a script that finds the link records itself under `refused` and exits.
//! The result of a script is in `end.json`, written last and atomically.

use cluster_api::{JobSpec, pairs, program, rank_environment, shell::quote};

use crate::{Slurm, retest, yields};

/// Exit code of the script before the benchmark starts: its folder is not visible.
pub const NO_FOLDER: i32 = 78;
/// Exit code of the script before the benchmark starts: its folder is not writable.
pub const MUTE: i32 = 73;

/// Time limit of a job in seconds.
fn limit(job: &JobSpec) -> u64 {
    job.limit.0.as_secs().max(1)
}

/// Exit code of the script if it stopped the benchmark at its time limit, as of `timeout` of coreutils.
pub const STOPPED: i32 = 124;

/// Arguments of `sbatch`.
pub fn options(job: &JobSpec, slurm: &Slurm, folder: &str) -> Vec<String> {
    // Slurm's resolution is a minute (sbatch, --time). The script ends at the limit in seconds.
    let minutes = limit(job).div_ceil(60);
    let mut options = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", job.name),
        format!("--chdir={folder}"),
        // The path is relative, because Slurm expands % and \ in paths.
        "--output=output/slurm.log".to_owned(),
        "--open-mode=append".to_owned(),
        "--export=ALL".to_owned(),
        "--no-requeue".to_owned(),
        // The second of two jobs with the same name waits for the end of the first.
        "--dependency=singleton".to_owned(),
        format!("--time={minutes}"),
        format!("--nodes={}", slurm.nodes),
        format!("--ntasks-per-node={}", slurm.ranks_per_node),
    ];
    if !job.labels.is_empty() {
        let labels: Vec<_> = job.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        options.push(format!("--comment={}", labels.join(",")));
    }
    let named = [
        ("--partition", &slurm.partition),
        ("--account", &slurm.account),
        ("--qos", &slurm.qos),
        ("--reservation", &slurm.reservation),
        ("--constraint", &slurm.constraint),
        ("--nodelist", &slurm.node_list),
    ];
    options.extend(
        (!slurm.retest.is_empty()).then(|| format!("--reservation={}", retest::reservation(&job.name))),
    );
    options.extend(named.iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value.as_ref()?))));
    options.extend(slurm.gpus_per_node.map(|gpus| format!("--gpus-per-node={gpus}")));
    options.extend(slurm.memory_mib.map(|memory| format!("--mem={memory}")));
    options.extend(slurm.exclusive.then(|| "--exclusive".to_owned()));
    if slurm.yields {
        options.push(format!("--nice={}", yields::NICEST));
        options.push(format!("--deadline=now+{}minutes", minutes + yields::START_WITHIN));
    }
    options.push("job.sh".to_owned());
    options
}

/// The script of a job with its files in `folder` and its program in `programs`.
pub fn script(job: &JobSpec, slurm: &Slurm, folder: &str, programs: Option<&str>) -> String {
    let name = &job.name;
    let profile = slurm.profile.as_ref().map_or_else(String::new, |profile| {
        format!("set +u\n. {} || end false \"$?\"\nset -u\n", quote(profile))
    });
    // The profile may need the variables; the ranks set them again, to override the profile and the image.
    let variables = job.environment_over(&slurm.environment);
    let environment = rank_environment::exports(&variables);
    let mpi = slurm.mpi.as_ref().map_or_else(String::new, |mpi| format!(" --mpi={}", quote(mpi)));
    let debug = quote(&slurm.nccl_debug);
    let folder = quote(folder);
    let limit = limit(job);
    // Each rank has one GPU.
    let words = program::words(&job.program, programs, 1);
    let command = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    let rank = rank_environment::applied_last(&variables) + &program::start(job, programs);
    // A node whose program fails does not end the others. A task may use all processors and GPUs of its node.
    let alone = "--ntasks-per-node=1 --cpu-bind=none --kill-on-bad-exit=0";
    let rank_words = format!("bash -c \"$rank\" rank {command}");
    let (start, output) = match program::rounds_of_pairs(&job.program) {
        Some(rounds) => (
            format!(
                r#"nodes=() addresses=() pairs=$PWD/pairs
mkdir -p -- "$pairs"
while read -r node; do
  address=$(scontrol show node "$node" | sed -n 's/^ *NodeAddr=\([^ ]*\).*/\1/p')
  nodes+=("$node") addresses+=("${{address:-$node}}")
done < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# --overlap: the step before this one may not have released the node's processors yet.
run_end() {{ srun --nodes=1 --ntasks=1 --nodelist="${{nodes[$1]}}" --overlap {alone} {rank_words}; }}
{}run_pairs {rounds} {}"#,
                pairs::RUN_PAIRS,
                u8::from(program::takes_evidence_of_pairs(job))
            ),
            "output/benchmark.log",
        ),
        None if program::is_per_node(&job.program) => (
            format!(
                "srun {alone} --ntasks=\"$SLURM_JOB_NUM_NODES\" --wait=0 --output=output/node-%N.log {rank_words}"
            ),
            "output/srun.log",
        ),
        None => (format!("srun --label --kill-on-bad-exit=1{mpi} {rank_words}"), "output/benchmark.log"),
    };
    format!(
        r#"#!/bin/bash
# {name}, written by Burnin. Of all jobs of this name only the one that creates the link `claim` runs the benchmark.
set -u
cd -- {folder} || exit {NO_FOLDER}
began=$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)
attempt=$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}
if ! ln -sT -- "$attempt" claim 2>/dev/null; then
  [ -L claim ] && mkdir -p refused && : >"refused/$attempt" && exit 0
  exit {MUTE}
fi

# Written last, atomically: launched or not, exit code, stopped at the limit or not.
end() {{
  printf '{{"attempt":"%s","launched":%s,"exit_code":%d,"timed_out":%s,"started_at":"%s","ended_at":"%s","nodes":"%s"}}\n' \
    "$attempt" "$1" "$2" "${{3:-false}}" "$began" "$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)" "$SLURM_JOB_NODELIST" >end.draft && mv -T end.draft end.json
  exit "$2"
}}

# A cancel writes the mark first and then checks the claim: at least one of both finds the file of the other.
[ -e cancel ] && end false 0

export BURNIN_RENDEZVOUS="$PWD/rendezvous"
mkdir -p -- "$BURNIN_RENDEZVOUS"
{environment}{profile}export NCCL_DEBUG={debug}
export NCCL_DEBUG_FILE=output/nccl.%h.%p.log

# Check that every node can be reached before the claim counts.
srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" --label hostname >output/hosts.log 2>&1 || end false "$?"

# First steps of a rank, also in a container.
rank=$(cat <<'RANK'
export BURNIN_NODE_NAME="${{SLURMD_NODENAME:-}}"
{rank}RANK
)
# Slurm's own limit is in minutes. When this script ends, Slurm ends all steps of the job.
trap 'echo "burnin: stopped at the limit of {limit} s" >&2; end true {STOPPED} true' USR1
# The trap ends the timer's `sleep` too: Slurm might not find a process whose parent has ended.
{{ trap 'kill "$!"' TERM; sleep {limit} & wait "$!" && kill -USR1 "$$"; }} &
timer=$!
{start} >{output} 2>&1 &
wait "$!"
code=$?
trap '' USR1
kill "$timer"
# srun exits with the highest code, that of ranks it killed. The first failure is closest to the cause.
if [ "$code" -gt 128 ]; then
  first=$(sed -n '/^srun: error: .* Exited with exit code [0-9]*$/{{s/.* //p;q}}' {output})
  code=${{first:-$code}}
fi
end true "$code"
"#
    )
}
