#!/usr/bin/env bash
# Runs all gates, or the named ones. Installs required tools; prints skipped gates with the reason. With BURNIN_SKIPPED=fail a gate
# that cannot run here fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

gates=(setup fmt build style rooms deny docs schemas unit sim rehearsal
  infra slurm ansible chart package hosts kill bigquery gateway dashboard images delivery kubernetes quickstart)
(($# == 0)) || gates=("$@")
# These gates mostly wait for daemons, services and a browser. After `build`, each line runs in the background, one gate after the other.
# Their packages are installed by `setup`, because two gates cannot install packages at the same time. quickstart runs alone: it has a time
# limit.
lanes=(
  "infra ansible hosts chart"
  "slurm kill bigquery package images delivery"
  "dashboard gateway rehearsal"
)
export BURNIN_GATES="${gates[*]}"
# Turns off the compilation by pip, because Python compiles imported modules at their first import. A false value sets an option of pip
# that begins with `no`.
export PIP_NO_COMPILE=false
skipped=()
started=$SECONDS
results=$(mktemp -d)
running=()
trap 'rm -rf "$results"' EXIT

# Prints the free space of the folders that gates fill, in GiB.
free_space() {
  local folder
  for folder in . "${TMPDIR:-/tmp}"; do
    echo "$(realpath "$folder"): $(($(df --output=avail -B1M "$folder" | tail -1) / 1024)) GiB free"
  done
}

# Runs a gate. Returns 0 or 1, or 77 if the gate cannot run here; the gate has printed the reason.
run() {
  local status=0 TIMEFORMAT="=== $1: %0R s; processor time %0U s, and %0S s in the kernel"
  echo "=== $1"
  time bash ".ci/$1.sh" || status=$?
  case $status in
    0) echo "=== $1: passed" ;;
    77) echo "=== $1: SKIPPED" ;;
    *) echo "=== $1: FAILED; the following gates did not run"; free_space; return 1 ;;
  esac
  return "$status"
}

is_in_background() { ((${#running[@]} > 0)) && [[ " ${lanes[*]} " == *" $1 "* ]]; }

# Runs the selected gates of a lane, one after the other.
run_lane() {
  local gate
  for gate; do
    [[ " ${gates[*]} " == *" $gate "* ]] || continue
    [[ ! -e $results/stopped ]] || return 0
    # The file is renamed at the end, so that it is complete under its final name.
    { run "$gate" >"$results/$gate.output" 2>&1; echo $? >"$results/$gate.draft"; mv "$results/$gate.draft" "$results/$gate"; } || true
  done
}

# Fails if a background gate failed.
background_passed() {
  local gate
  for gate in ${lanes[*]}; do
    [[ -f $results/$gate && $(<"$results/$gate") == 1 ]] || continue
    cat "$results/$gate.output"
    return 1
  done
}

# Prints the output of a background gate, and returns its status.
await() {
  while [[ ! -e $results/$1 ]]; do
    kill -0 "${running[@]}" 2>/dev/null || [[ -e $results/$1 ]] || return 1
    sleep 1
  done
  cat "$results/$1.output"
  return "$(cat "$results/$1")"
}

# Exits after the current background gates have ended: otherwise their processes would remain.
stop() {
  : >"$results/stopped"
  ((${#running[@]} == 0)) || wait "${running[@]}" || true
  exit 1
}

# A complete pass writes 11 GiB below the folder and 1 GiB of temporary files. Gates whose disk is full fail with unrelated messages.
free_space
for gate in "${gates[@]}"; do
  status=0
  background_passed || stop
  if is_in_background "$gate"; then await "$gate" || status=$?; else run "$gate" || status=$?; fi
  case $status in
    0) ;;
    77)
      skipped+=("$gate")
      if [[ ${BURNIN_SKIPPED:-} == fail ]]; then
        echo "=== $gate: FAILED, because BURNIN_SKIPPED=fail"
        stop
      fi
      ;;
    *) stop ;;
  esac
  # A version manager's `python3` is a script that selects a version at each start, and the gates start Python thousands of times.
  if [[ $gate == setup ]] && python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) && [[ ${python%/*} != /usr/bin ]]; then
    export PATH=${python%/*}:$PATH
  fi
  if [[ $gate == build ]]; then
    export BURNIN_BUILT=1
    for lane in "${lanes[@]}"; do
      run_lane $lane &
      running+=("$!")
    done
  fi
done
echo "gates: $((${#gates[@]} - ${#skipped[@]})) passed, 0 failed, ${#skipped[@]} skipped ${skipped[*]:+(${skipped[*]})} in $((SECONDS - started)) s"
