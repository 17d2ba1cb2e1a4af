#!/usr/bin/env bash
# Simulates all services with ten thousand seeds, every pair of crashes, and planted bugs.
set -euo pipefail
sim() { cargo run --quiet --locked --profile sim --package sim "$@"; }
sim -- seeds --count "${BURNIN_SEEDS:-10000}" --jobs "$(nproc)"
sim -- crashes --pairs --jobs "$(nproc)"
sim --features planted -- planted --jobs "$(nproc)"
