#!/usr/bin/env bash
# Builds all programs, tests and benchmarks. Clippy compiles them: a warning of the compiler or of clippy is an error.
set -euo pipefail
unset BURNIN_BUILT
. .ci/built.sh
