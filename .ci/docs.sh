#!/usr/bin/env bash
set -euo pipefail
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked --document-private-items
