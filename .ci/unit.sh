#!/usr/bin/env bash
set -euo pipefail
cargo nextest run --workspace --locked --no-fail-fast
# What only exists on Google Cloud.
cargo nextest run --locked --no-fail-fast \
  --package builds --package builder --package provisioner --package judge --package loader --package notifier --package warehouse \
  --features builder/gcp,provisioner/gcp,judge/gcp,loader/gcp,notifier/gcp,warehouse/gcp
# What is not in every build.
cargo nextest run --locked --no-fail-fast --package agent --package burnin --features agent/kubernetes,burnin/kubernetes \
  -E 'binary(kubernetes) | binary(kubernetes_states) | test(kubernetes::)'
# nextest shows no output of tests that pass, so what they had to leave out is said here.
[[ -d ../shared/nccl-samples/public ]] ||
  echo "skipped: 1 test's public logs, because they may not be redistributed and do not lie beside this checkout"
