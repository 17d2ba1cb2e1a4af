# One recipe for each gate; `just ci` decides whether a change is merged. The scripts also run without just.
ci:
    bash .ci/test.sh

gate name:
    bash .ci/{{name}}.sh

# Formats, lints and tests one room and the packages that depend on it directly.
quick room:
    bash .ci/quick.sh {{room}}

# Prints the events of a simulator's seed, line by line.
replay seed:
    cargo run -p sim -- replay {{seed}} --step

quickstart:
    cargo run -p burnin -- run workflows/quickstart.yaml

# Rewrites schemas and the list of dependencies between crates.
generate:
    cargo xtask schemas
    cargo xtask rooms
