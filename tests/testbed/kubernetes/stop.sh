#!/usr/bin/env bash
# Ends what start.sh began in BED_DIR.
set -uo pipefail
bed=${BED_DIR:?}
[[ -f $bed/pids ]] || exit 0
tac "$bed/pids" | while read -r pid; do kill -TERM -- "-$pid" 2>/dev/null || kill -TERM "$pid" 2>/dev/null; done
for _ in $(seq 50); do
  left=0
  while read -r pid; do grep -q '^State:.[^ZX]' "/proc/$pid/status" 2>/dev/null && left=1; done <"$bed/pids"
  [[ $left == 1 ]] || break
  sleep 0.1
done
while read -r pid; do kill -KILL -- "-$pid" 2>/dev/null; done <"$bed/pids"
ip netns del "$(cat "$bed/namespace")" 2>/dev/null
rm -f "$bed/pids"
