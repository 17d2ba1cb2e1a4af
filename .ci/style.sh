#!/usr/bin/env bash
# Checks for the phrases that docs/STYLE.md bans.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" style
