#!/bin/bash
# ready.sh PARTITION, on the login node: one line for each state that exists; states that are not visible yet are omitted.
root=${READY_ROOT:-}
log=$root/slurm/scripts/setup.log
if grep -qs 'Slurm setup failed' "$root/etc/motd" || sudo -n grep -qs 'Slurm setup failed' "$log"; then
  echo "setup failed: $(sudo -n grep -m 1 -E 'ERROR|mount of path .* failed|TimeoutExpired' "$log" || echo "see $log")"
  exit 0
fi
command -v sinfo >/dev/null && sinfo --version >/dev/null 2>&1 && echo 'login ready'
sinfo --noheader --partition "$1" --format='partition %a' | sort -u
sinfo --noheader --partition "$1" --Node --format='node %N %t' | sort -u
# Reasons of down and drained nodes, for the log of a wait that times out.
sinfo --noheader --list-reasons --format='reason %n: %E'
exit 0
