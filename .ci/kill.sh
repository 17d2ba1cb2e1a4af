#!/usr/bin/env bash
# The services as separate processes over Pub/Sub's emulator, killed at random while runs go on.
set -euo pipefail
packages=(--package kill)
for service in agent builder conductor gateway judge loader notifier provisioner; do
  packages+=(--package "$service" --features "$service/gcp")
done
cargo build --quiet --locked "${packages[@]}"
folder=$(mktemp -d "${TMPDIR:-/tmp}/burnin-kill.XXXXXX")
target=${CARGO_TARGET_DIR:-target}
status=0
kill_loop() { "$target/debug/kill" --programs "$target/debug" "$@"; }
# Fifty runs over folders; then a few with agents that pull, objects in a bucket, and rows in BigQuery.
kill_loop --for "${BURNIN_KILL_FOR:-3m}" --runs "${BURNIN_KILL_RUNS:-50}" "$folder" &&
  rm -rf "$folder" && kill_loop --for 20s --runs 6 --every 3s --pull --bucket "$folder" || status=$?
# What went wrong is to be looked at; what went well is not.
case $status in
  0 | 77) rm -rf "$folder" ;;
  *) tail -n 20 "$folder"/logs/*-*.log; echo "everything else is in $folder" ;;
esac
exit "$status"
