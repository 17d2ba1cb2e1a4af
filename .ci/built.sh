# Sourced by gates that need built programs. All gates build the whole workspace with all shipped features and tests: another
# selection would change the features of third-party crates and rebuild them.
. .ci/features.sh
built=(--workspace --locked --features "burnin/kubernetes,$(service_features)")
programs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
# The gate `style` has built all programs: cargo would only wait for the cargo of another gate.
[[ -n ${BURNIN_BUILT:-} ]] || cargo build --quiet "${built[@]}" --bins --tests

# Prints the program of the integration tests $2 of the package in folder $1.
test_program() {
  cargo test --quiet "${built[@]}" --test "$2" --no-run --message-format=json |
    grep -F "/$1/Cargo.toml" | grep -F '"kind":["test"]' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Fails if one of the filters $2... matches no test of program $1: libtest would pass.
filters_match() {
  local tests=$1 filter
  shift
  for filter; do
    # `grep -q` would close the pipe at the first match, and the listing would fail.
    [[ $("$tests" --ignored --list "$filter" 2>/dev/null) == *": test"* ]] || { echo "no test of $tests matches $filter"; return 1; }
  done
}
