#!/usr/bin/env bash
# Simulates all services with ten thousand seeds, every pair of crashes, and planted bugs. Development builds contain the planted bugs, each
# off until the simulator turns it on in the thread of its run.
set -euo pipefail
. .ci/built.sh
"$programs/sim" seeds --count "${BURNIN_SEEDS:-10000}" --jobs "$(nproc)"
"$programs/sim" crashes --pairs --jobs "$(nproc)"
"$programs/sim" planted --jobs "$(nproc)"
