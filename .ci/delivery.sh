#!/usr/bin/env bash
# Rehearses the delivery on this host: the procedures of docs/RUNBOOK.md with the real Terraform and stand-ins for gcloud and docker, and
# cloudbuild.yaml with each step in a fresh root.
set -euo pipefail
skip() { echo "skipped: the rehearsal of the delivery, because $*"; exit 77; }
[[ $(id -u) == 0 ]] || skip "mounts need root"
. .ci/terraform.sh
terraform_stand_in || exit 77
. .ci/beds.sh
need_overlays
type -P jq curl openssl git >/dev/null || skip "jq, curl, openssl or git is missing"
. .ci/built.sh
export PYTHONDONTWRITEBYTECODE=1
python3 tests/delivery/costs.py
python3 tests/delivery/test_delivery.py
# Both mostly wait for processes.
output=$(mktemp)
"$stand_in/bin/python" tests/delivery/test_cloudbuild.py "$programs" >"$output" 2>&1 &
python3 tests/delivery/test_runbook.py "$stand_in/bin/python" "$programs"
wait $! || { cat "$output"; exit 1; }
tail -n 3 "$output"
rm "$output"
