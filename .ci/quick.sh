#!/usr/bin/env bash
# Checks one package after a change: formats and lints, then tests it and its direct dependents. Builds the same selection as all
# other gates, so that no third-party crate is compiled twice.
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
    sys.exit(f"unknown package {room!r}; expected one of {chr(44).join(sorted(names))}")
direct = [p["name"] for p in packages if any(d["name"] == room for d in p["dependencies"])]
print(" ".join([room, *sorted(set(direct) - {room})]))
' "$room")
read -ra packages <<<"$packages"
echo "=== ${packages[*]}"
cargo fmt --all
filter=
for package in "${packages[@]}"; do filter+="${filter:+ | }package($package)"; done
. .ci/built.sh
# Tests of complete runs wait for half of their time, so more of them run at once than in the gate `unit`, beside which other gates run.
cargo nextest run "${built[@]}" --profile quick -E "$filter" --test-threads "$((2 * $(nproc)))"
