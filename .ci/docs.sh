#!/usr/bin/env bash
# Documents every item, private ones too, with warnings as errors, and runs the examples of the documentation.
set -euo pipefail
. .ci/built.sh
# `cargo doc` would check all crates again, third-party ones too; `cargo test --doc` calls rustdoc with the libraries that are already built.
began=$(mktemp)
trap 'rm -f "$began"' EXIT
RUSTDOC=$PWD/.ci/rustdoc.sh cargo test --quiet "${built[@]}" --doc
# Another version of cargo could call rustdoc with other arguments, and rustdoc.sh would document nothing.
cargo metadata --no-deps --offline --format-version 1 | python3 -c '
import json, pathlib, sys
folder, began = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).stat().st_mtime
libraries = [target["name"] for package in json.load(sys.stdin)["packages"] for target in package["targets"] if "lib" in target["kind"]]
pages = {name: folder / name.replace("-", "_") / "index.html" for name in libraries}
missing = [name for name, page in pages.items() if not page.exists() or page.stat().st_mtime < began]
if missing:
    sys.exit(f"no documentation was written for {chr(44).join(missing)}; see .ci/rustdoc.sh")
print(f"{len(pages)} libraries are documented")
' "${CARGO_TARGET_DIR:-target}/doc" "$began"
# The procedures may not be redistributed: only the maintainers' hosts have them, next to the checkout.
if [[ -d ../shared/reference/procedures ]]; then
  python3 .ci/procedures.py ../shared/reference/procedures
else
  echo "skipped: check that docs/PROCEDURES.md names every step, because the procedures are not next to this checkout"
fi
