# Sourced by gates that need built programs. All gates build the whole workspace with all shipped features and tests: another
# selection would change the features of third-party crates and rebuild them.
. .ci/features.sh
built=(--workspace --locked --features "burnin/kubernetes,$(service_features)")
programs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
# Clippy's driver is a compiler that also checks the code. `cargo clippy` would compile every crate a second time.
RUSTC_WORKSPACE_WRAPPER=$(dirname "$(rustup which cargo-clippy)")/clippy-driver
export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"
# After the gate `build` all programs are built, and cargo would only wait until another gate's cargo ends.
[[ -n ${BURNIN_BUILT:-} ]] || cargo build --quiet "${built[@]}" --bins --tests --benches

# Prints the program of the integration tests $2 of the package in folder $1.
test_program() {
  cargo test --quiet "${built[@]}" --test "$2" --no-run --message-format=json |
    grep -F "/$1/Cargo.toml" | grep -F '"kind":["test"]' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}

# Fails if a filter in $2... matches no test of program $1: libtest itself exits with 0 if no test matches.
filters_match() {
  local tests=$1 filter
  shift
  for filter; do
    # `grep -q` would close the pipe at the first match, and the listing would fail.
    [[ $("$tests" --ignored --list "$filter" 2>/dev/null) == *": test"* ]] || { echo "no test of $tests matches $filter"; return 1; }
  done
}
