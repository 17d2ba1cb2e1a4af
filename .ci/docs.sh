#!/usr/bin/env bash
set -euo pipefail
# Documents the targets that `cargo doc` selects by default. Plain `cargo doc` would check all libraries again: without tests, third-party
# crates have fewer features than in the gate `lint`, and `cargo clippy` keeps its results apart from those of the compiler. Therefore
# `--examples` selects the features of tests, and the compiler is that of `cargo clippy`. Another compiler changes only the duration.
targets() {
  cargo metadata --locked --no-deps --format-version 1 | grep -o "{\"kind\":\[\"$1\"\],\"crate_types\":\[[^]]*\],\"name\":\"[^\"]*\"" |
    sed 's/.*"name":"\(.*\)"/\1/'
}
selected=(--lib --examples)
libraries=" $(targets lib | tr '\n' ' ') "
for program in $(targets bin); do
  # Skip a program with the name of a library: their pages have the same path.
  [[ $libraries == *" ${program//-/_} "* ]] || selected+=(--bin "$program")
done
RUSTC_WORKSPACE_WRAPPER=$(dirname "$(rustup which cargo-clippy)")/clippy-driver
export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked --document-private-items "${selected[@]}"
# The procedures may not be redistributed: only the maintainers' hosts have them, next to the checkout.
if [[ -d ../shared/reference/procedures ]]; then
  python3 .ci/procedures.py ../shared/reference/procedures
else
  echo "skipped: check that docs/PROCEDURES.md names every step, because the procedures are not next to this checkout"
fi
