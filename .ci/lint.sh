#!/usr/bin/env bash
set -euo pipefail
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
