#!/usr/bin/env bash
set -euo pipefail
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked --document-private-items
# The documents may not be redistributed; they lie beside this checkout where the page is maintained.
if [[ -d ../shared/reference/procedures ]]; then
  python3 .ci/procedures.py ../shared/reference/procedures
else
  echo "skipped: whether docs/PROCEDURES.md names every step, because the procedures do not lie beside this checkout"
fi
