#!/usr/bin/env bash
# Ends the processes of start.sh in BED_DIR, and removes mounts and namespaces.
set -uo pipefail
bed=${BED_DIR:?}
[[ -f $bed/pids ]] || exit 0
tac "$bed/pids" | while read -r pid; do kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null; done
for _ in $(seq 50); do
  running=0
  while read -r pid; do grep -q '^State:.[^ZX]' "/proc/$pid/status" 2>/dev/null && running=1; done <"$bed/pids"
  [[ $running == 1 ]] || break
  sleep 0.1
done
while read -r pid; do kill -KILL -- "-$pid" 2>/dev/null; done <"$bed/pids"
# Removes the remaining parts of nodes: pods, containerd's shims, and mounts.
while read -r node; do
  for _ in 1 2 3; do
    find /sys/fs/cgroup/*/"$node" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u | xargs -r kill -KILL 2>/dev/null
    sleep 0.2
  done
  find /sys/fs/cgroup/*/"$node" -depth -type d -exec rmdir {} + 2>/dev/null
done < <(cat "$bed/nodes" 2>/dev/null)
for shim in /proc/[0-9]*; do
  if { tr '\0' ' ' <"$shim/cmdline"; } 2>/dev/null | grep -q "^[^ ]*containerd-shim.* -address $bed/"; then kill -KILL "${shim#/proc/}"; fi
done
awk -v bed="$bed/" 'index($2, bed) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount --lazy 2>/dev/null
while read -r node; do ip netns del "$node" 2>/dev/null; done < <(cat "$bed/nodes" 2>/dev/null)
ip netns del "$(cat "$bed/namespace")" 2>/dev/null
rm -f "$bed/pids" "$bed/nodes"
