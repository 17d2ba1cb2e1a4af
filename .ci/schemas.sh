#!/usr/bin/env bash
# Checks that generated files are up to date.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" schemas --check
