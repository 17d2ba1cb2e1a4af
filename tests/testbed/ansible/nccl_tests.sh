#!/usr/bin/env bash
# nccl_tests.sh FOLDER SOURCE: creates a git repository in FOLDER that replaces NVIDIA's nccl-tests: its `make` provides the quickstart's
# CPU benchmark, compiled from SOURCE, as all_reduce_perf. Prints its commit. Ranks connect through files in a folder, not through MPI.
set -euo pipefail
folder=$1 source=$2
mkdir -p "$folder"
rustc --edition 2024 -O -C strip=symbols -o "$folder/perf" "$source"
cat >"$folder/all_reduce_perf" <<'SCRIPT'
#!/bin/bash
export BURNIN_RENDEZVOUS=${BURNIN_RENDEZVOUS:-$PWD/rendezvous-$SLURM_JOB_ID}
mkdir -p "$BURNIN_RENDEZVOUS"
exec -a "$0" "${0%/*}/perf" "$@"
SCRIPT
chmod 755 "$folder/all_reduce_perf"
# Requires the variables of nccl-tests' Makefile.
printf 'ifneq ($(MPI),1)\n$(error MPI=1 is missing)\nendif\nifndef CUDA_HOME\n$(error CUDA_HOME is missing)\nendif\nall:\n\tmkdir -p build\n\tcp perf all_reduce_perf build/\n' >"$folder/Makefile"
cd "$folder"
git init --quiet .
git add .
git -c user.name=burnin -c user.email=burnin@localhost commit --quiet --message 'Replacement of nccl-tests'
git config uploadpack.allowAnySHA1InWant true
git rev-parse HEAD
