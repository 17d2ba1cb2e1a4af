#!/usr/bin/env bash
# Tools the gates need beyond Rust itself. Each is installed where it is missing, inside the project where possible.
set -euo pipefail
rustup component list --installed 2>/dev/null | grep -q clippy || rustup component add clippy rustfmt
# type -P looks for programs only: `kill` is a builtin too, and tests start the program.
# git and openssl push to a repository whose hook signs.
type -P tar bash sha256sum cc kill grep git openssl >/dev/null ||
  { apt-get update -qq && apt-get install -y -qq tar bash coreutils gcc libc6-dev procps grep git openssl; }
cargo nextest --version >/dev/null 2>&1 || cargo install --locked cargo-nextest
# In the project's own folder: a tool of another version elsewhere is left alone.
[[ -x .tools/bin/cargo-deny ]] || cargo install --quiet --locked --debug --root .tools --version "^0.20" cargo-deny
cargo --version && cargo nextest --version | head -1
