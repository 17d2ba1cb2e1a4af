#!/usr/bin/env bash
set -euo pipefail
. .ci/built.sh
# Many tests wait for processes and timers: with one thread for each processor a fifth of their time would be idle.
cargo nextest run "${built[@]}" --no-fail-fast --test-threads "$(($(nproc) + 1))"
# nextest hides the output of passed tests, so skipped parts are listed here.
[[ -d ../shared/nccl-samples/public ]] ||
  echo "skipped: 1 test's public logs, because they may not be redistributed and are not next to this checkout"
