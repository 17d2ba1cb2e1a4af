# Sourced by scripts that build the deployed services. Lists the features of the services: Google Cloud for each service, and
# `kubernetes` for services with that feature.
service_features() {
  local service features=()
  for service in $(ls services); do
    features+=("$service/gcp")
    if grep -q '^kubernetes = ' "services/$service/Cargo.toml"; then features+=("$service/kubernetes"); fi
  done
  (IFS=,; echo "${features[*]}")
}
