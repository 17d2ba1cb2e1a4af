#!/usr/bin/env bash
# Runs the services of the Terraform plan against stand-ins that check each request against the plan's grants. Repeats this without each
# grant, one at a time: each of these rehearsals must fail. Compares docs/RIGHTS.md with the result; --write updates it. Without Go or
# gcloud some examples of docs/TRIGGERS.md are skipped, and the gate is reported as skipped.
set -euo pipefail
. .ci/terraform.sh
. .ci/packages.sh
if ! type -P go >/dev/null; then
  read -ra packages <<<"$(packages_of rehearsal)"
  install_packages "${packages[@]}" || echo "these packages cannot be installed: ${packages[*]}"
fi
terraform_stand_in || exit 77
. .ci/built.sh
folder=$(mktemp -d "${TMPDIR:-/tmp}/burnin-rehearsal.XXXXXX")
"$stand_in/bin/python" -B tests/terraform/plan.py >"$folder/plan.json"
status=0
"$programs/rehearsal" --programs "$programs" --plan "$folder/plan.json" --rights infra/rights.json --page docs/RIGHTS.md "$@" "$folder/rehearsals" || status=$?
# Keep the files only after a failure. Exit status 77: examples were skipped, and all other parts passed.
if ((status == 0 || status == 77)); then rm -rf "$folder"; else echo "all files are in $folder"; fi
exit "$status"
