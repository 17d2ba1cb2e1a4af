#!/usr/bin/env bash
# Brings the images that .ci/images.sh laid out to a registry, and each service to run its image, by digest. Asks nothing
# but the environment: _REGISTRY (HOST/PROJECT/REPOSITORY) and _REGION. Without a registry there is nothing to do.
set -euo pipefail
[[ -n ${_REGISTRY:-} ]] || { echo "no _REGISTRY: nothing is delivered"; exit 0; }
tag=${COMMIT_SHA:-$(git rev-parse HEAD)}
for root in target/images/dist/*/; do
  service=$(basename "$root")
  image=$_REGISTRY/burnin-$service
  docker build --quiet --build-arg "SERVICE=$service" --tag "$image:$tag" .
  docker push --quiet "$image:$tag"
  digest=$(docker inspect --format '{{index .RepoDigests 0}}' "$image:$tag")
  echo "$service: $digest"
  # An agent runs where its cluster is; whoever looks after that one installs it.
  [[ $service == agent ]] ||
    gcloud run services update "burnin-$service" --region "$_REGION" --image "$digest" --quiet
  # Webhooks are taken by the gateway's program, where they are taken at all.
  if [[ $service == gateway ]] && gcloud run services describe burnin-hooks --region "$_REGION" --quiet >/dev/null 2>&1; then
    gcloud run services update burnin-hooks --region "$_REGION" --image "$digest" --quiet
  fi
done
