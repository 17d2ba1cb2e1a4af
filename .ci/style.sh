#!/usr/bin/env bash
# Phrases that docs/STYLE.md bans.
set -euo pipefail
cargo run --quiet --locked --package xtask -- style
