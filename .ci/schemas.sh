#!/usr/bin/env bash
# Generated files are what the code says.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" schemas --check
