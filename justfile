# One recipe a gate; `just ci` is what decides. The scripts run without just as well.
ci:
    bash .ci/test.sh

gate name:
    bash .ci/{{name}}.sh

quickstart:
    cargo run -p burnin -- run workflows/quickstart.yaml

# Writes schemas and the drawing of the rooms anew.
generate:
    cargo xtask schemas
    cargo xtask rooms
