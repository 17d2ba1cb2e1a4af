#!/usr/bin/env bash
set -euo pipefail
cargo nextest run --workspace --locked --no-fail-fast
