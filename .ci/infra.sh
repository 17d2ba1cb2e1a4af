#!/usr/bin/env bash
# Checks the Terraform files: format; validation and plans with the real Terraform and a stand-in that has the providers' schemas; each
# alert on log lines and metrics; a policy scanner; and the rules of permissions.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" rights
. .ci/terraform.sh
status=0
if ! terraform_stand_in; then
  status=77
else
  TF_CLI_CONFIG_FILE=/dev/null terraform fmt -check -recursive infra
  "$stand_in/bin/python" -B tests/terraform/check.py
  plan=$(mktemp)
  "$stand_in/bin/python" -B tests/terraform/plan.py >"$plan"
  python3 -B tests/terraform/alerts.py "$plan" "$programs"
  rm "$plan"
fi
scanner=.tools/checkov
if [[ ! -x $scanner/bin/checkov ]] &&
  ! { python3 -m venv --clear "$scanner" && "$scanner/bin/pip" install --quiet --disable-pip-version-check "checkov==3.*"; }; then
  echo "skipped: the policy scanner, because checkov cannot be installed"
  exit 77
fi
found=$("$scanner/bin/checkov" --directory infra --config-file infra/checkov.yaml --output cli 2>&1) || { echo "$found"; exit 1; }
# Without findings checkov prints nothing, and it does not report an unreadable file as an error.
if grep -q "Parsing errors: [1-9]" <<<"$found"; then echo "$found"; exit 1; fi
exit "$status"
