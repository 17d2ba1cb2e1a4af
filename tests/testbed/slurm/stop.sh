#!/usr/bin/env bash
# Ends the processes of start.sh and of remaining jobs, by process id; removes the namespaces and the folder. Also cleans up after
# a partial start or the crash of a daemon.
set -uo pipefail
dir=${BED_DIR:?} prefix= nodes=0
[[ -e $dir/run/up ]] && . "$dir/run/up"
# Reads the state from /proc, because without a reaper `kill -0` succeeds for ended daemons.
alive() { local state; state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null); [[ -n $state && $state != Z ]]; }
# Processes of this bed's jobs have the bed's configuration and a job id in their environment; step daemons run in the bed's
# folder.
ranks() { grep -lzF "SLURM_CONF=$dir/etc/slurm.conf" /proc/[0-9]*/environ 2>/dev/null | while read -r file; do
  grep -qz '^SLURM_JOB_ID=' "$file" 2>/dev/null && { file=${file#/proc/}; echo "${file%/environ}"; }; done; }
steps() { local process; for process in /proc/[0-9]*; do
  [[ $(readlink "$process/cwd" 2>/dev/null) == "$dir"/* && $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null) == slurmstepd:* ]] &&
    echo "${process#/proc/}"; done; }
mapfile -t pids < <(ranks; steps)
((${#pids[@]} == 0)) || kill -9 "${pids[@]}" 2>/dev/null
# Ends the nodes first, then the controller, then the controller's services: a node would wait for an ended controller.
for files in "$dir"/run/slurmd.*.pid "$dir"/run/slurmctld.pid "$dir"/run/slurmdbd.pid "$dir"/run/mariadbd.pid "$dir"/run/munged.pid; do
  [[ -s $files ]] || continue
  pid=$(<"$files")
  alive "$pid" || continue
  signal=TERM; [[ $files == */slurmd.* ]] && signal=KILL
  kill -"$signal" "$pid" 2>/dev/null
  for ((i = 0; i < 100; i++)); do alive "$pid" || break; sleep 0.1; done
  alive "$pid" && kill -9 "$pid" 2>/dev/null
done
mapfile -t pids < <(ranks; steps)
((${#pids[@]} == 0)) || kill -9 "${pids[@]}" 2>/dev/null
if [[ -n $prefix ]]; then
  for node in sw ctl $(seq -f 'n%g' 1 "$nodes"); do ip netns del "$prefix-$node" 2>/dev/null; done
fi
[[ ${1:-} == --keep ]] && rm -f "$dir/run/up" || rm -rf "$dir"
exit 0
