#!/usr/bin/env bash
# Replaces rustdoc for `cargo test --doc`: documents the library before its examples are run, and its program if it has one.
set -euo pipefail
[[ " $* " == *" --test "* ]] || exec rustdoc "$@"
options=() library=
while (($# > 0)); do
  case $1 in
    --test) library=$2; shift 2 ;;
    --test-args | --test-run-directory | --crate-name | --crate-type) shift 2 ;;
    --test-*) shift ;;
    *) options+=("$1"); shift ;;
  esac
done
