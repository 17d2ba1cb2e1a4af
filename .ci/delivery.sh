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
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The parts run in parallel, because the part `procedures` is one long sequence of steps.
parts=()
part() {
  "${@:2}" >"$folder/$1" 2>&1 &
  parts+=("$1 $!")
}
part procedures python3 tests/delivery/test_runbook.py "$stand_in/bin/python" "$programs" -k test_from_nothing_to_removal
part mistakes python3 tests/delivery/test_runbook.py "$stand_in/bin/python" "$programs" -k Commands -k skipped -k every_block
part scripts python3 tests/delivery/test_delivery.py
part cloudbuild "$stand_in/bin/python" tests/delivery/test_cloudbuild.py "$programs"
failed=0
for part in "${parts[@]}"; do
  if wait "${part#* }"; then echo "${part% *}: $(grep '^Ran ' "$folder/${part% *}")"
  else failed=1; cat "$folder/${part% *}"; fi
done
exit "$failed"
