#!/usr/bin/env bash
# Phrases that docs/STYLE.md bans.
set -euo pipefail
. .ci/built.sh
"$programs/xtask" style
