#!/usr/bin/env bash
# Checks the Terraform files: format, validation if the provider can be installed, and a policy scanner; and that
# docs/RIGHTS.md matches the granted permissions.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" rights --check
if type -P terraform >/dev/null; then
  terraform fmt -check -recursive infra
  plan=$(mktemp -d)
  trap 'rm -rf "$plan"' EXIT
  cp -r infra "$plan/" && mkdir "$plan/schemas" && cp -r schemas/bigquery "$plan/schemas/"
  # The provider is in Terraform's registry, which a build machine may not reach.
  if timeout 60 terraform -chdir="$plan/infra" init -backend=false -input=false >/dev/null 2>&1; then
    terraform -chdir="$plan/infra" validate
  else
    echo "skipped: terraform validate, because Google's provider cannot be fetched"
  fi
else
  echo "skipped: terraform fmt and validate, because terraform is missing"
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
