#!/usr/bin/env bash
# The whole chain under ten thousand seeds, every pair of deaths, and bugs planted on purpose.
set -euo pipefail
sim() { cargo run --quiet --locked --profile sim --package sim "$@"; }
sim -- seeds --count "${BURNIN_SEEDS:-10000}" --jobs "$(nproc)"
sim -- crashes --pairs --jobs "$(nproc)"
sim --features planted -- planted --jobs "$(nproc)"
