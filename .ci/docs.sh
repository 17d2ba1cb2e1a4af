#!/usr/bin/env bash
set -euo pipefail
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --locked --document-private-items
# The documents may not be redistributed: they are beside the checkout on the maintainers' hosts only.
if [[ -d ../shared/reference/procedures ]]; then
  python3 .ci/procedures.py ../shared/reference/procedures
else
  echo "skipped: check that docs/PROCEDURES.md names every step, because the procedures are not beside this checkout"
fi
