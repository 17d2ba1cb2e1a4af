# Sourced: the features of the deployed services. Each speaks to Google Cloud; those with the feature `kubernetes` use it, too.
service_features() {
  local service features=()
  for service in $(ls services); do
    features+=("$service/gcp")
    if grep -q '^kubernetes = ' "services/$service/Cargo.toml"; then features+=("$service/kubernetes"); fi
  done
  (IFS=,; echo "${features[*]}")
}
