#!/usr/bin/env bash
# Every gate, or those named, in the order in which they are cheapest to fail. Installs what it needs; says what it skips
# and why.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

gates=(setup fmt lint docs schemas rooms deny infra unit sim kill bigquery gateway dashboard images doctest quickstart slurm kubernetes ansible chart)
(($# == 0)) || gates=("$@")
skipped=()
started=$SECONDS
for gate in "${gates[@]}"; do
  echo "=== $gate"
  begun=$SECONDS
  # A gate that cannot run here ends with 77 and has said why.
  if bash ".ci/$gate.sh"; then status=0; else status=$?; fi
  case $status in
    0) echo "=== $gate: passed in $((SECONDS - begun)) s" ;;
    77) skipped+=("$gate"); echo "=== $gate: SKIPPED" ;;
    *) echo "=== $gate: FAILED after $((SECONDS - begun)) s; the gates after it did not run"; exit 1 ;;
  esac
done
echo "gates: $((${#gates[@]} - ${#skipped[@]})) passed, 0 failed, ${#skipped[@]} skipped ${skipped[*]:+(${skipped[*]})} in $((SECONDS - started)) s"
