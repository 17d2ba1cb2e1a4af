#!/usr/bin/env bash
# Tests the A4 test bed on GKE without a cluster: its chart with Helm's engine and Kubernetes' schemas, its launcher in pods
# simulated by processes, its build configs with `burnin check`, its cluster steps with stand-ins for the tools.
set -euo pipefail
skip() { echo "skipped: the A4 test bed's chart and steps, because $*"; exit 77; }
type -P ssh-keygen ssh >/dev/null || skip "OpenSSH's client is missing"
. .ci/helm.sh || skip "$helm"
. .ci/built.sh
burnin=$programs/burnin
bed=$(mktemp -d)
trap 'rm -rf "$bed"' EXIT
"$venv/bin/python" -c 'import helm_python; print("Helm", helm_python.helm_sdk_version())'
# The parts run in parallel, because they mostly wait for processes.
export BURNIN=$burnin TESTBED_LOGS=$bed/testbed-logs PYTHONDONTWRITEBYTECODE=1
parts=()
for part in tests/chart/test_*.py; do
  part=$(basename "$part" .py)
  (cd tests/chart && exec timeout 1200 "$venv/bin/python" -m unittest "$part") >"$bed/$part" 2>&1 &
  parts+=("$part $!")
done
failed=0
for part in "${parts[@]}"; do
  if wait "${part#* }"; then echo "${part% *}: $(grep '^Ran ' "$bed/${part% *}"), $(tail -n 1 "$bed/${part% *}")"
  else failed=1; cat "$bed/${part% *}"; fi
done
[[ $failed == 0 ]] || exit 1
# Burnin must parse the launcher's output: two complete tables.
"$burnin" parse --output json "$TESTBED_LOGS/nccl-test-results.txt" | python3 -c '
import json, sys
read = json.load(sys.stdin)
tables = [(table["collective"], table["ranks"], len(table["rows"]), table["ended"]) for table in read["tables"]]
assert tables == [("all_reduce", 16, 14, "complete"), ("all_gather", 16, 14, "complete")], tables
print("nccl-test-results.txt:", ", ".join(f"{name} of {rows} sizes" for name, _, rows, _ in tables))'

# Judges the launcher's logs as the logs of one run: the stand-in's all_reduce passes (375 GB/s), its all_gather is too slow (187
# GB/s).
judged() {
  local code=0
  "$burnin" run workflows/a4-testbed-logs.yaml --data "$bed/data" --output json --set cluster.existing.system.logs.folder="$TESTBED_LOGS" \
    --set cluster.existing.system.logs.file="$1.log" --set benchmark.workload.collective="$1" >"$bed/$1.json" || code=$?
  if [[ $code != "$2" ]] || ! grep -q "\"verdict\":\"$3\"" "$bed/$1.json"; then cat "$bed/$1.json"; echo "$1: expected exit code $2 and $3, found $code"; exit 1; fi
  echo "$1: exit code $code, $3"
}
judged all_reduce 0 pass
judged all_gather 1 fail
