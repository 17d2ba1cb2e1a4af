#!/usr/bin/env bash
# Ends the hosts of start.sh with all their processes, by process id; removes the namespaces and the folder. Also cleans up after
# a partial start.
set -uo pipefail
dir=${BED_DIR:?} prefix= hosts=
[[ -e $dir/up ]] && . "$dir/up"
for host in $hosts; do
  outer=$(cat "$dir/pid/$host.outer" 2>/dev/null) || continue
  # Killing the process that created the namespaces also kills the host's first process, and with it all others.
  kill -9 "$outer" 2>/dev/null
  for ((i = 0; i < 100; i++)); do [[ -e /proc/$outer/ns/pid ]] && [[ $(readlink "/proc/$outer/ns/pid" 2>/dev/null) ]] || break; sleep 0.05; done
done
if [[ -n $prefix ]]; then
  # Ends persistent connections of ssh.
  mapfile -t kept < <(ip netns pids "$prefix-mgmt" 2>/dev/null)
  ((${#kept[@]} == 0)) || kill "${kept[@]}" 2>/dev/null
  for host in sw mgmt $hosts; do ip netns del "$prefix-$host" 2>/dev/null; done
fi
rm -rf "$dir"
exit 0
