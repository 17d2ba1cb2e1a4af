#!/usr/bin/env bash
# Documents every item, private ones too, with warnings as errors, and runs the examples of the documentation.
set -euo pipefail
. .ci/built.sh
# `cargo doc` would check all crates again, third-party ones too; `cargo test --doc` calls rustdoc with the libraries that are already built.
RUSTDOC=$PWD/.ci/rustdoc.sh cargo test --quiet "${built[@]}" --doc
# The procedures may not be redistributed: only the maintainers' hosts have them, next to the checkout.
if [[ -d ../shared/reference/procedures ]]; then
  python3 .ci/procedures.py ../shared/reference/procedures
else
  echo "skipped: check that docs/PROCEDURES.md names every step, because the procedures are not next to this checkout"
fi
