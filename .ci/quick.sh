#!/usr/bin/env bash
# Checks one package after a change: formats and lints, then tests it and its direct dependents, except the packages below tests/.
# Builds the same selection as all other gates, so that no third-party crate is compiled twice.
#   bash .ci/quick.sh verdict
set -euo pipefail
cd "$(dirname "$0")/.."
room=${1:?the name of a package, such as verdict or burnin}
export CARGO_TERM_COLOR=never
found=$(cargo metadata --no-deps --format-version 1 --offline | python3 -c '
import json, sys
room = sys.argv[1]
metadata = json.load(sys.stdin)
packages, tests = metadata["packages"], metadata["workspace_root"] + "/tests/"
names = [package["name"] for package in packages]
if room not in names:
    sys.exit(f"unknown package {room!r}; expected one of {chr(44).join(sorted(names))}")
direct = [package for package in packages if package["name"] != room and any(it["name"] == room for it in package["dependencies"])]
crossing = {package["name"] for package in direct if package["manifest_path"].startswith(tests)}
print(room, *sorted({package["name"] for package in direct} - crossing))
print(*sorted(crossing))
' "$room")
read -ra packages <<<"${found%%$'\n'*}"
echo "=== ${packages[*]}"
# The second line is empty for most packages: no package below tests/ depends on them.
crossing=$(sed -n 2p <<<"$found")
[[ -z $crossing ]] || echo "not tested, because these packages test several rooms and have separate gates: $crossing"
cargo fmt --all
filter=
for package in "${packages[@]}"; do filter+="${filter:+ | }package($package)"; done
. .ci/built.sh
# Tests of complete runs wait for half of their time. The gate `unit` starts fewer at a time, because other gates run in parallel with it.
cargo nextest run "${built[@]}" --profile quick -E "$filter" --test-threads "$((2 * $(nproc)))"
