#!/usr/bin/env bash
set -euo pipefail
# Documents what `cargo doc` documents by default. It would check all libraries again: without tests, third-party crates have fewer
# features than in the gate `lint`, and `cargo clippy` keeps its results apart from those of the compiler. `--examples` selects the
# features of tests, and the compiler is that of `cargo clippy`. With another one, only the duration differs.
targets() {
  cargo metadata --locked --no-deps --format-version 1 | grep -o "{\"kind\":\[\"$1\"\],\"crate_types\":\[[^]]*\],\"name\":\"[^\"]*\"" |
    sed 's/.*"name":"\(.*\)"/\1/'
}
selected=(--lib --examples)
libraries=" $(targets lib | tr '\n' ' ') "
for program in $(targets bin); do
  # The page of a library of this name has the same path.
  [[ $libraries == *" ${program//-/_} "* ]] || selected+=(--bin "$program")
done
RUSTC_WORKSPACE_WRAPPER=$(dirname "$(rustup which cargo-clippy)")/clippy-driver
export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked --document-private-items "${selected[@]}"
# The documents may not be redistributed: they are beside the checkout on the maintainers' hosts only.
if [[ -d ../shared/reference/procedures ]]; then
  python3 .ci/procedures.py ../shared/reference/procedures
else
  echo "skipped: check that docs/PROCEDURES.md names every step, because the procedures are not beside this checkout"
fi
