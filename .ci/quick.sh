#!/usr/bin/env bash
# Checks one package after a change: formats and lints, then tests it and its direct dependents. Packages that test several rooms together,
# and test programs of dependents that together take a minute or more, are left to their gates and named.
# Builds with the features of all other gates, so that no third-party crate is compiled twice.
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
crossing = {package["name"] for package in direct if package["manifest_path"].startswith(tests) or package["name"] == "sim"}
tested = {package["name"] for package in direct} - crossing
# Test programs with complete runs, pods, builds, a network with faults, or simulated histories.
slow = ["burnin::all", "gateway::all", "cluster-kubernetes::kubernetes", "cloudbuild::local", "gcp::storage", "warehouse::bigquery", "verdict::all"]
left = [program for program in slow if program.split("::")[0] in tested]
of = lambda kind, names: "(" + " + ".join(f"{kind}({name})" for name in names) + ")"
print(of("package", [room, *sorted(tested)]) + (" - " + of("binary_id", left) if left else ""))
print(*sorted(crossing), *left)
# No package depends on these programs, and the features of third-party crates are the same without them.
print(*(f"--exclude={name}" for name in ("kill", "rehearsal", "sim", "xtask") if name != room and name not in tested))
' "$room")
{ read -r filter; read -r left; read -ra excluded; } <<<"$found"
echo "=== $filter"
[[ -z $left ]] || echo "left to their gates: $left"
cargo fmt --all
BURNIN_BUILT=1
. .ci/built.sh
cargo build --quiet "${built[@]}" "${excluded[@]}" --bins --tests --benches
# Many tests are idle for most of their time: three per processor. The gate `unit` runs fewer at once, because other gates run beside it.
cargo nextest run "${built[@]}" "${excluded[@]}" --profile quick -E "$filter" --test-threads "$((3 * $(nproc)))"
