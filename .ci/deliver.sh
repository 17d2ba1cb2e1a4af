#!/usr/bin/env bash
# Pushes the images built by .ci/images.sh to a registry, and deploys each service by digest. Environment: _REGISTRY
# (HOST/PROJECT/REPOSITORY) and _REGION. Without a registry it does nothing.
set -euo pipefail
[[ -n ${_REGISTRY:-} ]] || { echo "_REGISTRY is empty: nothing is deployed"; exit 0; }
tag=${COMMIT_SHA:-$(git rev-parse HEAD)}
for root in target/images/dist/*/; do
  service=$(basename "$root")
  image=$_REGISTRY/burnin-$service
  docker build --quiet --build-arg "SERVICE=$service" --tag "$image:$tag" .
  docker push --quiet "$image:$tag"
  digest=$(docker inspect --format '{{index .RepoDigests 0}}' "$image:$tag")
  echo "$service: $digest"
  # Agents run at their clusters; the cluster's operator installs them.
  [[ $service == agent ]] ||
    gcloud run services update "burnin-$service" --region "$_REGION" --image "$digest" --quiet
  # The webhook service uses the gateway's image, if it is deployed.
  if [[ $service == gateway ]] && gcloud run services describe burnin-hooks --region "$_REGION" --quiet >/dev/null 2>&1; then
    gcloud run services update burnin-hooks --region "$_REGION" --image "$digest" --quiet
  fi
done
