#!/usr/bin/env bash
# Simulates all services with ten thousand seeds, every pair of crashes, and planted bugs. One build: each planted bug is off until the
# simulator turns it on in the thread of its run.
set -euo pipefail
sim() { cargo run --quiet --locked --profile sim --package sim --features planted -- "$@"; }
sim seeds --count "${BURNIN_SEEDS:-10000}" --jobs "$(nproc)"
sim crashes --pairs --jobs "$(nproc)"
sim planted --jobs "$(nproc)"
