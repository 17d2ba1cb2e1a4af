#!/usr/bin/env bash
# Who imports whom is what was agreed on.
set -euo pipefail
cargo run --quiet --locked --package xtask -- rooms --check
