#!/usr/bin/env bash
# Complete runs on a real Slurm with shaped links: healthy, one slow node, one rank that corrupts data, one disconnected node.
#   BED_DIR   a running bed, see ../slurm/start.sh
#   BURNIN    the program
#   WORK      a folder for data and the nodes' shared files
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$BED_DIR/run/up" # prefix
shape() { # NODE RATE: both directions of its link. Long queues, so that the rate limits TCP, not packet loss.
  tc -n "$prefix-$1" qdisc replace dev eth0 root tbf rate "$2" burst 64kb latency 1s
  tc -n "$prefix-sw" qdisc replace dev "p$1" root tbf rate "$2" burst 64kb latency 1s
}
run() { # CASE [SETTING...]: one complete run
  local name=$1 settings=() setting; shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  mkdir -p "$WORK/$name/shared"
  code=0
  "$BED_DIR/on" ctl timeout 170 "$BURNIN" run "$here/workflow.yaml" --data "$WORK/$name/data" \
    --set cluster.existing.system.slurm.shared_folder="$WORK/$name/shared" "${settings[@]}" \
    >"$WORK/$name/report" 2>"$WORK/$name/progress" || code=$?
  echo "$code" >"$WORK/$name/code"
}
expect() { # CASE CODE TEXT...: exit code, and texts in the report
  local name=$1 wanted=$2 text code; shift 2
  code=$(<"$WORK/$name/code")
  [[ $code == "$wanted" ]] || { cat "$WORK/$name"/{progress,report}; echo "links: $name: expected exit code $wanted, found $code" >&2; exit 1; }
  for text in "$@"; do
    grep -qF -- "$text" "$WORK/$name/report" || { cat "$WORK/$name/report"; echo "links: $name: expected in the report: $text" >&2; exit 1; }
  done
  echo "links: $name: exit code $code${*:+, $*}"
}
back_in_service() { # NODE: checks that only this node is drained, with the run's name as the reason, and resumes it
  local drained
  drained=$("$BED_DIR/on" ctl sinfo --noheader --Node --states=drain --format='%N %E' | sort -u)
  [[ $drained == "$1 burnin links-"* && $drained != *$'\n'* ]] || { echo "links: expected only $1 drained by the run, found: $drained" >&2; exit 1; }
  "$BED_DIR/on" ctl scontrol update nodename="$1" state=resume
}
state_of() { # CASE NODE CODE STATE: exit code of `burnin nodes`, and the state of the node
  local name=$1 node=$2 wanted=$3 state=$4 code=0
  "$BURNIN" nodes --all --data "$WORK/$name/data" >"$WORK/$name/nodes" || code=$?
  if [[ $code != "$wanted" ]] || ! grep -qE "^ *$node .* $state " "$WORK/$name/nodes"; then
    cat "$WORK/$name/nodes"
    echo "links: $name: expected $node $state and exit code $wanted of \`burnin nodes\`, found exit code $code" >&2
    exit 1
  fi
  echo "links: $name: $node is $state"
}
for node in n1 n2 n3 n4; do shape "$node" 400mbit; done
run healthy; expect healthy 0 PASS
shape n3 40mbit
run slow; expect slow 1 BELOW_FLOOR 'bad node: n3, ' 'Drained: burnin links-'
shape n3 400mbit
state_of slow n3 1 drained
back_in_service n3
run slow; expect slow 0 PASS
state_of slow n3 0 returned
run corrupt cluster.existing.system.slurm.environment.BURNIN_FAULT=corrupt:@n2
expect corrupt 1 WRONG_DATA 'bad node: n2, ' 'Drained: burnin links-'
back_in_service n2
# Disconnected during the benchmark, which then hangs in its collective: no result may pass.
run cut benchmark.workload.iterations=20000 & cut=$!
until grep -qs '#' "$WORK"/cut/shared/jobs/*/output/benchmark*; do kill -0 "$cut" || break; sleep 0.1; done
ip -n "$prefix-sw" link set pn3 down
wait "$cut"
ip -n "$prefix-sw" link set pn3 up
expect cut 3 NODE_FAIL 'out of service: n3: '
