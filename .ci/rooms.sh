#!/usr/bin/env bash
# Who imports whom is what was agreed on.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" rooms --check
