#!/usr/bin/env bash
# Replaces rustdoc for `cargo test --doc`: documents the library, and its program if it has one, before the library's examples run.
set -euo pipefail
document() { rustdoc "${options[@]}" --document-private-items -D warnings --out-dir "${CARGO_TARGET_DIR:-target}/doc" "$@"; }
arguments=("$@") options=() library= name= itself=()
while (($# > 0)); do
  case $1 in
    --test) library=$2; shift ;;
    --test-args | --test-run-directory | --crate-type) shift ;;
    --crate-name) name=$2; shift ;;
    --extern) if [[ $2 == "$name="* ]]; then itself=(--extern "$2"); else options+=(--extern "$2"); fi; shift ;;
    *) options+=("$1") ;;
  esac
  shift
done
if [[ -n $library ]]; then
  document "$library" --crate-name "$name" --crate-type lib
  program=${library%lib.rs}main.rs
  [[ ! -e $program ]] || document "$program" --crate-name "${name}_program" --crate-type bin "${itself[@]}"
fi
exec rustdoc "${arguments[@]}"
