#!/usr/bin/env bash
# Pushes the images built by `.ci/images.sh dist` to a registry, and writes their digests to target/images/pushed.txt
# (`SERVICE IMAGE@sha256:...`) and to target/images/images.auto.tfvars.json, with which Terraform creates services. Needs docker.
# Environment: _REGISTRY (HOST/PROJECT/REPOSITORY); without it nothing is pushed.
set -euo pipefail
shopt -s nullglob
[[ -n ${_REGISTRY:-} ]] || { echo "_REGISTRY is empty: nothing is pushed"; exit 0; }
# Tags are for people only: services are deployed by digest. Two builds of one commit have different tags.
tag=${COMMIT_SHA:-local}-${BUILD_ID:-$(date +%s)}
pushed=target/images/pushed.txt
values=
mkdir -p target/images
: >"$pushed.new"
for root in target/images/dist/*/; do
  service=$(basename "$root")
  image=$_REGISTRY/burnin-$service
  docker build --quiet --build-arg "SERVICE=$service" --tag "$image:$tag" .
  docker push --quiet "$image:$tag"
  digest=$(docker inspect --format '{{index .RepoDigests 0}}' "$image:$tag")
  [[ $digest == "$image@sha256:"* ]] || { echo "$service: expected $image@sha256:..., docker reports \`$digest\`"; exit 1; }
  echo "$service $digest" | tee -a "$pushed.new"
  values+=${values:+, }"\"$service\": \"$digest\""
done
[[ -s $pushed.new ]] || { echo "target/images/dist is empty: run .ci/images.sh dist first"; exit 1; }
echo "{\"images\": {$values}}" >target/images/images.auto.tfvars.json
mv "$pushed.new" "$pushed"
