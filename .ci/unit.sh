#!/usr/bin/env bash
set -euo pipefail
. .ci/built.sh
cargo nextest run "${built[@]}" --no-fail-fast
# nextest shows no output of tests that pass, so what they had to leave out is said here.
[[ -d ../shared/nccl-samples/public ]] ||
  echo "skipped: 1 test's public logs, because they may not be redistributed and do not lie beside this checkout"
