#!/usr/bin/env bash
# Tests the dashboard in a real browser: start, watch, search, cancel and compare runs with mouse and keyboard; axe's
# accessibility checks; load time with 10,000 runs.
set -euo pipefail
skip() { echo "skipped: the dashboard in a browser, because $*"; exit 77; }
if [[ ! -x /usr/bin/chromium || ! -x /usr/bin/chromedriver ]]; then
  . .ci/packages.sh
  read -ra packages <<<"$(packages_of dashboard)"
  install_packages "${packages[@]}" || skip "Chromium and its driver cannot be installed, which needs root and apt-get"
fi
venv=.tools/dashboard requirements=tests/testbed/dashboard/requirements.txt
wanted=$(sha256sum <"$requirements")
if [[ $(cat "$venv/installed" 2>/dev/null) != "$wanted" ]]; then
  { python3 -m venv --clear "$venv" && timeout 600 "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements"; } ||
    skip "$requirements cannot be installed"
  echo "$wanted" >"$venv/installed"
fi
. .ci/built.sh
folder=$(mktemp -d)
trap '[[ -z ${BURNIN_PICTURES:-} ]] || cp "$folder"/*.png "$BURNIN_PICTURES"; rm -rf "$folder"' EXIT
timeout 1800 "$venv/bin/python" tests/testbed/dashboard/drive.py "$programs/burnin" workflows "$folder"
