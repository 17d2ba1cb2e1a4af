# Sourced by gates that run a soak on simulated machines.

# Starts a soak of 60 s of the workflow $2, whose only benchmark becomes a check, with the command `burnin` (an array), the data folder $1
# and the arguments $3... Kills it in its second round, runs the command `disturb`, if it is defined, and resumes it. The soak must pass
# or decline, and each round must have one verdict.
soak_across_a_kill() {
  local data=$1 workflow=${2%.yaml}-soak.yaml pid rounds verdicts declined=0
  sed '/^benchmark:/,/^$/{s/^  /    /;s/^benchmark:/checks:\n  - name: all-reduce/}' "$2" >"$workflow"
  (exec "${burnin[@]}" run "$workflow" "${@:3}" --data "$data" --set soak.for=60s >/dev/null) &
  pid=$!
  until grep -rqs 'burnin.verdict.reached' "$data/ledger"; do
    kill -0 "$pid" || { echo "the soak ended before its first verdict"; return 1; }
    sleep 0.2
  done
  sleep 1
  kill -KILL "$pid" || { echo "the soak ended in its first round"; return 1; }
  wait "$pid" || true
  if declare -F disturb >/dev/null; then disturb; fi
  # The load of this machine changes during the gates, so the bandwidth may decline. The soak then fails its last round; this gate accepts that.
  timeout 600 "${burnin[@]}" run --resume --data "$data" --output json >"$data/soak.json" || declined=1
  if ((declined)) && ! grep -q '"reasons":\["SOAK_DECLINE","SANE","ABOVE_FLOOR"\]' "$data/soak.json"; then cat "$data/soak.json"; return 1; fi
  rounds=$(sed -n 's/.*"rounds_passed":\([0-9]*\).*/\1/p' "$data/soak.json")
  # The interrupted round was repeated or continued. One round took 24 s on a loaded machine with two processors.
  ((${rounds:-0} >= 2)) || { cat "$data/soak.json"; echo "expected at least 2 rounds, found ${rounds:-none}"; return 1; }
  # Every round was judged once.
  verdicts=$({ grep -rl 'burnin.verdict.reached' "$data/ledger" || true; } | wc -l)
  ((verdicts == rounds + declined)) || { echo "expected $((rounds + declined)) verdicts, found $verdicts"; return 1; }
  echo "the soak passed $rounds rounds"
}
