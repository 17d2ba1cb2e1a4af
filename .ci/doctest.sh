#!/usr/bin/env bash
set -euo pipefail
cargo test --workspace --doc --locked --quiet
