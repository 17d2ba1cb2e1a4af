# One recipe a gate; `just ci` is what decides. The scripts run without just as well.
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

# Writes schemas and the drawing of the rooms anew.
generate:
    cargo xtask schemas
    cargo xtask rooms
