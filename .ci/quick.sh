#!/usr/bin/env bash
# One room after a change: formats, lints, and tests it and the packages that depend on it directly. Everything that is
# shipped is built as in all other gates, so that no third-party crate is compiled twice.
#   bash .ci/quick.sh verdict
set -euo pipefail
cd "$(dirname "$0")/.."
room=${1:?the name of a package, such as verdict or burnin}
export CARGO_TERM_COLOR=never
packages=$(cargo metadata --no-deps --format-version 1 --offline | python3 -c '
import json, sys
room = sys.argv[1]
packages = json.load(sys.stdin)["packages"]
names = [package["name"] for package in packages]
if room not in names:
    sys.exit(f"there is no package {room!r}; there are {chr(44).join(sorted(names))}")
direct = [p["name"] for p in packages if any(d["name"] == room for d in p["dependencies"])]
print(" ".join([room, *sorted(set(direct) - {room})]))
' "$room")
read -ra packages <<<"$packages"
echo "=== ${packages[*]}"
cargo fmt --all
# The whole workspace, as the gate does: another selection would give third-party crates other features.
bash .ci/lint.sh
filter=
for package in "${packages[@]}"; do filter+="${filter:+ | }package($package)"; done
. .ci/built.sh
cargo nextest run "${built[@]}" -E "$filter"
