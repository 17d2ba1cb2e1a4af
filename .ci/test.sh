#!/usr/bin/env bash
# Runs all gates, or the named ones, cheapest first. Installs required tools; prints skipped gates with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

gates=(setup fmt style rooms infra deny lint docs schemas unit sim kill bigquery gateway dashboard images doctest quickstart hosts slurm kubernetes ansible chart)
(($# == 0)) || gates=("$@")
skipped=()
started=$SECONDS
for gate in "${gates[@]}"; do
  echo "=== $gate"
  begun=$SECONDS
  # Exit code 77: the gate cannot run here and has printed the reason.
  if bash ".ci/$gate.sh"; then status=0; else status=$?; fi
  case $status in
    0) echo "=== $gate: passed in $((SECONDS - begun)) s" ;;
    77) skipped+=("$gate"); echo "=== $gate: SKIPPED" ;;
    *) echo "=== $gate: FAILED after $((SECONDS - begun)) s; the gates after it did not run"; exit 1 ;;
  esac
done
echo "gates: $((${#gates[@]} - ${#skipped[@]})) passed, 0 failed, ${#skipped[@]} skipped ${skipped[*]:+(${skipped[*]})} in $((SECONDS - started)) s"
