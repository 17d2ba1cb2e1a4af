#!/usr/bin/env bash
# Generated files are what the code says.
set -euo pipefail
cargo run --quiet --locked --package xtask -- schemas --check
