#!/usr/bin/env bash
# Rehearses the delivery on this host: the procedures of docs/RUNBOOK.md with the real Terraform and stand-ins for gcloud and docker.
set -euo pipefail
skip() { echo "skipped: the rehearsal of the delivery, because $*"; exit 77; }
. .ci/terraform.sh
terraform_stand_in || exit 77
type -P jq curl openssl git >/dev/null || skip "jq, curl, openssl or git is missing"
. .ci/built.sh
python3 -B tests/delivery/costs.py
python3 -B tests/delivery/test_delivery.py
python3 -B tests/delivery/test_runbook.py "$stand_in/bin/python" "$programs"
