#!/usr/bin/env bash
# Rolls out the images that .ci/push.sh pushed, or the images in another list: `rollout.sh [FILE]`. Keep the list of a good rollout:
# `rollout.sh FILE` with that list rolls back. Needs gcloud. Only Terraform creates services: `gcloud run services update` would create an
# absent service without its environment. Environment: _REGISTRY (empty: nothing is rolled out), _REGION.
set -euo pipefail
[[ -n ${_REGISTRY:-} ]] || { echo "_REGISTRY is empty: nothing is rolled out"; exit 0; }
list=${1:-target/images/pushed.txt}
[[ -s $list ]] || { echo "$list is missing: run .ci/push.sh first"; exit 1; }
deployed=$(gcloud run services list --region "$_REGION" --format 'value(metadata.name)' --quiet)
roll_out() {
  if ! grep -qx "$1" <<<"$deployed"; then
    echo "$1 is not deployed; terraform apply creates it"
    return
  fi
  gcloud run services update "$1" --region "$_REGION" --image "$2" --quiet
  # After a rollback to one revision, new revisions receive no traffic.
  gcloud run services update-traffic "$1" --region "$_REGION" --to-latest --quiet
}
while read -r service image; do
  # Agents run at their clusters; the cluster's operator installs them.
  [[ $service == agent ]] || roll_out "burnin-$service" "$image"
  # The webhook service uses the gateway's image.
  [[ $service != gateway ]] || roll_out burnin-hooks "$image"
done <"$list"
