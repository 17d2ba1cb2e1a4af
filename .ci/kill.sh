#!/usr/bin/env bash
# Runs the services as separate processes with a Pub/Sub emulator, and kills them at random during runs.
set -euo pipefail
. .ci/built.sh
folder=$(mktemp -d "${TMPDIR:-/tmp}/burnin-kill.XXXXXX")
status=0
kill_loop() { "$programs/kill" --programs "$programs" "$@"; }
# Executes fifty runs with folders as storage, then six runs with pulling agents, a bucket for objects, and
# BigQuery for rows.
kill_loop --for "${BURNIN_KILL_FOR:-3m}" --runs "${BURNIN_KILL_RUNS:-50}" "$folder" &&
  rm -rf "$folder" && kill_loop --for 20s --runs 6 --every 3s --pull --bucket "$folder" || status=$?
# Keep the files only after a failure.
case $status in
  0 | 77) rm -rf "$folder" ;;
  *) tail -n 20 "$folder"/logs/*-*.log; echo "all files are in $folder" ;;
esac
exit "$status"
