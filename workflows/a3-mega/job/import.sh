#!/bin/bash
# import.sh REGISTRY#IMAGE:TAG DIGEST FOLDER, on a GPU node: imports the container into a file on the shared folder, once per
# digest. A tag can move, so its current digest must equal DIGEST.
set -euo pipefail
image=$1 digest=$2 folder=$3
file=$folder/${digest#sha256:}.sqsh
if [[ -s $file ]]; then
  echo "container: $file exists"
  exit 0
fi
now=$(python3 "${BASH_SOURCE[0]%/*}/digest.py" "$image")
if [[ $now != "$digest" ]]; then
  echo "CONTAINER: $image: expected the digest $digest, found $now" >&2
  exit 1
fi
# Over ssh no login session creates enroot's runtime folder.
export XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-$(mktemp -d)}
draft=$(mktemp --dry-run "$folder/draft-XXXXXX.sqsh")
trap 'rm -f "$draft"' EXIT
enroot import --output "$draft" "docker://$image"
mv "$draft" "$file"
echo "container: $file, $(stat --format=%s "$file") bytes"
