#!/usr/bin/env bash
# Whole runs on a real Slurm whose links are shaped: healthy, one slow node, one rank that corrupts data, one node cut off.
#   BED_DIR   a bed that is up, see ../slurm/start.sh
#   BURNIN    the program
#   WORK      a folder for data and what nodes share
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$BED_DIR/run/up" # prefix
shape() { # NODE RATE: both directions of its link. Long queues, so that what is measured is the rate and not what TCP makes of losses.
  tc -n "$prefix-$1" qdisc replace dev eth0 root tbf rate "$2" burst 64kb latency 1s
  tc -n "$prefix-sw" qdisc replace dev "p$1" root tbf rate "$2" burst 64kb latency 1s
}
run() { # CASE [SETTING...]: one whole run
  local name=$1 settings=() setting; shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  mkdir -p "$WORK/$name/shared"
  code=0
  "$BED_DIR/on" ctl timeout 170 "$BURNIN" run "$here/workflow.yaml" --data "$WORK/$name/data" \
    --set cluster.existing.system.slurm.shared_folder="$WORK/$name/shared" "${settings[@]}" \
    >"$WORK/$name/report" 2>"$WORK/$name/progress" || code=$?
  echo "$code" >"$WORK/$name/code"
}
expect() { # CASE CODE TEXT...: the exit code, and words that its report has
  local name=$1 wanted=$2 text code; shift 2
  code=$(<"$WORK/$name/code")
  [[ $code == "$wanted" ]] || { cat "$WORK/$name"/{progress,report}; echo "links: $name ended with $code, not $wanted" >&2; exit 1; }
  for text in "$@"; do
    grep -qF -- "$text" "$WORK/$name/report" || { cat "$WORK/$name/report"; echo "links: $name does not say $text" >&2; exit 1; }
  done
  echo "links: $name: exit code $code${*:+, $*}"
}
back_in_service() { # NODE: it was taken out, with the run's name as the reason, and no other
  local out
  out=$("$BED_DIR/on" ctl sinfo --noheader --Node --states=drain --format='%N %E' | sort -u)
  [[ $out == "$1 burnin links-"* && $out != *$'\n'* ]] || { echo "links: out of service is: $out" >&2; exit 1; }
  "$BED_DIR/on" ctl scontrol update nodename="$1" state=resume
}
for node in n1 n2 n3 n4; do shape "$node" 400mbit; done
run healthy; expect healthy 0 PASS
shape n3 40mbit
run slow; expect slow 1 BELOW_FLOOR 'bad node: n3, ' 'Drained: burnin links-'
shape n3 400mbit
back_in_service n3
run corrupt cluster.existing.system.slurm.environment.BURNIN_FAULT=corrupt:@n2
expect corrupt 1 WRONG_DATA 'bad node: n2, ' 'Drained: burnin links-'
back_in_service n2
# Cut off in the middle: the benchmark hangs in its collective, and nothing of it may be called good.
run cut benchmark.workload.iterations=20000 & cut=$!
until grep -qs '#' "$WORK"/cut/shared/jobs/*/output/benchmark*; do kill -0 "$cut" || break; sleep 0.1; done
ip -n "$prefix-sw" link set pn3 down
wait "$cut"
ip -n "$prefix-sw" link set pn3 up
expect cut 3 NODE_FAIL 'out of service: n3: '
