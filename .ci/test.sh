#!/usr/bin/env bash
# Runs all gates, or the named ones, cheapest first. Installs required tools; prints skipped gates with the reason. With
# BURNIN_SKIPPED=fail a gate that cannot run here fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

gates=(setup fmt style rooms infra deny lint docs schemas unit sim kill rehearsal bigquery gateway dashboard images doctest quickstart hosts slurm kubernetes ansible chart)
(($# == 0)) || gates=("$@")
# Runs in parallel to the gates from slurm on, which mostly wait for daemons. It installs no Debian packages, because
# two gates cannot install them at the same time.
beside=chart
skipped=()
started=$SECONDS
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# Runs a gate. Returns 0, 1, or 77 if it cannot run here; the gate has printed the reason.
run() {
  local status=0 begun=$SECONDS
  echo "=== $1"
  bash ".ci/$1.sh" || status=$?
  case $status in
    0) echo "=== $1: passed in $((SECONDS - begun)) s" ;;
    77) echo "=== $1: SKIPPED" ;;
    *) echo "=== $1: FAILED after $((SECONDS - begun)) s; the following gates did not run"; return 1 ;;
  esac
  return "$status"
}

background=
for gate in "${gates[@]}"; do
  if [[ $gate == slurm && " ${gates[*]} " == *" $beside "* ]]; then
    run "$beside" >"$output" 2>&1 &
    background=$!
  fi
  status=0
  if [[ $gate == "$beside" && -n $background ]]; then
    wait "$background" || status=$?
    cat "$output"
  else
    run "$gate" || status=$?
  fi
  case $status in
    0) ;;
    77)
      skipped+=("$gate")
      if [[ ${BURNIN_SKIPPED:-} == fail ]]; then
        echo "=== $gate: FAILED, because BURNIN_SKIPPED=fail"
        [[ -z $background ]] || wait "$background" || true
        exit 1
      fi
      ;;
    *) [[ -z $background ]] || wait "$background" || true; exit 1 ;;
  esac
done
echo "gates: $((${#gates[@]} - ${#skipped[@]})) passed, 0 failed, ${#skipped[@]} skipped ${skipped[*]:+(${skipped[*]})} in $((SECONDS - started)) s"
