#!/usr/bin/env bash
set -euo pipefail
. .ci/built.sh
cargo test --quiet "${built[@]}" --doc
