#!/usr/bin/env bash
# Pushes the images built by .ci/images.sh to a registry, and rolls out each deployed service by digest. Terraform alone creates services:
# `gcloud run services update` would create an absent one, without its environment. Environment: _REGISTRY
# (HOST/PROJECT/REPOSITORY) and _REGION. Without a registry it does nothing.
set -euo pipefail
[[ -n ${_REGISTRY:-} ]] || { echo "_REGISTRY is empty: nothing is deployed"; exit 0; }
tag=${COMMIT_SHA:-$(git rev-parse HEAD)}
is_deployed() { gcloud run services describe "$1" --region "$_REGION" --quiet >/dev/null 2>&1; }
roll_out() {
  if is_deployed "$1"; then gcloud run services update "$1" --region "$_REGION" --image "$2" --quiet
  else echo "$1 is not deployed; terraform apply creates it"; fi
}
for root in target/images/dist/*/; do
  service=$(basename "$root")
  image=$_REGISTRY/burnin-$service
  docker build --quiet --build-arg "SERVICE=$service" --tag "$image:$tag" .
  docker push --quiet "$image:$tag"
  digest=$(docker inspect --format '{{index .RepoDigests 0}}' "$image:$tag")
  echo "$service: $digest"
  # Agents run at their clusters; the cluster's operator installs them.
  [[ $service == agent ]] || roll_out "burnin-$service" "$digest"
  # The webhook service uses the gateway's image.
  [[ $service != gateway ]] || roll_out burnin-hooks "$digest"
done
