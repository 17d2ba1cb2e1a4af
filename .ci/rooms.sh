#!/usr/bin/env bash
# Checks the dependencies between crates.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" rooms --check
