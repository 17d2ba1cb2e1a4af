#!/usr/bin/env bash
# Checks the Terraform files: format; validation and plans with the real Terraform and a stand-in that has the providers' schemas; a
# policy scanner; and that docs/RIGHTS.md matches the granted permissions.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" rights --check
stand_in=.tools/terraform
if ! type -P terraform >/dev/null; then
  echo "skipped: terraform fmt and plan, because terraform is missing; install 1.9 or later from developer.hashicorp.com/terraform/install"
elif ! cmp -s tests/terraform/requirements.txt "$stand_in/requirements.txt" &&
  ! { python3 -m venv --clear "$stand_in" && "$stand_in/bin/pip" install --quiet --disable-pip-version-check -r tests/terraform/requirements.txt &&
    cp tests/terraform/requirements.txt "$stand_in/"; }; then
  echo "skipped: terraform plan, because tests/terraform/requirements.txt cannot be installed"
else
  TF_CLI_CONFIG_FILE=/dev/null terraform fmt -check -recursive infra
  "$stand_in/bin/python" -B tests/terraform/check.py
fi
scanner=.tools/checkov
if [[ ! -x $scanner/bin/checkov ]] &&
  ! { python3 -m venv --clear "$scanner" && "$scanner/bin/pip" install --quiet --disable-pip-version-check "checkov==3.*"; }; then
  echo "skipped: the policy scanner, because checkov cannot be installed"
  exit 0
fi
found=$("$scanner/bin/checkov" --directory infra --config-file infra/checkov.yaml --output cli 2>&1) || { echo "$found"; exit 1; }
# Without findings checkov prints nothing; an unreadable file is not an error for it.
if grep -q "Parsing errors: [1-9]" <<<"$found"; then echo "$found"; exit 1; fi
