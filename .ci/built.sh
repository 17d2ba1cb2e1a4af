# Sourced by gates that need something built. All of them build one thing, the whole workspace with everything that is
# shipped, its tests included: another selection would give third-party crates other features, and build them again.
built=(--workspace --locked --features "agent/gcp,agent/kubernetes,builder/gcp,burnin/kubernetes,conductor/gcp,dashboard/gcp,gateway/gcp,judge/gcp,loader/gcp,notifier/gcp,provisioner/gcp,provisioner/kubernetes")
programs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
cargo build --quiet "${built[@]}" --bins --tests

# The program of the integration tests $2 of the package in folder $1.
test_program() {
  cargo test --quiet "${built[@]}" --test "$2" --no-run --message-format=json |
    grep -F "/$1/Cargo.toml" | grep -F '"kind":["test"]' | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
}
