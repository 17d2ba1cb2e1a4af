#!/usr/bin/env bash
# Stand-in for Slurm's commands: one file under the name of each command, for a cluster that exists only here. Jobs run
# immediately, and `srun` prints the table.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
jobs=$here/slurm
mkdir -p "$jobs"
case $(basename "$0") in
  sbatch)
    folder=. name=
    for word; do
      case $word in
        --job-name=*) name=${word#*=} ;;
        --chdir=*) folder=${word#*=} ;;
      esac
    done
    number=$(($(ls "$jobs" | wc -l) + 1))
    # Several agents submit at the same time.
    until (set -o noclobber && echo "$name RUNNING" >"$jobs/$number") 2>/dev/null; do number=$((number + 1)); done
    cd "$folder"
    mkdir -p output
    export SLURM_JOB_ID=$number SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='n-[0-1]'
    (bash "${!#}" >>output/slurm.log 2>&1 </dev/null && end=COMPLETED || end=FAILED; echo "$name $end" >"$jobs/$number") >/dev/null 2>&1 &
    echo "$number"
    ;;
  squeue)
    for word; do
      case $word in --name=*) name=${word#*=} ;; esac
    done
    for job in "$jobs"/*; do
      if [[ -e $job && $(<"$job") == "$name "* ]]; then basename "$job"; fi
    done
    ;;
  scontrol)
    case "$*" in
      "show hostnames "*) printf 'n-0\nn-1\n' ;;
      "--oneliner show job "*)
        read -r name state <"$jobs/${!#}"
        echo "JobId=${!#} JobName=$name JobState=$state Reason=None Restarts=0 ExitCode=0:0 StartTime=Unknown EndTime=Unknown NodeList=n-[0-1]"
        ;;
      *) echo "unsupported: scontrol $*" >&2; exit 1 ;;
    esac
    ;;
  srun)
    if [[ ${!#} == hostname ]]; then printf '0: n-0\n1: n-1\n'; exit; fi
    read -r name _ <"$jobs/$SLURM_JOB_ID"
    echo "$name" >>"$here/benchmarks"
    sed 's/^/0: /' "$here/logs-c-1/all_reduce.log"
    ;;
  sacct | scancel | sinfo) ;;
esac
